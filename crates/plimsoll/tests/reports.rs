//! `plimsoll bench report` and `bench compare`, from files to what they write and how they end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use report::document::sample;
use report::result;

fn plimsoll(arguments: &[&str], files: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plimsoll")).arg("bench").args(arguments).args(files).output().unwrap()
}

/// The run in a file of this name.
fn written(directory: &Path, name: &str, run: &result::Run) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, serde_json::to_vec(run).unwrap()).unwrap();
    path
}

#[test]
fn a_run_becomes_every_kind_of_report() {
    let directory = tempfile::tempdir().unwrap();
    let run = written(directory.path(), "run.json", &sample::depths());
    let tables = plimsoll(&["report"], &[&run, &run]);
    assert!(tables.status.success());
    assert_eq!(String::from_utf8(tables.stdout).unwrap().matches("# Sample: depths\n").count(), 2);
    let page = directory.path().join("page.html");
    assert!(plimsoll(&["report", "--format", "html", "--output"], &[&page, &run]).status.success());
    assert!(fs::read_to_string(&page).unwrap().starts_with("<!doctype html>"));
    let fio = directory.path().join("fio");
    assert!(plimsoll(&["report", "--format", "fio-json", "--output"], &[&fio, &run]).status.success());
    let job = fs::read(fio.join("4-kib-random/randread-16-8.json")).unwrap();
    let job: serde_json::Value = serde_json::from_slice(&job).unwrap();
    assert_eq!(job["jobs"][0]["job options"]["iodepth"], "16");
}

#[test]
fn run_that_cannot_be_reported_is_refused_with_reason() {
    let directory = tempfile::tempdir().unwrap();
    let run = written(directory.path(), "run.json", &sample::depths());
    let other = directory.path().join("other.json");
    fs::write(&other, r#"{"format": "plimsoll-run/9"}"#).unwrap();
    for (arguments, files, why) in [
        (&["report"][..], &[other.as_path()][..], "its format is \"plimsoll-run/9\", not \"plimsoll-run/1\""),
        (&["report", "--format", "html"], &[&run], "wants --output FILE"),
        (&["report", "--format", "fio-json"], &[&run, &run], "made of one run, not of 2"),
    ] {
        let done = plimsoll(arguments, files);
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(!done.status.success() && said.contains(why), "{said}");
    }
}

#[test]
fn the_exit_status_of_a_comparison_is_its_verdict() {
    let directory = tempfile::tempdir().unwrap();
    let same = sample::depths();
    let mut slower = same.clone();
    for operation in slower.cells[2].measurements.iter_mut().flat_map(|one| &mut one.operations) {
        operation.ops = operation.ops * 8 / 10;
    }
    let mut co_located = same.clone();
    co_located.target.co_located = true;
    let path = |name: &str, run| written(directory.path(), name, run);
    let (a, slower) = (path("a.json", &same), path("slower.json", &slower));
    let (co_located, absent) = (path("co-located.json", &co_located), directory.path().join("absent.json"));
    for (b, status, word) in [
        (&a, 0, "Verdict: same"),
        (&slower, 1, "Verdict: WORSE"),
        (&co_located, 2, "co-located"),
        (&absent, 2, ""),
    ] {
        let done = plimsoll(&["compare"], &[&a, b]);
        let said = String::from_utf8(done.stdout).unwrap();
        assert_eq!(done.status.code(), Some(status), "{}: {said}", b.display());
        assert!(said.contains(word), "{said}");
    }
    let done = plimsoll(&["compare", "--json"], &[&a, &slower]);
    let found: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((&found["verdict"], &found["rows"][4]["verdict"]), (&"worse".into(), &"worse".into()));
}

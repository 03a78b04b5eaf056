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
    let tables = String::from_utf8(tables.stdout).unwrap();
    assert_eq!(tables.matches(": Sample: depths\n").count(), 2, "{tables}");
    assert!(tables.starts_with("# Side by side: "), "{tables}");
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
        (&["report"][..], &[other.as_path()][..], "the format is \"plimsoll-run/9\", not \"plimsoll-run/1\""),
        (&["report", "--format", "html"], &[&run], "wants --output FILE"),
        (&["report", "--format", "fio-json"], &[&run, &run], "made of one run, not of 2"),
    ] {
        let done = plimsoll(arguments, files);
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(!done.status.success() && said.contains(why), "{said}");
    }
}

#[test]
fn plots_and_their_data_are_files_of_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let run = written(directory.path(), "run.json", &sample::gcnv());
    let [pictures, data] = ["pictures", "data"].map(|name| directory.path().join(name));
    assert!(plimsoll(&["report", "--format", "svg", "--output"], &[&pictures, &run]).status.success());
    let picture = fs::read_to_string(pictures.join("64-kib-sequential-rates-by-mix.svg")).unwrap();
    assert!(picture.starts_with("<svg xmlns=") && !picture.contains("var("), "{picture}");
    fs::create_dir(&data).unwrap();
    assert!(plimsoll(&["report", "--format", "csv", "--output"], &[&data, &run]).status.success());
    let rates = fs::read_to_string(data.join("64-kib-sequential-rates-by-mix.csv")).unwrap();
    assert!(rates.starts_with("group,bar,published,MiB/s\r\n"), "{rates}");
    let [pictures, data] = [&pictures, &data].map(|path| fs::read_dir(path).unwrap().count());
    assert!(data > pictures, "tables too: {data} and {pictures}");
    let refused = plimsoll(&["report", "--format", "svg"], &[&run]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn runs_have_names_in_one_page() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| written(directory.path(), name, &sample::depths());
    let (monday, friday, page) =
        (path("monday.json"), path("friday.json"), directory.path().join("page.html"));
    assert!(
        plimsoll(&["report", "--format", "html", "--output"], &[&page, &monday, &friday]).status.success()
    );
    let text = fs::read_to_string(&page).unwrap();
    for title in ["Side by side: monday, friday", "monday: Sample: depths", "friday: Sample: depths"] {
        assert_eq!(text.matches(&format!(">{title}</h1>")).count(), 1, "{title}");
    }
    let named = ["report", "--format", "html", "--name", "before", "--name", "after", "--output"];
    assert!(plimsoll(&named, &[&page, &monday, &friday]).status.success());
    assert!(fs::read_to_string(&page).unwrap().contains(">Side by side: before, after</h1>"));
    assert_eq!(plimsoll(&["report", "--name", "one"], &[&monday, &friday]).status.code(), Some(2));
}

#[test]
fn file_that_is_no_run_is_named_with_its_fault() {
    for arguments in [&["report", "/etc/passwd"][..], &["compare", "/etc/passwd", "/etc/passwd"]] {
        let done = plimsoll(arguments, &[]);
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(
            said.contains("/etc/passwd is not a result of \"plimsoll bench run\": line 1 is not valid JSON"),
            "{said}"
        );
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
        (&a, 0, "A and B are the same file"),
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

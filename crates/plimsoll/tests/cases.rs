//! Mounts that are compared: `bench run --case`. The directories here are on one file system; what counts is that each is measured.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn bench(directory: &Path, args: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    let Output { status, stdout, stderr } =
        command.arg("bench").args(args).current_dir(directory).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.success(), text(stdout), text(stderr))
}

#[test]
fn each_case_has_a_result_and_all_are_set_side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    let scenario = "name = \"opening\"\ntitle = \"Opening\"\n[[series]]\nname = \"small\"\nwork = \"open-read\"\n\
                    blocks = [\"4k\"]\njobs = 1\ndepths = [1, 2]\n";
    fs::write(dir.path().join("own.toml"), scenario).unwrap();
    let how = ["--preset", "quick", "--time", "1", "--repetitions", "1", "--output", "own.json"];
    let run = |cases: &[&str]| bench(dir.path(), &[&["run", "./own.toml"], cases, &how].concat());
    let (ok, said, wrong) = run(&["--case", "baseline=a", "--case", "nocto=b"]);
    assert!(ok, "{said}{wrong}");
    assert!(said.contains("2 cases side by side") && said.contains("IOPS within 1 ms"), "{said}");
    for (case, directory) in [("baseline", "a"), ("nocto", "b")] {
        let text = fs::read_to_string(dir.path().join(format!("own.{case}.json"))).unwrap();
        let result: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(result["target"]["case"], case);
        let target = result["target"]["target"].as_str().unwrap();
        assert!(target.ends_with(directory), "{target}");
        let done = &result["cells"][0]["measurements"][0]["operations"][0];
        assert!(done["name"] == "open-read" && done["ops"].as_u64().unwrap() > 0, "{done}");
    }
    let files = ["own.baseline.json", "own.nocto.json"];
    let page = ["--format", "html", "--output", "page.html"];
    let (ok, said, wrong) = bench(dir.path(), &[&["report"], &files[..], &page].concat());
    assert!(ok, "{said}{wrong}");
    assert!(fs::read_to_string(dir.path().join("page.html")).unwrap().contains("Mean latency over rate"));
    let (ok, piped, _) = bench(dir.path(), &[&["report"], &files[..]].concat());
    assert!(ok && piped.starts_with("# Opening: 2 cases") && piped.contains("\n| baseline "), "{piped}");
    let (ok, tables, _) = bench(dir.path(), &[&["report"], &files[..], &["--format", "table"]].concat());
    assert!(ok && tables.starts_with("Opening: 2 cases") && tables.contains("\nbaseline "), "{tables}");
    assert!(!tables.lines().any(|line| line.starts_with(['#', '|'])), "{tables}");

    for (cases, reason) in [
        (&["--case", "a=a", "--case", "b=a"][..], "is there twice, by its name or its directory"),
        (&["--case", "a=a", "--case", "a=b"], "--case has a twice; allowed: each once"),
        (&["--case", "a"], "NAME=DIRECTORY"),
        (&["--case", "a/b=a"], "NAME=DIRECTORY"),
        (&["--case", "a=nowhere"], "cannot look at nowhere"),
        (&["--case", "a=a", "--target", "b"], "cannot be used with"),
        (&[], "--target <TARGET>"),
    ] {
        let (ok, said, wrong) = run(cases);
        assert!(!ok && wrong.contains(reason), "{cases:?}: {said}{wrong}");
    }
}

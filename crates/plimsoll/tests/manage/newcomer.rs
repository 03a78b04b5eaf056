//! The README's own lines, as somebody types them who has nothing but the README.

use crate::rig::{Service, plimsoll};
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};

/// The lines of the README's block that holds `mark`.
fn lines(mark: &str) -> Vec<Vec<String>> {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let text = std::fs::read_to_string(readme).unwrap();
    let block = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap_or(""));
    let block = block.into_iter().find(|block| block.contains(mark)).expect(mark);
    block.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

/// A line of the README without the program's name, with what makes it short or fit for a test put behind it.
fn run(service: &Service, line: &[String], more: &[&str]) -> String {
    service.says(&[&words(line)[..], more].concat())
}

/// The words behind the program's name.
fn words(line: &[String]) -> Vec<&str> {
    assert_eq!(line[0], "plimsoll");
    line[1..].iter().map(String::as_str).collect()
}

/// Runs the program where nothing tells it of the service, as the benchmark on another machine.
fn elsewhere(args: &[&str]) {
    let output = plimsoll(None).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {}{said}", String::from_utf8_lossy(&output.stdout));
}

fn cells(file: &std::path::Path) -> Vec<Value> {
    let run: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    run["cells"].as_array().unwrap().clone()
}

/// Every point was measured, and none is void.
fn check_cells(file: &std::path::Path, count: usize) {
    let cells = cells(file);
    assert_eq!(cells.len(), count);
    for cell in cells {
        let iops = cell["summary"]["iops"]["median"].as_f64().unwrap();
        assert!(iops > 0.0 && !cell["doubts"].to_string().contains("\"void\""), "{cell}");
    }
}

#[test]
fn the_readmes_lines_serve_a_volume_and_measure_it() {
    let service = Service::start_alone();
    let dir = tempfile::tempdir().unwrap();
    let serving = lines("plimsoll serve\n");
    assert_eq!(serving[0], ["plimsoll", "serve"], "the rig has done this one");
    for line in &serving[1..] {
        let more: &[&str] = if line.iter().any(|word| word == "watch") { &["--count", "1"] } else { &[] };
        run(&service, line, more);
    }
    assert_eq!(service.json(&["volume", "show", "v1"])["size_bytes"], 2u64 << 40);

    let place = |word: &str| match word {
        "nfs://10.0.0.7/v1" => format!("nfs://{}/v1", service.nfs()),
        "run.json" | "run.html" => dir.path().join(word).to_str().unwrap().to_owned(),
        other => other.to_owned(),
    };
    let proving: Vec<Vec<String>> = lines("plimsoll bench run")
        .iter()
        .map(|line| line.iter().map(|word| place(word)).collect())
        .collect();
    let short = ["--repetitions", "1", "--time", "1", "--working-set", "48MiB", "--series", "8 KiB random"];
    elsewhere(&[&words(&proving[0])[..], &short].concat());
    check_cells(&dir.path().join("run.json"), 5);
    elsewhere(&words(&proving[1]));
    assert!(std::fs::read_to_string(dir.path().join("run.html")).unwrap().contains("<svg"));
}

#[test]
fn the_readmes_workload_is_sized_made_and_proven() {
    let service = Service::start_alone();
    let dir = tempfile::tempdir().unwrap();
    let line = lines("plimsoll size ").remove(0);
    run(&service, &line, &[]);
    // The same flags with each verb, for a load that this machine can carry.
    let flags: Vec<&str> = line[2..].iter().map(String::as_str).collect();
    let small = |flag: &str, value: &str| {
        let at = flags.iter().position(|word| *word == flag).unwrap();
        (at + 1, value.to_owned())
    };
    let mut flags: Vec<String> = flags.iter().map(|word| (*word).to_owned()).collect();
    let changes = [("--capacity", "1TiB"), ("--iops", "300"), ("--clients", "2"), ("--latency", "50ms")];
    for (at, value) in changes.map(|(flag, value)| small(flag, value)) {
        flags[at] = value;
    }
    flags.extend(["--working-set".to_owned(), "32MiB".to_owned()]);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let said = |verb: &str, more: &[&str]| service.says(&[&["size", verb], &flags[..], more].concat());
    said("apply", &["--name", "tools", "--allow", "127.0.0.1"]);
    let (scenario, result) = (dir.path().join("workload.toml"), dir.path().join("run.json"));
    std::fs::write(&scenario, said("scenario", &[])).unwrap();
    let target = format!("nfs://{}/tools", service.nfs());
    let [scenario, output] = [&scenario, &result].map(|path| path.to_str().unwrap());
    let short = ["--preset", "quick", "--repetitions", "1", "--time", "2"];
    service
        .says(&[&["bench", "run", scenario, "--target", &target, "--output", output], &short[..]].concat());
    check_cells(&result, 1);
}

#[test]
fn every_provider_has_its_own_defaults_and_each_volume_can_be_written() {
    let service = Service::start();
    for (pool, level, size, volume_size, mode) in [
        ("anf", "anf/premium", "4TiB", "1TiB", "0770"),
        ("gcnv", "gcnv/premium", "4TiB", "1TiB", "0770"),
        ("store", "filestore/zonal", "1TiB", "1TiB", "0755"),
        ("own", "plimsoll/unlimited", "4TiB", "1TiB", "0755"),
        ("mine", "plimsoll/custom", "4TiB", "1TiB", "0755"),
    ] {
        service.says(&["pool", "create", pool, "--level", level, "--size", size]);
        let new = ["volume", "create", pool, "--pool", pool, "--size", volume_size, "--allow", "127.0.0.1"];
        service.says(&new);
        let volume = service.json(&["volume", "show", pool]);
        assert_eq!(volume["root"]["mode"], mode, "{level}");
        assert_eq!(volume["rules"][0]["squash"], "none", "{level}");
        let target = format!("nfs://{}/{pool}", service.nfs());
        service.says(&["bench", "load", &target, "--op", "write", "--size", "1m", "--time", "200ms"]);
    }
    // Who says whom squashed callers become wants them squashed.
    service.says(&["export", "set", "own", "--allow", "127.0.0.1", "--anonymous", "7:8"]);
    assert_eq!(service.json(&["export", "list", "own"])["rules"][0]["squash"], "root");
    // An owner alone leaves the level's mode.
    let owned = ["volume", "create", "w", "--pool", "anf", "--size", "1TiB", "--owner", "1000:1000"];
    service.says(&owned);
    let root = &service.json(&["volume", "show", "w"])["root"];
    assert_eq!((root["mode"].as_str(), root["uid"].as_u64()), (Some("0770"), Some(1000)));
}

#[test]
fn a_benchmark_that_may_not_write_ends_at_once_and_says_what_to_do() {
    let service = Service::with_volume("1TiB", &[]);
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("run.json");
    let target = format!("nfs://{}/v1", service.nfs());
    let bench = ["bench", "run", "gcnv-scale-out", "--target", &target, "--preset", "quick", "--output"];
    let bench = [&bench[..], &[output.to_str().unwrap()]].concat();
    for (rule, why) in [(&["--squash", "root"][..], "ACCES"), (&["--read-only"], "ROFS")] {
        service.says(&[&["export", "set", "v1", "--allow", "127.0.0.1"], rule].concat());
        let begun = std::time::Instant::now();
        let said = service.refuses(&bench);
        assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains(why) && said.contains("may not write") && said.contains(&target), "{said}");
        assert!(said.contains("--squash none") && said.contains("--uid"), "{said}");
        assert!(!output.exists(), "there is nothing to show");
        let load = service.refuses(&["bench", "load", &target, "--op", "write", "--time", "1s"]);
        assert!(load.contains("--squash none"), "{load}");
    }
}

#[test]
fn what_is_not_served_is_refused_and_not_ready() {
    let service = Service::start();
    service.says(&["pool", "create", "p1", "--level", "anf/ultra", "--size", "4TiB"]);
    let create = ["volume", "create", "v1", "--pool", "p1", "--size", "1TiB"];
    for protocols in ["nfsv4.1", "smb", "nfsv3,nfsv4.1"] {
        let said = service.refuses(&[&create[..], &["--protocols", protocols]].concat());
        assert!(said.contains("not served yet") && said.contains("allowed: nfsv3"), "{said}");
    }
    service.says(&create);
    let said = service.refuses(&["volume", "update", "v1", "--protocols", "smb"]);
    assert!(said.contains("not served yet"), "{said}");
}

#[test]
fn what_destroys_data_wants_to_be_told_twice() {
    let service = Service::with_volume("1TiB", &[]);
    let said = service.refuses(&["volume", "delete", "v1"]);
    assert!(said.contains("--yes") && said.contains("all its files"), "{said}");
    let said = service.refuses(&["pool", "delete", "p1"]);
    assert!(said.contains("--yes"), "{said}");
    service.json(&["volume", "show", "v1"]);
    let at_terminal = |answer: &str| {
        let line = format!("{} volume delete v1", env!("CARGO_BIN_EXE_plimsoll"));
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).env("PLIMSOLL_DATA", service.data());
        let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (deleted, said) = at_terminal("n\n");
    assert!(!deleted && said.contains("for good? [y/N]") && said.contains("nothing was deleted"), "{said}");
    let (deleted, said) = at_terminal("yes\n");
    assert!(deleted && said.contains("Deleted volume v1"), "{said}");
    service.says(&["pool", "delete", "p1", "--yes"]);
    assert_eq!(service.json(&["pool", "list"])["items"].as_array().unwrap().len(), 0);
}

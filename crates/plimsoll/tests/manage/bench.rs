//! The benchmark's commands beside a service: the forms of their results, and their targets.

use crate::rig::{Service, eventually, plimsoll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// One point.
const SCENARIO: &str = "
name = \"one\"
title = \"One point\"
[[series]]
name = \"Pages\"
jobs = 1
depths = [1]
working_set = \"1m\"
";

fn run(command: &mut std::process::Command, dir: &Path, target: &str) -> Output {
    let scenario = dir.join("one.toml");
    std::fs::write(&scenario, SCENARIO).unwrap();
    command.args(["bench", "run", scenario.to_str().unwrap(), "--target", target, "--preset", "quick"]);
    // A second in which the machine stands still has no result.
    command.args(["--repetitions", "1", "--time", "3", "-o", dir.join("run.json").to_str().unwrap()]);
    command.output().unwrap()
}

#[test]
fn a_service_of_the_environment_does_not_stop_a_measurement_of_another_server() {
    let (own, other) = (Service::with_volume("1TiB", &[]), Service::with_volume("1TiB", &[]));
    let dir = tempfile::tempdir().unwrap();
    let target = format!("nfs://{}/v1", other.nfs());
    let done = run(&mut own.command(&[]), dir.path(), &target);
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{said}");
    assert!(said.contains("warning: limits and counters of ") && said.contains("are not known"), "{said}");
    let result =
        || -> Value { serde_json::from_slice(&std::fs::read(dir.path().join("run.json")).unwrap()).unwrap() };
    assert_eq!(result()["target"]["volume"], Value::Null);
    // Who names a service means it.
    let mut command = plimsoll(None);
    command.args(["bench", "run", "gcnv-scale-out", "--target", &target, "--data"]).arg(own.data());
    let refused = command.output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(1) && said.contains("name the service of the target"), "{said}");
    // The service of the target is asked, and JSON is printed beside the file.
    let done = run(other.command(&[]).env("NO_COLOR", "1"), dir.path(), &target);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(result()["target"]["volume"]["level"], "anf/ultra");
}

#[test]
fn signal_while_files_are_filled_ends_the_command() {
    let service = Service::start();
    service.says(&["pool", "create", "p1", "--level", "plimsoll/custom", "--size", "1TiB"]);
    let create = ["volume", "create", "v1", "--pool", "p1", "--size", "100GiB", "--allow", "127.0.0.1"];
    service.says(&[&create[..], &["--limit", "throughput=8MiB/s"]].concat());
    let dir = tempfile::tempdir().unwrap();
    let scenario = dir.path().join("one.toml");
    fs::write(&scenario, SCENARIO.replace("1m", "1g")).unwrap();
    let target = format!("nfs://{}/v1", service.nfs());
    let of_run = ["bench", "run", scenario.to_str().unwrap(), "--target", &target, "--working-set", "256MiB"];
    let of_load = ["bench", "load", &target, "--op", "read", "--files", "1", "--size", "256m"];
    for (arguments, signal) in [(&of_run[..], Signal::INT), (&of_load, Signal::TERM)] {
        let mut command = service.command(&[]);
        command.current_dir(dir.path()).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        eventually("data is written", || part_of_file(service.data()) > Some(0));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let done = child.wait_with_output().unwrap();
        let said = [done.stdout, done.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        assert_eq!(done.status.code(), Some(1), "{said}");
        assert!(said.contains("stopped before the end"), "{said}");
        assert_eq!(part_of_file(service.data()), None, "{said}");
    }
}

/// The length of the first data file of a load, which is somewhere below the directory.
fn part_of_file(directory: &Path) -> Option<u64> {
    fs::read_dir(directory).ok()?.flatten().find_map(|entry| match entry.file_name() == "data-000000" {
        true => Some(entry.metadata().map_or(0, |found| found.len())),
        false if entry.file_type().is_ok_and(|kind| kind.is_dir()) => part_of_file(&entry.path()),
        false => None,
    })
}

#[test]
fn share_is_measured_and_its_password_stays_secret() {
    const PASSWORD: &str = "correct horse";
    let service = Service::start_with(&["--smb-listen", "127.0.0.1:0"]);
    let secret = service.data().join("secret");
    fs::write(&secret, PASSWORD).unwrap();
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    let secret = secret.to_str().unwrap();
    service.says(&["user", "create", "alice", "--uid", "1000", "--password-file", secret]);
    service.says(&["pool", "create", "p1", "--level", "plimsoll/unlimited", "--size", "1TiB"]);
    let create = ["volume", "create", "v1", "--pool", "p1", "--size", "100GiB", "--owner", "1000:1000"];
    service.says(&[&create[..], &["--protocols", "smb", "--allow", "127.0.0.1"]].concat());
    let announced = service.announcement();
    let target = format!("smb://alice@{}/v1?sign=cmac", announced["smb"].as_str().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let unknown = run(service.command(&[]).env_remove("PLIMSOLL_SMB_PASSWORD"), dir.path(), &target);
    let said = String::from_utf8(unknown.stderr).unwrap();
    assert!(!unknown.status.success() && said.contains("the password of alice is not known"), "{said}");
    let done = run(service.command(&[]).env("PLIMSOLL_SMB_PASSWORD", PASSWORD), dir.path(), &target);
    let (said, told) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
    assert!(done.status.success(), "{told}");
    let text = fs::read_to_string(dir.path().join("run.json")).unwrap();
    assert!(![&said, &told, &text].iter().any(|text| text.contains(PASSWORD)));
    let result: Value = serde_json::from_str(&text).unwrap();
    let smb =
        json!({"dialect": "3.1.1", "signing": "AES-128-CMAC", "encryption": null, "multichannel": false});
    assert_eq!((&result["target"]["protocol"], &result["target"]["smb"]), (&json!("SMB 3.1.1"), &smb));
    let measured = &result["cells"][0];
    assert_eq!(measured["point"]["protocol"], "smb");
    assert!(measured["summary"]["iops"]["median"].as_f64() > Some(0.0), "{measured}");
    // An error has the name that the user may not create.
    let closed = ["volume", "create", "v2", "--pool", "p1", "--size", "1GiB", "--protocols", "smb"];
    service.says(&[&closed[..], &["--allow", "127.0.0.1"]].concat());
    let closed = target.replace("/v1", "/v2");
    let mut load = service.command(&["bench", "load", &closed, "--op", "read"]);
    let refused = load.env("PLIMSOLL_SMB_PASSWORD", PASSWORD).output().unwrap();
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(told.contains("(CREATE of \"plimsoll-bench\": permission denied: "), "{told}");
    // The service was asked, and counts the connections of the load alone.
    assert_eq!(result["target"]["volume"]["name"], "v1");
    assert_eq!(measured["measurements"][0]["server"]["connections"], 1, "{measured}");
}

#[test]
fn every_command_has_json_that_says_its_format() {
    let says = |args: &[&str]| -> Value {
        let output = plimsoll(None).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let listed = says(&["bench", "ls", "--json"]);
    assert_eq!(
        (&listed["format"], &listed["items"][0]["name"]),
        (&json!("plimsoll/1"), &json!("gcnv-scale-out"))
    );
    let jobs =
        says(&["bench", "fio", "fio --name=a --rw=randread --bs=8k --size=1m --ioengine=psync", "--json"]);
    assert_eq!((&jobs["format"], &jobs["jobs"][0]["name"]), (&json!("plimsoll/1"), &json!("a")));
    assert!(!jobs.to_string().contains("null"), "{jobs}");
    for list in ["list", "profiles", "shapes"] {
        let listed = says(&["level", list, "--json"]);
        assert!(listed["format"] == "plimsoll/1" && !listed.to_string().contains("null"), "{listed}");
    }
}

#[test]
fn a_load_is_a_table_and_json_wherever_they_are_wanted() {
    let service = Service::with_volume("1TiB", &[]);
    let target = format!("nfs://{}/v1", service.nfs());
    let load = [
        "bench",
        "load",
        &target,
        "--op",
        "null",
        "--time",
        "200ms",
        "--warm-up",
        "0s",
        "--files",
        "1",
        "--size",
        "64k",
    ];
    let says = |more: &[&str]| service.says(&[&load[..], more].concat());
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let is_report = |text: &str| parsed(text)["format"] == "plimsoll/1" && parsed(text)["ops"].is_u64();
    let (file, text) = (service.data().join("load.json"), service.data().join("load.txt"));
    let [file_name, text_name] = [&file, &text].map(|path| path.to_str().unwrap());
    assert!(is_report(&says(&["--json"])));
    assert!(says(&["--json", file_name]).contains("ops/s") && is_report(&read(&file)), "both");
    assert_eq!(says(&["-o", text_name]), "");
    assert!(read(&text).contains("ops/s") && read(&text).contains("\nwarning: "), "{}", read(&text));
    assert_eq!(says(&["-o", text_name, "--json"]), "");
    assert!(is_report(&read(&text)));
}

#[test]
fn run_ends_with_the_verdict_on_its_targets() {
    let service = Service::start();
    service.says(&["pool", "create", "p1", "--level", "plimsoll/custom", "--size", "1TiB"]);
    let create = ["volume", "create", "v1", "--pool", "p1", "--size", "100GiB", "--allow", "127.0.0.1"];
    service.says(&[&create[..], &["--limit", "iops=500"]].concat());
    // The form of mount, df and fstab, with a port.
    let target = format!("{}:/v1", service.nfs());
    let dir = tempfile::tempdir().unwrap();
    let scenario = dir.path().join("asked.toml");
    let output = dir.path().join("run.json");
    let judged = |targets: &str| {
        fs::write(&scenario, format!("{SCENARIO}targets = {targets}\n")).unwrap();
        let mut command = service.command(&["bench", "run"]);
        command.arg(&scenario).args(["--target", &target, "--preset", "quick", "--repetitions", "1"]);
        command.args(["--time", "3", "--output"]).arg(&output);
        let done = command.output().unwrap();
        let result: Value = serde_json::from_slice(&fs::read(&output).unwrap()).unwrap();
        let said = String::from_utf8(done.stdout).unwrap();
        (done.status.code(), said, result, String::from_utf8(done.stderr).unwrap())
    };
    let (status, said, result, told) = judged("{ iops = 100, latency_ms = 10000.0 }");
    assert_eq!((status, &result["verdict"]["is_met"]), (Some(0), &json!(true)), "{said}");
    assert!(said.trim_end().lines().last().unwrap().starts_with("pass: Pages: asked 100 IOPS, "), "{said}");
    assert!(said.contains("Limit reached: ") && said.contains("500 IOPS"), "{said}");
    // A file gets a line for each point and no bar.
    assert!(told.starts_with("This takes about ") && told.contains("UTC  1 of 1  Pages: "), "{told}");
    assert!(!told.contains(['\r', '\u{1b}']), "{told}");
    let (status, said, result, _) = judged("{ iops = 5000 }");
    assert_eq!((status, &result["verdict"]["is_met"]), (Some(3), &json!(false)), "{said}");
    assert!(said.contains("fail: Pages: asked 5,000 IOPS, delivered 5"), "{said}");
}

#[test]
fn load_over_a_change_of_the_limits_has_no_share_of_them() {
    let service = Service::start();
    service.says(&["pool", "create", "p1", "--level", "plimsoll/custom", "--size", "1TiB"]);
    let create = ["volume", "create", "v1", "--pool", "p1", "--size", "100GiB", "--allow", "127.0.0.1"];
    service.says(&[&create[..], &["--limit", "iops=500"]].concat());
    let target = format!("nfs://{}/v1", service.nfs());
    let load =
        ["bench", "load", &target, "--op", "getattr", "--files", "1", "--size", "64k", "--warm-up", "0s"];
    let steady = service.says(&[&load[..], &["--time", "2s"]].concat());
    assert!(steady.contains("the limit on all operations 500 IOPS ("), "{steady}");
    // A new file takes more operations over NFSv4 than the generator counts.
    let target4 = format!("{target}?version=4.2");
    let create = ["bench", "load", &target4, "--op", "create", "--time", "4s"];
    let created = service.says(&create);
    assert!(
        created.contains("Limit reached: ") && created.contains(" IOPS), by the service's count."),
        "{created}"
    );
    let operations = || service.json(&["volume", "watch", "v1", "--count", "1", "--interval", "100ms"]);
    let before = operations()["other"]["operations"].as_u64().unwrap();
    let mut command = service.command(&[&load[..], &["--time", "6s"]].concat());
    let running = command.stdout(Stdio::piped()).spawn().unwrap();
    // The layout of one small file takes fewer operations.
    eventually("the load runs", || operations()["other"]["operations"].as_u64().unwrap() > before + 200);
    service.says(&["volume", "update", "v1", "--limit", "iops=700"]);
    let done = running.wait_with_output().unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    let wanted = "Limit: the limits changed while it was measured from all operations 500 IOPS to all operations 700 IOPS: \
                  no share of them is given.";
    assert!(said.contains(wanted), "{said}");
}

#[test]
fn interrupted_run_is_stopped_and_has_no_verdict() {
    let service = Service::with_volume("1TiB", &[]);
    let dir = tempfile::tempdir().unwrap();
    let (scenario, output) = (dir.path().join("asked.toml"), dir.path().join("run.json"));
    fs::write(&scenario, format!("{SCENARIO}targets = {{ iops = 1 }}\n")).unwrap();
    let mut command = service.command(&["bench", "run"]);
    command.arg(&scenario).args(["--target", &format!("nfs://{}/v1", service.nfs()), "--preset", "quick"]);
    command.args(["--repetitions", "2", "--time", "3", "--output"]).arg(&output);
    let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let told = BufReader::new(running.stderr.take().unwrap());
    // The second measurement is interrupted.
    assert!(told.lines().map_while(Result::ok).any(|line| line.contains("1 of 2  Pages: ")));
    let pid = running.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let done = running.wait_with_output().unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("No verdict: the run ended before every point was measured (stopped "), "{said}");
    assert!(!said.contains("Fail") && !said.contains("fail: "), "{said}");
    let result: Value = serde_json::from_slice(&fs::read(&output).unwrap()).unwrap();
    assert_eq!(result["verdict"], Value::Null);
}

#[test]
fn volume_over_another_version_is_refused_with_that_version() {
    let service = Service::start();
    service.says(&["pool", "create", "p1", "--level", "plimsoll/unlimited", "--size", "1TiB"]);
    let create = ["volume", "create", "v1", "--pool", "p1", "--size", "100GiB", "--allow", "127.0.0.1"];
    service.says(&[&create[..], &["--protocols", "nfsv4.2"]].concat());
    let target = format!("nfs://{}/v1", service.nfs());
    for bench in
        [&["bench", "run", "filestore", "--target", &target][..], &["bench", "load", &target, "--op", "null"]]
    {
        let said = service.refuses(bench);
        assert!(
            said.contains(&format!("not served over NFSv3, but over NFSv4.2: write {target}?version=4.2")),
            "{said}"
        );
    }
    let create = ["volume", "create", "v2", "--pool", "p1", "--size", "100GiB", "--allow", "127.0.0.1"];
    service.says(&[&create[..], &["--protocols", "nfsv3"]].concat());
    let v2 = format!("nfs://{}/v2", service.nfs());
    for version in ["4.1", "4.2"] {
        let said = service.refuses(&["bench", "load", &format!("{v2}?version={version}"), "--op", "null"]);
        assert!(
            said.contains(&format!("not served over NFSv{version}, but over NFSv3: write {v2}\n")),
            "{said}"
        );
        let absent = format!("nfs://{}/v3?version={version}", service.nfs());
        let said = service.refuses(&["bench", "load", &absent, "--op", "null"]);
        assert!(said.contains(&format!("/v3 is served over neither NFSv{version} (OP_LOOKUP of ")), "{said}");
        assert!(said.contains("NFS4ERR_NOENT") && said.contains("plimsoll volume access list"), "{said}");
    }
}

#[test]
fn port_of_another_service_is_named_with_the_remedies() {
    let service = Service::start();
    let dir = tempfile::tempdir().unwrap();
    let mut command = plimsoll(None);
    command
        .args(["demo", "--once", "--listen", &service.nfs().to_string(), "--data"])
        .arg(dir.path().join("d"));
    let refused = command.output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("the port is in use"), "{said}");
    let remedies =
        "stop it (systemctl stop plimsoll), or choose another port with --listen, like 127.0.0.1:0";
    assert!(said.contains(remedies), "{said}");
}

#[test]
fn wrong_command_lines_of_the_benchmark_end_with_2_and_say_what_is_allowed() {
    for (arguments, allowed) in [
        (&["run", "nope", "--target", "h:/v"][..], "allowed: gcnv-scale-out, "),
        (&["run", "filestore", "--series", "nope", "--target", "h:/v"], "\"1 MiB sequential writes"),
        (&["run", "filestore", "--target", "nowhere"], "HOST:/EXPORT"),
        (&["run", "filestore", "--target", "nfs://h"], "HOST:/EXPORT"),
        (&["load", "nowhere", "--op", "null"], "HOST:/EXPORT"),
        (&["compare", "nowhere", "h:/v", "--scenario", "filestore"], "HOST:/EXPORT"),
        (&["fio", "fio --name=a --rw=read --size=1m", "--target", "nowhere"], "HOST:/EXPORT"),
    ] {
        let output = plimsoll(None).arg("bench").args(arguments).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(allowed), "{arguments:?}: {said}");
    }
}

#[test]
fn short_help_of_the_benchmark_fits_a_screen() {
    for command in ["run", "load"] {
        let output = plimsoll(None).args(["bench", command, "-h"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().count();
        assert!(lines <= 36, "{command}: {lines} lines\n{text}");
    }
}

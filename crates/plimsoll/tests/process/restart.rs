//! Restarts: the service counts files after a kill, and nothing after an orderly end.

use crate::rig::{Process, plimsoll};
use api_client::{Client, Target};
use nfs_wire::v3::StableHow;
use std::path::Path;
use wire_client::Identity;

/// In the log of a start that counts the files of a volume.
const COUNTS: &str = "counting files";

fn run(data: &Path, arguments: &[&str]) -> serde_json::Value {
    let ran = plimsoll().args(arguments).arg("--json").arg("--data").arg(data).output().unwrap();
    assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// Volumes `v1` and `v2`, made anew.
fn make_volumes(data: &Path) {
    run(data, &["pool", "create", "p1", "--level", "anf/ultra", "--size", "4TiB"]);
    for volume in ["v1", "v2"] {
        let create = ["volume", "create", volume, "--pool", "p1", "--size", "1TiB"];
        run(data, &[&create[..], &["--allow", "127.0.0.1", "--squash", "none"]].concat());
    }
}

/// Changes a volume over NFS, in ways that take and give back: names, sizes, directories. The connection stays open.
fn change(data: &Path, volume: &str, round: u32) -> wire_client::Client {
    let told: serde_json::Value =
        serde_json::from_slice(&std::fs::read(data.join("service.json")).unwrap()).unwrap();
    let nfs = told["nfs"].as_str().unwrap();
    let target: bench::Target = format!("nfs://{nfs}/{volume}").parse().unwrap();
    let mut client = wire_client::Client::mount(&target, &Identity::new(0, 0)).unwrap();
    let root = client.root();
    let dir = client.make_dir(&root, &format!("dir{round}"), 0o755).unwrap();
    for number in 1..20 {
        let file = client.create(&dir, &format!("a file {number}"), 0o644).unwrap();
        client.write(&file, 0, &vec![7; 3000 * number], StableHow::FileSync).unwrap();
    }
    client.remove(&dir, "a file 3").unwrap();
    client
}

/// Bytes and files in a volume.
fn used(data: &Path, volume: &str) -> (u64, u64) {
    let told: serde_json::Value =
        serde_json::from_slice(&std::fs::read(data.join("service.json")).unwrap()).unwrap();
    let token = std::fs::read_to_string(data.join("admin.token")).unwrap().trim().to_owned();
    let at = Target { url: told["api"].as_str().unwrap().to_owned(), token, issuers: None, socket: None };
    let stats = Client::new(&at).unwrap().stats(volume).unwrap();
    (stats.used_bytes, stats.used_files)
}

#[test]
fn orderly_restart_counts_nothing_and_a_kill_counts() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let process = Process::serve(&data);
    make_volumes(&data);
    let first = change(&data, "v1", 0);
    let known = [used(&data, "v1"), used(&data, "v2")];
    assert_ne!(known[0], known[1]);
    let log = process.stop();
    assert!(!log.contains(COUNTS), "{log}");
    drop(first);

    for round in 1..3 {
        let process = Process::serve(&data);
        if round == 1 {
            assert_eq!([used(&data, "v1"), used(&data, "v2")], known, "after a restart");
        }
        // A client that goes on until the end.
        let clients = ["v1", "v2"].map(|volume| change(&data, volume, round));
        let log = process.stop();
        assert!(!log.contains(COUNTS), "round {round}: {log}");
        drop(clients);
    }

    let process = Process::serve(&data);
    let known = [used(&data, "v1"), used(&data, "v2")];
    drop(change(&data, "v1", 3));
    let changed = used(&data, "v1");
    assert_ne!(changed, known[0]);
    process.kill();
    let process = Process::serve(&data);
    while !run(&data, &["status"])["counting"].is_null() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!([used(&data, "v1"), used(&data, "v2")], [changed, known[1]], "what a count finds");
    let log = process.stop();
    assert_eq!(log.matches(COUNTS).count(), 1, "the volume that was changed: {log}");
    let log = Process::serve(&data).stop();
    assert!(!log.contains(COUNTS), "{log}");
}

#[test]
fn end_of_the_demo_leaves_nothing_to_count() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    for _ in 0..2 {
        let mut command = plimsoll();
        command.args(["demo", "--once", "--listen", "127.0.0.1:0", "--time", "1s", "--data"]).arg(&data);
        let ran = command.output().unwrap();
        let log = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success() && !log.contains(COUNTS), "{log}");
    }
}

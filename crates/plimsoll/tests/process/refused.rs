//! Refused mounts in the log, over each protocol, and warnings of rules by which nobody can mount.

use crate::rig::{Process, plimsoll};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Runs a command on a data directory; returns its output.
fn run(data: &Path, arguments: &[&str]) -> String {
    let ran = plimsoll().args(arguments).arg("--data").arg(data).output().unwrap();
    assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap()
}

fn service(data: &Path) -> (Process, Value) {
    let mut command = plimsoll();
    command.args(["serve", "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0", "--smb-listen", "127.0.0.1:0"]);
    command.arg("--data").arg(data);
    let process = Process::start(command, "Token ");
    run(data, &["pool", "create", "p1", "--level", "plimsoll/unlimited", "--size", "4GiB"]);
    let announced = serde_json::from_slice(&fs::read(data.join("service.json")).unwrap()).unwrap();
    (process, announced)
}

#[test]
fn refused_mounts_are_logged_once_over_each_protocol() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (process, announced) = service(&data);
    let create = ["volume", "create", "v1", "--pool", "p1", "--size", "1GiB", "--allow"];
    run(&data, &[&create[..], &["127.0.0.9", "--protocols", "nfsv3,nfsv4.1,nfsv4.2,smb"]].concat());
    let secret = dir.path().join("secret");
    fs::write(&secret, "hush").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    run(&data, &["user", "create", "alice", "--uid", "1234", "--password-file", secret.to_str().unwrap()]);
    let (nfs, smb) = (announced["nfs"].as_str().unwrap(), announced["smb"].as_str().unwrap());
    let mut targets = vec![format!("smb://alice@{smb}/v1"), format!("smb://alice@{smb}/none")];
    for version in ["3", "4.1", "4.2"] {
        targets.extend(["v1", "none"].map(|name| format!("nfs://{nfs}/{name}?version={version}")));
    }
    for target in targets.iter().chain(&targets) {
        let mut load = plimsoll();
        load.args(["bench", "load", target, "--op", "null"]);
        load.arg("--password-file").arg(&secret);
        let output = load.output().unwrap();
        assert_ne!(output.status.code(), Some(0), "{target}");
        assert_ne!(output.status.code(), Some(2), "{target}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let log = process.stop();
    let lines =
        |words: [&str; 2]| log.lines().filter(|line| words.iter().all(|word| line.contains(word))).count();
    // The NFS versions share the minute in which a client's refusal at a volume is logged once.
    let (rule, none) = ("no export rule is for this client", "there is no such volume at this address");
    for (protocol, why) in [("over NFS", rule), ("over NFS", none), ("over SMB", rule), ("over SMB", none)] {
        assert_eq!(lines([protocol, why]), 1, "{protocol}, {why}: {log}");
    }
}

#[test]
fn rules_that_never_apply_are_warnings() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (process, _) = service(&data);
    let create = ["volume", "create", "v1", "--pool", "p1", "--size", "1MiB", "--allow", "127.0.0.0/8"];
    let said = run(&data, &[&create[..], &["--protocols", "nfsv4.2,smb"]].concat());
    assert!(!said.contains("warning"), "{said}");
    let said = run(&data, &["volume", "access", "add", "v1", "--allow", "127.0.0.1"]);
    assert!(
        said.contains("rule 2, for 127.0.0.1, of the volume v1 never applies: rule 1, for 127.0.0.0/8, decides before it"),
        "{said}"
    );
    // SMB can be encrypted without a certificate, NFS cannot.
    let said = run(&data, &["volume", "access", "set", "v1", "--allow", "127.0.0.1", "--xprtsec", "tls"]);
    assert!(said.contains("nobody can mount the volume v1 over nfsv4.2 by its rule for 127.0.0.1"), "{said}");
    let warned = || -> Vec<Value> {
        let said = run(&data, &["warning", "list", "--json"]);
        let page: Value = serde_json::from_str(&said).unwrap();
        page["items"].as_array().unwrap().iter().map(|warning| warning["kind"].clone()).collect()
    };
    assert_eq!(warned(), ["unprotected"]);
    drop(process);
}

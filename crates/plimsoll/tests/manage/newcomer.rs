//! First steps of a new user: defaults, refusals, mount commands, confirmations.

use crate::rig::Service;
use std::io::Write;
use std::process::{Command, Stdio};

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
    // A rule with an anonymous user also squashes.
    service.says(&["volume", "access", "set", "own", "--allow", "127.0.0.1", "--anonymous", "7:8"]);
    assert_eq!(service.json(&["volume", "access", "list", "own"])["rules"][0]["squash"], "root");
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
        service.says(&[&["volume", "access", "set", "v1", "--allow", "127.0.0.1"], rule].concat());
        let begun = std::time::Instant::now();
        let said = service.refuses(&bench);
        assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
        // The cost of the run comes first.
        assert_eq!(said.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{said}");
        assert!(said.contains(why) && said.contains("may not write") && said.contains(&target), "{said}");
        assert!(said.contains("--squash none") && said.contains("--uid"), "{said}");
        assert!(!output.exists(), "there is nothing to show");
        let load = service.refuses(&["bench", "load", &target, "--op", "write", "--time", "1s"]);
        assert!(load.contains("--squash none"), "{load}");
    }
}

#[test]
fn volume_over_a_protocol_that_is_not_served_is_refused() {
    let service = Service::start();
    service.says(&["pool", "create", "p1", "--level", "anf/ultra", "--size", "4TiB"]);
    let create = ["volume", "create", "v1", "--pool", "p1", "--size", "1TiB"];
    for protocols in ["smb", "nfsv3,smb"] {
        let said = service.refuses(&[&create[..], &["--protocols", protocols]].concat());
        assert!(
            said.contains("is not served")
                && said.contains("--smb-listen")
                && said.contains("allowed: nfsv3,nfsv4.0,nfsv4.1,nfsv4.2"),
            "{said}"
        );
    }
    service.says(&create);
    let said = service.refuses(&["volume", "update", "v1", "--protocols", "smb"]);
    assert!(said.contains("is not served"), "{said}");
}

#[test]
fn a_volume_is_mounted_as_it_and_its_rules_allow() {
    let service = Service::start();
    service.says(&["pool", "create", "p1", "--level", "plimsoll/unlimited", "--size", "4TiB"]);
    let create = ["volume", "create", "v1", "--pool", "p1", "--size", "1TiB"];
    let all = ["--protocols", "nfsv3,nfsv4.0,nfsv4.1,nfsv4.2", "--allow", "127.0.0.1"];
    let said = service.says(&[&create[..], &all].concat());
    let port = service.nfs().port();
    let v3 =
        format!("mount -t nfs -o vers=3,proto=tcp,port={port},mountport={port},nolock 127.0.0.1:/v1 /mnt");
    let v4 = ["4.0", "4.1", "4.2"]
        .map(|minor| format!("mount -t nfs -o vers={minor},proto=tcp,port={port} 127.0.0.1:/v1 /mnt"));
    let shown = |said: &str| {
        let commands = said.lines().filter_map(|line| line.find("mount -t").map(|at| line[at..].to_owned()));
        commands.collect::<Vec<_>>()
    };
    let every = [vec![v3.clone()], v4.to_vec()].concat();
    assert_eq!(shown(&said), every);
    assert_eq!(shown(&service.says(&["volume", "show", "v1"])), every);
    service.says(&["volume", "access", "set", "v1", "--allow", "127.0.0.1", "--protocols", "nfsv4.2"]);
    assert_eq!(shown(&service.says(&["volume", "show", "v1"])), [v4[2].clone()]);
    let status = service.json(&["status"]);
    assert_eq!(status["nfs"]["v3_locks"]["reachable"], false);
    let said = service.says(&["status"]);
    assert!(said.contains("nolock") && said.contains("nfsv3, nfsv4.0, nfsv4.1, nfsv4.2"), "{said}");
}

#[test]
fn deletion_without_confirmation_is_refused() {
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

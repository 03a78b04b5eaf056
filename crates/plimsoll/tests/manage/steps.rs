//! Long operations of snapshots show their steps and end when they are cancelled.

use crate::rig::Service;
use serde_json::Value;
use std::fs;

const FILES: u64 = 4_000;

/// A service whose volume `v1` has many files in the snapshot `s1`, which have changed since.
fn service() -> Service {
    let service = Service::start_with(&["--snapshots", "copy"]);
    service.says(&["pool", "create", "p1", "--level", "plimsoll/unlimited", "--size", "4GiB"]);
    service.says(&["volume", "create", "v1", "--pool", "p1", "--size", "1GiB", "--allow", "127.0.0.1"]);
    let [dir] = &service.volume_dirs()[..] else { panic!("one volume") };
    for number in 0..FILES {
        fs::write(dir.join(format!("file-{number}")), [7; 100]).unwrap();
    }
    service.says(&["snapshot", "create", "v1", "s1"]);
    service
}

/// The operation with the last number.
fn newest(service: &Service) -> Value {
    service.json(&["operation", "list"])["items"][0].clone()
}

#[test]
fn a_clone_shows_its_steps_and_a_cancelled_one_leaves_nothing() {
    let service = service();
    service.says(&["clone", "create", "v1", "s1", "c1", "--no-wait"]);
    let begun = loop {
        let operation = newest(&service);
        assert_eq!((&operation["verb"], &operation["outcome"]), (&"create".into(), &"running".into()));
        if operation["progress"]["done"].as_u64().is_some_and(|done| done > 0) {
            break operation;
        }
    };
    assert_eq!(begun["progress"]["unit"], "steps");
    assert!(begun["progress"]["done"].as_u64().unwrap() < FILES, "{begun}");
    let id = begun["id"].as_u64().unwrap().to_string();
    let refused = service.refuses(&["snapshot", "delete", "v1", "s1", "--yes"]);
    assert!(refused.contains("makes a volume from a snapshot"), "{refused}");
    service.says(&["operation", "cancel", &id]);
    // It ends without success.
    _ = service.command(&["operation", "wait", &id]).output().unwrap();
    let ended = service.json(&["operation", "show", &id]);
    assert_eq!(ended["outcome"], "cancelled", "{ended}");
    assert!(ended["progress"]["done"].as_u64().unwrap() < FILES, "{ended}");
    assert!(service.refuses(&["volume", "show", "c1"]).contains("there is no volume c1"));
    assert_eq!(service.volume_dirs().len(), 1);
    service.says(&["clone", "create", "v1", "s1", "c1"]);
    let done = newest(&service);
    assert_eq!(done["outcome"], "succeeded");
    let files = |dir: &std::path::PathBuf| fs::read_dir(dir).unwrap().count();
    let counts: Vec<usize> = service.volume_dirs().iter().map(files).collect();
    assert!(counts.iter().all(|&count| count as u64 >= FILES), "{counts:?}");
}

#[test]
fn a_service_that_is_killed_amid_a_clone_makes_it_again() {
    let mut service = service();
    service.says(&["clone", "create", "v1", "s1", "c1", "--no-wait"]);
    while newest(&service)["progress"]["done"].as_u64().is_none_or(|done| done == 0) {}
    let id = newest(&service)["id"].as_u64().unwrap().to_string();
    service.kill();
    service.start_again_with(&["--snapshots", "copy"]);
    service.says(&["operation", "wait", &id]);
    assert_eq!(service.json(&["operation", "show", &id])["outcome"], "succeeded");
    assert_eq!(service.json(&["volume", "show", "c1"])["state"], "ready");
    service.says(&["snapshot", "delete", "v1", "s1", "--yes"]);
}

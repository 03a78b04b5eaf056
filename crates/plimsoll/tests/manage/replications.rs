//! Replications by the commands, on real storage, as clients of NFS see both volumes.

use crate::mount::mount;
use crate::rig::{Service, eventually};
use nfs_wire::v3::{StableHow, Status};
use serde_json::{Value, json};

/// A service with the volumes `v1` and `v1-copy`, whatever its file system.
pub(crate) fn two_volumes() -> Service {
    let service = Service::start_with(&["--snapshots", "copy"]);
    service.says(&["pool", "create", "p1", "--level", "plimsoll/unlimited", "--size", "64GiB"]);
    create_volume(&service, "v1");
    create_volume(&service, "v1-copy");
    service
}

pub(crate) fn create_volume(service: &Service, name: &str) {
    let create = ["volume", "create", name, "--pool", "p1", "--size", "1GiB"];
    service.says(&[&create[..], &["--allow", "127.0.0.0/8", "--squash", "none"]].concat());
}

/// Writes a file over NFS.
pub(crate) fn put(service: &Service, volume: &str, file: &str, text: &str) {
    let mut client = mount(service, &format!("/{volume}")).unwrap();
    let root = client.root();
    let file = client.create(&root, file, 0o644).unwrap();
    client.write(&file, 0, text.as_bytes(), StableHow::FileSync).unwrap();
}

/// The text of a file over NFS; `None`: there is no such file.
pub(crate) fn read(service: &Service, volume: &str, file: &str) -> Option<String> {
    let mut client = mount(service, &format!("/{volume}")).unwrap();
    let file = client.walk(file).ok()?;
    let data = client.read(&file, 0, 1000).unwrap();
    Some(String::from_utf8(data.data.to_vec()).unwrap())
}

/// Whether a client gets READ-ONLY for a change.
pub(crate) fn is_read_only(service: &Service, volume: &str) -> bool {
    let mut client = mount(service, &format!("/{volume}")).unwrap();
    let root = client.root();
    match client.make_dir(&root, "probe", 0o755) {
        Err(error) => {
            assert!(error.is(Status::ROFS), "{error}");
            true
        }
        Ok(_) => {
            client.remove_dir(&root, "probe").unwrap();
            false
        }
    }
}

pub(crate) fn show(service: &Service, volume: &str) -> Value {
    service.json(&["replication", "show", volume])
}

#[test]
fn a_volume_follows_another_one_and_takes_over_and_goes_back() {
    let service = two_volumes();
    assert!(service.says(&["replication", "list"]).contains("No replications."));
    put(&service, "v1", "a", "first");
    let said = service.says(&["replication", "create", "v1-copy", "--source", "v1", "--schedule", "hourly"]);
    assert_eq!(said, "Created replication to v1-copy: from v1, hourly, MIRRORED.\n");
    assert_eq!(read(&service, "v1-copy", "a").as_deref(), Some("first"));
    assert!(is_read_only(&service, "v1-copy"));

    put(&service, "v1", "a", "second");
    put(&service, "v1", "b", "more");
    assert_eq!(read(&service, "v1-copy", "a").as_deref(), Some("first"), "until the next point");
    let said = service.says(&["replication", "sync", "v1-copy"]);
    assert!(said.starts_with("Transferred ") && said.ends_with(" to volume v1-copy.\n"), "{said}");
    assert_eq!(read(&service, "v1-copy", "a").as_deref(), Some("second"));
    assert_eq!(read(&service, "v1-copy", "b").as_deref(), Some("more"));
    let shown = show(&service, "v1-copy");
    assert_eq!((&shown["state"], &shown["healthy"]), (&json!("MIRRORED"), &json!(true)));
    assert!(shown["lag_seconds"].as_u64().is_some_and(|lag| lag < 3600), "{shown}");
    let listed = service.says(&["replication", "list"]);
    assert!(listed.contains("v1-copy") && listed.contains("hourly") && listed.contains("yes"), "{listed}");

    let said = service.refuses(&["replication", "delete", "v1-copy", "--yes"]);
    assert!(said.contains("break it first"), "{said}");
    service.says(&["replication", "break", "v1-copy"]);
    assert!(!is_read_only(&service, "v1-copy"));
    put(&service, "v1-copy", "own", "written at the destination");
    let said = service.refuses(&["replication", "resume", "v1-copy"]);
    assert!(said.contains("would go back to replication.") && said.contains("--force"), "{said}");
    service.says(&["replication", "resume", "v1-copy", "--force"]);
    service.says(&["replication", "sync", "v1-copy"]);
    assert_eq!(read(&service, "v1-copy", "own"), None);
    assert!(is_read_only(&service, "v1-copy"));

    service.says(&["replication", "break", "v1-copy"]);
    put(&service, "v1-copy", "c", "after the failure");
    let said = service.says(&["replication", "reverse", "v1-copy"]);
    assert!(said.contains("to v1: from v1-copy"), "{said}");
    service.says(&["replication", "sync", "v1"]);
    assert_eq!(read(&service, "v1", "c").as_deref(), Some("after the failure"));
    assert!(is_read_only(&service, "v1") && !is_read_only(&service, "v1-copy"));

    service.says(&["replication", "break", "v1"]);
    let said = service.says(&["replication", "delete", "v1", "--yes"]);
    assert_eq!(said, "Deleted replication to volume v1. Both volumes stay.\n");
    assert!(!is_read_only(&service, "v1"));
    for volume in ["v1", "v1-copy"] {
        let none = || service.says(&["snapshot", "list", volume]).contains("No snapshots.");
        eventually("the deletion of all points", none);
    }
}

#[test]
fn a_destination_shows_its_last_point_after_a_kill() {
    let mut service = two_volumes();
    put(&service, "v1", "a", "first");
    service.says(&["replication", "create", "v1-copy", "--source", "v1"]);
    put(&service, "v1", "a", "second");
    service.kill();
    service.start_again();
    assert_eq!(read(&service, "v1-copy", "a").as_deref(), Some("first"));
    assert!(is_read_only(&service, "v1-copy"));
    service.says(&["replication", "sync", "v1-copy"]);
    assert_eq!(read(&service, "v1-copy", "a").as_deref(), Some("second"));
}

#[test]
fn refusals_say_what_is_allowed() {
    let service = two_volumes();
    for (args, reason) in [
        (&["replication", "create", "v1-copy"][..], "--source"),
        (&["replication", "create", "v1-copy", "--source", "v9"], "there is no volume v9"),
        (&["replication", "create", "v1", "--source", "v1"], "two volumes"),
        (
            &["replication", "create", "v1-copy", "--source", "v1", "--schedule", "weekly"],
            "10minutely, hourly, daily",
        ),
        (&["replication", "show", "v1-copy"], "there is no replication to the volume v1-copy"),
        (&["replication", "update", "v1-copy"], "nothing to change"),
        (&["replication", "delete", "v1-copy"], "use --yes"),
    ] {
        let said = service.refuses(args);
        assert!(said.contains(reason), "{args:?}: {said}");
    }
    put(&service, "v1-copy", "own", "data");
    let said = service.refuses(&["replication", "create", "v1-copy", "--source", "v1"]);
    assert!(said.contains("the volume v1-copy has files"), "{said}");
}

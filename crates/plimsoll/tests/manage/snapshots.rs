//! Snapshots, on a file system that has none: the tests of the storage have those that do.

use crate::rig::Service;
use serde_json::json;

#[test]
fn a_file_system_without_snapshots_refuses_and_says_what_has_them() {
    let service = Service::with_volume("1TiB", &[]);
    if service.says(&["snapshot", "list", "v1"]).contains("No snapshots.") {
        let said = service.refuses(&["snapshot", "create", "v1", "s1"]);
        assert!(said.contains("the file system of the volume v1 has no snapshots"), "{said}");
        assert!(said.contains("btrfs") && said.contains("XFS"), "{said}");
    }
    assert_eq!(service.json(&["snapshot", "list", "v1"])["items"], json!([]));
    let said = service.refuses(&["snapshot", "show", "v1", "s1"]);
    assert!(said.contains("there is no snapshot v1/s1; \"plimsoll snapshot list v1\" shows all"), "{said}");
    let said = service.refuses(&["snapshot", "delete", "v1", "s1"]);
    assert!(said.contains("to delete snapshot s1 of volume v1 for good, use --yes"), "{said}");
    assert!(service.refuses(&["snapshot", "delete", "v1", "s1", "--yes"]).contains("there is no snapshot"));
    assert!(service.refuses(&["snapshot", "update", "v1", "s1"]).contains("nothing to change"));
    let said = service.refuses(&["snapshot", "create", "v1", "--lock-until", "tomorrow"]);
    assert!(said.contains("allowed: a date or a time in UTC"), "{said}");
    assert!(service.refuses(&["snapshot", "list", "v2"]).contains("there is no volume v2"));
}

#[test]
fn the_directory_of_snapshots_is_set_and_shown() {
    let service = Service::with_volume("1TiB", &["--snapshot-directory", "hidden"]);
    let shown = service.says(&["volume", "show", "v1"]);
    assert!(shown.contains("0, hidden from clients"), "{shown}");
    service.says(&["volume", "update", "v1", "--snapshot-directory", "listed"]);
    let volume = service.json(&["volume", "show", "v1"]);
    assert_eq!((&volume["snapshot_directory"], &volume["snapshots"]), (&json!("listed"), &json!(0)));
    assert!(service.says(&["volume", "show", "v1"]).contains("listed in the root directory"));
    let said = service.refuses(&["volume", "update", "v1", "--snapshot-directory", "off"]);
    assert!(said.contains("hidden, reachable, listed"), "{said}");
}

#[test]
fn an_operation_is_waited_for_and_only_a_long_one_is_cancelled() {
    let service = Service::with_volume("1TiB", &[]);
    let waited = service.json(&["operation", "wait", "1"]);
    assert_eq!((&waited["outcome"], &waited["cancellable"]), (&json!("succeeded"), &json!(false)));
    // Each time: a request without a body must not depend on who is faster.
    for _ in 0..10 {
        let said = service.refuses(&["operation", "cancel", "1"]);
        assert!(
            said.contains("the operation 1 cannot be cancelled; allowed: an unfinished deletion"),
            "{said}"
        );
    }
    assert!(service.refuses(&["operation", "wait", "999"]).contains("there is no operation 999"));
}

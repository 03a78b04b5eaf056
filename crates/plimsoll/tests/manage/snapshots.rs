//! Snapshots, on a file system that has none: the tests of the storage have those that do.

use crate::rig::Service;
use serde_json::json;

#[test]
fn a_file_system_without_snapshots_refuses_and_says_what_has_them() {
    let service = Service::with_volume("1TiB", &[]);
    if service.says(&["snapshot", "list", "v1"]).contains("No snapshots.") {
        let said = service.refuses(&["snapshot", "create", "v1", "s1"]);
        assert!(said.contains("the file system of the volume v1 has no snapshots"), "{said}");
        assert!(said.contains("Btrfs") && said.contains("XFS"), "{said}");
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
fn the_reserve_for_snapshots_is_set_and_shown() {
    let service = Service::with_volume("1TiB", &["--snap-reserve", "0"]);
    let said = service.refuses(&["volume", "update", "v1", "--snap-reserve", "91"]);
    assert!(said.contains("a whole number from 0 to 90"), "{said}");
    // The pool of the tests is one of Azure NetApp Files, which has no reserve.
    let said = service.refuses(&["volume", "update", "v1", "--snap-reserve", "5"]);
    assert!(said.contains("a reserve of 5 % for snapshots; allowed: 0 %"), "{said}");
    service.says(&["pool", "create", "own", "--level", "plimsoll/unlimited", "--size", "1TiB"]);
    let create = ["volume", "create", "r", "--pool", "own", "--size", "100MiB", "--snap-reserve", "20"];
    service.says(&[&create[..], &["--allow", "127.0.0.1"]].concat());
    let shown = service.says(&["volume", "show", "r"]);
    assert!(shown.contains("20 MiB (20 %) for snapshots"), "{shown}");
    assert!(shown.contains("Available:       80 MiB"), "{shown}");
    let volume = service.json(&["volume", "show", "r"]);
    let number = |name: &str| volume[name].as_u64().unwrap_or_else(|| panic!("{name}: {volume}"));
    assert_eq!((number("snap_reserve"), number("reserve_bytes")), (20, 20 << 20));
    assert_eq!(number("available_bytes"), (80 << 20) - number("used_bytes"));
    assert_eq!(number("used_bytes"), number("live_bytes") + number("snapshot_bytes"));
    service.says(&["volume", "update", "r", "--snap-reserve", "90"]);
    assert!(service.says(&["volume", "show", "r"]).contains("90 MiB (90 %) for snapshots"));
}

#[test]
fn an_operation_is_waited_for_and_only_a_long_one_is_cancelled() {
    let service = Service::with_volume("1TiB", &[]);
    let waited = service.json(&["operation", "wait", "1"]);
    assert_eq!((&waited["outcome"], &waited["cancellable"]), (&json!("succeeded"), &json!(false)));
    // Each time: a request without a body must not depend on who is faster.
    for _ in 0..10 {
        let said = service.refuses(&["operation", "cancel", "1"]);
        assert!(said.contains("the operation 1 cannot be cancelled; allowed: an unfinished job"), "{said}");
    }
    assert!(service.refuses(&["operation", "wait", "999"]).contains("there is no operation 999"));
}

#[test]
fn policies_are_made_shown_changed_and_deleted() {
    let service = Service::with_volume("1TiB", &[]);
    let create = ["policy", "create", "nightly", "--daily", "7", "--daily-at", "01:30", "--weekly", "4"];
    let create = [&create[..], &["--weekly-on", "saturday,sunday", "--time-zone", "Europe/Berlin"]].concat();
    let said = service.says(&create);
    let schedules = "7 daily at 01:30, 4 weekly on saturday and sunday at 00:00, times of Europe/Berlin.";
    assert_eq!(said, format!("Created policy nightly: {schedules}\n"));
    assert_eq!(service.says(&create), format!("Exists already, unchanged: policy nightly: {schedules}\n"));
    let said = service.says(&["policy", "update", "nightly", "--daily", "14", "--no-weekly", "--disable"]);
    assert_eq!(said, "Updated policy nightly: 14 daily at 01:30, times of Europe/Berlin, disabled.\n");
    assert!(service.says(&["policy", "list"]).contains("14 daily at 01:30"));
    let shown = service.json(&["policy", "show", "nightly"]);
    assert_eq!((&shown["daily"]["hour"], &shown["enabled"]), (&json!(1), &json!(false)));
    for (args, reason) in [
        (&["policy", "create", "x"][..], "allowed: hourly, daily, weekly, monthly"),
        (&["policy", "create", "x", "--hourly-minute", "5"], "give --hourly KEEP too"),
        (&["policy", "create", "x", "--daily", "0"], "a whole number from 1 to 255"),
        (&["policy", "create", "x", "--daily", "1", "--daily-at", "25:00"], "00:00 to 23:59"),
        (&["policy", "create", "x", "--weekly", "1", "--weekly-on", "today"], "allowed: monday, tuesday"),
        (&["policy", "create", "x", "--daily", "1", "--time-zone", "Mars"], "is not a time zone"),
        (&["policy", "update", "nightly"], "nothing to change"),
        (&["policy", "show", "x"], "there is no policy x; \"plimsoll policy list\" shows all"),
        (&["volume", "update", "v1", "--policy", "x"], "there is no policy x"),
        (
            &["volume", "create", "v2", "--pool", "p1", "--size", "1TiB", "--policy", "x"],
            "there is no policy x",
        ),
        (&["policy", "delete", "nightly"], "use --yes"),
    ] {
        let said = service.refuses(args);
        assert!(said.contains(reason), "{args:?}: {said}");
    }
    if service.says(&["snapshot", "list", "v1"]).contains("No snapshots.") {
        let said = service.refuses(&["volume", "update", "v1", "--policy", "nightly"]);
        assert!(said.contains("the file system of the volume v1 has no snapshots"), "{said}");
        let create = ["volume", "create", "v2", "--pool", "p1", "--size", "1TiB", "--policy", "nightly"];
        let said = service.refuses(&create);
        assert!(said.contains("the file system of the volume v2 has no snapshots"), "{said}");
        assert!(service.refuses(&["volume", "show", "v2"]).contains("there is no volume v2"));
    }
    service.says(&["volume", "update", "v1", "--no-policy", "--label", "a=1"]);
    assert_eq!(
        service.says(&["policy", "delete", "nightly", "--yes"]),
        "Deleted policy nightly. Its snapshots stay.\n"
    );
}

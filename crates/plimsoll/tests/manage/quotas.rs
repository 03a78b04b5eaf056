//! Quotas by the commands, on real storage.

use crate::rig::Service;
use serde_json::json;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

const WAIT_MAX: Duration = Duration::from_secs(300);

fn with_volume() -> Service {
    let service = Service::start();
    service.says(&["pool", "create", "p1", "--level", "gcnv/flex", "--size", "2TiB"]);
    service.says(&["volume", "create", "v1", "--pool", "p1", "--size", "1TiB"]);
    service
}

#[test]
fn quota_is_set_shown_and_deleted() {
    let service = with_volume();
    service.says(&["user", "create", "alice", "--uid", "1001", "--no-password"]);
    assert!(service.says(&["quota", "list", "v1"]).contains("No quotas"));
    let said = service.says(&["quota", "set", "v1", "--user", "alice", "--bytes", "50GiB", "--files", "1"]);
    assert_eq!(said, "Set the quota of user:1001 on v1: 50 GiB, 1 file.\n");
    let soft = ["--soft-bytes", "1GiB", "--grace", "2h"];
    service.says(&[&["quota", "set", "v1", "--group", "default", "--bytes", "2GiB"][..], &soft].concat());
    let listed = service.json(&["quota", "list", "v1"]);
    let rules = json!([
        { "target": "user:1001", "limit_bytes": 50_u64 << 30, "limit_files": 1 },
        {
            "target": "group:default", "limit_bytes": 2_u64 << 30, "soft_limit_bytes": 1 << 30,
            "grace_seconds": 7200
        },
    ]);
    assert_eq!(listed["quotas"], rules);
    let both = ["quota", "delete", "v1", "--user", "1", "--group", "2"];
    assert!(service.refuses(&both).contains("cannot be used with"));
    assert!(service.refuses(&["quota", "set", "v1", "--user", "1"]).contains("a rule without a limit"));
    assert!(service.refuses(&["quota", "list", "v2"]).contains("there is no volume v2"));
    service.says(&["quota", "delete", "v1", "--group", "default"]);
    let said = service.says(&["quota", "delete", "v1", "--user", "1001"]);
    assert_eq!(said, "Deleted the quota of user:1001 on v1.\n");
}

#[test]
fn report_counts_the_files_and_check_finds_a_difference() {
    let service = with_volume();
    let volumes = service.data().join("volumes");
    let dir = fs::read_dir(volumes).unwrap().next().unwrap().unwrap().path();
    let add = |name: &str| fs::write(dir.join(name), [7; 5000]).unwrap();
    // Another program makes the files: the first report counts them, later ones do not see them.
    add("one");
    let uid = fs::metadata(dir.join("one")).unwrap().uid();
    let until = Instant::now() + WAIT_MAX;
    let report = loop {
        let report = service.json(&["quota", "report", "v1"]);
        if report["counting"] == json!(false) {
            break report;
        }
        assert!(Instant::now() < until, "the count does not end");
    };
    let owned = json!({ "kind": "user", "id": uid, "used_bytes": 8192, "used_files": 1, "derived": false });
    assert!(report["owners"].as_array().unwrap().contains(&owned), "{report}");
    assert_eq!(service.says(&["quota", "check", "v1"]), "No differences.\n");
    add("two");
    let check = service.json(&["quota", "check", "v1"]);
    let drift = json!({
        "kind": "user", "id": uid, "used_bytes": 8192, "used_files": 1,
        "recounted_bytes": 16_384, "recounted_files": 2
    });
    assert!(check["drifts"].as_array().unwrap().contains(&drift), "{check}");
}

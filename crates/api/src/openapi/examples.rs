//! An example of each request body. `tests/server/description.rs` sends them.

use serde_json::{Value, json};

/// The body of a request for the operation of this name.
pub(super) fn request(operation: &str) -> Option<Value> {
    let example = match operation {
        "createPool" => {
            json!({ "name": "engineering", "level": "anf/premium", "size_bytes": 4_398_046_511_104_u64 })
        }
        "changePool" => {
            json!({ "size_bytes": 8_796_093_022_208_u64, "labels": { "cost-center": "4711" } })
        }
        "createVolume" => json!({
            "name": "tools",
            "pool": "engineering",
            "size_bytes": 1_099_511_627_776_u64,
            "protocols": ["nfsv3", "nfsv4.1"],
            "rules": [{ "clients": ["10.1.0.0/16"], "access": "read-write", "squash": "root" }],
        }),
        "changeVolume" => json!({ "size_bytes": 2_199_023_255_552_u64, "labels": { "team": "build" } }),
        "createPolicy" => json!({
            "name": "nightly",
            "time_zone": "Europe/Berlin",
            "hourly": { "keep": 24 },
            "daily": { "keep": 7, "hour": 1 },
            "weekly": { "keep": 4, "days": ["saturday"], "hour": 2 },
        }),
        "changePolicy" => json!({ "daily": { "keep": 14, "hour": 1 }, "weekly": null }),
        "createReplication" => json!({ "volume": "tools-copy", "source": "tools", "schedule": "hourly" }),
        "createPeer" => {
            json!({ "name": "site-b", "key": "5a".repeat(32), "address": "site-b.example.org:2052" })
        }
        "changePeer" => json!({ "address": "10.2.0.7:2052" }),
        "createAuthorization" => json!({ "volume": "tools", "peer": "site-b" }),
        "changeReplication" => json!({ "schedule": "10minutely" }),
        "createSnapshot" => json!({ "name": "before-upgrade", "description": "Version 4 is next." }),
        "changeSnapshot" => json!({ "locked_until": "2099-01-31T00:00:00Z" }),
        "cloneVolume" => json!({ "name": "tools-test" }),
        "restoreFiles" => json!({ "paths": ["reports/2026.ods"], "to": "restored" }),
        "createVault" => json!({ "name": "offsite", "directory": "/mnt/backup/plimsoll", "lock_days": 7 }),
        "changeVault" => json!({ "bytes_per_second_max": 50_000_000 }),
        "createBackup" => json!({ "volume": "tools", "name": "tools-before-upgrade" }),
        "verifyBackup" => json!({ "data": true }),
        "restoreVolume" => json!({
            "name": "tools-restored", "pool": "engineering", "size_bytes": 1_099_511_627_776_u64,
        }),
        "restoreBackupFiles" => {
            json!({ "volume": "tools", "paths": ["/projects/plan.txt"], "directory": "/restored" })
        }
        "setQuota" => json!({ "limit_bytes": 53_687_091_200_u64, "limit_files": 100_000 }),
        "replaceRules" => json!({ "rules": [
            { "clients": ["10.1.0.0/16"], "access": "read-write" },
            { "clients": ["10.2.0.7", "build-7.example.org"], "access": "read-only" },
        ] }),
        "createUser" => json!({ "name": "alice", "uid": 1000, "password": "correct horse battery staple" }),
        "changeUser" => json!({ "windows_names": ["CORP\\alice.smith"] }),
        "createGroup" => json!({ "name": "artists", "gid": 2000, "members": ["alice"] }),
        "createToken" => json!({ "name": "grafana", "role": "read" }),
        _ => return None,
    };
    Some(example)
}

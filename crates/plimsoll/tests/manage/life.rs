//! Pools and volumes from creation to deletion: restarts, changes, versions, tokens.

use crate::counters::client;
use crate::mount::{getattr, mount, target};
use crate::rig::{Service, eventually};
use crate::smb::{PASSWORD, SMB, set_password};
use bench::load::{Op, Plan, Progress};
use bench::{Protection, Version};
use identity::NtHash;
use nfs_wire::v3::{StableHow, Status};
use serde_json::{Value, json};
use std::sync::mpsc::channel;
use std::time::Duration;

#[test]
fn a_restart_and_a_crash_keep_everything() {
    let more =
        ["--label", "team=vlsi", "--owner", "7:8", "--mode", "0775", "--shape", "gcnv-extreme-nfs3-8k-rand"];
    let mut service = Service::with_volume("1TiB", &more);
    let (handle, file) = {
        let mut client = mount(&service, "/v1").unwrap();
        let root = client.root();
        let file = client.create(&root, "kept", 0o644).unwrap();
        client.write(&file, 0, b"kept", StableHow::FileSync).unwrap();
        (root, file)
    };
    let kept = |service: &Service| {
        let things: [&[&str]; 3] =
            [&["pool", "show", "p1"], &["volume", "show", "v1"], &["volume", "access", "list", "v1"]];
        // The port differs after a restart, the resized volume takes more of the pool, and others use the disk.
        things.map(|args| service.json(args)).map(|mut shown| {
            for name in ["mount_commands", "allocated_bytes", "available_bytes"] {
                shown.as_object_mut().unwrap().remove(name);
            }
            shown
        })
    };
    let before = kept(&service);
    service.stop();
    assert!(!service.data().join("service.json").exists(), "it has ended and says so");
    assert!(service.refuses(&["volume", "list"]).contains("plimsoll serve"));
    service.start_again();
    assert_eq!(kept(&service), before);
    service.says(&["volume", "resize", "v1", "2TiB"]);
    service.kill();
    let said = service.refuses(&["volume", "list"]);
    assert!(said.contains("no service answers") && said.contains("plimsoll serve"), "{said}");
    service.start_again();
    let after = kept(&service);
    assert_eq!(after[1]["size_bytes"], json!(2_u64 << 40));
    assert_eq!((&after[0], &after[2]), (&before[0], &before[2]));
    let mut client = mount(&service, "/v1").unwrap();
    assert_eq!(client.root(), handle, "mounts survive");
    assert_eq!(client.read(&file, 0, 100).unwrap().data, b"kept");
    let root = getattr(&service, &handle);
    assert_eq!((root.mode & 0o7777, root.uid, root.gid), (0o775, 7, 8));
}

#[test]
fn making_the_same_again_is_no_error_and_something_else_is() {
    let service = Service::with_volume("1TiB", &["--owner", "7:8"]);
    let pool = ["pool", "create", "p1", "--level", "anf/ultra", "--size", "4TiB"];
    assert!(service.says(&pool).starts_with("Exists already, unchanged: pool p1: 4 TiB"));
    let volume = ["volume", "create", "v1", "--pool", "p1", "--size", "1TiB"];
    assert!(service.says(&volume).starts_with("Exists already, unchanged: volume v1: 1 TiB"));
    let said = service.refuses(&["pool", "create", "p1", "--level", "anf/ultra", "--size", "8TiB"]);
    assert!(said.contains("the pool p1 exists with other properties, size ("), "{said}");
    let said =
        service.refuses(&["volume", "create", "v2", "--pool", "p1", "--size", "1TiB", "--share", "v1"]);
    assert!(said.contains("the path /v1 is that of the volume v1"), "{said}");
}

#[test]
fn a_volume_in_use_is_deleted_by_force_alone() {
    let service = Service::with_volume("1TiB", &[]);
    let mut client = mount(&service, "/v1").unwrap();
    let root = client.root();
    client.attributes(&root).unwrap();
    let clients = service.json(&["client", "list"]);
    assert_eq!(clients["items"][0]["address"], "127.0.0.1");
    assert_eq!(clients["items"][0]["volumes"][0]["name"], "v1");
    assert!(service.says(&["client", "list"]).contains("127.0.0.1"));
    let said = service.refuses(&["volume", "delete", "v1", "--yes"]);
    assert!(said.contains("the volume v1 is in use by 1 client:") && said.contains("--force"), "{said}");
    client.attributes(&root).unwrap();
    assert!(service.says(&["volume", "delete", "v1", "--yes", "--force"]).contains("Deleted volume v1"));
    assert!(client.attributes(&root).unwrap_err().is(Status::STALE));
    assert!(service.says(&["volume", "list"]).contains("No volumes"));
    assert!(service.says(&["pool", "delete", "p1", "--yes"]).contains("Deleted pool p1"));
}

#[test]
fn volume_deleted_by_force_answers_calls_that_wait_for_its_limit() {
    let service = Service::start_with(&SMB);
    set_password(&service, &["user", "create", "alice", "--uid", "1000"], PASSWORD);
    service.says(&["pool", "create", "p1", "--level", "plimsoll/custom", "--size", "1TiB"]);
    let create = ["volume", "create", "v1", "--pool", "p1", "--size", "1TiB", "--owner", "1000:1000"];
    service
        .says(&[&create[..], &["--protocols", "nfsv3,nfsv4.1,nfsv4.2,smb", "--allow", "127.0.0.1"]].concat());
    let plan = |version: Version, first_file| {
        let mut plan = Plan::new(target(&service, "/v1"), Op::Read);
        (plan.uid, plan.gid, plan.target.version) = (1000, 1000, version);
        (plan.size, plan.files, plan.first_file, plan.cleanup) = (1 << 20, 1, first_file, false);
        (plan.connections, plan.depth) = (1, 1);
        (plan.warm_up, plan.time) = (Duration::ZERO, Duration::from_secs(10));
        if version.is_smb() {
            plan.target.port = crate::smb::port(&service).parse().unwrap();
            plan.target.user = Some("alice".to_owned());
            plan.nt_hash = Some(NtHash::from_password(PASSWORD));
        }
        plan
    };
    let versions = [Version::V3, Version::V41, Version::V42, Version::Smb(Protection::Gcm128)];
    let (said, heard) = channel();
    for (version, first_file) in versions.into_iter().zip((0..).step_by(10)) {
        let (plan, said) = (plan(version, first_file), said.clone());
        std::thread::spawn(move || {
            let mut is_running = false;
            let report = bench::load::run(&plan, &mut |progress| {
                if matches!(progress, Progress::Running { .. }) && !is_running {
                    is_running = true;
                    said.send((version, None)).unwrap();
                }
                Ok(())
            });
            // It ends with what was answered, or with the connection.
            let failed =
                report.map_or_else(|error| error.to_string(), |report| format!("{:?}", report.errors));
            said.send((version, Some(failed))).unwrap();
        });
    }
    let next = || heard.recv_timeout(Duration::from_secs(60)).unwrap();
    for _ in versions {
        assert_eq!(next().1, None);
    }
    service.says(&["volume", "update", "v1", "--limit", "iops=1"]);
    let client = client(&service);
    let waiting = || client.metrics().unwrap().sum("plimsoll_volume_waiting_operations", &[]);
    eventually("calls of all of them that wait", || waiting() == Some(4.0));
    service.says(&["volume", "delete", "v1", "--yes", "--force"]);
    for _ in versions {
        let (version, failed) = next();
        let failed = failed.unwrap();
        let is_told =
            ["STALE", "NETWORK_NAME_DELETED", "opens are gone"].iter().any(|told| failed.contains(told));
        assert!(is_told, "{version}: {failed}");
    }
}

#[test]
fn a_change_can_depend_on_the_version() {
    let service = Service::with_volume("1TiB", &[]);
    let shown = service.says(&["volume", "show", "v1"]);
    let version = shown.lines().find_map(|line| line.strip_prefix("Version:")).unwrap().trim().to_owned();
    service.says(&["volume", "resize", "v1", "2TiB", "--if-version", &version]);
    let said = service.refuses(&["volume", "resize", "v1", "1TiB", "--if-version", &version]);
    let fact = format!("volume v1 has changed since version \"{version}\" (it is now at \"");
    assert!(
        said.contains(&fact) && said.contains("look at it again with \"plimsoll volume show v1\""),
        "{said}"
    );
    assert_eq!(service.json(&["volume", "show", "v1"])["size_bytes"], json!(2_u64 << 40));
}

#[test]
fn everything_can_be_changed_and_moved() {
    let service = Service::with_volume("1TiB", &["--label", "a=1"]);
    service.says(&["pool", "create", "p2", "--level", "anf/premium", "--size", "2TiB", "--qos", "manual"]);
    let said = service.refuses(&["volume", "update", "v1", "--throughput", "10MiB/s"]);
    assert!(said.contains("allowed: "), "{said}");
    let update = ["--share", "tools", "--label", "b=2", "--unlabel", "a", "--owner", "5:6", "--shape"];
    service.says(
        &[&["volume", "update", "v1"][..], &update, &["gcnv-extreme-nfs3-8k-rand", "--scale", "0.25"]]
            .concat(),
    );
    let volume = service.json(&["volume", "show", "v1"]);
    assert_eq!((&volume["path"], &volume["labels"]), (&json!("/tools"), &json!({"b": "2"})));
    assert_eq!(volume["root"], json!({"mode": "0770", "uid": 5, "gid": 6}), "the mode stays");
    assert_eq!(volume["settings"]["shape"]["scale_thousandths"], 250);
    service.says(&["volume", "update", "v1", "--unset", "shape"]);
    assert_eq!(service.json(&["volume", "show", "v1"])["settings"], json!({}));
    let said = service.refuses(&["pool", "update", "p1", "--level", "anf/standard"]);
    assert!(said.contains("allowed: a pool keeps its level"), "{said}");
    service.says(&["pool", "update", "p1", "--label", "x=y"]);
    assert_eq!(service.json(&["pool", "show", "p1"])["labels"], json!({"x": "y"}));
    service.says(&["pool", "create", "p3", "--level", "anf/ultra", "--size", "1TiB"]);
    assert!(service.says(&["volume", "move", "v1", "--pool", "p3"]).contains("1 TiB in pool p3, 128 MiB/s"));
    assert!(service.says(&["pool", "resize", "p1", "8TiB"]).contains("8 TiB at anf/ultra, 1,024 MiB/s"));
}

#[test]
fn replies_are_the_apis_own() {
    let service = Service::with_volume("1TiB", &[]);
    let pools = service.json(&["pool", "list"]);
    assert_eq!(pools["items"][0]["level"], "anf/ultra");
    assert_eq!(pools["items"][0]["size_bytes"], json!(4_u64 << 40));
    let made = service.json(&["volume", "create", "v2", "--pool", "p1", "--size", "1TiB"]);
    assert_eq!(
        (&made["name"], &made["path"], &made["state"]),
        (&json!("v2"), &json!("/v2"), &json!("ready"))
    );
    let deleted = service.json(&["volume", "delete", "v2", "--yes"]);
    assert_eq!((&deleted["verb"], &deleted["outcome"]), (&json!("delete"), &json!("succeeded")));
    let shown = service.json(&["operation", "show", &deleted["id"].to_string()]);
    assert_eq!(shown, deleted);
    let operations = service.json(&["operation", "list", "--limit", "2"]);
    let verbs: Vec<&Value> = operations["items"].as_array().unwrap().iter().map(|one| &one["verb"]).collect();
    assert_eq!(verbs, ["delete", "create"]);
    let status = service.json(&["status"]);
    assert_eq!(
        (&status["pools"], &status["volumes"], &status["is_ready"]),
        (&json!(1), &json!(1), &json!(true))
    );
    let watched = service.says(&["volume", "watch", "v1", "--interval", "100ms", "--count", "2", "--json"]);
    let lines: Vec<Value> = watched.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["limits"]["total"]["bytes_per_second"], json!(128 << 20));
}

#[test]
fn tokens_allow_what_their_role_allows() {
    let service = Service::with_volume("1TiB", &[]);
    let secret = service.says(&["token", "create", "eyes", "--role", "read"]);
    let with = |args: &[&str]| service.command(args).env("PLIMSOLL_TOKEN", secret.trim()).output().unwrap();
    assert!(with(&["volume", "list"]).status.success());
    let refused = String::from_utf8(with(&["volume", "delete", "v1", "--yes"]).stderr).unwrap();
    assert!(refused.contains("has the role read; needed: operate"), "{refused}");
    assert!(service.says(&["token", "list"]).contains("eyes   read"));
    service.says(&["token", "revoke", "eyes"]);
    eventually("the end of a revoked token", || !with(&["volume", "list"]).status.success());
    let file = service.data().join("wrong.token");
    std::fs::write(&file, "plimsoll_00\n").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let said = service.refuses(&["volume", "list", "--token-file", file.to_str().unwrap()]);
    assert!(said.contains("invalid or revoked token"), "{said}");
    // The directory's token is not for others.
    let said = service.refuses(&["volume", "list", "--url", "http://127.0.0.1:9"]);
    assert!(said.contains("a token is needed for this --url"), "{said}");
    std::fs::remove_file(service.data().join("admin.token")).unwrap();
    let said = service.refuses(&["volume", "list"]);
    assert!(said.contains("admin.token") && said.contains("PLIMSOLL_TOKEN"), "{said}");
}

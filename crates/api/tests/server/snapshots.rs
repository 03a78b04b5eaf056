//! Snapshots and long operations.

use crate::rig::{Rig, ended, refused};
use api_client::model::{
    NewPolicy, NewPool, NewSnapshot, NewVolume, PolicyPatch, SnapshotDirectory, SnapshotPatch, SnapshotState,
    Timestamp, VolumePatch, WeekDay,
};
use api_client::{ChangeOptions, Client};
use envelope::Level;

const TIB: u64 = 1 << 40;

/// A server with a volume `v`.
fn start() -> (Rig, Client) {
    let rig = Rig::start();
    let client = rig.client();
    client.create_pool(&NewPool::new("p", Level::Unlimited, 4 * TIB)).unwrap();
    client.create_volume(&ChangeOptions::none(), &NewVolume::new("v", "p", TIB)).unwrap();
    (rig, client)
}

fn named(name: &str) -> NewSnapshot {
    NewSnapshot { name: Some(name.to_owned()), ..NewSnapshot::default() }
}

#[test]
fn snapshots_are_made_listed_changed_and_deleted() {
    let (_rig, client) = start();
    let made = client.create_snapshot("v", &named("s1")).unwrap();
    assert!(made.is_new);
    assert_eq!((made.value.state, made.value.volume.as_str()), (SnapshotState::Ready, "v"));
    assert!(made.value.created.0.ends_with(".000Z"), "{}", made.value.created);
    let again = client.create_snapshot("v", &named("s1")).unwrap();
    assert!(!again.is_new && again.value == made.value);
    let tagged = client.snapshot("v", "s1").unwrap();
    assert_eq!(tagged.etag, format!("\"{}\"", made.value.version));
    let by_time = client.create_snapshot("v", &NewSnapshot::default()).unwrap().value;
    assert!(by_time.name.starts_with("manual-20"), "{}", by_time.name);
    let names: Vec<String> = client.snapshots("v").unwrap().into_iter().map(|one| one.name).collect();
    assert_eq!(names, [by_time.name.as_str(), "s1"]);
    assert_eq!(client.stats("v").unwrap().snapshots, 2);
    let patch = SnapshotPatch { description: Some("kept".to_owned()), ..SnapshotPatch::default() };
    let changed = client.change_snapshot(&ChangeOptions::none(), "v", "s1", &patch).unwrap();
    assert_eq!(changed.value.description, "kept");
    let stale = ChangeOptions::none().at(tagged.etag);
    assert_eq!(refused(client.delete_snapshot(&stale, "v", "s1")).0, 412);
    let begun = client.delete_snapshot(&ChangeOptions::none().at(changed.etag), "v", "s1").unwrap();
    assert_eq!(
        (begun.kind.as_str(), begun.name.as_str(), begun.verb.as_str()),
        ("snapshot", "v/s1", "delete")
    );
    let end = ended(&client, &begun);
    assert_eq!((end.outcome.as_str(), end.cancellable), ("succeeded", false));
    assert_eq!(end.progress.map(|progress| (progress.done, progress.total)), Some((1, Some(1))));
    assert_eq!(refused(client.snapshot("v", "s1")), (404, "not-found".to_owned()));
}

#[test]
fn refusals_have_their_statuses() {
    let (_rig, client) = start();
    client.create_snapshot("v", &named("s1")).unwrap();
    let other = NewSnapshot { description: "x".to_owned(), ..named("s1") };
    let bad_time = |text: &str| NewSnapshot { locked_until: Some(Timestamp(text.to_owned())), ..named("s2") };
    for (new, status, word) in [
        (other, 409, "conflict"),
        (named("S1"), 409, "conflict"),
        (named("@GMT-2026.01.01-00.00.00"), 422, "invalid"),
        (named(".."), 422, "invalid"),
        (named("a/b"), 422, "invalid"),
        (NewSnapshot { description: "x".repeat(2049), ..named("s2") }, 422, "invalid"),
        (bad_time("2026-02-30T00:00:00Z"), 422, "invalid"),
        (bad_time("2001-01-01T00:00:00Z"), 422, "invalid"),
    ] {
        assert_eq!(refused(client.create_snapshot("v", &new)), (status, word.to_owned()), "{new:?}");
    }
    assert_eq!(refused(client.create_snapshot("w", &named("s"))).0, 404);
    assert_eq!(refused(client.snapshots("w")).0, 404);
    assert_eq!(refused(client.snapshot("v", "a/b")).0, 404);
    let made = client.operations(1).unwrap().remove(0);
    assert_eq!(refused(client.cancel_operation(made.id)), (409, "not-running".to_owned()));
    assert_eq!(refused(client.cancel_operation(1 << 40)).0, 404);
}

#[test]
fn a_volume_with_snapshots_is_deleted_with_force_alone_and_with_a_locked_one_not_at_all() {
    let (_rig, client) = start();
    client.create_snapshot("v", &named("s1")).unwrap();
    let none = ChangeOptions::none();
    match client.delete_volume(&none, "v") {
        Err(api_client::Error::Refused(problem)) => {
            assert!(problem.status == 409 && problem.forceable && problem.detail.contains("has 1 snapshot:"));
        }
        other => panic!("{other:?}"),
    }
    let until = |text: &str| Some(Some(Timestamp(text.to_owned())));
    let patch = SnapshotPatch { locked_until: until("2999-01-01T00:00:00Z"), ..SnapshotPatch::default() };
    client.change_snapshot(&none, "v", "s1", &patch).unwrap();
    for result in [
        client.delete_volume(&none.clone().forced(true), "v").map(drop),
        client.delete_snapshot(&none, "v", "s1").map(drop),
        client
            .change_snapshot(
                &none,
                "v",
                "s1",
                &SnapshotPatch { locked_until: Some(None), ..SnapshotPatch::default() },
            )
            .map(drop),
    ] {
        match result {
            Err(api_client::Error::Refused(problem)) => {
                assert!(problem.status == 409 && !problem.forceable, "{problem}");
                assert!(problem.detail.contains("2999-01-01 00:00:00 UTC"), "{problem}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_directory_of_snapshots_is_a_setting_of_the_volume() {
    let (rig, client) = start();
    assert_eq!(client.volume("v").unwrap().value.snapshot_directory, SnapshotDirectory::Reachable);
    let served = || std::sync::Arc::clone(&rig.namespace.load().exports()[0].volume);
    assert!(served().has_snapshot_directories());
    let patch = VolumePatch { snapshot_directory: Some(SnapshotDirectory::Hidden), ..VolumePatch::default() };
    let changed = client.change_volume(&ChangeOptions::none(), "v", &patch).unwrap().value;
    assert_eq!(changed.snapshot_directory, SnapshotDirectory::Hidden);
    assert!(!served().has_snapshot_directories());
    let listed = Some(SnapshotDirectory::Listed);
    let new = NewVolume { snapshot_directory: listed, ..NewVolume::new("w", "p", TIB) };
    let made = client.create_volume(&ChangeOptions::none(), &new).unwrap().value;
    assert_eq!(made.snapshot_directory, SnapshotDirectory::Listed);
}

#[test]
fn reserve_for_snapshots_is_set_and_in_the_counters() {
    let (_rig, client) = start();
    let none = ChangeOptions::none();
    let before = client.stats("v").unwrap();
    assert_eq!((before.reserve_bytes, before.snapshot_bytes), (0, Some(0)));
    assert_eq!(before.live_bytes, Some(before.used_bytes));
    assert_eq!(before.available_bytes, before.size_bytes - before.used_bytes);
    let patch = |percent| VolumePatch { snap_reserve: Some(percent), ..VolumePatch::default() };
    assert_eq!(client.change_volume(&none, "v", &patch(25)).unwrap().value.snap_reserve, 25);
    let after = client.stats("v").unwrap();
    assert_eq!(after.reserve_bytes, before.size_bytes / 4);
    assert_eq!(after.available_bytes, before.available_bytes - after.reserve_bytes);
    assert_eq!(after.used_bytes, before.used_bytes);
    assert_eq!(refused(client.change_volume(&none, "v", &patch(91))), (422, "invalid".to_owned()));
    let new = NewVolume { snap_reserve: Some(10), ..NewVolume::new("r", "p", TIB) };
    assert_eq!(client.create_volume(&none, &new).unwrap().value.snap_reserve, 10);
    let other = NewVolume { snap_reserve: Some(11), ..new };
    assert_eq!(refused(client.create_volume(&none, &other)), (409, "conflict".to_owned()));
}

#[test]
fn policies_are_made_assigned_changed_and_deleted() {
    let (_rig, client) = start();
    let none = ChangeOptions::none();
    let new: NewPolicy = serde_json::from_value(serde_json::json!({
        "name": "nightly", "time_zone": "europe/berlin", "daily": { "keep": 7, "hour": 1 }, "weekly": { "keep": 4 },
    }))
    .unwrap();
    let made = client.create_policy(&new).unwrap();
    assert!(made.is_new && made.value.enabled && made.value.time_zone == "Europe/Berlin");
    assert_eq!(made.value.weekly.as_ref().unwrap().days, [WeekDay::Sunday]);
    assert!(!client.create_policy(&new).unwrap().is_new);
    for (schedule, days) in [("weekly", r#"["monday","monday"]"#), ("weekly", "[]"), ("monthly", "[1,1]")] {
        let text = format!(r#"{{"name":"x","{schedule}":{{"keep":1,"days":{days}}}}}"#);
        assert!(serde_json::from_str::<NewPolicy>(&text).is_err(), "{text}");
    }
    let policy = |name: &str| VolumePatch { policy: Some(Some(name.to_owned())), ..VolumePatch::default() };
    assert_eq!(refused(client.change_volume(&none, "v", &policy("other"))).0, 404);
    let volume = client.change_volume(&none, "v", &policy("nightly")).unwrap().value;
    assert_eq!(volume.policy.as_deref(), Some("nightly"));
    assert_eq!(client.policy("nightly").unwrap().value.volumes, ["v"]);
    assert_eq!(refused(client.delete_policy(&none, "nightly")), (409, "policy-in-use".to_owned()));
    let patch = PolicyPatch { enabled: Some(false), weekly: Some(None), ..PolicyPatch::default() };
    let changed = client.change_policy(&none, "nightly", &patch).unwrap().value;
    assert!(!changed.enabled && changed.weekly.is_none() && changed.daily == made.value.daily);
    let patch = PolicyPatch { daily: Some(None), ..PolicyPatch::default() };
    assert_eq!(refused(client.change_policy(&none, "nightly", &patch)), (422, "invalid".to_owned()));
    let atlantis = NewPolicy { time_zone: "Europe/Atlantis".to_owned(), name: "x".to_owned(), ..new };
    assert_eq!(refused(client.create_policy(&atlantis)), (422, "invalid".to_owned()));
    let patch = VolumePatch { policy: Some(None), ..VolumePatch::default() };
    assert_eq!(client.change_volume(&none, "v", &patch).unwrap().value.policy, None);
    let of =
        |policy: &str| NewVolume { policy: Some(policy.to_owned()), ..NewVolume::new("of-policy", "p", TIB) };
    assert_eq!(refused(client.create_volume(&none, &of("other"))).0, 404);
    let made = client.create_volume(&none, &of("nightly")).unwrap();
    assert_eq!((made.is_new, made.value.policy.as_deref()), (true, Some("nightly")));
    assert!(!client.create_volume(&none, &of("nightly")).unwrap().is_new);
    assert_eq!(client.policy("nightly").unwrap().value.volumes, ["of-policy"]);
    client.delete_volume(&none, "of-policy").unwrap();
    client.delete_policy(&none, "nightly").unwrap();
    assert!(client.policies().unwrap().is_empty());
}

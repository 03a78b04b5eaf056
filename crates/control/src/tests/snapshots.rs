//! Snapshots: made, shown to clients, locked, deleted.

use super::rig::{
    FailureMode, Rig, context, furnished, new_pool, new_snapshot, new_volume, pool, snapshot, volume,
};
use crate::{
    Error, NewSnapshot, Outcome, PoolChange, Result, Service, Snapshot, SnapshotChange, SnapshotState,
    VolumeChange, Warning,
};
use envelope::Level;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use vfs::{Name, NewInode, Provisioner, SnapshotDirectory, ViewId, backend::KEEP_SET_ID};
use vfs_testing::UncheckedNode;

const DAY_MS: u64 = 86_400_000;

fn create(service: &Service, name: &str) -> Result<Snapshot> {
    service.create_snapshot(&context(), &volume("v"), &new_snapshot(name)).map(|done| done.value)
}

fn delete(service: &Service, name: &str) -> Result<crate::Operation> {
    service.delete_snapshot(&context(), &volume("v"), &snapshot(name))
}

fn refusal<T>(result: Result<T>) -> String {
    result.err().expect("it was not refused").to_string()
}

#[test]
fn a_snapshot_is_made_and_clients_see_it() {
    let rig = Rig::new();
    let service = furnished(&rig);
    rig.now_ms.store(1_700_000_000_700, Ordering::SeqCst);
    let new = NewSnapshot { description: "before the upgrade".to_owned(), ..new_snapshot("s1") };
    let done = service.create_snapshot(&context(), &volume("v"), &new).unwrap();
    assert_eq!(done.operation.outcome, Outcome::Succeeded);
    assert_eq!((done.operation.kind.as_str(), done.operation.name.as_str()), ("snapshot", "v/s1"));
    let made = done.value;
    assert_eq!((made.state, made.view, made.version), (SnapshotState::Ready, ViewId(1), 1));
    assert_eq!((made.created_ms, made.description.as_str()), (1_700_000_000_000, "before the upgrade"));
    rig.check_agreement(&service);
    assert_eq!(service.snapshot(&volume("v"), &snapshot("s1")).unwrap(), made);
    drop(service);
    let service = rig.open();
    rig.check_agreement(&service);
    assert_eq!(service.snapshot(&volume("v"), &snapshot("s1")).unwrap(), made, "after a restart");
}

#[test]
fn numbers_and_seconds_are_never_used_twice() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let made: Vec<Snapshot> = ["a", "b", "c"].map(|name| create(&service, name).unwrap()).into();
    let seconds: Vec<u64> = made.iter().map(|one| one.created_ms / 1000).collect();
    assert_eq!(seconds, [seconds[0], seconds[0] + 1, seconds[0] + 2], "made within one second");
    delete(&service, "c").unwrap();
    service.run_waiting_jobs();
    // The time of day steps back.
    rig.now_ms.store(10, Ordering::SeqCst);
    drop(service);
    let service = rig.open();
    let last = create(&service, "c").unwrap();
    assert_eq!((last.view, last.created_ms / 1000), (ViewId(4), seconds[2] + 1));
    rig.check_agreement(&service);
}

#[test]
fn a_name_is_made_of_the_time() {
    let rig = Rig::new();
    let service = furnished(&rig);
    rig.now_ms.store(1_669_683_600_000, Ordering::SeqCst);
    let made = |_| {
        let done = service.create_snapshot(&context(), &volume("v"), &NewSnapshot::default()).unwrap();
        done.value.name.to_string()
    };
    assert_eq!([0, 1].map(made), ["manual-2022-11-29-010000", "manual-2022-11-29-010001"]);
}

#[test]
fn the_same_again_changes_nothing_and_another_is_a_conflict() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let made = create(&service, "s1").unwrap();
    let again = service.create_snapshot(&context(), &volume("v"), &new_snapshot("s1")).unwrap();
    assert_eq!((again.value, again.operation.has_changed()), (made, false));
    let other = NewSnapshot { description: "x".to_owned(), ..new_snapshot("s1") };
    let error = service.create_snapshot(&context(), &volume("v"), &other).unwrap_err();
    assert!(matches!(&error, Error::Conflict { differs, .. } if differs.len() == 1), "{error}");
    // Over SMB these two names would be one.
    let text = refusal(create(&service, "S1"));
    assert!(text.contains("snapshot v/s1 exists with other properties, name (s1, not S1)"), "{text}");
    rig.check_agreement(&service);
}

#[test]
fn names_follow_the_level() {
    let rig = Rig::new();
    let service = furnished(&rig);
    service.create_pool(&context(), &new_pool("a", Level::AnfUltra, 4)).unwrap();
    service.create_volume(&context(), &new_volume("of-anf", "a", 1024)).unwrap();
    let on = |of: &str, name: &str| {
        let new = NewSnapshot { name: Some(name.parse()?), ..NewSnapshot::default() };
        service.create_snapshot(&context(), &volume(of), &new).map(drop)
    };
    on("of-anf", "daily.2022-11-29_0100").unwrap();
    on("v", "Before-7").unwrap();
    for name in ["daily.1", "7th", "ends-", &"a".repeat(64)] {
        let text = refusal(on("v", name));
        assert!(text.contains("^[A-Za-z]"), "{name}: {text}");
    }
    for name in [".", "..", "a/b", "", "a b", &"a".repeat(256), "@GMT-2022.11.29-01.00.00"] {
        let text = refusal(on("of-anf", name));
        assert!(text.contains("is not a valid name of a snapshot"), "{name}: {text}");
    }
    rig.check_agreement(&service);
}

#[test]
fn a_volume_has_as_many_snapshots_as_its_level_permits() {
    let rig = Rig::new();
    let service = furnished(&rig);
    service.create_pool(&context(), &new_pool("z", Level::FilestoreZonal, 1)).unwrap();
    let zonal =
        crate::NewVolume { share: Some("vol1".parse().unwrap()), ..new_volume("of-filestore", "z", 1024) };
    service.create_volume(&context(), &zonal).unwrap();
    for (of, most) in [("v", 255), ("of-filestore", 240)] {
        let new = |_| service.create_snapshot(&context(), &volume(of), &NewSnapshot::default()).map(drop);
        (0..most).try_for_each(new).unwrap();
        let text = refusal(new(0));
        assert!(text.contains(&format!("at most {most} snapshots of a volume")), "{text}");
    }
    service.create_pool(&context(), &new_pool("b", Level::FilestoreBasicSsd, 3)).unwrap();
    let basic = crate::NewVolume { share: Some("vol2".parse().unwrap()), ..new_volume("basic", "b", 3072) };
    service.create_volume(&context(), &basic).unwrap();
    let text = refusal(service.create_snapshot(&context(), &volume("basic"), &NewSnapshot::default()));
    assert!(text.contains("filestore/basic-ssd") && text.contains("has no snapshots"), "{text}");
    let long = NewSnapshot { name: Some("a".repeat(63).parse().unwrap()), ..NewSnapshot::default() };
    let with_it = crate::NewVolume { share: Some("s".repeat(15).parse().unwrap()), ..zonal };
    service.create_pool(&context(), &new_pool("y", Level::FilestoreZonal, 1)).unwrap();
    let with_it = crate::NewVolume { name: volume("long"), pool: pool("y"), ..with_it };
    service.create_volume(&context(), &with_it).unwrap();
    let text = refusal(service.create_snapshot(&context(), &volume("long"), &long));
    assert!(text.contains("78 characters together; allowed: at most 77"), "{text}");
    rig.check_agreement(&service);
}

#[test]
fn a_storage_without_snapshots_refuses_and_says_what_has_them() {
    let rig = Rig::new();
    rig.lacks_snapshots.store(true, Ordering::SeqCst);
    let service = furnished(&rig);
    let error = create(&service, "s1").unwrap_err();
    assert!(matches!(error, Error::NoSnapshots { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("volume v") && text.contains("Btrfs") && text.contains("XFS"), "{text}");
    assert!(service.snapshots(&volume("v"), None, 9).unwrap().items.is_empty());
    rig.check_agreement(&service);
}

#[test]
fn a_description_is_bounded() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let with = |description: String| {
        service.create_snapshot(
            &context(),
            &volume("v"),
            &NewSnapshot { description, ..NewSnapshot::default() },
        )
    };
    with("ü".repeat(2048)).unwrap();
    assert!(refusal(with("ü".repeat(2049))).contains("at most 2048 characters"));
    assert!(refusal(with("\u{1b}[2J".to_owned())).contains("control a terminal"));
}

#[test]
fn a_storage_that_refuses_leaves_nothing() {
    let rig = Rig::new();
    let service = furnished(&rig);
    for step in 1..=2 {
        rig.fuse.arm(step, FailureMode::Refused);
        let error = create(&service, "s1").unwrap_err();
        assert!(matches!(error, Error::Storage { .. }), "{error}");
        rig.fuse.disarm();
        rig.check_agreement(&service);
    }
    create(&service, "s1").unwrap();
}

#[test]
fn a_deletion_is_a_job_with_progress() {
    let rig = Rig::new();
    let service = furnished(&rig);
    create(&service, "s1").unwrap();
    rig.deletion_steps.store(3, Ordering::SeqCst);
    let begun = delete(&service, "s1").unwrap();
    assert_eq!((&begun.outcome, begun.progress), (&Outcome::Running, None));
    let found = service.snapshot(&volume("v"), &snapshot("s1")).unwrap();
    assert_eq!((found.state, found.version), (SnapshotState::Deleting, 2));
    assert!(service.served(&volume("v")).unwrap().snapshots().is_empty(), "clients do not see it");
    assert_eq!(delete(&service, "s1").unwrap().id, begun.id, "asked again");
    assert!(refusal(create(&service, "s1")).contains("is in the state deleting"));
    service.run_waiting_jobs();
    let ended = service.operation(begun.id).unwrap();
    let progress = ended.progress.unwrap();
    assert_eq!((&ended.outcome, progress.done, progress.total), (&Outcome::Succeeded, 3, Some(3)));
    assert!(matches!(delete(&service, "s1"), Err(Error::NotFound { .. })));
    rig.check_agreement(&service);
}

#[test]
fn a_deletion_that_waits_is_cancelled_without_effect() {
    let rig = Rig::new();
    let service = furnished(&rig);
    create(&service, "s1").unwrap();
    let begun = delete(&service, "s1").unwrap();
    assert!(begun.can_be_cancelled());
    let cancelled = service.cancel_operation(begun.id).unwrap();
    assert_eq!((&cancelled.outcome, cancelled.can_be_cancelled()), (&Outcome::Cancelled, false));
    service.run_waiting_jobs();
    rig.check_agreement(&service);
    assert_eq!(service.snapshot(&volume("v"), &snapshot("s1")).unwrap().state, SnapshotState::Ready);
    let error = service.cancel_operation(begun.id).unwrap_err();
    assert!(matches!(error, Error::NotRunning { .. }), "{error}");
    let made = service.operations(None, 9).unwrap().items.pop().unwrap();
    assert!(matches!(service.cancel_operation(made.id), Err(Error::NotRunning { .. })), "no job");
}

/// Has a thread delete `s1`, and stops it after its first step.
fn with_a_deletion_that_runs(
    rig: &Rig,
    service: &Arc<Service>,
    then: impl FnOnce(crate::OperationId) + Send,
) {
    rig.deletion_steps.store(1_000, Ordering::SeqCst);
    let stopped = rig.snapshots.lock();
    let begun = delete(service, "s1").unwrap();
    service.start_jobs().unwrap();
    while service.operation(begun.id).unwrap().progress.is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::scope(|scope| {
        let asked = scope.spawn(move || then(begun.id));
        // It goes on once `then` has asked for its end, whether that waits for it or not.
        std::thread::sleep(Duration::from_millis(20));
        drop(stopped);
        asked.join().unwrap();
    });
}

#[test]
fn a_deletion_that_runs_ends_at_its_next_step_and_another_goes_on() {
    let rig = Rig::new();
    let service = Arc::new(furnished(&rig));
    create(&service, "s1").unwrap();
    with_a_deletion_that_runs(&rig, &service, |id| {
        let asked = service.cancel_operation(id).unwrap();
        assert!(asked.is_cancelled && !asked.can_be_cancelled());
        while service.operation(id).unwrap().outcome == Outcome::Running {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(service.operation(id).unwrap().outcome, Outcome::Cancelled);
    });
    let found = service.snapshot(&volume("v"), &snapshot("s1")).unwrap();
    assert_eq!(found.state, SnapshotState::Deleting, "begun, so nobody can read it any more");
    service.stop_jobs();
    drop(service);
    rig.deletion_steps.store(1, Ordering::SeqCst);
    let service = rig.open();
    service.run_waiting_jobs();
    rig.check_agreement(&service);
    assert!(service.snapshots(&volume("v"), None, 9).unwrap().items.is_empty());
}

#[test]
fn a_deletion_goes_on_after_the_service_was_stopped() {
    let rig = Rig::new();
    let service = Arc::new(furnished(&rig));
    create(&service, "s1").unwrap();
    let mut running = None;
    with_a_deletion_that_runs(&rig, &service, |id| {
        running = Some(id);
        service.stop_jobs();
    });
    let id = running.unwrap();
    assert_eq!(service.operation(id).unwrap().outcome, Outcome::Running);
    drop(service);
    let service = rig.open();
    service.run_waiting_jobs();
    assert_eq!(service.operation(id).unwrap().outcome, Outcome::Succeeded, "the same job");
    rig.check_agreement(&service);
}

#[test]
fn deletions_in_one_volume_run_together_and_leave_threads_to_others() {
    let rig = Rig::new();
    let service = Arc::new(furnished(&rig));
    service.create_volume(&context(), &new_volume("w", "p", 100)).unwrap();
    let names: Vec<String> = (0..10).map(|number| format!("s{number}")).collect();
    names.iter().for_each(|name| drop(create(&service, name).unwrap()));
    service.create_snapshot(&context(), &volume("w"), &new_snapshot("other")).unwrap();
    rig.deletion_steps.store(5, Ordering::SeqCst);
    let stopped = rig.snapshots.lock();
    let deletions: Vec<_> = names.iter().map(|name| delete(&service, name).unwrap().id).collect();
    let other = service.delete_snapshot(&context(), &volume("w"), &snapshot("other")).unwrap().id;
    service.start_jobs().unwrap();
    let wait_for = |id, is_so: &dyn Fn(&crate::Operation) -> bool| {
        while !is_so(&service.operation(id).unwrap()) {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    wait_for(other, &|operation| operation.progress.is_some());
    wait_for(deletions[0], &|operation| operation.progress.is_some());
    // The others go on without it.
    service.cancel_operation(deletions[0]).unwrap();
    drop(stopped);
    deletions[1..].iter().for_each(|&id| wait_for(id, &|one| one.outcome == Outcome::Succeeded));
    wait_for(other, &|operation| operation.outcome == Outcome::Succeeded);
    wait_for(deletions[0], &|operation| operation.outcome == Outcome::Cancelled);
    service.stop_jobs();
    drop(service);
    let service = rig.open();
    service.run_waiting_jobs();
    rig.check_agreement(&service);
    assert!(service.snapshots(&volume("v"), None, 9).unwrap().items.is_empty());
}

#[test]
fn a_volume_with_snapshots_is_deleted_only_with_force() {
    let rig = Rig::new();
    let service = Arc::new(furnished(&rig));
    create(&service, "s1").unwrap();
    create(&service, "s2").unwrap();
    let error = service.delete_volume(&context(), &volume("v")).unwrap_err();
    assert!(error.may_be_forced() && error.to_string().contains("has 2 snapshots"), "{error}");
    // One of them is being deleted: that ends first.
    with_a_deletion_that_runs(&rig, &service, |id| {
        service.delete_volume(&context().forced(), &volume("v")).unwrap();
        assert_eq!(service.operation(id).unwrap().outcome, Outcome::Cancelled);
    });
    service.stop_jobs();
    rig.check_agreement(&service);
    assert!(rig.disk.list().unwrap().is_empty());
}

#[test]
fn a_locked_snapshot_is_deleted_by_nobody() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let now = 1_700_000_000_000;
    rig.now_ms.store(now, Ordering::SeqCst);
    drop(service);
    let service = rig.open();
    let until = 1_700_006_400_000;
    let new = NewSnapshot { locked_until_ms: Some(until), ..new_snapshot("s1") };
    let made = service.create_snapshot(&context(), &volume("v"), &new).unwrap().value;
    let refused = |service: &Service| {
        for result in [
            delete(service, "s1"),
            service.delete_snapshot(&context().forced(), &volume("v"), &snapshot("s1")),
            service.delete_volume(&context().forced(), &volume("v")),
            lock(service, None).map(|done| done.operation),
            lock(service, Some(until - 1)).map(|done| done.operation),
        ] {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::Locked { .. }) && !error.may_be_forced(), "{error}");
            assert!(error.to_string().contains("v/s1 is locked until 2023-11-15 00:00:00 UTC"), "{error}");
        }
    };
    refused(&service);
    // Steps of the time of day change nothing while the service runs, and back none at all.
    rig.now_ms.store(until + DAY_MS, Ordering::SeqCst);
    refused(&service);
    service.refresh().unwrap();
    rig.now_ms.store(5_000, Ordering::SeqCst);
    drop(service);
    let service = rig.open();
    refused(&service);
    let longer = lock(&service, Some(until + DAY_MS)).unwrap().value;
    assert_eq!((longer.locked_until_ms, longer.version), (Some(until + DAY_MS), made.version + 1));
    // Nor does it end while the service is stopped, or by a start at a later time of day.
    rig.now_ms.store(until + 10 * DAY_MS, Ordering::SeqCst);
    drop(service);
    let service = rig.open();
    let said = refusal(delete(&service, "s1"));
    assert!(said.contains("locked until 2023-11-16 00:00:00 UTC by the clock of locks"), "{said}");
    assert!(said.contains("shows 2023-11-14 22:13:2"), "{said}");
    service.lock_clock.pass(longer.locked_until_ms.unwrap() - now);
    assert_eq!(lock(&service, None).unwrap().value.locked_until_ms, None);
    delete(&service, "s1").unwrap();
    service.run_waiting_jobs();
    rig.check_agreement(&service);
    let text = refusal(service.create_snapshot(&context(), &volume("v"), &new));
    assert!(text.contains("a lock until 2023-11-15T00:00:00Z; allowed: a time after 2023-11-2"), "{text}");
}

fn lock(service: &Service, until: Option<u64>) -> Result<crate::ChangeResult<Snapshot>> {
    let change = SnapshotChange { locked_until_ms: Some(until), ..SnapshotChange::default() };
    service.update_snapshot(&context(), &volume("v"), &snapshot("s1"), &change)
}

#[test]
fn a_snapshot_is_changed_in_one_version() {
    let rig = Rig::new();
    let service = furnished(&rig);
    create(&service, "s1").unwrap();
    let change = SnapshotChange { description: Some("x".to_owned()), ..SnapshotChange::default() };
    let update =
        |version| service.update_snapshot(&context().at(version), &volume("v"), &snapshot("s1"), &change);
    assert!(matches!(update(7), Err(Error::Version { .. })));
    let done = update(1).unwrap();
    assert_eq!((done.value.description.as_str(), done.value.version), ("x", 2));
    assert_eq!(done.operation.detail, "description");
    assert!(!update(2).unwrap().operation.has_changed());
    let stale = service.delete_snapshot(&context().at(1), &volume("v"), &snapshot("s1"));
    assert!(matches!(stale, Err(Error::Version { .. })));
}

#[test]
fn snapshots_are_listed_in_pages() {
    let rig = Rig::new();
    let service = furnished(&rig);
    ["c", "a", "b"].into_iter().for_each(|name| drop(create(&service, name).unwrap()));
    let page = |after| service.snapshots(&volume("v"), after, 2).unwrap();
    let names =
        |page: &crate::Page<Snapshot>| page.items.iter().map(|one| one.name.to_string()).collect::<Vec<_>>();
    let first = page(None);
    assert_eq!((names(&first), first.next.as_deref()), (vec!["a".to_owned(), "b".to_owned()], Some("b")));
    let second = page(Some("b"));
    assert_eq!((names(&second), second.next), (vec!["c".to_owned()], None));
    assert_eq!(service.snapshot_count(&volume("v")).unwrap(), 3);
    assert!(matches!(service.snapshots(&volume("w"), None, 2), Err(Error::NotFound { .. })));
}

#[test]
fn the_directory_of_snapshots_is_set_live() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let served = service.served(&volume("v")).unwrap();
    assert!(served.has_snapshot_directories());
    let set = |directory| {
        let change = VolumeChange { snapshot_directory: Some(directory), ..VolumeChange::default() };
        service.update_volume(&context(), &volume("v"), &change).unwrap()
    };
    let done = set(SnapshotDirectory::Hidden);
    assert_eq!(done.operation.detail, "snapshot directory reachable → hidden");
    assert!(!served.has_snapshot_directories());
    drop((service, served));
    let service = rig.open();
    let row = service.volume(&volume("v")).unwrap();
    assert_eq!(row.snapshot_directory, SnapshotDirectory::Hidden);
    assert!(!service.served(&volume("v")).unwrap().has_snapshot_directories(), "after a restart");
    rig.check_agreement(&service);
}

#[test]
fn a_start_settles_what_store_and_storage_have() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let lost = create(&service, "lost").unwrap();
    create(&service, "stays").unwrap();
    let id = service.volume(&volume("v")).unwrap().id;
    drop(service);
    let backend = rig.disk.open(id).unwrap();
    let storage = backend.snapshots().unwrap();
    storage.delete(lost.view, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    storage.create(ViewId(77)).unwrap();
    let service = rig.open();
    let found = service.snapshot(&volume("v"), &snapshot("lost")).unwrap();
    assert_eq!((found.state, found.reason.as_str()), (SnapshotState::Error, "the storage does not have it"));
    let warnings = service.warnings().unwrap();
    let stray = |warning: &Warning| matches!(warning, Warning::StraySnapshot { view: 77, .. });
    let gone = |warning: &Warning| matches!(warning, Warning::LostSnapshot { .. });
    assert!(warnings.iter().any(stray) && warnings.iter().any(gone), "{warnings:?}");
    service.run_waiting_jobs();
    assert_eq!(rig.stored_snapshots(id), [ViewId(2)]);
    assert_eq!(service.served(&volume("v")).unwrap().snapshots().len(), 1);
    assert_eq!(create(&service, "next").unwrap().view, ViewId(78), "numbers of strays are used up too");
    delete(&service, "lost").unwrap();
    service.run_waiting_jobs();
    drop(service);
    rig.check_agreement(&rig.open());
}

#[test]
fn snapshots_of_a_storage_that_lost_them_can_be_deleted() {
    let rig = Rig::new();
    let service = furnished(&rig);
    create(&service, "s1").unwrap();
    create(&service, "s2").unwrap();
    let id = service.volume(&volume("v")).unwrap().id;
    drop(service);
    // The data directory has moved to a file system without snapshots.
    rig.lacks_snapshots.store(true, Ordering::SeqCst);
    let service = rig.open();
    let state = |service: &Service, name| service.snapshot(&volume("v"), &snapshot(name)).unwrap().state;
    assert_eq!(state(&service, "s1"), SnapshotState::Error);
    delete(&service, "s1").unwrap();
    service.run_waiting_jobs();
    assert!(matches!(delete(&service, "s1"), Err(Error::NotFound { .. })));
    drop(service);
    // It is back where it was.
    rig.lacks_snapshots.store(false, Ordering::SeqCst);
    let service = rig.open();
    assert_eq!(state(&service, "s2"), SnapshotState::Ready);
    service.run_waiting_jobs();
    assert_eq!(rig.stored_snapshots(id), [ViewId(2)]);
    drop(service);
    rig.check_agreement(&rig.open());
}

#[test]
fn two_creations_on_one_volume_come_one_after_the_other() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let stopped = rig.snapshots.lock();
    std::thread::scope(|scope| {
        let made = ["a", "b"].map(|name| {
            let service = &service;
            scope.spawn(move || create(service, name).unwrap())
        });
        // Others go on meanwhile: requests of clients, changes of other volumes, lists.
        while service.snapshots(&volume("v"), None, 9).unwrap().items.is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(service.snapshots(&volume("v"), None, 9).unwrap().items.len(), 1, "the second waits");
        service.create_volume(&context(), &new_volume("w", "p", 200)).unwrap();
        let change = PoolChange { labels: Some([("a".into(), "b".into())].into()), ..PoolChange::default() };
        service.update_pool(&context(), &pool("p"), &change).unwrap();
        write(&service, "during");
        drop(stopped);
        made.into_iter().for_each(|thread| drop(thread.join().unwrap()));
    });
    assert_eq!(service.snapshots(&volume("v"), None, 9).unwrap().items.len(), 2);
    rig.check_agreement(&service);
}

/// Makes a file in `v`.
fn write(service: &Service, name: &str) {
    let new_inode = NewInode { mode: 0o644, uid: 0, gid: 0, times: None, size: 0 };
    let disk = service.dependencies.provisioner.open(service.volume(&volume("v")).unwrap().id).unwrap();
    let made = disk.root().create_unchecked(Name::new(name.as_bytes()).unwrap(), &new_inode).unwrap();
    made.found.node.write(0, b"x", KEEP_SET_ID).unwrap();
}

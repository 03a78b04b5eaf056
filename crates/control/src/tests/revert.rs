//! Reverts of volumes to snapshots: what they delete and refuse, and a process that ends at any step.

use super::rig::{FailureMode, Killed, Rig, context, furnished, new_snapshot, snapshot, volume};
use crate::{Error, NewSnapshot, OperationId, Outcome, Result, Service, SnapshotChange, State, VolumeChange};
use envelope::Bytes;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{FsError, Wait};

/// A volume with the snapshot `s1`, then the file `data`, and the snapshot `s2`.
fn prepared(rig: &Rig) -> Service {
    let service = furnished(rig);
    service.create_snapshot(&context(), &volume("v"), &new_snapshot("s1")).unwrap();
    rig.fill(service.volume(&volume("v")).unwrap().id, 100);
    service.create_snapshot(&context(), &volume("v"), &new_snapshot("s2")).unwrap();
    service
}

fn names(service: &Service) -> Vec<String> {
    let all = service.snapshots(&volume("v"), None, 100).unwrap().items;
    all.into_iter().map(|one| one.name.to_string()).collect()
}

fn files(rig: &Rig, service: &Service) -> Vec<String> {
    rig.files(service.volume(&volume("v")).unwrap().id)
}

/// Reverts, and again until the request finds nothing to do: its client may have had no answer.
fn revert(service: &Service) -> Result<()> {
    service.revert_volume(&context(), &volume("v"), &snapshot("s1"))?;
    service.run_waiting_jobs();
    Ok(())
}

fn begin(service: &Service) -> OperationId {
    service.revert_volume(&context(), &volume("v"), &snapshot("s1")).unwrap().id
}

#[test]
fn revert_brings_files_back_and_deletes_newer_snapshots() {
    let rig = Rig::new();
    let service = prepared(&rig);
    let old = Arc::downgrade(&service.served(&volume("v")).unwrap());
    let begun = service.revert_volume(&context(), &volume("v"), &snapshot("s1")).unwrap();
    assert_eq!(begun.detail, "to the snapshot s1");
    let reverting = service.volume(&volume("v")).unwrap();
    assert_eq!(reverting.state, State::Reverting);
    let export = Arc::clone(rig.namespace.load().volume(reverting.id).unwrap());
    assert_eq!(export.volume.check_open(), Err(FsError::Wait(Wait::Recall)), "clients wait");
    assert_eq!(rig.gate(&service, &volume("v")).limits(), export.volume.gate().limits());
    assert_eq!(old.strong_count(), 0, "the storage can close");
    let again = service.revert_volume(&context(), &volume("v"), &snapshot("s1")).unwrap();
    assert_eq!(again.id, begun.id, "asked again");
    service.run_waiting_jobs();
    assert_eq!(service.operation(begun.id).unwrap().outcome, Outcome::Succeeded);
    assert!(files(&rig, &service).is_empty());
    assert_eq!(names(&service), ["s1"]);
    rig.check_agreement(&service);
    // The snapshot can be reverted to again, and the next one has a number of its own.
    rig.fill(reverting.id, 10);
    service.create_snapshot(&context(), &volume("v"), &new_snapshot("s2")).unwrap();
    revert(&service).unwrap();
    assert!(files(&rig, &service).is_empty());
    rig.check_agreement(&service);
}

#[test]
fn volume_that_was_shrunk_since_has_its_size_of_then_again() {
    let rig = Rig::new();
    let service = prepared(&rig);
    let resize = |tib| {
        let change = VolumeChange { size: Some(Bytes::gib(tib)), ..VolumeChange::default() };
        service.update_volume(&context(), &volume("v"), &change).unwrap();
    };
    resize(512);
    let begun = service.revert_volume(&context(), &volume("v"), &snapshot("s1")).unwrap();
    assert_eq!(begun.detail, "to the snapshot s1, size 512 GiB → 1 TiB");
    service.run_waiting_jobs();
    assert_eq!(service.volume(&volume("v")).unwrap().size, Bytes::tib(1));
    rig.check_agreement(&service);
    resize(2048);
    revert(&service).unwrap();
    assert_eq!(service.volume(&volume("v")).unwrap().size, Bytes::tib(2), "a larger one stays");
    rig.check_agreement(&service);
    resize(512);
    // No room in the pool any more.
    service.create_volume(&context(), &super::rig::new_volume("w", "p", 3584)).unwrap();
    let refused = revert(&service).unwrap_err();
    assert!(matches!(refused, Error::PoolFull { .. }), "{refused}");
    rig.check_agreement(&service);
}

#[test]
fn newer_locked_snapshot_forbids_it_until_its_lock_ends() {
    let rig = Rig::new();
    let service = prepared(&rig);
    let locked_until_ms = Some(rig.now_ms.load(Ordering::SeqCst) + 1_000_000);
    let new = NewSnapshot { locked_until_ms, ..new_snapshot("audit") };
    service.create_snapshot(&context(), &volume("v"), &new).unwrap();
    let refused = revert(&service).unwrap_err().to_string();
    assert!(
        refused.contains("would delete the snapshot v/audit, which is locked until 1970-01-01 00:1"),
        "{refused}"
    );
    assert_eq!(files(&rig, &service), ["data"]);
    // The locked one itself, and newer ones, are allowed.
    service.revert_volume(&context(), &volume("v"), &snapshot("audit")).unwrap();
    service.run_waiting_jobs();
    assert_eq!(names(&service), ["audit", "s1", "s2"]);
    rig.check_agreement(&service);
}

#[test]
fn jobs_of_the_volume_forbid_it() {
    let rig = Rig::new();
    let service = prepared(&rig);
    let deletion = service.delete_snapshot(&context(), &volume("v"), &snapshot("s2")).unwrap();
    let refused = revert(&service).unwrap_err().to_string();
    let said = format!("the volume v is in use: the operation {} deletes a snapshot", deletion.id);
    assert!(refused.contains(&said), "{refused}");
    service.run_waiting_jobs();
    revert(&service).unwrap();
    rig.check_agreement(&service);
}

#[test]
fn everything_else_fails_while_it_runs() {
    let rig = Rig::new();
    let service = prepared(&rig);
    begin(&service);
    let (v, s1, s2) = (volume("v"), snapshot("s1"), snapshot("s2"));
    let change = SnapshotChange { description: Some("x".to_owned()), ..SnapshotChange::default() };
    let refusals = [
        service.create_snapshot(&context(), &v, &new_snapshot("s3")).map(drop),
        service.update_snapshot(&context(), &v, &s2, &change).map(drop),
        service.delete_snapshot(&context(), &v, &s2).map(drop),
        service.revert_volume(&context(), &v, &s2).map(drop),
        service.update_volume(&context(), &v, &VolumeChange::default()).map(drop),
        service.delete_volume(&context().forced(), &v).map(drop),
        service.quota_report(&v).map(drop),
    ];
    for (place, refused) in refusals.into_iter().enumerate() {
        assert!(
            matches!(refused, Err(Error::Changing { state: State::Reverting, .. })),
            "{place}: {refused:?}"
        );
    }
    assert!(service.delete_snapshot(&context(), &v, &s1).is_err());
    service.run_waiting_jobs();
    rig.check_agreement(&service);
    assert_eq!(names(&service), ["s1"]);
}

#[test]
fn request_that_uses_the_files_is_waited_for_up_to_a_minute() {
    let rig = Rig::new();
    let service = prepared(&rig);
    let busy = service.served(&volume("v")).unwrap();
    let begun = begin(&service);
    std::thread::scope(|scope| {
        scope.spawn(|| service.run_waiting_jobs());
        while service.operation(begun).unwrap().progress.is_none() {
            std::thread::yield_now();
        }
        assert_eq!(service.volume(&volume("v")).unwrap().state, State::Reverting);
        drop(busy);
    });
    assert_eq!(service.operation(begun).unwrap().outcome, Outcome::Succeeded);
    rig.check_agreement(&service);
    rig.fill(service.volume(&volume("v")).unwrap().id, 9);
    let busy = service.served(&volume("v")).unwrap();
    let begun = begin(&service);
    std::thread::scope(|scope| {
        scope.spawn(|| service.run_waiting_jobs());
        while service.operation(begun).unwrap().progress.is_none() {
            std::thread::yield_now();
        }
        rig.now_ms.fetch_add(crate::limits::REVERT_WAIT_MS, Ordering::SeqCst);
    });
    let Outcome::Failed(reason) = service.operation(begun).unwrap().outcome else { panic!() };
    assert!(reason.contains("requests of clients used its files for 60 seconds"), "{reason}");
    drop(busy);
    assert_eq!(files(&rig, &service), ["data"], "nothing was lost");
    rig.check_agreement(&service);
}

#[test]
fn cancelled_before_it_begins_and_while_it_waits_nothing_is_lost() {
    let rig = Rig::new();
    let service = prepared(&rig);
    for waits in [false, true] {
        let busy = service.served(&volume("v")).unwrap();
        let begun = begin(&service);
        std::thread::scope(|scope| {
            if waits {
                scope.spawn(|| service.run_waiting_jobs());
                while service.operation(begun).unwrap().progress.is_none() {
                    std::thread::yield_now();
                }
            }
            service.cancel_operation(begun).unwrap();
        });
        drop(busy);
        assert_eq!(service.operation(begun).unwrap().outcome, Outcome::Cancelled);
        assert_eq!((files(&rig, &service), names(&service).len()), (vec!["data".to_owned()], 2));
        rig.check_agreement(&service);
    }
}

#[test]
fn once_begun_it_shows_its_steps_and_cannot_be_cancelled() {
    let rig = Rig::new();
    let service = prepared(&rig);
    let steps = 5_000;
    rig.deletion_steps.store(steps, Ordering::SeqCst);
    let begun = begin(&service);
    std::thread::scope(|scope| {
        scope.spawn(|| service.run_waiting_jobs());
        while service.operation(begun).unwrap().progress.is_none_or(|progress| progress.done == 0) {
            std::thread::yield_now();
        }
        let cancelled = service.cancel_operation(begun);
        assert!(matches!(cancelled, Err(Error::NotRunning { .. })), "{cancelled:?}");
    });
    let ended = service.operation(begun).unwrap();
    let progress = ended.progress.unwrap();
    assert_eq!((ended.outcome, progress.total, progress.unit), (Outcome::Succeeded, Some(steps), "steps"));
    assert!(files(&rig, &service).is_empty());
    rig.check_agreement(&service);
}

#[test]
fn service_that_stops_leaves_a_begun_one_to_the_next_start() {
    let rig = Rig::new();
    let service = prepared(&rig);
    rig.deletion_steps.store(1 << 40, Ordering::SeqCst);
    let begun = begin(&service);
    std::thread::scope(|scope| {
        scope.spawn(|| service.run_waiting_jobs());
        while service.operation(begun).unwrap().progress.is_none_or(|progress| progress.done == 0) {
            std::thread::yield_now();
        }
        service.stop_jobs();
    });
    assert_eq!(service.operation(begun).unwrap().outcome, Outcome::Running);
    drop(service);
    rig.deletion_steps.store(1, Ordering::SeqCst);
    let service = rig.open();
    service.run_waiting_jobs();
    assert_eq!(service.operation(begun).unwrap().outcome, Outcome::Succeeded);
    assert!(files(&rig, &service).is_empty());
    rig.check_agreement(&service);
}

fn steps() -> usize {
    let rig = Rig::new();
    let service = prepared(&rig);
    rig.fuse.arm(0, FailureMode::Dead);
    revert(&service).unwrap();
    rig.fuse.disarm()
}

#[test]
fn killed_at_any_step_the_next_start_finishes_it() {
    let steps = steps();
    assert!(steps >= 8, "{steps}");
    for step in 1..=steps {
        let rig = Rig::new();
        let service = prepared(&rig);
        rig.fuse.arm(step, FailureMode::Dead);
        let died = catch_unwind(AssertUnwindSafe(|| revert(&service)));
        assert!(died.err().is_some_and(|payload| payload.is::<Killed>()), "step {step}");
        rig.fuse.disarm();
        drop(service);
        let service = rig.open();
        let is_reverting = service.volume(&volume("v")).unwrap().state == State::Reverting;
        let export = Arc::clone(&rig.namespace.load().exports()[0]);
        assert_eq!(export.volume.check_open().is_err(), is_reverting, "step {step}: what clients see");
        drop(export);
        service.run_waiting_jobs();
        rig.check_agreement(&service);
        let now = (files(&rig, &service), names(&service));
        let (before, after) = ((vec!["data".to_owned()], 2), (vec![], 1));
        let now = (now.0, now.1.len());
        assert!(now == before || now == after, "step {step}: {now:?}");
        revert(&service).unwrap();
        assert!(files(&rig, &service).is_empty() && names(&service) == ["s1"], "step {step}");
        rig.check_agreement(&service);
    }
}

#[test]
fn killed_again_while_it_goes_on_the_next_start_finishes_it() {
    for again in 1..=steps() {
        let rig = Rig::new();
        let service = prepared(&rig);
        // Just after the intent.
        rig.fuse.arm(2, FailureMode::Dead);
        assert!(catch_unwind(AssertUnwindSafe(|| revert(&service))).is_err());
        drop(service);
        rig.fuse.arm(again, FailureMode::Dead);
        let second = catch_unwind(AssertUnwindSafe(|| rig.open().run_waiting_jobs()));
        drop(second);
        rig.fuse.disarm();
        let service = rig.open();
        service.run_waiting_jobs();
        assert!(files(&rig, &service).is_empty() && names(&service) == ["s1"], "step {again}");
        rig.check_agreement(&service);
    }
}

#[test]
fn storage_that_refuses_leaves_the_volume_as_it_was_or_closed_until_it_opens() {
    for blows in [FailureMode::Refused, FailureMode::Broken] {
        for step in 1..=4 {
            let rig = Rig::new();
            let service = prepared(&rig);
            let begun = begin(&service);
            rig.fuse.arm(step, blows);
            service.run_waiting_jobs();
            rig.fuse.disarm();
            let state = service.volume(&volume("v")).unwrap().state;
            if state == State::Reverting {
                // It did not open: clients wait, a warning says why, and the same request runs the job again.
                assert_eq!(service.operation(begun).unwrap().outcome, Outcome::Running, "{blows:?} {step}");
                let warned = service
                    .warnings()
                    .unwrap()
                    .iter()
                    .any(|one| one.to_string().contains("open the volume v"));
                assert!(warned, "{blows:?} {step}: {:?}", service.warnings());
                revert(&service).unwrap();
            } else {
                assert!(matches!(service.operation(begun).unwrap().outcome, Outcome::Failed(_)));
                rig.check_agreement(&service);
                revert(&service).unwrap();
            }
            assert!(files(&rig, &service).is_empty() && names(&service) == ["s1"], "{blows:?} {step}");
            rig.check_agreement(&service);
        }
    }
}

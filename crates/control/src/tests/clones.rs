//! Volumes made from snapshots: their properties, and the process or storage that fails at any step.

use super::rig::{
    FailureMode, Killed, Rig, context, furnished, new_pool, new_snapshot, pool, properties, snapshot, volume,
};
use crate::{Error, NewClone, NewPolicy, Outcome, Result, Service, State, VolumeChange};
use envelope::{Bytes, Level};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

/// A volume with the file `data` and then the snapshot `s1`.
fn prepared(rig: &Rig) -> Service {
    let service = furnished(rig);
    rig.fill(service.volume(&volume("v")).unwrap().id, 100);
    service.create_snapshot(&context(), &volume("v"), &new_snapshot("s1")).unwrap();
    service
}

fn new_clone() -> NewClone {
    NewClone::new(volume("v"), snapshot("s1"), volume("c"))
}

fn clone(service: &Service) -> Result<()> {
    service.clone_volume(&context(), &new_clone())?;
    service.run_waiting_jobs();
    Ok(())
}

#[test]
fn clone_has_the_files_and_properties_of_its_source() {
    let rig = Rig::new();
    let service = prepared(&rig);
    let rules = Some(vec![crate::ExportRule::for_clients("10.1.0.0/16".parse().unwrap())]);
    service
        .update_volume(&context(), &volume("v"), &VolumeChange { rules, ..VolumeChange::default() })
        .unwrap();
    let made = service.clone_volume(&context(), &new_clone()).unwrap();
    assert_eq!(made.value.state, State::Creating);
    assert_eq!(made.operation.detail, "1 TiB in the pool p, from v/s1");
    assert_eq!(rig.namespace.load().exports().len(), 1, "no client sees it yet");
    let again = service.clone_volume(&context(), &new_clone()).unwrap();
    assert_eq!(again.operation.id, made.operation.id);
    service.run_waiting_jobs();
    assert_eq!(service.operation(made.operation.id).unwrap().outcome, Outcome::Succeeded);
    let (source, clone) = (service.volume(&volume("v")).unwrap(), service.volume(&volume("c")).unwrap());
    assert_eq!(clone.clone_of.as_deref(), Some("v/s1"));
    assert_eq!((clone.rules, clone.protocols, clone.size), (source.rules, source.protocols, source.size));
    assert_eq!(rig.files(clone.id), ["data"]);
    rig.check_agreement(&service);
    assert!(!service.clone_volume(&context(), &new_clone()).unwrap().operation.has_changed());
    // It needs neither its snapshot nor its source.
    service.delete_snapshot(&context(), &volume("v"), &snapshot("s1")).unwrap();
    service.run_waiting_jobs();
    service.delete_volume(&context(), &volume("v")).unwrap();
    assert_eq!(rig.files(clone.id), ["data"]);
    rig.check_agreement(&service);
    drop(service);
    rig.check_agreement(&rig.open());
}

#[test]
fn clone_may_be_in_another_pool_and_larger_but_not_smaller_than_the_volume_was() {
    let rig = Rig::new();
    let service = prepared(&rig);
    service.create_pool(&context(), &new_pool("q", Level::GcnvExtreme, 4)).unwrap();
    let other = NewClone { pool: Some(pool("q")), size: Some(Bytes::tib(2)), ..new_clone() };
    service.clone_volume(&context(), &other).unwrap();
    service.run_waiting_jobs();
    rig.check_agreement(&service);
    let Err(Error::Conflict { differs, .. }) =
        service.clone_volume(&context(), &NewClone { size: Some(Bytes::tib(3)), ..other })
    else {
        panic!()
    };
    assert_eq!(properties(&differs), ["size"]);
    let small = NewClone { name: volume("small"), size: Some(Bytes::gib(512)), ..new_clone() };
    let refused = service.clone_volume(&context(), &small).unwrap_err().to_string();
    assert!(refused.contains("at least 1 TiB, the size of the volume at that time"), "{refused}");
    for missing in [
        NewClone { source: volume("x"), ..small.clone() },
        NewClone { snapshot: snapshot("x"), ..small.clone() },
        NewClone { pool: Some(pool("x")), ..small },
    ] {
        let refused = service.clone_volume(&context(), &missing);
        assert!(matches!(refused, Err(Error::NotFound { .. })), "{refused:?}");
    }
    rig.check_agreement(&service);
}

#[test]
fn snapshot_and_source_stay_until_the_clone_is_made() {
    let rig = Rig::new();
    let service = prepared(&rig);
    let begun = service.clone_volume(&context(), &new_clone()).unwrap().operation.id;
    let refusals = [
        service.delete_snapshot(&context(), &volume("v"), &snapshot("s1")),
        service.delete_volume(&context().forced(), &volume("v")),
        service.revert_volume(&context(), &volume("v"), &snapshot("s1")),
    ];
    for refused in refusals {
        let said = refused.unwrap_err().to_string();
        let reason = format!("is in use: the operation {begun} makes a volume from a snapshot; wait for it");
        assert!(said.contains(&reason), "{said}");
    }
    let refused = service.delete_volume(&context().forced(), &volume("c")).unwrap_err();
    assert!(matches!(refused, Error::Changing { state: State::Creating, .. }), "{refused}");
    service.cancel_operation(begun).unwrap();
    assert_eq!(service.operation(begun).unwrap().outcome, Outcome::Cancelled);
    assert!(service.volume(&volume("c")).is_err());
    rig.check_agreement(&service);
    clone(&service).unwrap();
    rig.check_agreement(&service);
}

#[test]
fn scheduled_snapshot_that_is_being_cloned_is_deleted_later() {
    let rig = Rig::new();
    let service = prepared(&rig);
    let schedules = crate::Schedules {
        hourly: Some(crate::Hourly { keep: 1, minute: 0 }),
        ..crate::Schedules::default()
    };
    let policy = NewPolicy {
        name: "hours".parse().unwrap(),
        is_enabled: true,
        zone: crate::Zone::utc(),
        schedules,
        vault: None,
    };
    service.create_policy(&context(), &policy).unwrap();
    let change = VolumeChange { policy: Some(Some(policy.name.clone())), ..VolumeChange::default() };
    service.update_volume(&context(), &volume("v"), &change).unwrap();
    let hour = |service: &Service| {
        rig.now_ms.fetch_add(3_600_000, std::sync::atomic::Ordering::SeqCst);
        service.run_policies().unwrap();
        let all = service.snapshots(&volume("v"), None, 10).unwrap().items;
        all.into_iter().map(|one| one.name).filter(|name| *name != snapshot("s1")).collect::<Vec<_>>()
    };
    let first = hour(&service);
    let new = NewClone { snapshot: first[0].clone(), ..new_clone() };
    service.clone_volume(&context(), &new).unwrap();
    assert_eq!(hour(&service).len(), 2, "the first is in use");
    service.run_waiting_jobs();
    hour(&service);
    service.run_waiting_jobs();
    rig.check_agreement(&service);
    let left = service.snapshots(&volume("v"), None, 10).unwrap().items.len();
    assert_eq!(left, 2, "s1, and the last one");
}

#[test]
fn killed_at_any_step_the_next_start_finishes_it() {
    let rig = Rig::new();
    let service = prepared(&rig);
    rig.fuse.arm(0, FailureMode::Dead);
    clone(&service).unwrap();
    let steps = rig.fuse.disarm();
    assert!(steps >= 6, "{steps}");
    for step in 1..=steps {
        let rig = Rig::new();
        let service = prepared(&rig);
        rig.fuse.arm(step, FailureMode::Dead);
        let died = catch_unwind(AssertUnwindSafe(|| clone(&service)));
        assert!(died.err().is_some_and(|payload| payload.is::<Killed>()), "step {step}");
        rig.fuse.disarm();
        drop(service);
        let service = rig.open();
        service.run_waiting_jobs();
        rig.check_agreement(&service);
        clone(&service).unwrap();
        assert_eq!(rig.files(service.volume(&volume("c")).unwrap().id), ["data"], "step {step}");
        rig.check_agreement(&service);
    }
}

#[test]
fn storage_that_refuses_leaves_nothing() {
    for step in 1..=3 {
        let rig = Rig::new();
        let service = prepared(&rig);
        let begun = service.clone_volume(&context(), &new_clone()).unwrap().operation.id;
        rig.fuse.arm(step, FailureMode::Refused);
        service.run_waiting_jobs();
        rig.fuse.disarm();
        assert!(matches!(service.operation(begun).unwrap().outcome, Outcome::Failed(_)), "step {step}");
        assert!(service.volume(&volume("c")).is_err(), "step {step}");
        rig.check_agreement(&service);
        clone(&service).unwrap();
        rig.check_agreement(&service);
    }
}

#[test]
fn clone_shows_its_steps_and_ends_at_the_next_one_when_it_is_cancelled() {
    let rig = Rig::new();
    let service = prepared(&rig);
    rig.deletion_steps.store(1 << 40, Ordering::SeqCst);
    let begun = service.clone_volume(&context(), &new_clone()).unwrap().operation.id;
    std::thread::scope(|scope| {
        scope.spawn(|| service.run_waiting_jobs());
        while service.operation(begun).unwrap().progress.is_none_or(|progress| progress.done < 3) {
            std::thread::yield_now();
        }
        service.cancel_operation(begun).unwrap();
    });
    let ended = service.operation(begun).unwrap();
    assert_eq!(ended.outcome, Outcome::Cancelled);
    assert!(ended.progress.is_some_and(|progress| progress.total == Some(1 << 40)));
    assert!(service.volume(&new_clone().name).is_err());
    rig.check_agreement(&service);
    rig.deletion_steps.store(7, Ordering::SeqCst);
    let begun = service.clone_volume(&context(), &new_clone()).unwrap().operation.id;
    service.run_waiting_jobs();
    let ended = service.operation(begun).unwrap();
    assert_eq!((ended.outcome, ended.progress.unwrap().total), (Outcome::Succeeded, Some(7)));
    rig.check_agreement(&service);
}

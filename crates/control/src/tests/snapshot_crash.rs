//! The process ends, or the storage refuses, at every step of the changes of snapshots.

use super::rig::{FailureMode, Killed, Rig, context, furnished, new_snapshot, snapshot, volume};
use crate::{Error, Outcome, Result, Service, SnapshotChange};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

type Change = fn(&Service) -> Result<()>;

/// Each with the snapshots that there are after it; before it there is `s1`.
const CHANGES: [(&str, Change, &[&str]); 4] = [
    (
        "create",
        |service| service.create_snapshot(&context(), &volume("v"), &new_snapshot("s2")).map(drop),
        &["s1", "s2"],
    ),
    (
        "update",
        |service| {
            let change = SnapshotChange { description: Some("x".to_owned()), ..SnapshotChange::default() };
            service.update_snapshot(&context(), &volume("v"), &snapshot("s1"), &change).map(drop)
        },
        &["s1"],
    ),
    ("delete", |service| delete(service, "s1"), &[]),
    (
        "delete volume",
        |service| match service.delete_volume(&context().forced(), &volume("v")) {
            Err(Error::NotFound { .. }) => Ok(()),
            other => other.map(drop),
        },
        &[],
    ),
];

fn delete(service: &Service, name: &str) -> Result<()> {
    match service.delete_snapshot(&context(), &volume("v"), &snapshot(name)) {
        Err(Error::NotFound { .. }) => Ok(()),
        other => {
            service.run_waiting_jobs();
            other.map(drop)
        }
    }
}

fn prepared(rig: &Rig) -> Service {
    let service = furnished(rig);
    rig.deletion_steps.store(3, Ordering::SeqCst);
    service.create_snapshot(&context(), &volume("v"), &new_snapshot("s1")).unwrap();
    service
}

fn names(service: &Service) -> Vec<String> {
    match service.snapshots(&volume("v"), None, 100) {
        Ok(page) => page.items.into_iter().map(|one| one.name.to_string()).collect(),
        Err(_) => Vec::new(),
    }
}

fn steps(change: Change) -> usize {
    let rig = Rig::new();
    let service = prepared(&rig);
    rig.fuse.arm(0, FailureMode::Dead);
    change(&service).unwrap();
    rig.fuse.disarm()
}

#[test]
fn killed_at_any_step_everything_agrees_after_the_next_start() {
    for (name, change, after) in CHANGES {
        let steps = steps(change);
        assert!(steps >= 2, "{name}");
        for step in 1..=steps {
            let rig = Rig::new();
            let service = prepared(&rig);
            rig.fuse.arm(step, FailureMode::Dead);
            let died = catch_unwind(AssertUnwindSafe(|| change(&service)));
            assert!(died.err().is_some_and(|payload| payload.is::<Killed>()), "{name}, step {step}");
            rig.fuse.disarm();
            drop(service);
            let service = rig.open();
            service.run_waiting_jobs();
            rig.check_agreement(&service);
            let now = names(&service);
            assert!(now == ["s1"] || now == *after, "{name}, step {step}: {now:?}");
            // The client, which got no answer, asks again.
            change(&service).unwrap();
            assert_eq!(names(&service), *after, "{name}, step {step}: repeated");
            rig.check_agreement(&service);
        }
    }
}

#[test]
fn killed_while_it_goes_on_the_next_start_goes_on() {
    for (name, change, _) in CHANGES {
        for again in 1..=steps(change) {
            let rig = Rig::new();
            let service = prepared(&rig);
            // Just after the intent.
            rig.fuse.arm(2, FailureMode::Dead);
            assert!(catch_unwind(AssertUnwindSafe(|| change(&service))).is_err(), "{name}");
            drop(service);
            rig.fuse.arm(again, FailureMode::Dead);
            let second = catch_unwind(AssertUnwindSafe(|| {
                let service = rig.open();
                service.run_waiting_jobs();
            }));
            drop(second);
            rig.fuse.disarm();
            let service = rig.open();
            service.run_waiting_jobs();
            rig.check_agreement(&service);
        }
    }
}

#[test]
fn a_deletion_that_the_storage_refuses_can_be_repeated() {
    for blows in [FailureMode::Refused, FailureMode::Broken] {
        for step in 1..=4 {
            let rig = Rig::new();
            let service = prepared(&rig);
            rig.fuse.arm(step, blows);
            let begun = service.delete_snapshot(&context(), &volume("v"), &snapshot("s1")).unwrap();
            service.run_waiting_jobs();
            rig.fuse.disarm();
            let Outcome::Failed(reason) = service.operation(begun.id).unwrap().outcome else {
                panic!("step {step}");
            };
            assert!(reason.contains("the storage failed to delete the snapshot"), "{reason}");
            assert_eq!(service.snapshot(&volume("v"), &snapshot("s1")).unwrap().reason, reason);
            delete(&service, "s1").unwrap();
            assert!(names(&service).is_empty());
            rig.check_agreement(&service);
        }
    }
}

//! The process ends, or the storage refuses, at every step of the changes of replications.

use super::replications::{found, id_of, is_writable, live, put, replicated, seen, sync};
use super::rig::{FailureMode, Killed, Rig, context, volume};
use crate::{Error, MirrorState, Outcome, Result, Service};
use envelope::Bytes;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use vfs::{Capacity, Provisioner};

type Change = fn(&Service) -> Result<()>;

/// The state of a replication.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Mirrored,
    /// With files of an unfinished transfer.
    Partial,
    Broken,
}

/// Each with the state before it.
const CHANGES: [(&str, Before, Change); 5] = [
    ("sync", Before::Mirrored, |service| {
        service.sync_replication(&context(), &volume("copy"))?;
        service.run_waiting_jobs();
        Ok(())
    }),
    ("break", Before::Mirrored, |service| service.break_replication(&context(), &volume("copy")).map(drop)),
    ("break", Before::Partial, |service| {
        let broken = service.break_replication(&context(), &volume("copy"));
        service.run_waiting_jobs();
        broken.map(drop)
    }),
    ("resume", Before::Broken, |service| {
        let resumed = service.resume_replication(&context().forced(), &volume("copy"));
        service.run_waiting_jobs();
        resumed.map(drop)
    }),
    ("reverse", Before::Broken, |service| {
        let reversed = service.reverse_replication(&context().forced(), &volume("copy"));
        service.run_waiting_jobs();
        reversed.map(drop)
    }),
];

/// A replication with two points and changes at the source since; where it is broken, changes at the destination too.
fn prepared(rig: &Rig, before: Before) -> Service {
    let service = replicated(rig);
    rig.deletion_steps.store(1, Ordering::SeqCst);
    put(rig, &service, "v", "b", 2);
    sync(&service);
    put(rig, &service, "v", "c", 3);
    put(rig, &service, "v", "a", 7);
    if before == Before::Partial {
        put(rig, &service, "v", "z", 90_000);
        let id = id_of(&service, "copy");
        let used = rig.disk.usage(id).unwrap().bytes;
        let room = |bytes| rig.disk.set_capacity(id, Capacity { bytes, files: 1 << 20 }).unwrap();
        room(used + 8192);
        service.sync_replication(&context(), &volume("copy")).unwrap();
        service.run_waiting_jobs();
        room(Bytes::tib(1).0);
    }
    if before == Before::Broken {
        service.break_replication(&context(), &volume("copy")).unwrap();
        put(rig, &service, "copy", "own", 4);
    }
    service
}

/// Clients never see half a transfer.
fn check_seen(rig: &Rig, service: &Service) {
    let texts = |name: &str| seen(rig, service, name).map(|files| files.into_keys().collect::<String>());
    for name in ["v", "copy"] {
        let Some(text) = texts(name) else { continue };
        // The last file never arrives whole.
        let text = if name == "v" { text.trim_end_matches('z').to_owned() } else { text };
        assert!(["ab", "abc", "abown"].contains(&text.as_str()), "{name}: {text}");
        let a = &seen(rig, service, name).unwrap()["a"];
        assert!(text == "abc" && a == "aaaaaaa" || a == "a", "{name}: {text}, {a}");
    }
}

fn steps(before: Before, change: Change) -> usize {
    let rig = Rig::new();
    let service = prepared(&rig, before);
    rig.fuse.arm(0, FailureMode::Dead);
    change(&service).unwrap();
    rig.fuse.disarm()
}

#[test]
fn killed_at_any_step_the_destination_is_one_point_and_goes_on() {
    for (name, before, change) in CHANGES {
        let steps = steps(before, change);
        assert!(steps >= 2, "{name}");
        for step in 1..=steps {
            let rig = Rig::new();
            let service = prepared(&rig, before);
            rig.fuse.arm(step, FailureMode::Dead);
            let died = catch_unwind(AssertUnwindSafe(|| change(&service)));
            assert!(died.err().is_some_and(|payload| payload.is::<Killed>()), "{name}, step {step}");
            rig.fuse.disarm();
            drop(service);
            let service = rig.open();
            check_seen(&rig, &service);
            service.run_waiting_jobs();
            check_seen(&rig, &service);
            // The client, which got no answer, asks again.
            match change(&service) {
                Ok(()) | Err(Error::Replication(_) | Error::NotFound { .. }) => {}
                Err(error) => panic!("{name}, step {step}: {error}"),
            }
            service.run_waiting_jobs();
            let (from, to) = match service.replication(&volume("copy")) {
                Ok(_) => ("v", "copy"),
                Err(_) => ("copy", "v"),
            };
            if name != "break" {
                service.sync_replication(&context(), &volume(to)).unwrap();
                service.run_waiting_jobs();
            }
            let replication = service.replication(&volume(to)).unwrap();
            let state = service.replication_status(&replication).unwrap().state;
            let expected = if name == "break" { MirrorState::Stopped } else { MirrorState::Mirrored };
            assert_eq!(state, expected, "{name}, step {step}");
            assert_eq!(is_writable(&rig, &service, to), name == "break", "{name}, step {step}");
            if name != "break" {
                assert_eq!(seen(&rig, &service, to), Some(live(&rig, &service, from)), "{name}, step {step}");
                assert_eq!(live(&rig, &service, to), live(&rig, &service, from), "{name}, step {step}");
            }
            rig.check_agreement(&service);
        }
    }
}

#[test]
fn refused_at_any_step_nothing_is_half_and_another_attempt_succeeds() {
    for (_, before, change) in CHANGES {
        for step in 1..=steps(before, change) {
            let rig = Rig::new();
            let service = prepared(&rig, before);
            rig.fuse.arm(step, FailureMode::Refused);
            _ = change(&service);
            rig.fuse.disarm();
            drop(service);
            let service = rig.open();
            check_seen(&rig, &service);
            _ = change(&service);
            service.run_waiting_jobs();
            check_seen(&rig, &service);
        }
    }
}

#[test]
fn transfer_that_is_cancelled_goes_on_with_the_next() {
    let rig = Rig::new();
    let service = prepared(&rig, Before::Mirrored);
    let begun = service.sync_replication(&context(), &volume("copy")).unwrap();
    service.cancel_operation(begun.id).unwrap();
    assert_eq!(service.operation(begun.id).unwrap().outcome, Outcome::Cancelled);
    assert!(found(&service).is_healthy);
    sync(&service);
    assert_eq!(seen(&rig, &service, "copy"), Some(live(&rig, &service, "v")));
}

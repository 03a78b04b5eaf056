//! The process ends, or the storage refuses, at every step of every kind of change.

use super::rig::{FailureMode, Killed, Rig, context, furnished, new_pool, new_volume, pool, volume};
use crate::{Error, Result, Service, State, VolumeChange};
use envelope::{Bytes, Level};
use std::panic::{AssertUnwindSafe, catch_unwind};
use vfs::{Provisioner, Root};

pub(super) type Change = fn(&Service) -> Result<()>;

const ROOT: Root = Root { mode: 0o2770, uid: 7, gid: 8 };

/// Each with what the volumes `v` and `w` are before and after it.
pub(super) const CHANGES: [(&str, Change); 6] = [
    ("create", |service| {
        let new = crate::NewVolume {
            root: Some(ROOT),
            rules: Some(vec![crate::ExportRule::for_clients("10.0.0.0/8".parse()?)]),
            ..new_volume("w", "p", 200)
        };
        service.create_volume(&context(), &new).map(drop)
    }),
    ("grow", |service| resize(service, 1500)),
    ("shrink", |service| resize(service, 500)),
    ("root", |service| {
        let change =
            VolumeChange { root: Some(ROOT), size: Some(Bytes::gib(1100)), ..VolumeChange::default() };
        service.update_volume(&context(), &volume("v"), &change).map(drop)
    }),
    ("move", |service| {
        let change =
            VolumeChange { pool: Some(pool("q")), size: Some(Bytes::gib(2048)), ..VolumeChange::default() };
        service.update_volume(&context(), &volume("v"), &change).map(drop)
    }),
    ("delete", |service| match service.delete_volume(&context(), &volume("v")) {
        // Said again after it was done.
        Err(Error::NotFound { .. }) => Ok(()),
        other => other.map(drop),
    }),
];

fn resize(service: &Service, gib: u64) -> Result<()> {
    let change = VolumeChange { size: Some(Bytes::gib(gib)), ..VolumeChange::default() };
    service.update_volume(&context(), &volume("v"), &change).map(drop)
}

pub(super) fn prepared(rig: &Rig) -> Service {
    let service = furnished(rig);
    service.create_pool(&context(), &new_pool("q", Level::GcnvExtreme, 4)).unwrap();
    service
}

/// The served state, without versions and times, which count attempts too.
pub(super) fn served(service: &Service) -> Vec<crate::Volume> {
    let volumes = service.volumes(None, 100).unwrap().items;
    let plain =
        |volume| crate::Volume { version: 0, changed_ms: 0, created_ms: 0, id: vfs::VolumeId(0), ..volume };
    volumes.into_iter().map(plain).collect()
}

/// The number of steps of a change, and the served state before and after it.
fn measure(change: Change, blows: FailureMode) -> (usize, [Vec<crate::Volume>; 2]) {
    let rig = Rig::new();
    let service = prepared(&rig);
    let before = served(&service);
    rig.fuse.arm(0, blows);
    change(&service).unwrap();
    let steps = rig.fuse.disarm();
    rig.check_agreement(&service);
    (steps, [before, served(&service)])
}

#[test]
fn killed_at_any_step_everything_agrees_again_at_the_next_start() {
    for (name, change) in CHANGES {
        let (steps, ends) = measure(change, FailureMode::Dead);
        assert!(steps >= 6, "{name}: two transactions and the storage");
        let mut outcomes = Vec::new();
        for step in 1..=steps {
            let rig = Rig::new();
            let service = prepared(&rig);
            rig.fuse.arm(step, FailureMode::Dead);
            let died = catch_unwind(AssertUnwindSafe(|| change(&service)));
            assert!(died.err().is_some_and(|payload| payload.is::<Killed>()), "{name}, step {step}");
            rig.fuse.disarm();
            drop(service);
            let service = rig.open();
            rig.check_agreement(&service);
            let now = served(&service);
            outcomes.push(ends.iter().position(|end| *end == now));
            // The client, which got no answer, asks again.
            change(&service).unwrap();
            assert_eq!(served(&service), ends[1], "{name}, step {step}: repeated");
            rig.check_agreement(&service);
        }
        // Nothing before the intent is in the store, everything from there on; never something between.
        let expected: Vec<_> = (1..=steps).map(|step| Some(usize::from(step > 1))).collect();
        assert_eq!(outcomes, expected, "{name}");
    }
}

#[test]
fn killed_while_it_finishes_the_next_start_finishes() {
    for (name, change) in CHANGES {
        let (steps, ends) = measure(change, FailureMode::Dead);
        for again in 1..=steps {
            let rig = Rig::new();
            let service = prepared(&rig);
            // Just after the intent.
            rig.fuse.arm(2, FailureMode::Dead);
            assert!(catch_unwind(AssertUnwindSafe(|| change(&service))).is_err(), "{name}");
            drop(service);
            rig.fuse.arm(again, FailureMode::Dead);
            let second = catch_unwind(AssertUnwindSafe(|| rig.open()));
            rig.fuse.disarm();
            drop(second);
            let service = rig.open();
            rig.check_agreement(&service);
            assert_eq!(served(&service), ends[1], "{name}, step {again} of the start");
        }
    }
}

#[test]
fn refused_by_the_storage_a_change_has_not_happened_or_can_be_repeated() {
    for blows in [FailureMode::Refused, FailureMode::Broken] {
        for (name, change) in CHANGES {
            let (steps, ends) = measure(change, blows);
            for step in 1..=steps {
                let rig = Rig::new();
                let service = prepared(&rig);
                rig.fuse.arm(step, blows);
                let error = change(&service).unwrap_err();
                assert!(matches!(error, Error::Storage { .. }), "{name}, step {step}: {error}");
                let failed = service.operations(None, 1).unwrap().items.remove(0);
                assert_eq!(failed.outcome, crate::Outcome::Failed(error.to_string()), "{name}, step {step}");
                rig.fuse.disarm();
                let now = served(&service);
                let leftover = service.volumes(None, 9).unwrap().items;
                let deleting = leftover.iter().any(|volume| volume.state == State::Deleting);
                assert!(now == ends[0] || deleting, "{name}, step {step}, {blows:?}: {now:#?}");
                for volume in leftover.iter().filter(|_| blows == FailureMode::Refused && !deleting) {
                    let stat = rig.disk.open(volume.id).unwrap().stat().unwrap();
                    assert_eq!(stat.bytes_total, volume.size.0, "{name}, step {step}: taken back");
                }
                // What was seen while it was under way had a version of its own.
                let versions = leftover.iter().map(|volume| volume.version).collect::<Vec<_>>();
                let expected = if name == "create" || deleting { versions.clone() } else { vec![3] };
                assert_eq!(versions, expected, "{name}, step {step}");
                change(&service).unwrap();
                assert_eq!(served(&service), ends[1], "{name}, step {step}: repeated");
                rig.check_agreement(&service);
                drop(service);
                rig.check_agreement(&rig.open());
            }
        }
    }
}

#[test]
fn refused_by_the_store_at_the_end_a_change_is_finished_when_it_is_asked_for_again() {
    for (name, change) in CHANGES {
        let (_, ends) = measure(change, FailureMode::Dead);
        let rig = Rig::new();
        let service = prepared(&rig);
        let fail = "CREATE TEMP TRIGGER done BEFORE UPDATE ON volume WHEN NEW.state = 'ready'
                    BEGIN SELECT RAISE(ABORT, 'disk full'); END;
                    CREATE TEMP TRIGGER gone BEFORE DELETE ON volume BEGIN SELECT RAISE(ABORT, 'disk full'); END;";
        service.change(|store| Ok(store.execute_batch(fail)?)).unwrap();
        let error = change(&service).unwrap_err();
        assert!(matches!(error, Error::Store(_)), "{name}: {error}");
        let again = change(&service).unwrap_err();
        assert!(matches!(again, Error::Store(_)), "{name}: {again}");
        let recover = "DROP TRIGGER done; DROP TRIGGER gone;";
        service.change(|store| Ok(store.execute_batch(recover)?)).unwrap();
        change(&service).unwrap();
        assert_eq!(served(&service), ends[1], "{name}");
        rig.check_agreement(&service);
    }
}

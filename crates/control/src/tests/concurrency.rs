//! Changes side by side: different objects do not wait for each other, one object changes in order, totals hold.

use super::rig::{Rig, context, furnished, new_pool, new_volume, pool, volume};
use crate::{Error, Outcome, PoolChange, Service, VolumeChange};
use envelope::{Bytes, Level, PoolSettings, Qos};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::Scope;
use std::time::Duration;

const SLOW_GIB: u64 = 300;
/// A change that takes longer counts as blocked for ever.
const PATIENCE: Duration = Duration::from_secs(20);
/// A change that does not wait finishes within this time.
const MOMENT: Duration = Duration::from_millis(100);

fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    change: impl FnOnce() -> T + Send + 'scope,
) -> Receiver<T> {
    let (sender, receiver) = mpsc::channel();
    scope.spawn(move || sender.send(change()));
    receiver
}

/// Starts to create `name` in the pool `p`, whose storage works until it is released.
fn start_slow_create<'scope>(
    scope: &'scope Scope<'scope, '_>,
    rig: &Rig,
    service: &'scope Service,
    name: &'static str,
) -> Receiver<crate::Result<crate::ChangeResult<crate::Volume>>> {
    rig.slow.block(Bytes::gib(SLOW_GIB));
    let created = start(scope, move || service.create_volume(&context(), &new_volume(name, "p", SLOW_GIB)));
    rig.slow.await_blocked(1);
    created
}

/// Returns the result of a change that must not wait for slow storage.
/// Releases the storage on failure, or the test would hang.
fn finished<T>(rig: &Rig, change: &Receiver<T>) -> T {
    change.recv_timeout(PATIENCE).unwrap_or_else(|error| {
        rig.slow.release();
        panic!("waits for slow storage of another volume: {error}")
    })
}

/// Checks that a change waits for slow storage and has not begun its own.
/// Releases the storage on failure, or the test would hang.
fn check_waits<T>(rig: &Rig, change: &Receiver<T>) {
    let is_waiting = matches!(change.recv_timeout(MOMENT), Err(RecvTimeoutError::Timeout));
    if !is_waiting || rig.slow.blocked() != 1 {
        rig.slow.release();
        panic!("does not wait for the change before it");
    }
}

fn resized(gib: u64) -> VolumeChange {
    VolumeChange { size: Some(Bytes::gib(gib)), ..VolumeChange::default() }
}

#[test]
fn slow_creation_delays_no_change_of_other_objects() {
    let rig = Rig::new();
    let service = furnished(&rig);
    std::thread::scope(|scope| {
        let created = start_slow_create(scope, &rig, &service, "slow");
        let service = &service;
        let others = start(scope, || {
            service.update_volume(&context(), &volume("v"), &resized(500)).unwrap();
            service.create_volume(&context(), &new_volume("w", "p", 200)).unwrap();
            service.delete_volume(&context(), &volume("w")).unwrap();
            service.create_pool(&context(), &new_pool("q", Level::Unlimited, 1)).unwrap();
            service.create_volume(&context(), &new_volume("x", "q", 100)).unwrap();
            service.delete_volume(&context(), &volume("x")).unwrap();
            service.delete_pool(&context(), &pool("q")).unwrap();
            service.refresh().unwrap();
            assert!(service.warnings().is_ok() && service.served(&volume("v")).is_some());
        });
        finished(&rig, &others);
        check_waits(&rig, &created);
        rig.slow.release();
        assert_eq!(created.recv().unwrap().unwrap().operation.outcome, Outcome::Succeeded);
    });
    rig.check_agreement(&service);
}

#[test]
fn slow_update_delays_no_change_of_other_objects() {
    let rig = Rig::new();
    let service = furnished(&rig);
    rig.slow.block(Bytes::gib(SLOW_GIB));
    std::thread::scope(|scope| {
        let service = &service;
        let updated = start(scope, || service.update_volume(&context(), &volume("v"), &resized(SLOW_GIB)));
        rig.slow.await_blocked(1);
        let other = start(scope, || service.create_volume(&context(), &new_volume("w", "p", 200)));
        finished(&rig, &other).unwrap();
        check_waits(&rig, &updated);
        rig.slow.release();
        updated.recv().unwrap().unwrap();
    });
    rig.check_agreement(&service);
}

#[test]
fn second_creation_of_a_name_waits_and_changes_nothing() {
    let rig = Rig::new();
    let service = furnished(&rig);
    std::thread::scope(|scope| {
        let first = start_slow_create(scope, &rig, &service, "w");
        let service = &service;
        let same = start(scope, || service.create_volume(&context(), &new_volume("w", "p", SLOW_GIB)));
        let other = start(scope, || service.create_volume(&context(), &new_volume("w", "p", 200)));
        check_waits(&rig, &same);
        check_waits(&rig, &other);
        rig.slow.release();
        assert!(first.recv().unwrap().unwrap().operation.has_changed());
        assert!(!same.recv().unwrap().unwrap().operation.has_changed());
        assert!(matches!(other.recv().unwrap(), Err(Error::Conflict { .. })));
    });
    rig.check_agreement(&service);
}

#[test]
fn creations_of_one_share_name_succeed_once() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let succeeded = std::thread::scope(|scope| {
        let service = &service;
        let create = |name: &'static str| {
            start(scope, move || {
                let share = Some(crate::ShareName::stored("shared".to_owned()));
                service.create_volume(&context(), &crate::NewVolume { share, ..new_volume(name, "p", 100) })
            })
        };
        let results = ["a", "b", "c", "d"].map(create).map(|result| result.recv().unwrap());
        results.iter().filter(|result| result.is_ok()).count()
    });
    assert_eq!(succeeded, 1);
    rig.check_agreement(&service);
}

#[test]
fn changes_of_one_volume_come_one_after_the_other() {
    let rig = Rig::new();
    let service = furnished(&rig);
    std::thread::scope(|scope| {
        let created = start_slow_create(scope, &rig, &service, "w");
        let service = &service;
        let updated = start(scope, || service.update_volume(&context(), &volume("w"), &resized(400)));
        check_waits(&rig, &updated);
        let deleted = start(scope, || service.delete_volume(&context(), &volume("w")));
        check_waits(&rig, &deleted);
        rig.slow.release();
        created.recv().unwrap().unwrap();
        assert_eq!(updated.recv().unwrap().unwrap().value.size, Bytes::gib(400));
        assert_eq!(deleted.recv().unwrap().unwrap().outcome, Outcome::Succeeded);
    });
    assert!(matches!(service.volume(&volume("w")), Err(Error::NotFound { .. })));
    rig.check_agreement(&service);
}

#[test]
fn pool_with_a_volume_in_creation_is_not_deleted() {
    let rig = Rig::new();
    let service = rig.open();
    service.create_pool(&context(), &new_pool("p", Level::GcnvPremium, 4)).unwrap();
    std::thread::scope(|scope| {
        let created = start_slow_create(scope, &rig, &service, "w");
        let service = &service;
        let deleted = start(scope, || service.delete_pool(&context(), &pool("p")));
        check_waits(&rig, &deleted);
        rig.slow.release();
        created.recv().unwrap().unwrap();
        assert!(matches!(deleted.recv().unwrap(), Err(Error::InUse { volumes: 1, .. })));
    });
    rig.check_agreement(&service);
}

#[test]
fn creations_in_a_pool_and_its_deletion_exclude_each_other() {
    for _ in 0..20 {
        let rig = Rig::new();
        let service = rig.open();
        service.create_pool(&context(), &new_pool("p", Level::Unlimited, 4)).unwrap();
        std::thread::scope(|scope| {
            let service = &service;
            let deleted = start(scope, || service.delete_pool(&context(), &pool("p")));
            let created = start(scope, || service.create_volume(&context(), &new_volume("w", "p", 100)));
            let (deleted, created) = (deleted.recv().unwrap(), created.recv().unwrap());
            assert!(deleted.is_ok() != created.is_ok(), "{deleted:?} {created:?}");
        });
        rig.check_agreement(&service);
    }
}

#[test]
fn volume_in_creation_gets_the_change_of_its_pool() {
    let rig = Rig::new();
    let service = rig.open();
    service.create_pool(&context(), &new_pool("p", Level::AnfPremium, 4)).unwrap();
    std::thread::scope(|scope| {
        let created = start_slow_create(scope, &rig, &service, "w");
        let service = &service;
        let settings = PoolSettings { qos: Some(Qos::Manual), ..PoolSettings::default() };
        let change = PoolChange { settings: Some(settings), ..PoolChange::default() };
        let changed = start(scope, move || service.update_pool(&context(), &pool("p"), &change));
        check_waits(&rig, &changed);
        rig.slow.release();
        created.recv().unwrap().unwrap();
        changed.recv().unwrap().unwrap();
    });
    // A pool that becomes one of manual QoS gives each volume the throughput that it had.
    let volume = service.volume(&volume("w")).unwrap();
    assert!(volume.settings.throughput.is_some() && volume.version == 2, "{volume:?}");
    rig.check_agreement(&service);
}

#[test]
fn concurrent_creations_never_exceed_their_pool() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let results = std::thread::scope(|scope| {
        let service = &service;
        let create = |name: &'static str| {
            start(scope, move || service.create_volume(&context(), &new_volume(name, "p", 1024)))
        };
        ["a", "b", "c", "d", "e", "f", "g", "h"].map(create).map(|result| result.recv().unwrap())
    });
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 3, "the pool has 3 TiB left");
    let is_full = |result: &crate::Result<_>| matches!(result, Err(Error::PoolFull { .. }));
    assert_eq!(results.iter().filter(|result| is_full(result)).count(), 5);
    rig.check_agreement(&service);
}

#[test]
fn capacity_of_a_shrinking_volume_is_free_when_the_change_is_done() {
    let rig = Rig::new();
    let service = furnished(&rig);
    rig.slow.block(Bytes::gib(SLOW_GIB));
    std::thread::scope(|scope| {
        let service = &service;
        let shrunk = start(scope, || service.update_volume(&context(), &volume("v"), &resized(SLOW_GIB)));
        rig.slow.await_blocked(1);
        // It fits in what the pool has left after the change, but the change can still fail.
        let create = || service.create_volume(&context(), &new_volume("w", "p", 3500));
        let refused = start(scope, create);
        assert!(matches!(finished(&rig, &refused), Err(Error::PoolFull { .. })));
        rig.slow.release();
        shrunk.recv().unwrap().unwrap();
        create().unwrap();
    });
    rig.check_agreement(&service);
}

#[test]
fn moves_between_pools_in_both_directions_never_deadlock() {
    const ROUNDS: usize = 30;
    let rig = Rig::new();
    let service = rig.open();
    for name in ["p", "q"] {
        service.create_pool(&context(), &new_pool(name, Level::Unlimited, 4)).unwrap();
    }
    service.create_volume(&context(), &new_volume("a", "p", 100)).unwrap();
    service.create_volume(&context(), &new_volume("b", "q", 100)).unwrap();
    std::thread::scope(|scope| {
        let service = &service;
        let moving = |name: &'static str, pools: [&'static str; 2]| {
            start(scope, move || {
                for round in 0..ROUNDS {
                    let to = Some(pool(pools[round % 2]));
                    let change = VolumeChange { pool: to, ..resized(100 + round as u64) };
                    service.update_volume(&context(), &volume(name), &change).unwrap();
                }
            })
        };
        let growing = |name: &'static str| {
            start(scope, move || {
                for round in 0..ROUNDS {
                    let size = Some(Bytes::tib(4 + round as u64));
                    let change = PoolChange { size, ..PoolChange::default() };
                    service.update_pool(&context(), &pool(name), &change).unwrap();
                }
            })
        };
        let changes = [moving("a", ["q", "p"]), moving("b", ["p", "q"]), growing("p"), growing("q")];
        changes.iter().for_each(|change| change.recv_timeout(3 * PATIENCE).expect("a deadlock"));
    });
    rig.check_agreement(&service);
}

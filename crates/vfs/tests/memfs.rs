//! The conformance suite on the backend in memory.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use vfs::conformance::{Fixture, capacity, oracle, run};
use vfs::memfs::Clock;
use vfs::{Backend, Capacity, MemFs, MemProvisioner, Provisioner, Time};

/// A clock that moves on whenever it is asked.
fn clock() -> Clock {
    let ticks = AtomicI64::new(1_600_000_000_000);
    Arc::new(move || {
        let millis = ticks.fetch_add(1, Ordering::Relaxed);
        let nanos = u32::try_from(millis % 1000).unwrap() * 1_000_000;
        Time { seconds: millis / 1000, nanos }
    })
}

fn volume() -> MemFs {
    MemFs::new(clock())
}

fn fixture() -> Fixture {
    let fs = volume();
    let restarted = fs.clone();
    Fixture::new(Arc::new(fs)).reopened_by(Box::new(move || {
        restarted.sync().unwrap();
        Arc::new(restarted.crash())
    }))
}

#[test]
fn memfs_conforms() {
    run(&fixture);
}

#[test]
fn memfs_agrees_with_the_model_for_long() {
    for seed in 100..120 {
        oracle::soak(&fixture(), seed, 3000).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// Remembers the provisioner besides the suite, because ending it takes more than the trait has.
fn capacity_fixture() -> capacity::Fixture {
    let made = Arc::new(MemProvisioner::new(clock(), Capacity { bytes: 1 << 40, files: 1 << 30 }));
    let last = Mutex::new(made.clone());
    let again = move |given: Arc<dyn Provisioner>, volume: Arc<dyn Backend>, _| {
        volume.sync().unwrap();
        drop((given, volume));
        let mut last = last.lock().unwrap();
        *last = Arc::new(last.crash());
        last.clone() as Arc<dyn Provisioner>
    };
    capacity::Fixture {
        provisioner: made,
        charging: capacity::Charging::Blocks,
        ids: (1234, 5678),
        again: Arc::new(again),
    }
}

#[test]
fn memory_keeps_to_its_capacity() {
    capacity::run(&capacity_fixture);
}

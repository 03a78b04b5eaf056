//! The conformance suite on the backend in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use vfs::{Backend, Time, ViewId};
use vfs_testing::MemFs;
use vfs_testing::conformance::{AclKind, Fixture, oracle, run};

/// A volume whose clock advances with each call.
fn volume() -> MemFs {
    let ticks = AtomicI64::new(1_600_000_000_000);
    MemFs::new(Arc::new(move || {
        let millis = ticks.fetch_add(1, Ordering::Relaxed);
        let nanos = u32::try_from(millis % 1000).unwrap() * 1_000_000;
        Time { seconds: millis / 1000, nanos }
    }))
}

fn fixture() -> Fixture {
    let fs = volume();
    let (restarted, changed) = (fs.clone(), fs.clone());
    let fixture = Fixture::new(Arc::new(fs)).reopened_by(Box::new(move || {
        restarted.sync().unwrap();
        Arc::new(restarted.crash())
    }));
    fixture.with_acls_set_by(Box::new(move |path, kind, acl| match kind {
        AclKind::Access => changed.set_access_acl(path, acl).unwrap(),
        AclKind::Default => changed.set_default_acl(path, acl).unwrap(),
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

#[test]
fn memfs_snapshots_agree_with_the_model_for_long() {
    for seed in 100..105 {
        let fixture = fixture();
        let (snapshots, mut last) = (fixture.backend.snapshots().unwrap(), ViewId::LIVE);
        oracle::soak_with_snapshots(&fixture, snapshots, seed, 2000, &mut last)
            .unwrap_or_else(|failure| panic!("{failure}"));
    }
}

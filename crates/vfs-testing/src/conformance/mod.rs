//! The conformance suite: a case for every promise of [`vfs::backend`], for any backend to run in its tests.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use vfs_testing::conformance::{Fixture, run};
//! # let clock = Arc::new(|| vfs::Time::default());
//! run(&|| Fixture::new(Arc::new(vfs_testing::MemFs::new(clock.clone()))));
//! ```

mod acls;
mod attrs;
pub mod capacity;
mod counters;
mod create;
mod data;
mod decisions;
mod expect;
mod identity;
mod links;
mod listing;
pub mod oracle;
mod ranges;
mod rename;
mod rig;
mod snapshots;
mod threads;
mod types;
mod xattrs;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use vfs::sync::Mutex;

pub use rig::{AclKind, Case, Failure, Fixture, Lack, Outcome, Reopen, SetAcl};

pub fn cases() -> Vec<Case> {
    let families = [
        acls::CASES,
        attrs::CASES,
        counters::CASES,
        create::CASES,
        data::CASES,
        decisions::CASES,
        identity::CASES,
        links::CASES,
        listing::CASES,
        ranges::CASES,
        rename::CASES,
        snapshots::CASES,
        threads::CASES,
        types::CASES,
        xattrs::CASES,
        oracle::CASES,
    ];
    families.concat()
}

/// Runs every case on a fixture of its own.
///
/// # Panics
///
/// If any fails, with the names and the reasons of all that failed.
pub fn run(make: &(dyn Fn() -> Fixture + Sync)) {
    run_beside(1, make);
}

/// [`run`] with this number of cases at a time, for storage that answers late.
///
/// # Panics
///
/// If any fails, with the names and the reasons of all that failed.
pub fn run_beside(at_a_time: usize, make: &(dyn Fn() -> Fixture + Sync)) {
    let line = |case: &Case| case.failure(make).map(|failure| format!("\n  {}: {failure}", case.name));
    require_all(at_a_time, &cases(), &line);
}

/// Runs the cases, and panics with the lines of those that failed.
fn require_all<C: Sync>(at_a_time: usize, cases: &[C], run: &(dyn Fn(&C) -> Option<String> + Sync)) {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(at) else { return };
                    run(case).into_iter().for_each(|line| drop(failed.lock().insert(at, line)));
                }
            });
        }
    });
    let lines: Vec<String> = failed.into_inner().into_values().collect();
    assert!(lines.is_empty(), "{} of {} cases failed:{}", lines.len(), cases.len(), lines.concat());
}

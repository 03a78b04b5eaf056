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
pub fn run(make: &dyn Fn() -> Fixture) {
    let cases = cases();
    let line = |case: &Case| case.failure(make).map(|failure| format!("\n  {}: {failure}", case.name));
    let lines: Vec<String> = cases.iter().filter_map(line).collect();
    assert!(lines.is_empty(), "{} of {} cases failed:{}", lines.len(), cases.len(), lines.concat());
}

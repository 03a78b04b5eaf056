//! The promises of a [`Provisioner`](vfs::Provisioner): a separate suite, which every provisioner runs in its tests.

mod counting;
mod quotas;
mod ranges;
mod reserve;
mod rig;
mod snapshots;
mod steps;
mod verbs;

pub use rig::{Again, BLOCK_BYTES, Case, Charging, End, Fixture};

use super::require_all;
use super::rig::Failure;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub fn cases() -> Vec<Case> {
    [
        counting::CASES,
        quotas::CASES,
        ranges::CASES,
        reserve::CASES,
        snapshots::CASES,
        steps::CASES,
        verbs::CASES,
    ]
    .concat()
}

/// Runs every case on a fixture of its own.
///
/// # Panics
///
/// If any case fails, with the names and the reasons of all that failed.
pub fn run(make: &(dyn Fn() -> Fixture + Sync)) {
    let failed = |case: &Case| {
        let fixture = make();
        let outcome = catch_unwind(AssertUnwindSafe(|| (case.run)(fixture)));
        let failure = outcome.unwrap_or_else(|_| Err(Failure::new("it panicked"))).err()?;
        Some(format!("\n  {}: {failure}", case.name))
    };
    require_all(1, &cases(), &failed);
}

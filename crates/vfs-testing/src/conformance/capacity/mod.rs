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
pub fn run(make: &dyn Fn() -> Fixture) {
    run_without(&[], make);
}

/// [`run`] without the families that a provisioner lacks, each with the reason.
///
/// # Panics
///
/// If any case fails, with the names and the reasons of all that failed.
pub fn run_without(lacks: &[(&str, &'static str)], make: &dyn Fn() -> Fixture) {
    let failed = |case: &Case| {
        let fixture = make();
        let outcome = catch_unwind(AssertUnwindSafe(|| (case.run)(fixture)));
        let failure = outcome.unwrap_or_else(|_| Err(Failure::new("it panicked"))).err()?;
        Some(format!("\n  {}: {failure}", case.name))
    };
    let family = |case: &Case| case.name.split('/').next();
    let lacking = |case: &Case| lacks.iter().any(|&(lack, _)| Some(lack) == family(case));
    let cases: Vec<Case> = cases().into_iter().filter(|case| !lacking(case)).collect();
    let lines: Vec<String> = cases.iter().filter_map(failed).collect();
    assert!(lines.is_empty(), "{} of {} cases failed:{}", lines.len(), cases.len(), lines.concat());
}

//! fio: its command lines and job files, what they measure, and running the installed one.
//!
//! Facts about fio are from its sources, version 3.33.

mod equivalent;
mod job;
mod jobs;
mod lint;
mod log;
mod number;
mod options;
#[cfg(test)]
mod oracle_tests;
mod output;
mod section;
mod setting;
mod tool;
mod unchanged;

pub use equivalent::scenario;
pub use job::{Job, Sync, Transfer};
pub use jobs::Jobs;
pub use lint::{Finding, Severity, lint};
pub(crate) use log::{LOG_MS, Rates, Totals};
pub(crate) use output::{JobOutput, Output, Transfers, operations, split};
pub use tool::LiveRates;
pub(crate) use tool::{Finished, Running, Tool};
pub use unchanged::{Measured, run_in};

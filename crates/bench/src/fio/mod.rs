//! fio: its command lines and job files, what they measure, and running the installed one.
//!
//! Facts about fio are from its sources, version 3.33.

mod equivalent;
mod job;
mod jobs;
mod lint;
mod log;
mod number;
mod output;
mod section;
mod tool;
mod unchanged;

pub use equivalent::scenario;
pub use job::{Job, Sync, Transfer};
pub use jobs::Jobs;
pub use lint::{Finding, Severity, lint};
pub use log::{LOG_MS, Rates, Totals};
pub use output::{JobOutput, Options, Output, Transfers, operations, split};
pub use tool::{Finished, LiveRates, Running, Tool};
pub use unchanged::{Measured, run_in};

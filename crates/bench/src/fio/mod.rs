//! fio: its command lines and job files, what they measure, and running the installed one.
//!
//! Facts about fio are from its sources, version 3.33.

mod equivalent;
mod faithful;
mod job;
mod jobs;
mod lint;
mod log;
mod number;
mod output;
mod section;
mod tool;

pub use equivalent::scenario;
pub use faithful::{Measured, run_in};
pub use job::{Job, Sync, Transfer};
pub use jobs::Jobs;
pub use lint::{Finding, Severity, lint};
pub use log::{LOG_MS, Rates, Totals};
pub use output::{JobOutput, Options, Output, Transfers, operations, split};
pub use tool::{Finished, Pulse, Running, Tool};

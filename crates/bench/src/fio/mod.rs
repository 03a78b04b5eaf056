//! fio: running the installed one, and what it writes.

mod log;
mod output;
mod tool;

pub use log::{LOG_MS, Rates, Totals};
pub use output::{JobOutput, Output, Transfers};
pub use tool::{Finished, Pulse, Running, Tool};

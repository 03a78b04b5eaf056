//! The sizing advisor: a workload goes in, what to buy comes out, with the reasons.

mod measured;
mod workload;

pub use measured::{Measured, MeasuredPoint};
pub use workload::{Access, EDA_BYTES, EDA_READ_THOUSANDTHS, Stream, Workload};

//! The sizing advisor: recommends pools and volumes for a workload, with the reasons.
//!
//! For each kind of volume it finds the smallest capacity that carries the peak with its headroom under every
//! documented or measured bound: the level, the volume, the pool, the published or measured envelope, and the clients.
//! Each comparison is recorded as a [`Constraint`], so that the advice can be checked line by line.

mod assess;
mod band;
mod catalog;
mod choice;
mod constraint;
mod curve;
mod envelopes;
mod layout;
mod like;
mod machine;
mod measured;
mod mount;
mod price;
mod rank;
mod search;
mod workload;

pub use band::Band;
pub use catalog::Catalog;
pub use choice::{Advice, Choice, Evidence, MixCeilings, SkippedLevel};
pub use constraint::{Bound, Constraint, Utilization, mib, mib_within, size, size_to_buy, size_within};
pub use like::WorkloadKind;
pub use machine::Machine;
pub use measured::{Measured, MeasuredPoint};
pub use mount::{Mount, Recommendation};
pub use price::{Cost, Price, Prices};
pub use search::advise;
pub use workload::{Access, EDA_BYTES, EDA_READ_THOUSANDTHS, Stream, Workload};

#[cfg(test)]
mod tests;

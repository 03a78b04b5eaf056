//! The sizing advisor: a workload goes in, what to buy comes out, with the reasons.
//!
//! For each kind of volume the smallest capacity is looked for that carries the peak with its headroom under every bound
//! that anybody has documented or measured: the level, the volume, the pool, the published or the measured envelope, and
//! the clients. What is compared with what is kept as [`Constraint`]s, so that an answer can be followed line by line.

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
pub use choice::{Advice, AtMix, Choice, Evidence, LeftOut};
pub use constraint::{Bound, Constraint, Used, mib, mib_within, size, size_to_buy, size_within};
pub use like::Like;
pub use machine::Machine;
pub use measured::{Measured, MeasuredPoint};
pub use mount::{Mount, Why};
pub use price::{Cost, Price, Prices};
pub use search::advise;
pub use workload::{Access, EDA_BYTES, EDA_READ_THOUSANDTHS, Stream, Workload};

#[cfg(test)]
mod tests;

//! The sizing advisor: recommends pools and volumes for a workload, with the reasons.
//!
//! For each kind of volume the advisor finds the smallest capacity that carries the peak with its headroom.
//! Every documented or measured bound counts: level, volume, pool, published or measured envelope, clients.
//! Each comparison becomes a [`Constraint`], so that you can check the advice line by line.

mod assess;
mod band;
mod catalog;
mod choice;
mod constraint;
mod curve;
mod demand;
mod envelopes;
mod layout;
mod like;
mod machine;
mod measured;
mod mount;
mod plan;
mod price;
mod raise;
mod rank;
mod search;
mod workload;
mod years;

pub use band::Band;
pub use catalog::Catalog;
pub use choice::{Advice, Choice, Evidence, LatencyCheck, MixCeilings, SkippedLevel};
pub use constraint::{Bound, Constraint, Utilization, mib, mib_within, size, size_to_buy, size_within};
pub use demand::{Demand, DemandRate};
pub use like::WorkloadKind;
pub use machine::Machine;
pub use measured::{Measured, MeasuredPoint};
pub use mount::{Mount, Recommendation};
pub use plan::{Plan, PlanOption, PlanYear, PlannedPool, PlannedVolume, PoolRaise, plan};
pub use price::{Cost, Price, Prices};
pub use raise::{Raise, RaiseStep};
pub use search::advise;
pub use workload::{
    Access, CAPACITY_HEADROOM_SOURCE, CAPACITY_HEADROOM_WHY, EDA_BYTES, EDA_READ_THOUSANDTHS, Stream,
    Workload,
};
pub use years::Year;

#[cfg(test)]
mod tests;

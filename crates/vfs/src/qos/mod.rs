//! Quality of service: how much of what each pool, volume and client gets.

mod limits;

pub use limits::{Limits, MIX_STEPS, Mix, VolumeLimits};

//! The status monitor's hosts, and the notices of a restart.

pub(crate) mod hosts;
pub(crate) mod notify;

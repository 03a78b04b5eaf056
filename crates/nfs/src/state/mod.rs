//! State that outlives a call: mounts, locks, registrations, and the clients of NFSv4.

pub mod call_rates;
pub(crate) mod mounts;
mod namespace_tracker;
pub mod nfs4;
pub mod nlm;
pub(crate) mod nsm;
pub mod replay_cache;

//! State that outlives a call: mounts, locks, registrations, and the clients of NFSv4.

pub mod call_rates;
mod followed;
pub(crate) mod mounts;
pub mod nfs4;
pub mod nlm;
pub(crate) mod nsm;
pub mod replay_cache;

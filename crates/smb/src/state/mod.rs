//! State that outlives a request: connections, sessions, tree connects, opens and caches.

pub(crate) mod caching;
pub(crate) mod connection;
pub(crate) mod counters;
mod disconnected;
mod id_table;
pub(crate) mod open;
pub(crate) mod pending;
pub(crate) mod pending_quota;
pub mod persistent;
pub(crate) mod pipe;
pub(crate) mod pipe_handles;
pub mod service;
pub(crate) mod session;
pub(crate) mod tree;
mod user_quota;

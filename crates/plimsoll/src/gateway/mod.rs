//! A gateway: one of several machines in front of one CephFS.
//!
//! `plimsoll serve` with `[cluster]` in its configuration runs a [`supervisor`], which starts a process for each
//! [`endpoint`] that the gateway serves.

mod arrival;
mod clock;
mod commands;
pub(crate) mod endpoint;
mod lease_keeper;
mod membership;
mod network;
mod replica;
mod settings;
mod store;
pub(crate) mod supervisor;

pub(crate) use commands::{ClusterArgs, run as run_command};
pub(crate) use endpoint::EndpointArgs;

//! A gateway: one of several machines in front of one CephFS.
//!
//! `plimsoll serve` with `[cluster]` in its configuration runs a [`supervisor`], which starts a process for each
//! [`endpoint`] that the gateway serves.

mod address;
mod announce;
mod arrival;
mod checksum;
mod clock;
mod commands;
pub(crate) mod endpoint;
mod lease_keeper;
mod membership;
mod replica;
mod rtnetlink;
pub(crate) mod settings;
mod store;
pub(crate) mod supervisor;
mod wake_clients;

pub(crate) use commands::{ClusterArgs, run as run_command};
pub(crate) use endpoint::EndpointArgs;
pub(crate) use settings::ClusterConfig;

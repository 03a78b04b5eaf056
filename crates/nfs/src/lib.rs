//! NFS for Plimsoll: ONC RPC, the port mapper, MOUNT, NFS version 3, the lock manager, the status monitor and remote
//! quotas.
//!
//! This crate translates between the wire and [`vfs`], which decides the meaning and the permission of each operation.
//!
//! Layers, top down: `server`, `rquota`, `mount`, `v4`, `v3`, `nlm`, `nsm`, `portmap`, `call`, `service`, `state`, `records`,
//! `handle`, `outgoing`, `programs`, `id_map`, `call_stats`, `status`, `limits`.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

pub mod call;
pub mod call_stats;
pub mod handle;
pub mod id_map;
pub mod limits;
pub mod mount;
pub mod nlm;
pub mod nsm;
mod outgoing;
pub mod portmap;
pub mod programs;
pub mod records;
mod rquota;
pub mod server;
pub mod service;
pub mod state;
mod status;
#[cfg(test)]
mod testing;
mod v3;
pub mod v4;

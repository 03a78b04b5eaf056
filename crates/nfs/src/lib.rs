//! NFS for Plimsoll: ONC RPC, the port mapper, MOUNT, NFS version 3, the lock manager and the status monitor.
//!
//! This crate translates between the wire and [`vfs`]; what a file operation means and who may do it is decided there.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

pub mod cache;
pub mod call;
mod callback;
pub mod counts;
mod followed;
pub mod handle;
pub mod limits;
pub mod mount;
pub mod names;
pub mod nlm;
pub mod nsm;
pub mod portmap;
pub mod rates;
pub mod rpc;
pub mod service;
#[cfg(test)]
mod testing;
mod v3;
pub mod v4;

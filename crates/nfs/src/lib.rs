//! NFS for Plimsoll: ONC RPC, the port mapper, MOUNT, and NFS version 3.
//!
//! This crate translates between the wire and [`vfs`]; what a file operation means and who may do it is decided there.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

pub mod cache;
pub mod call;
pub mod handle;
pub mod limits;
pub mod mount;
pub mod portmap;
pub mod rates;
pub mod rpc;
pub mod service;
#[cfg(test)]
mod testing;
mod v3;

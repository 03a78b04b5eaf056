//! The messages of ONC RPC, the port mapper, MOUNT, NFS versions 3 and 4, the lock manager, the status
//! monitor and remote quotas as types, for servers and clients alike.
//!
//! This crate holds what the specifications say: constants, types, and the bounds within which a type is
//! decoded. What a server does with a message, and how much of it a server takes, is the business of the
//! server.
//!
//! Layers, top down: `v4`, `v3`.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod bits;
#[doc(hidden)]
pub mod fuzz;
pub mod mount;
pub mod nlm;
pub mod nsm;
pub mod portmap;
pub mod rpc;
pub mod rquota;
pub mod v3;
pub mod v4;

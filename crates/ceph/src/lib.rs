//! A backend over CephFS, through libcephfs.
//!
//! [`Volumes`] creates volumes below a directory of a CephFS, opens them, enforces the capacity of each, and removes them.
//! The library is loaded when the first cluster is opened: a service that uses none needs no Ceph.
//!
//! Layers, top down: `volumes`, `store`, `snapshot`, `walk`, `node`, `space`, `cluster`, `stat`, `error`, `ffi`.

#![warn(unreachable_pub)]
#![deny(unsafe_code)]

mod cluster;
mod error;
mod ffi;
mod node;
mod snapshot;
mod space;
mod stat;
mod store;
mod volumes;
mod walk;

pub use cluster::{OpenError, Options};
pub use volumes::Volumes;

//! A backend over CephFS, through libcephfs, and objects of RADOS, through librados.
//!
//! [`Volumes`] creates volumes below a directory of a CephFS, opens them, enforces the capacity of each, and removes them.
//! [`Rados`] changes objects of a pool atomically and shuts out other clients.
//! Each library is loaded when it is first used: a service that uses none needs no Ceph.
//!
//! Layers, top down: `rados`, `volumes`, `store`, `snapshot`, `walk`, `node`, `owner_files`, `space`, `cluster`, `stat`,
//! `error`, `ffi`.

#![warn(unreachable_pub)]
#![deny(unsafe_code)]

mod cluster;
mod error;
mod ffi;
mod node;
mod owner_files;
mod rados;
mod snapshot;
mod space;
mod stat;
mod store;
mod volumes;
mod walk;

pub use cluster::Options;
pub use error::OpenError;
pub use rados::{ObjectChange, Presence, Rados, RadosOptions};
pub use volumes::Volumes;

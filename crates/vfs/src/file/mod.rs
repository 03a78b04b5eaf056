//! The door to files: the operations of a protocol on a file.
//!
//! A [`File`] is reached through an [`Export`](crate::Export) and remembers it. Operations on names and attributes are methods of
//! `File` with the caller as an argument. Data is behind [`OpenFile`], which only an authorization creates. Every
//! protocol uses this door, so that the same file gives every protocol the same answer.
//!
//! The families: [`open_file`] (data), [`attr`], [`dir`] and [`create`] (names); where the storage has them [`ranges`],
//! [`xattrs`], [`extra_attrs`] and [`streams`]; [`notify`] for watches; [`restore`] for snapshots. [`acl`] decides permissions.

mod acl;
mod attr;
mod claims;
mod copy_admission;
mod core;
mod create;
mod dir;
mod extra_attrs;
mod notify;
mod open_file;
mod ranges;
mod restore;
mod streams;
mod xattrs;

pub use acl::SetSecurity;
pub use attr::{AccessReply, Guard};
pub use copy_admission::CopyAdmission;
pub use core::{Created, File, Resolved};
pub use create::{Disposition, ExclusiveKey};
pub use dir::{Listing, OpenDir};
pub use open_file::{OpenFile, Stability, WriteReservation};
pub use restore::{FileRestore, RestoreError};
pub use streams::StreamSink;

//! The door to files: what a protocol holds of one, and everything it may do with it.
//!
//! A [`File`] is reached through an [`Export`] and remembers which. What has to do with names and attributes are verbs of
//! it, each told who calls; data is behind [`OpenFile`], which only an authorization gives. Every protocol comes through
//! here, so that the same file gives the same answer whoever asks. The verbs are grouped by family: [`opened`] (data),
//! [`attr`], [`dir`] and [`create`] (names), where the storage has them [`ranges`], [`xattrs`], [`kept`] and [`streams`], and
//! [`watching`] all of that. Who may do what is asked in [`acl`], whatever decides it.

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
mod streams;
mod xattrs;

pub use acl::SetSecurity;
pub use attr::{AccessReply, Guard};
pub use copy_admission::CopyAdmission;
pub use core::{Created, File, Resolved};
pub use create::{Disposition, ExclusiveKey};
pub use dir::{Listing, OpenDir};
pub use open_file::{OpenFile, Stability, WriteReservation};
pub use streams::StreamSink;

//! The one place for calls of libcephfs and librados. Everything that leaves it is safe.
//!
//! An inode or a handle of libcephfs is valid until it is put or closed, which its owner here does on drop, and the mount
//! outlives both. Both libraries lock their own state, so every function may be called from any thread.

#![allow(unsafe_code, reason = "foreign functions")]

#[cfg(test)]
mod abi;
mod calls;
mod client;
#[cfg(test)]
mod header;
mod library;
pub(crate) mod rados;
mod table;
mod types;

pub(crate) use client::{Client, Created, Dir, Entry, Handle, Inode, Object, Settings, Wanted};
pub(crate) use types::{LIVE, SetMask, Statx, TimeSpec};

use rustix::io::Errno;

/// The result of a call: a negative number is an error.
fn done(result: libc::c_int) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno::from_raw_os_error(result.wrapping_neg()))
}

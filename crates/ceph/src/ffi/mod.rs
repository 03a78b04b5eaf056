//! The one place for calls of libcephfs. Everything that leaves it is safe.
//!
//! An inode or a handle of the library is valid until it is put or closed, which its owner here does on drop, and the
//! mount outlives both. The library locks its own state, so every function may be called from any thread.

#![allow(unsafe_code, reason = "foreign functions")]

#[cfg(test)]
mod abi;
mod calls;
mod client;
mod library;
mod types;

pub(crate) use client::{Client, Created, Dir, Entry, Handle, Inode, Object, Settings, Wanted};
pub(crate) use types::{LIVE, SetMask, Statx, TimeSpec};

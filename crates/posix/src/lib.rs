//! A backend over a directory of a Linux file system.
//!
//! A [`Store`] serves one directory tree. A file is found by its kernel handle, and every open file has one descriptor
//! in a bounded table, so a call on a cached file costs only its system calls. Other processes may change the tree at
//! any time. Their changes are visible at once, except for attributes in a listing, which may be a second old.
//!
//! [`Volumes`] creates such trees below a data directory, enforces the capacity of each, and removes them.
//!
//! [`Store::open`] sets the umask of the process to zero; [`ResourceBudget::of_process`] raises its soft limit of
//! descriptors to the hard one.
//!
//! Layers, top down: `volumes`, `snapshot`, `dir`, `node`, `fs_type`, `undo`, `capacity`, `budget`, `listing`, `sys`, `error`.

#![warn(unreachable_pub)]
#![deny(unsafe_code)]

mod budget;
mod capacity;
mod dir;
mod error;
mod fs_type;
mod listing;
mod node;
mod snapshot;
mod sys;
mod undo;
mod volumes;

pub use budget::ResourceBudget;
pub use node::mount::options::Options;
pub use volumes::Volumes;
pub use volumes::host_snapshots::SnapshotDirError;
pub use volumes::store::Store;

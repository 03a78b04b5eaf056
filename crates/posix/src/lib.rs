//! A backend over a directory of a Linux file system.
//!
//! A [`Store`] serves one directory tree. A file is found again by the kernel's own handle, and every open file has one
//! descriptor in a bounded table, so a call on a warm file costs the bare system calls. Other processes may change the
//! tree at any time: what they do is seen at once, but for the attributes in a listing, which may be a second old.
//!
//! [`Volumes`] makes such trees below a data directory, keeps each within its capacity, and removes them.
//!
//! [`Store::open`] sets the umask of the process to zero; [`ResourceBudget::of_process`] raises its soft
//! limit of descriptors to the hard one.
//!
//! Layers, top down: `volumes`, `dir`, `node`, `fs_type`, `capacity`, `budget`, `listing`, `sys`, `error`.

#![warn(unreachable_pub)]
#![deny(unsafe_code)]

mod budget;
mod capacity;
mod dir;
mod error;
mod fs_type;
mod listing;
mod node;
mod sys;
mod volumes;

pub use budget::ResourceBudget;
pub use node::mount::options::Options;
pub use volumes::Volumes;
pub use volumes::store::Store;

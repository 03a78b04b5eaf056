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

#![warn(unreachable_pub)]
#![deny(unsafe_code)]

mod acl_memory;
mod acls;
mod attr;
mod budget;
mod changes;
mod charging;
mod claim;
mod counter;
mod counting;
mod create;
mod data;
mod dir;
mod error;
mod flush;
mod fs_uid;
mod index;
mod key;
mod ledger;
mod limit;
mod listing;
mod listing_cache;
mod locate;
mod mount;
mod names;
mod nature;
mod node;
mod options;
mod owner;
mod project;
mod ranges;
mod record;
mod reserve;
mod setattr;
mod store;
mod sys;
mod table;
mod trash;
mod tree;
mod volumes;
mod xattrs;

pub use budget::ResourceBudget;
pub use options::Options;
pub use store::Store;
pub use volumes::Volumes;

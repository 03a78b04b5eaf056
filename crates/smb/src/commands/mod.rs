//! The commands of MS-SMB2 §3.3.5, one file or folder each.

pub(crate) mod change_notify;
pub(crate) mod create;
mod extended_attributes;
pub(crate) mod ioctl;
pub(crate) mod lock;
pub(crate) mod negotiate;
pub(crate) mod oplock_break;
pub(crate) mod query_directory;
pub(crate) mod query_info;
pub(crate) mod read_write;
pub(crate) mod session_setup;
pub(crate) mod set_info;
pub(crate) mod tree_connect;

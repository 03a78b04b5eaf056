//! File metadata between the wire and [`vfs`]: names, rights, attributes and access control lists.

pub(crate) mod acl;
pub(crate) mod file_info;
pub(crate) mod identity;
pub(crate) mod mode_descriptor;
pub(crate) mod names;
pub(crate) mod rights;
pub(crate) mod unix;

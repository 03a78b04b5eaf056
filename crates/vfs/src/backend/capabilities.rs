//! Optional features of a storage.
//!
//! Each capability is a trait of its own, which a [`crate::Node`] returns where its storage has it, and a family of the
//! conformance suite: [`super::xattrs`], [`super::ranges`] and [`crate::acl::posix_acl`]. A new capability takes the
//! same form. Named streams belong to a file, so their accessors belong on [`crate::Node`]; snapshots
//! ([`super::snapshots`]) belong to the whole volume, so theirs is on [`crate::Backend`]. Each adds a module beside these, a
//! field in [`Capabilities`], and its family.

/// The optional features of a backend, for protocols to report. They do not change while a volume is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Extended attributes of regular files and directories; `None` if not supported.
    pub xattrs: Option<XattrLimits>,
    /// Ranges of regular files; `None` if not supported.
    pub ranges: Option<RangeLimits>,
    /// Whether files may have POSIX ACLs beside their mode bits.
    pub acls: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XattrLimits {
    pub name_bytes_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeLimits {
    /// The alignment of cloned ranges, in bytes; `None` if the storage cannot clone.
    pub clone_bytes: Option<u64>,
}

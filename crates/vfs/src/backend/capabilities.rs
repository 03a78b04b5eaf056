//! What a storage can do beyond what every backend must do.
//!
//! Each capability is a trait of its own, which a [`crate::Node`] hands out where its storage has it, and a family of the
//! conformance suite: [`super::xattrs`], [`super::ranges`] and [`crate::acl::posix_acl`]. Those to come take the same form. Named
//! streams belong to a file, so their accessors belong on [`crate::Node`]; a feed of changes and snapshots belong to
//! the whole volume, so theirs belong on [`crate::Backend`]. Each brings a module beside these, a field in
//! [`Capabilities`], and its family.

/// What of it a backend can do, for a protocol to tell its clients. It does not change while a volume is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Extended attributes of regular files and directories; `None` if it keeps none.
    pub xattrs: Option<XattrLimits>,
    /// Ranges of regular files; `None` if it knows nothing of them.
    pub ranges: Option<RangeLimits>,
    /// Whether files may have lists of POSIX beside their mode bits.
    pub acls: bool,
}

/// How far extended attributes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XattrLimits {
    /// The longest name, in bytes.
    pub name_bytes_max: usize,
}

/// How far operations on ranges go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeLimits {
    /// What the ends of a cloned range must be multiples of, in bytes; `None` if nothing can be cloned.
    pub clone_bytes: Option<u64>,
}

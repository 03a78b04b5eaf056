//! The model of Plimsoll: a backend stores, a volume rules, a protocol translates.
//!
//! Everything the protocols have in common is decided here, once: names, attributes, callers, permissions, and what a
//! file operation means. This crate knows no protocol's words, opens no socket and no file.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

pub mod access;
pub mod acl;
pub mod attrs;
pub mod backend;
pub mod bounds;
pub mod caller;
pub mod capabilities;
pub mod charge;
pub mod claims;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod durable;
pub mod error;
#[cfg(any(test, feature = "testing"))]
pub mod faulty;
mod few;
pub mod file;
pub mod folded;
pub mod kept;
pub mod key;
#[cfg(any(test, feature = "testing"))]
pub mod memfs;
pub mod name;
pub mod namespace;
pub mod panics;
pub mod posix_acl;
pub mod provision;
pub mod qos;
pub mod ranges;
pub mod streams;
pub mod traffic;
#[cfg(any(test, feature = "testing"))]
pub mod unchecked;
pub mod volume;
pub mod watch;
pub mod xattrs;

pub use access::Access;
pub use acl::{Acl, SecurityStyle};
pub use attrs::{Attrs, Change, Device, FileType, FsLimits, FsStat, SetAttrs, SetTime, Time};
pub use backend::{
    AuthorizeCreate, AuthorizeLink, AuthorizeRemove, AuthorizeRename, AuthorizeSetattr, AuthorizeWrite,
    Backend, Blocking, Entry, EntryRef, EntrySink, Found, Made, NameFilter, NewInode, Node, NodeRef, Special,
    SyncScope,
};
pub use caller::{Caller, Credential, Proof};
pub use capabilities::{Capabilities, RangeLimits, XattrLimits};
pub use durable::{Durability, PendingSync};
pub use error::{FsError, FsResult};
#[cfg(any(test, feature = "testing"))]
pub use faulty::Faulty;
pub use file::{Created, Disposition, ExclusiveKey, File, Opened, OpenedDir, Reserved, Resolved, Stability};
pub use kept::Kept;
pub use key::{FileKey, KEY_BYTES_MAX, KeyHasher};
#[cfg(any(test, feature = "testing"))]
pub use memfs::{MemFs, provisioner::MemProvisioner};
pub use name::Name;
pub use namespace::{
    Admission, Cidr, Export, ExportId, ExportRule, Namespace, Origin, Protection, ProtocolId, ProtocolSet,
    PseudoDir, ShareSettings, SharedNamespace, Squash, VolumeId,
};
pub use posix_acl::{Acls, PosixAcl};
pub use provision::{Capacity, Counting, LentRoom, Provisioner, Root, Usage};
pub use ranges::{Ranges, Seek, Span};
#[cfg(any(test, feature = "testing"))]
pub use unchecked::UncheckedNode;
pub use volume::Volume;
pub use xattrs::{AuthorizeXattr, SetXattr, XattrName, XattrSink, Xattrs, XattrsSize};

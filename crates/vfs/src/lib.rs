//! The model of Plimsoll: a backend stores, a volume rules, a protocol translates.
//!
//! Everything the protocols have in common is decided here, once: names, attributes, callers, permissions, and what a
//! file operation means. This crate knows no protocol's words, opens no socket and no file.
//!
//! Layers, top down: `conformance`, `memfs`, `faulty`, `unchecked`, `file`, `namespace`, `volume`, `backend`, `acl`, `model`,
//! `claims`, `qos`, `file_key`, `bounds`, `few`, `error`, `panics`, `sync`.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

pub mod acl;
pub mod backend;
pub mod bounds;
pub mod claims;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod error;
#[cfg(any(test, feature = "testing"))]
pub mod faulty;
mod few;
pub mod file;
pub mod file_key;
#[cfg(any(test, feature = "testing"))]
pub mod memfs;
pub mod model;
pub mod namespace;
pub mod panics;
pub mod qos;
pub mod sync;
#[cfg(any(test, feature = "testing"))]
pub mod unchecked;
pub mod volume;

pub use acl::access::Access;
pub use acl::posix_acl::PosixAcl;
pub use acl::{Acl, SecurityStyle};
pub use backend::acls::Acls;
pub use backend::capabilities::{Capabilities, RangeLimits, XattrLimits};
pub use backend::durability::{Durability, PendingSync};
pub use backend::provisioner::{Capacity, Counting, Provisioner, ReserveGuard, Root, Usage};
pub use backend::ranges::{Ranges, Seek, Span};
pub use backend::xattrs::{
    AuthorizeXattr, SetXattr, XATTR_OVERHEAD_BYTES, XATTR_VALUE_BYTES_MAX, XATTRS_BYTES_MAX, XattrName,
    XattrSink, Xattrs, XattrsSize,
};
pub use backend::{
    AuthorizeCreate, AuthorizeLink, AuthorizeRemove, AuthorizeRename, AuthorizeSetattr, AuthorizeWrite,
    Backend, Blocking, CreatedEntry, Entry, EntryRef, EntrySink, Lookup, NameFilter, NewInode, Node, NodeRef,
    Special, SyncScope,
};
pub use error::{FsError, FsResult, Wait};
#[cfg(any(test, feature = "testing"))]
pub use faulty::Faulty;
pub use file::{
    Created, Disposition, ExclusiveKey, File, OpenDir, OpenFile, Resolved, Stability, WriteReservation,
};
pub use file_key::{FileKey, KEY_BYTES_MAX, KeyHasher, ViewId};
#[cfg(any(test, feature = "testing"))]
pub use memfs::{MemFs, provisioner::MemProvisioner};
pub use model::attrs::{Attrs, Change, Device, FileType, FsLimits, FsStat, SetAttrs, SetTime, Time};
pub use model::caller::{Caller, Credential, Proof};
pub use model::name::Name;
pub use model::volume_id::VolumeId;
pub use namespace::{
    Cidr, Export, ExportAccess, ExportId, ExportRule, Namespace, Origin, Protection, ProtocolId, ProtocolSet,
    PseudoDir, ShareSettings, SharedNamespace, Squash,
};
#[cfg(any(test, feature = "testing"))]
pub use unchecked::UncheckedNode;
pub use volume::Volume;
pub use volume::extra_attrs::ExtraAttrs;

//! The model of Plimsoll: a backend stores, a volume rules, a protocol translates.
//!
//! This crate decides everything that the protocols have in common, once: names, attributes, callers, permissions, and
//! the semantics of file operations. It contains no word of a protocol, and opens no socket and no file.
//!
//! Layers, top down: `file`, `namespace`, `volume`, `backend`, `acl`, `model`, `claims`, `qos`, `file_key`, `bounds`,
//! `small_map`, `error`, `panics`, `sync`.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

pub mod acl;
pub mod backend;
pub mod bounds;
pub mod claims;
pub mod error;
pub mod file;
pub mod file_key;
pub mod model;
pub mod namespace;
pub mod panics;
pub mod qos;
mod small_map;
pub mod sync;
pub mod volume;

pub use acl::access::Access;
pub use acl::posix_acl::PosixAcl;
pub use acl::{Acl, SecurityStyle};
pub use backend::acls::Acls;
pub use backend::capabilities::{Capabilities, RangeLimits, XattrLimits};
pub use backend::durability::{Durability, PendingSync};
pub use backend::provisioner::{Capacity, Counting, Provisioner, ReserveGuard, Root, Usage};
pub use backend::quotas::{
    QuotaBinding, QuotaCheck, QuotaDrift, QuotaKind, QuotaLimits, QuotaOwner, QuotaReport, QuotaRoom,
    QuotaRule, QuotaRules, QuotaTarget, QuotaUse, Quotas, SoftExcess,
};
pub use backend::ranges::{Ranges, Seek, Span};
pub use backend::snapshots::{ChangedRanges, Pace, Progress, SnapshotUsage, Snapshots, unpaced};
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
pub use file::{
    Created, Disposition, ExclusiveKey, File, FileRestore, OpenDir, OpenFile, Resolved, RestoreError,
    Stability, WriteReservation,
};
pub use file_key::{FileKey, KEY_BYTES_MAX, KeyHasher, ViewId};
pub use model::attrs::{Attrs, Change, Device, FileType, FsLimits, FsStat, SetAttrs, SetTime, Time};
pub use model::caller::{Caller, Credential, Proof};
pub use model::name::Name;
pub use model::volume_id::VolumeId;
pub use namespace::{
    Cidr, Export, ExportAccess, ExportId, ExportRule, Namespace, Origin, Protection, ProtocolId, ProtocolSet,
    PseudoDir, Refusals, ShareSettings, SharedNamespace, Squash,
};
pub use volume::Volume;
pub use volume::extra_attrs::ExtraAttrs;
pub use volume::snapshots::{PointBackend, Snapshot, SnapshotDirectory, SnapshotList};

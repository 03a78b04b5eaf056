//! The type of a file, and helpers that several families of operations share.

use crate::backend::durability::PendingSync;
use crate::backend::{Blocking, NodeRef, SyncScope};
use crate::claims::Stream;
use crate::error::{FsError, FsResult};
use crate::file_key::{FileKey, ViewId};
use crate::model::attrs::{Attrs, Change, FileType};
use crate::model::caller::Caller;
use crate::namespace::Export;
use crate::volume::Volume;
use std::sync::Arc;

/// A file of an export. Cheap to clone; it carries no permission.
#[derive(Clone)]
pub struct File {
    export: Arc<Export>,
    pub(super) node: NodeRef,
    /// `None` for the file's own data.
    pub(super) stream: Option<Arc<NamedStream>>,
}

pub(super) struct NamedStream {
    pub(super) node: NodeRef,
    /// The number in the table of claims.
    pub(super) number: Stream,
}

pub struct Resolved {
    pub file: File,
    pub attrs: Attrs,
}

/// A file that was created or found, and the change of its directory.
pub struct Created {
    pub file: File,
    pub attrs: Attrs,
    pub dir: Change,
    /// Whether this call has made the file, or the name.
    pub is_new: bool,
}

impl Export {
    pub fn root(self: &Arc<Self>) -> File {
        File { export: Arc::clone(self), node: Arc::clone(self.volume.root()), stream: None }
    }

    /// The root directory as a snapshot has it. [`FsError::Stale`] if there is no such snapshot, or clients may not reach
    /// any.
    pub fn root_in(self: &Arc<Self>, snapshot: ViewId) -> FsResult<File> {
        self.file(&self.volume.root().key().in_view(snapshot), Blocking::Allowed)
    }

    /// The file of a key, as reached through this export. [`FsError::Stale`] if it is gone, [`FsError::BadHandle`] if no key
    /// looks like that.
    pub fn file(self: &Arc<Self>, key: &FileKey, blocking: Blocking) -> FsResult<File> {
        Ok(File { export: Arc::clone(self), node: self.volume.node(key, blocking)?, stream: None })
    }
}

impl File {
    #[inline]
    pub fn export(&self) -> &Arc<Export> {
        &self.export
    }

    #[inline]
    pub fn volume(&self) -> &Volume {
        &self.export.volume
    }

    /// The key of the file; a stream has the key of its file.
    pub fn key(&self) -> FileKey {
        self.node.key()
    }

    /// Whether both are the same file, or stream of a file, of the same export. May be false for two lookups at
    /// different times.
    #[inline]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.data(), other.data()) && Arc::ptr_eq(&self.export, &other.export)
    }

    /// Whether it is the root directory of its export.
    #[inline]
    pub fn is_root(&self) -> bool {
        let root = self.volume().root();
        Arc::ptr_eq(&self.node, root) || self.node.key() == root.key()
    }

    /// The current attributes. A stream has those of its file, except for the size.
    /// [`FsError::Stale`] once the file has no name left.
    #[inline]
    pub fn attrs(&self, blocking: Blocking) -> FsResult<Attrs> {
        let attrs = self.node.attrs(blocking)?;
        match &self.stream {
            None => Ok(attrs),
            Some(stream) => Ok(stream.attrs(&attrs, &stream.node.attrs(blocking)?)),
        }
    }

    /// [`FsError::ReadOnly`] if `caller` may change nothing, or nobody may change this file.
    pub(super) fn check_writable(&self, caller: &Caller) -> FsResult<()> {
        if !caller.read_only && self.is_live() { Ok(()) } else { Err(FsError::ReadOnly) }
    }

    /// Whether the file is live. All others are read-only for everyone.
    pub fn is_live(&self) -> bool {
        self.key().view() == ViewId::LIVE
    }

    /// The number of this directory, which has `attrs`, as an entry of a directory of snapshots. `None` if it was not
    /// reached as one.
    #[inline]
    pub fn entry_id(&self, attrs: &Attrs) -> Option<u64> {
        if attrs.is_live() { None } else { self.key().view().entry_id(attrs.file_id) }
    }

    #[inline]
    pub(super) fn data(&self) -> &NodeRef {
        self.stream.as_ref().map_or(&self.node, |stream| &stream.node)
    }

    pub(super) fn beside(&self, node: NodeRef) -> Self {
        Self { export: Arc::clone(&self.export), node, stream: None }
    }

    /// [`FsError::CrossVolume`] unless `other` was reached by the same export. Access through one export gives no
    /// access through another, even of the same volume.
    pub(super) fn check_same_export(&self, other: &Self) -> FsResult<()> {
        if Arc::ptr_eq(&self.export, &other.export) { Ok(()) } else { Err(FsError::CrossVolume) }
    }

    /// Schedules the flush of all changes of this file so far.
    pub fn require_stable(&self, pending: &mut PendingSync) {
        self.require_sync(pending, SyncScope::All);
    }

    pub(super) fn require_sync(&self, pending: &mut PendingSync, scope: SyncScope) {
        self.volume().require_sync(pending, &self.node, scope);
    }
}

/// [`FsError::ReadOnly`] if `caller` may change nothing, or nobody may change a file that has `attrs`.
pub(super) fn check_writable(attrs: &Attrs, caller: &Caller) -> FsResult<()> {
    if caller.read_only || !attrs.is_live() { Err(FsError::ReadOnly) } else { Ok(()) }
}

pub(super) fn check_is_dir(attrs: &Attrs) -> FsResult<()> {
    if attrs.file_type == FileType::Directory { Ok(()) } else { Err(FsError::NotDirectory) }
}

//! Storage that is closed while its files are replaced: every operation has to wait ([`Wait::Recall`]).

use super::{
    AuthorizeCreate, AuthorizeLink, AuthorizeRemove, AuthorizeRename, AuthorizeSetattr, AuthorizeWrite,
    Backend, Blocking, CreatedEntry, EntrySink, Lookup, Node, NodeRef, Special, SyncScope,
};
use crate::error::{FsError, FsResult, Wait};
use crate::file_key::FileKey;
use crate::model::attrs::{Attrs, Change, FsLimits, FsStat};
use crate::model::name::Name;
use std::os::fd::OwnedFd;
use std::sync::Arc;

const CLOSED: FsError = FsError::Wait(Wait::Recall);

pub(crate) struct Placeholder;

/// No client gets a handle of it.
struct PlaceholderRoot;

impl Backend for Placeholder {
    fn root(&self) -> NodeRef {
        Arc::new(PlaceholderRoot)
    }

    fn node(&self, _: &FileKey, _: Blocking) -> FsResult<NodeRef> {
        Err(CLOSED)
    }

    fn stat(&self) -> FsResult<FsStat> {
        Err(CLOSED)
    }

    /// Clients see none of them, because they reach no file.
    fn limits(&self) -> FsLimits {
        FsLimits { links_max: 1, name_bytes_max: 255, file_bytes_max: 0, time_step_ns: 1 }
    }

    fn sync(&self) -> FsResult<()> {
        Err(CLOSED)
    }

    fn flush_failures(&self) -> u64 {
        0
    }
}

impl Node for PlaceholderRoot {
    fn key(&self) -> FileKey {
        FileKey::NONE
    }

    fn attrs(&self, _: Blocking) -> FsResult<Attrs> {
        Err(CLOSED)
    }

    fn change_attrs(&self, _: AuthorizeSetattr<'_>) -> FsResult<Change> {
        Err(CLOSED)
    }

    fn read(&self, _: u64, _: usize, _: &mut Vec<u8>, _: Blocking) -> FsResult<usize> {
        Err(CLOSED)
    }

    fn descriptor(&self, _: u64, _: usize, _: Blocking) -> Option<Arc<OwnedFd>> {
        None
    }

    fn write(&self, _: u64, _: &[u8], _: AuthorizeWrite<'_>) -> FsResult<Change> {
        Err(CLOSED)
    }

    fn reserve(&self, _: u64, _: usize, _: AuthorizeWrite<'_>) -> FsResult<()> {
        Err(CLOSED)
    }

    fn release(&self, _: u64, _: usize) {}

    fn pin(&self) {}

    fn unpin(&self) {}

    fn sync(&self, _: SyncScope) -> FsResult<()> {
        Err(CLOSED)
    }

    fn read_link(&self) -> FsResult<Vec<u8>> {
        Err(CLOSED)
    }

    fn lookup(&self, _: Name<'_>, _: Blocking) -> FsResult<Lookup> {
        Err(CLOSED)
    }

    fn parent(&self) -> FsResult<Lookup> {
        Err(CLOSED)
    }

    fn read_dir(&self, _: u64, _: bool, _: &mut EntrySink<'_>) -> FsResult<bool> {
        Err(CLOSED)
    }

    fn create(&self, _: Name<'_>, _: AuthorizeCreate<'_>) -> FsResult<CreatedEntry> {
        Err(CLOSED)
    }

    fn make_dir(&self, _: Name<'_>, _: AuthorizeCreate<'_>) -> FsResult<CreatedEntry> {
        Err(CLOSED)
    }

    fn make_special(&self, _: Name<'_>, _: Special<'_>, _: AuthorizeCreate<'_>) -> FsResult<CreatedEntry> {
        Err(CLOSED)
    }

    fn link(&self, _: Name<'_>, _: &NodeRef, _: AuthorizeLink<'_>) -> FsResult<CreatedEntry> {
        Err(CLOSED)
    }

    fn remove(&self, _: Name<'_>, _: AuthorizeRemove<'_>) -> FsResult<Change> {
        Err(CLOSED)
    }

    fn remove_dir(&self, _: Name<'_>, _: AuthorizeRemove<'_>) -> FsResult<Change> {
        Err(CLOSED)
    }

    fn rename(
        &self,
        _: Name<'_>,
        _: &NodeRef,
        _: Name<'_>,
        _: AuthorizeRename<'_>,
    ) -> FsResult<(Change, Change)> {
        Err(CLOSED)
    }
}

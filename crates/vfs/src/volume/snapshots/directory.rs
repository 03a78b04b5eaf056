//! The directory of snapshots in a live directory.

use super::table::{Snapshot, SnapshotList, SnapshotTable};
use crate::backend::acls::Acls;
use crate::backend::xattrs::{AuthorizeXattr, SetXattr, XattrName, XattrSink, Xattrs};
use crate::backend::{
    AuthorizeCreate, AuthorizeLink, AuthorizeRemove, AuthorizeRename, AuthorizeSetattr, AuthorizeWrite,
    Blocking, CreatedEntry, Entry, EntrySink, Lookup, Node, NodeRef, Special, SyncScope,
};
use crate::error::{FsError, FsResult};
use crate::file_key::{FileKey, KeyHasher, ViewId};
use crate::model::attrs::{Attrs, Change, FileType, Time};
use crate::model::name::Name;
use std::hash::{Hash, Hasher};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

const SELF_COOKIE: u64 = 1;
const PARENT_COOKIE: u64 = 2;
/// Added to the number of a snapshot.
const FIRST_COOKIE: u64 = 2;
/// File numbers of the storage are below this bit, those that are made here above it.
const MADE_HERE: u64 = 1 << 63;

pub(super) struct SnapshotsDir {
    table: Arc<SnapshotTable>,
    dir: NodeRef,
}

impl SnapshotsDir {
    pub(super) fn new(table: Arc<SnapshotTable>, dir: NodeRef) -> Self {
        Self { table, dir }
    }

    fn list(&self) -> Arc<SnapshotList> {
        self.table.list.load_full()
    }

    /// The directory in a snapshot; [`FsError::Stale`] if the snapshot does not have it.
    fn root_in(&self, view: ViewId) -> FsResult<(FileKey, Attrs)> {
        let key = self.dir.key().in_view(view.entry());
        let attrs = self.table.node(&key, Blocking::Allowed)?.attrs(Blocking::Allowed)?;
        Ok((key, attrs))
    }

    /// Whether the directory existed at the time of a snapshot, as far as its creation time says.
    fn may_be_in(snapshot: &Snapshot, dir: &Attrs) -> bool {
        dir.born.is_none_or(|born| born.seconds <= snapshot.created.seconds)
    }
}

/// The number of an object that the storage does not have. The entries of a directory of snapshots would otherwise have
/// the number of the directory itself, which looks like a loop.
pub(super) fn made_up_id(dir: u64, view: ViewId) -> u64 {
    let mut hasher = KeyHasher::default();
    (dir, view).hash(&mut hasher);
    hasher.finish() | MADE_HERE
}

impl ViewId {
    /// The number of a directory with this view as an entry of a directory of snapshots. `None` if it was not reached
    /// as one. `file_id` is its number in the storage.
    pub fn entry_id(self, file_id: u64) -> Option<u64> {
        self.is_entry().then(|| made_up_id(file_id, self.snapshot()))
    }
}

impl Node for SnapshotsDir {
    fn key(&self) -> FileKey {
        self.dir.key().in_view(ViewId::DIRECTORY)
    }

    /// The owner and the rights of the directory that it is in, whose access control list counts as well. The change time
    /// follows from the list and from that directory, so that it is the same after a restart and another one after each
    /// change.
    fn attrs(&self, blocking: Blocking) -> FsResult<Attrs> {
        if !self.table.is_reachable() {
            return Err(FsError::Stale);
        }
        let dir = self.dir.attrs(blocking)?;
        let list = self.list();
        let mut hasher = KeyHasher::default();
        dir.change.hash(&mut hasher);
        for snapshot in list.iter() {
            (snapshot.view, &snapshot.name).hash(&mut hasher);
        }
        let hash = hasher.finish();
        let newest = list.iter().next_back().map_or(dir.born.unwrap_or_default(), |last| last.created);
        let changed = Time { nanos: u32::try_from(hash % 1_000_000_000).unwrap_or(0), ..newest };
        let links = u32::try_from(list.len()).unwrap_or(u32::MAX).saturating_add(2);
        Ok(Attrs {
            file_type: FileType::Directory,
            links,
            size: 0,
            used: 0,
            file_id: made_up_id(dir.file_id, ViewId::DIRECTORY),
            accessed: changed,
            modified: changed,
            changed,
            change: hash,
            born: dir.born,
            view: ViewId::DIRECTORY,
            ..dir
        })
    }

    fn lookup(&self, name: Name<'_>, blocking: Blocking) -> FsResult<Lookup> {
        let view = self.list().by_name(name.bytes()).ok_or(FsError::NotFound)?.view;
        let key = self.dir.key().in_view(view.entry());
        let node = match self.table.node(&key, blocking) {
            // The directory is newer than the snapshot.
            Err(FsError::Stale) => return Err(FsError::NotFound),
            node => node?,
        };
        Ok(Lookup { attrs: node.attrs(blocking)?, node })
    }

    fn parent(&self) -> FsResult<Lookup> {
        Ok(Lookup { attrs: self.dir.attrs(Blocking::Allowed)?, node: NodeRef::clone(&self.dir) })
    }

    /// With their objects, snapshots that do not have the directory are left out, as they are in lookups.
    fn read_dir(&self, cookie: u64, plus: bool, sink: &mut EntrySink<'_>) -> FsResult<bool> {
        let dir = self.dir.attrs(Blocking::Allowed)?;
        let own = made_up_id(dir.file_id, ViewId::DIRECTORY);
        let list = self.list();
        let mut entries =
            vec![(SELF_COOKIE, &b"."[..], own, None), (PARENT_COOKIE, b"..", dir.file_id, None)];
        let snapshots = list.iter().filter(|snapshot| Self::may_be_in(snapshot, &dir)).map(|snapshot| {
            let Snapshot { view, name, .. } = snapshot;
            let file_id = made_up_id(dir.file_id, *view);
            (FIRST_COOKIE + u64::from(view.0), name.as_bytes(), file_id, Some(*view).filter(|_| plus))
        });
        entries.extend(snapshots);
        // In the order of their cookies: a listing goes on after the cookie of an entry that is gone.
        entries.sort_unstable_by_key(|(cookie, ..)| *cookie);
        let mut rest = entries.into_iter().filter(|(at, ..)| *at > cookie);
        Ok(rest.all(|(cookie, name, file_id, view)| {
            let object = match view.map(|view| self.root_in(view)) {
                Some(Err(FsError::Stale)) => return true,
                // Without attributes, the client sees the error when it looks the entry up.
                root => root.and_then(Result::ok),
            };
            let object = object.as_ref().map(|(key, attrs)| (key, attrs));
            sink(&Entry { name, file_id, cookie, object }).is_continue()
        }))
    }

    fn sync(&self, _: SyncScope) -> FsResult<()> {
        Ok(())
    }

    fn pin(&self) {}

    fn unpin(&self) {}

    fn release(&self, _: u64, _: usize) {}

    fn read(&self, _: u64, _: usize, _: &mut Vec<u8>, _: Blocking) -> FsResult<usize> {
        Err(FsError::IsDirectory)
    }

    fn descriptor(&self, _: u64, _: usize, _: Blocking) -> Option<Arc<OwnedFd>> {
        None
    }

    fn read_link(&self) -> FsResult<Vec<u8>> {
        Err(FsError::Invalid)
    }

    fn xattrs(&self) -> Option<&dyn Xattrs> {
        self.dir.xattrs().map(|_| self as &dyn Xattrs)
    }

    fn acls(&self) -> Option<&dyn Acls> {
        self.dir.acls()
    }

    super::frozen::refuse_changes!();
}

/// The extended attributes of the live directory, which have its access control list.
impl Xattrs for SnapshotsDir {
    fn get(&self, name: XattrName<'_>) -> FsResult<Vec<u8>> {
        self.dir.xattrs().ok_or(FsError::NotSupported)?.get(name)
    }

    fn list(&self, cookie: u64, sink: &mut XattrSink<'_>) -> FsResult<bool> {
        self.dir.xattrs().ok_or(FsError::NotSupported)?.list(cookie, sink)
    }

    fn set(&self, _: XattrName<'_>, _: &[u8], _: SetXattr, _: AuthorizeXattr<'_>) -> FsResult<Change> {
        Err(FsError::ReadOnly)
    }

    fn remove(&self, _: XattrName<'_>, _: AuthorizeXattr<'_>) -> FsResult<Change> {
        Err(FsError::ReadOnly)
    }
}

//! The snapshots of a volume, as clients see them: below `.snapshot` in every directory, read-only.
//!
//! The management says which snapshots there are ([`Volume::set_snapshots`]). Each opens with the first access to it.

mod directory;
mod frozen;

use super::Volume;
use super::streams::StreamTree;
use crate::backend::snapshots::Snapshots;
use crate::backend::{Backend, Blocking, Lookup, NodeRef};
use crate::error::{FsError, FsResult, Wait};
use crate::file_key::{FileKey, ViewId};
use crate::model::attrs::Time;
use crate::model::name::Name;
use crate::sync::Mutex;
use arc_swap::ArcSwap;
use directory::SnapshotsDir;
use frozen::FrozenNode;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Weak};

/// Accesses to a snapshot are this far apart, in calls of [`Volume::sweep_snapshots`], before it closes.
const IDLE_SWEEPS: u8 = 60;

/// A complete snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub view: ViewId,
    /// Its name in directories of snapshots: a [`Name`], different from all others.
    pub name: String,
    /// Its time, in whole seconds. No two snapshots of a volume have the same.
    pub created: Time,
}

/// The access of clients to the directories of snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum SnapshotDirectory {
    /// There are none.
    Hidden,
    /// Clients that name it reach it. No listing contains it.
    #[default]
    Reachable,
    /// The listing of the volume's root contains it.
    Listed,
}

/// The snapshots of a volume, in the order of their times.
#[derive(Debug, Default)]
pub struct SnapshotList {
    snapshots: Vec<Snapshot>,
}

impl SnapshotList {
    fn new(mut snapshots: Vec<Snapshot>) -> Self {
        snapshots.sort_by_key(|snapshot| (snapshot.created, snapshot.view));
        Self { snapshots }
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Snapshot> {
        self.snapshots.iter()
    }

    pub fn len(&self) -> usize {
        self.snapshots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.snapshots.is_empty()
    }

    pub fn by_name(&self, name: &[u8]) -> Option<&Snapshot> {
        self.snapshots.iter().find(|snapshot| snapshot.name.as_bytes() == name)
    }

    pub fn by_view(&self, view: ViewId) -> Option<&Snapshot> {
        self.snapshots.iter().find(|snapshot| snapshot.view == view)
    }

    pub fn by_second(&self, seconds: i64) -> Option<&Snapshot> {
        let found = self.snapshots.binary_search_by_key(&seconds, |snapshot| snapshot.created.seconds);
        found.ok().map(|place| &self.snapshots[place])
    }
}

pub(crate) struct SnapshotTable {
    backend: Arc<dyn Backend>,
    directory: AtomicU8,
    list: ArcSwap<SnapshotList>,
    open: Mutex<HashMap<ViewId, OpenSnapshot>>,
    /// For nodes, which outlive no table.
    this: Weak<Self>,
}

struct OpenSnapshot {
    frozen: Arc<Frozen>,
    /// Sweeps since the last access.
    idle: u8,
}

/// The open files of a snapshot.
pub(crate) struct Frozen {
    view: ViewId,
    backend: Arc<dyn Backend>,
    root: FileKey,
    streams: StreamTree,
    table: Weak<SnapshotTable>,
    /// Whether the snapshot is deleted, or clients may no longer reach it.
    is_deleted: AtomicBool,
}

impl Frozen {
    /// The file of a key of this snapshot.
    fn node(self: &Arc<Self>, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef> {
        self.check()?;
        let inner = self.backend.node(&key.in_view(ViewId::LIVE), blocking)?;
        Ok(FrozenNode::node_ref(self, inner, key.view()))
    }

    /// [`FsError::Stale`] once the snapshot is deleted.
    #[inline]
    fn check(&self) -> FsResult<()> {
        if self.is_deleted.load(Ordering::Relaxed) { Err(FsError::Stale) } else { Ok(()) }
    }
}

impl SnapshotTable {
    pub(super) fn new(backend: Arc<dyn Backend>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            backend,
            directory: AtomicU8::new(SnapshotDirectory::default() as u8),
            list: ArcSwap::default(),
            open: Mutex::default(),
            this: Weak::clone(this),
        })
    }

    fn directory(&self) -> SnapshotDirectory {
        const HIDDEN: u8 = SnapshotDirectory::Hidden as u8;
        const LISTED: u8 = SnapshotDirectory::Listed as u8;
        match self.directory.load(Ordering::Relaxed) {
            HIDDEN => SnapshotDirectory::Hidden,
            LISTED => SnapshotDirectory::Listed,
            _ => SnapshotDirectory::Reachable,
        }
    }

    fn is_reachable(&self) -> bool {
        self.directory() != SnapshotDirectory::Hidden && self.backend.snapshots().is_some()
    }

    /// The object of a key that is not of the live files; [`FsError::Stale`] if clients may not reach it.
    fn node(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef> {
        if !self.is_reachable() {
            return Err(FsError::Stale);
        }
        if key.view() != ViewId::DIRECTORY {
            return self.frozen(key.view().snapshot(), blocking)?.node(key, blocking);
        }
        self.directory_of(self.backend.node(&key.in_view(ViewId::LIVE), blocking)?)
    }

    /// The directory of snapshots in a live directory.
    fn directory_of(&self, dir: NodeRef) -> FsResult<NodeRef> {
        let this = self.this.upgrade().ok_or(FsError::Stale)?;
        Ok(Arc::new(SnapshotsDir::new(this, dir)))
    }

    /// The open files of a snapshot; [`FsError::Stale`] if there is no such snapshot.
    fn frozen(&self, view: ViewId, blocking: Blocking) -> FsResult<Arc<Frozen>> {
        self.list.load().by_view(view).ok_or(FsError::Stale)?;
        let mut open = self.open.lock();
        if let Some(found) = open.get_mut(&view) {
            found.idle = 0;
            return Ok(Arc::clone(&found.frozen));
        }
        if blocking == Blocking::Never {
            return Err(FsError::Wait(Wait::Storage));
        }
        let snapshots = self.backend.snapshots().ok_or(FsError::Stale)?;
        let backend = snapshots.open(view).map_err(|error| match error {
            FsError::NotFound => FsError::Stale,
            error => error,
        })?;
        // Removed from the list or hidden meanwhile: `set` and `set_directory` have not seen it in the table.
        self.list.load().by_view(view).filter(|_| self.is_reachable()).ok_or(FsError::Stale)?;
        let frozen = Arc::new(Frozen {
            view,
            root: backend.root().key(),
            backend,
            streams: StreamTree::default(),
            table: Weak::clone(&self.this),
            is_deleted: AtomicBool::new(false),
        });
        open.insert(view, OpenSnapshot { frozen: Arc::clone(&frozen), idle: 0 });
        Ok(frozen)
    }

    fn set(&self, snapshots: Vec<Snapshot>) {
        let list = Arc::new(SnapshotList::new(snapshots));
        self.list.store(Arc::clone(&list));
        self.open.lock().retain(|view, open| {
            let stays = list.by_view(*view).is_some();
            open.frozen.is_deleted.store(!stays, Ordering::Relaxed);
            stays
        });
    }

    /// Files of snapshots that are open lose their use with the access to them.
    fn set_directory(&self, directory: SnapshotDirectory) {
        self.directory.store(directory as u8, Ordering::Relaxed);
        if directory == SnapshotDirectory::Hidden {
            for (_, open) in self.open.lock().drain() {
                open.frozen.is_deleted.store(true, Ordering::Relaxed);
            }
        }
    }

    fn sweep(&self) {
        self.open.lock().retain(|_, open| {
            open.idle = open.idle.saturating_add(1);
            open.idle <= IDLE_SWEEPS || Arc::strong_count(&open.frozen) > 1
        });
    }
}

impl Volume {
    /// Replaces the list of snapshots. Files of a snapshot that is no longer in it are [`FsError::Stale`].
    pub fn set_snapshots(&self, snapshots: Vec<Snapshot>) {
        self.snapshots.set(snapshots);
    }

    /// The snapshots in the storage, for the management; `None` if the storage can make none.
    pub fn snapshot_storage(&self) -> Option<&dyn Snapshots> {
        self.snapshots.backend.snapshots()
    }

    pub fn snapshots(&self) -> Arc<SnapshotList> {
        self.snapshots.list.load_full()
    }

    pub fn set_snapshot_directory(&self, directory: SnapshotDirectory) {
        self.snapshots.set_directory(directory);
    }

    /// Whether the listing of the root contains the directory of snapshots.
    pub(crate) fn lists_snapshots(&self) -> bool {
        self.snapshots.directory() == SnapshotDirectory::Listed && self.snapshots.is_reachable()
    }

    /// Whether clients may reach the directories of snapshots.
    pub fn has_snapshot_directories(&self) -> bool {
        self.snapshots.is_reachable()
    }

    /// Closes the snapshots that nobody has used for a while. Call this about once a second.
    pub fn sweep_snapshots(&self) {
        self.snapshots.sweep();
    }

    /// The directory of snapshots in `dir`, a live directory. A file of the same name comes first.
    pub(crate) fn lookup_snapshots(&self, dir: &NodeRef, blocking: Blocking) -> FsResult<Lookup> {
        match dir.lookup(Name::SNAPSHOTS, blocking) {
            Err(FsError::NotFound) if self.snapshots.is_reachable() => {
                let node = self.snapshots.directory_of(NodeRef::clone(dir))?;
                Ok(Lookup { attrs: node.attrs(blocking)?, node })
            }
            found => found,
        }
    }

    #[cold]
    pub(super) fn node_in_view(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef> {
        self.snapshots.node(key, blocking)
    }

    /// The root of the hidden tree of streams in a snapshot, if it exists.
    pub(super) fn stream_tree_of_view(&self, view: ViewId) -> FsResult<Option<NodeRef>> {
        let frozen = self.snapshots.frozen(view.snapshot(), Blocking::Allowed)?;
        // The tree of the storage: one of the snapshot would refer to the snapshot, and keep it open for ever.
        let tree = frozen.streams.root(&frozen.backend.root())?;
        Ok(tree.map(|tree| FrozenNode::node_ref(&frozen, tree, frozen.view)))
    }
}

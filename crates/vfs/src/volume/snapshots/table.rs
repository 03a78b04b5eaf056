//! The table of a volume's snapshots, and those that are open.

use super::directory::SnapshotsDir;
use super::frozen::FrozenNode;
use crate::backend::{Backend, Blocking, NodeRef};
use crate::error::{FsError, FsResult, Wait};
use crate::file_key::{FileKey, ViewId};
use crate::model::attrs::Time;
use crate::sync::Mutex;
use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Weak};

/// Accesses to a snapshot are this far apart, in calls of [`Volume::sweep_snapshots`], before it closes.
const IDLE_SWEEPS: u8 = 60;

/// A complete snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub view: ViewId,
    /// The name in directories of snapshots: a [`crate::Name`], different from all others.
    pub name: String,
    /// The time, in whole seconds.
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

    /// The first snapshot of a second. Only other programs make several in one.
    pub fn by_second(&self, seconds: i64) -> Option<&Snapshot> {
        let place = self.snapshots.partition_point(|snapshot| snapshot.created.seconds < seconds);
        self.snapshots.get(place).filter(|snapshot| snapshot.created.seconds == seconds)
    }
}

pub(crate) struct SnapshotTable {
    pub(super) backend: Arc<dyn Backend>,
    directory: AtomicU8,
    pub(super) list: ArcSwap<SnapshotList>,
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
    pub(super) view: ViewId,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) root: FileKey,
    pub(super) table: Weak<SnapshotTable>,
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
    pub(super) fn check(&self) -> FsResult<()> {
        if self.is_deleted.load(Ordering::Relaxed) { Err(FsError::Stale) } else { Ok(()) }
    }
}

impl SnapshotTable {
    pub(in crate::volume) fn new(backend: Arc<dyn Backend>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            backend,
            directory: AtomicU8::new(SnapshotDirectory::default() as u8),
            list: ArcSwap::default(),
            open: Mutex::default(),
            this: Weak::clone(this),
        })
    }

    pub(super) fn directory(&self) -> SnapshotDirectory {
        const HIDDEN: u8 = SnapshotDirectory::Hidden as u8;
        const LISTED: u8 = SnapshotDirectory::Listed as u8;
        match self.directory.load(Ordering::Relaxed) {
            HIDDEN => SnapshotDirectory::Hidden,
            LISTED => SnapshotDirectory::Listed,
            _ => SnapshotDirectory::Reachable,
        }
    }

    pub(super) fn is_reachable(&self) -> bool {
        self.directory() != SnapshotDirectory::Hidden && self.backend.snapshots().is_some()
    }

    /// The object of a key that is not of the live files; [`FsError::Stale`] if clients may not reach it.
    pub(super) fn node(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef> {
        if !self.is_reachable() {
            return Err(FsError::Stale);
        }
        if key.view() != ViewId::DIRECTORY {
            return self.frozen(key.view().snapshot(), blocking)?.node(key, blocking);
        }
        self.directory_of(self.backend.node(&key.in_view(ViewId::LIVE), blocking)?)
    }

    /// The directory of snapshots in a live directory.
    pub(super) fn directory_of(&self, dir: NodeRef) -> FsResult<NodeRef> {
        let this = self.this.upgrade().ok_or(FsError::Stale)?;
        Ok(Arc::new(SnapshotsDir::new(this, dir)))
    }

    /// The open files of a snapshot; [`FsError::Stale`] if there is no such snapshot.
    pub(super) fn frozen(&self, view: ViewId, blocking: Blocking) -> FsResult<Arc<Frozen>> {
        self.list.load().by_view(view).ok_or(FsError::Stale)?;
        let mut open = match blocking {
            Blocking::Allowed => self.open.lock(),
            // Held while the storage opens a snapshot.
            Blocking::Never => self.open.try_lock().ok_or(FsError::Wait(Wait::Storage))?,
        };
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
        let frozen = self.opened(view, backend);
        open.insert(view, OpenSnapshot { frozen: Arc::clone(&frozen), idle: 0 });
        Ok(frozen)
    }

    /// The files of a snapshot for the service itself, also while clients may not reach any.
    pub(super) fn frozen_for_service(&self, view: ViewId) -> FsResult<Arc<Frozen>> {
        match self.frozen(view, Blocking::Allowed) {
            Err(FsError::Stale) if self.list.load().by_view(view).is_some() => {}
            found => return found,
        }
        let snapshots = self.backend.snapshots().ok_or(FsError::Stale)?;
        Ok(self.opened(view, snapshots.open(view)?))
    }

    fn opened(&self, view: ViewId, backend: Arc<dyn Backend>) -> Arc<Frozen> {
        let (root, table) = (backend.root().key(), Weak::clone(&self.this));
        Arc::new(Frozen { view, root, backend, table, is_deleted: AtomicBool::new(false) })
    }

    pub(super) fn set(&self, snapshots: Vec<Snapshot>) {
        let list = Arc::new(SnapshotList::new(snapshots));
        self.list.store(Arc::clone(&list));
        self.open.lock().retain(|view, open| {
            let stays = list.by_view(*view).is_some();
            open.frozen.is_deleted.store(!stays, Ordering::Relaxed);
            stays
        });
    }

    /// Files of snapshots that are open lose their use with the access to them.
    pub(super) fn set_directory(&self, directory: SnapshotDirectory) {
        self.directory.store(directory as u8, Ordering::Relaxed);
        if directory == SnapshotDirectory::Hidden {
            for (_, open) in self.open.lock().drain() {
                open.frozen.is_deleted.store(true, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn sweep(&self) {
        self.open.lock().retain(|_, open| {
            open.idle = open.idle.saturating_add(1);
            open.idle <= IDLE_SWEEPS || Arc::strong_count(&open.frozen) > 1
        });
    }
}

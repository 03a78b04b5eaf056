//! The open files of a snapshot.

use super::index::{Index, Indexed};
use super::node::SnapshotNode;
use super::places::{Place, Places};
use super::snapshot_name;
use crate::cluster::{Cluster, Place as Directory};
use crate::error::refused;
use crate::ffi::{Inode, Statx};
use crate::node::listing::Groups;
use crate::stat::{inode_of, key_of};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use storage::{NodeBudget, Table};
use vfs::sync::{Condvar, Mutex};
use vfs::{Blocking, FileKey, FsError, FsLimits, FsResult, ViewId, Wait};

/// Time that a call waits for the index, before its client has to ask again.
const INDEX_PATIENCE: Duration = Duration::from_secs(2);

/// Time after a failure until the next attempt.
const INDEX_PAUSE: Duration = Duration::from_secs(60);

/// The root of a volume, with its directory of snapshots.
pub(crate) struct SnapshotRoot {
    pub(crate) root: Directory,
    pub(crate) key: FileKey,
    pub(crate) limits: FsLimits,
    pub(crate) budget: Arc<NodeBudget>,
    pub(super) places: Places,
}

impl SnapshotRoot {
    pub(crate) fn new(root: Directory, key: FileKey, limits: FsLimits, budget: &Arc<NodeBudget>) -> Self {
        Self { root, key, limits, budget: Arc::clone(budget), places: Places::default() }
    }

    pub(super) fn forget(&self, view: ViewId) {
        self.places.forget(view);
    }

    /// The directory of the engine that has the snapshots.
    pub(super) fn dir(&self) -> Result<Inode, Errno> {
        let root = self.root.inode()?;
        Ok(root.lookup(self.root.cluster().snapshot_dir())?.0)
    }
}

pub(crate) struct SnapshotView {
    pub(super) view: ViewId,
    name: CString,
    pub(super) volume: Arc<SnapshotRoot>,
    pub(super) table: Arc<Table<SnapshotNode>>,
    /// The directories in use, by number.
    dirs: Mutex<HashMap<u64, Weak<SnapshotNode>>>,
    is_deleted: AtomicBool,
    indexing: Mutex<Indexing>,
    indexed: Condvar,
}

#[derive(Default)]
enum Indexing {
    #[default]
    None,
    UnderWay,
    Done(Arc<Index>),
    Failed(Instant),
}

impl SnapshotView {
    /// [`FsError::NotFound`] if there is no such snapshot.
    pub(super) fn open(volume: &Arc<SnapshotRoot>, view: ViewId) -> FsResult<Arc<Self>> {
        let name = snapshot_name(view);
        volume.dir().and_then(|dir| dir.lookup(&name)).map_err(refused)?;
        Ok(Arc::new(Self {
            view,
            name,
            table: Table::new(&volume.budget),
            volume: Arc::clone(volume),
            dirs: Mutex::default(),
            is_deleted: AtomicBool::new(false),
            indexing: Mutex::default(),
            indexed: Condvar::new(),
        }))
    }

    pub(super) fn cluster(&self) -> &Arc<Cluster> {
        self.volume.root.cluster()
    }

    /// [`FsError::Stale`] once the snapshot is deleted.
    pub(super) fn check(&self) -> FsResult<()> {
        if self.is_deleted.load(Ordering::Relaxed) { Err(FsError::Stale) } else { Ok(()) }
    }

    /// Lets nobody use the files any more.
    pub(super) fn detach(&self) {
        self.is_deleted.store(true, Ordering::Relaxed);
        self.table.all().iter().for_each(|node| node.detach());
        self.table.close();
    }

    pub(super) fn root_inode(&self) -> Result<(Inode, Statx), Errno> {
        self.volume.dir()?.lookup(&self.name)
    }

    pub(super) fn root_node(self: &Arc<Self>) -> FsResult<Arc<SnapshotNode>> {
        if let Some(node) = self.dir(inode_of(&self.volume.key)?) {
            return Ok(node);
        }
        let (inode, stat) = self.root_inode().map_err(refused)?;
        Ok(self.insert(SnapshotNode::new(self, None, inode, &stat)?))
    }

    /// The node of a file that was found under a name of `parent`.
    pub(super) fn adopt(
        self: &Arc<Self>,
        parent: &Arc<SnapshotNode>,
        name: &CStr,
        inode: Inode,
        stat: &Statx,
    ) -> FsResult<Arc<SnapshotNode>> {
        if let Some(node) = self.table.find(&key_of(stat)?) {
            return Ok(node);
        }
        let place = Place { parent: parent.number(), name: name.into() };
        self.volume.places.add(self.view, stat.inode, place);
        let node = SnapshotNode::new(self, Some((Arc::clone(parent), name.into())), inode, stat)?;
        Ok(self.insert(node))
    }

    /// Drops what was not used for a while.
    pub(super) fn sweep(&self, idle_ticks: u32) {
        self.table.sweep(idle_ticks);
        self.dirs.lock().retain(|_, dir| dir.strong_count() > 0);
    }

    /// The file of a key; [`FsError::Stale`] if the snapshot does not have it.
    pub(super) fn find(self: &Arc<Self>, key: &FileKey, blocking: Blocking) -> FsResult<Arc<SnapshotNode>> {
        self.check()?;
        if let Some(node) = self.table.find(key) {
            return Ok(node);
        }
        let number = inode_of(key)?;
        if blocking == Blocking::Never {
            return Err(FsError::Wait(Wait::Storage));
        }
        let node = self.find_by_number(number)?;
        if *node.file_key() == *key { Ok(node) } else { Err(FsError::Stale) }
    }

    /// Finds a file by the names of its parents: from the first parent on that is known.
    fn find_by_number(self: &Arc<Self>, number: u64) -> FsResult<Arc<SnapshotNode>> {
        let (mut names, mut above) = (Vec::new(), number);
        let mut node = loop {
            if let Some(dir) = self.dir(above) {
                break dir;
            }
            if above == inode_of(&self.volume.key)? {
                break self.root_node()?;
            }
            let Place { parent, name } = self.place_of(above)?;
            names.push((above, name));
            above = parent;
        };
        while let Some((number, name)) = names.pop() {
            let found = node.inode()?.lookup(&name);
            let (inode, stat) = found.map_err(crate::node::tree::stale_if_missing)?;
            if stat.inode != number {
                return Err(FsError::Stale);
            }
            node = self.adopt(&node, &name, inode, &stat)?;
        }
        Ok(node)
    }

    /// A directory in use.
    pub(super) fn dir(&self, number: u64) -> Option<Arc<SnapshotNode>> {
        self.dirs.lock().get(&number).and_then(Weak::upgrade)
    }

    fn insert(&self, node: SnapshotNode) -> Arc<SnapshotNode> {
        let node = self.table.insert(node);
        if node.is_dir() {
            self.dirs.lock().insert(node.number(), Arc::downgrade(&node));
        }
        node
    }

    fn place_of(self: &Arc<Self>, number: u64) -> FsResult<Place> {
        if let Some(place) = self.volume.places.find(self.view, number) {
            return Ok(place);
        }
        match self.index()?.find(number).ok_or(FsError::Stale)? {
            Indexed::Directory(place) => Ok(place),
            Indexed::File { parent, hash } => {
                let dir = self.find_by_number(parent)?;
                let dir = dir.inode()?.open_dir().map_err(refused)?;
                let group = Groups::at_hash(dir, hash).next()?.unwrap_or_default();
                let listed = group.into_iter().find(|listed| listed.entry.number == number);
                let name = listed.ok_or(FsError::Stale)?.entry.name;
                Ok(Place { parent, name: CString::new(name).map_err(|_| FsError::Io)? })
            }
        }
    }

    /// The index. The first call starts a thread that makes it.
    fn index(self: &Arc<Self>) -> FsResult<Arc<Index>> {
        let mut indexing = self.indexing.lock();
        let is_due = match &*indexing {
            Indexing::None => true,
            Indexing::Failed(at) => at.elapsed() > INDEX_PAUSE,
            Indexing::UnderWay | Indexing::Done(_) => false,
        };
        if is_due {
            let view = Arc::downgrade(self);
            let thread = std::thread::Builder::new().name("snapshot-index".into());
            thread.spawn(move || make_index(&view)).map_err(|_| FsError::Resource)?;
            *indexing = Indexing::UnderWay;
        }
        let is_under_way = |indexing: &mut Indexing| matches!(indexing, Indexing::UnderWay);
        match &*self.indexed.wait_timeout_while(indexing, INDEX_PATIENCE, is_under_way).0 {
            Indexing::Done(index) => Ok(Arc::clone(index)),
            Indexing::UnderWay => Err(FsError::Wait(Wait::Recall)),
            Indexing::None | Indexing::Failed(_) => Err(FsError::Resource),
        }
    }
}

/// Makes the index of a snapshot, unless it is closed meanwhile.
fn make_index(view: &Weak<SnapshotView>) {
    let begun = Instant::now();
    let Some(root) = view.upgrade().map(|view| view.root_inode().map_err(refused)) else { return };
    let is_closed = || view.upgrade().is_none_or(|view| view.check().is_err());
    let made = root.and_then(|(root, _)| Index::of(root, &is_closed));
    let Some(view) = view.upgrade() else { return };
    match &made {
        Ok(_) => tracing::debug!(view = view.view.0, time = ?begun.elapsed(), "a snapshot has an index"),
        Err(_) if is_closed() => {}
        Err(error) => tracing::error!(view = view.view.0, %error, "cannot make the index of a snapshot"),
    }
    let failed = |_| Indexing::Failed(Instant::now());
    *view.indexing.lock() = made.map_or_else(failed, |index| Indexing::Done(Arc::new(index)));
    view.indexed.notify_all();
}

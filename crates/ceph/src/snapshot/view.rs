//! The open files of a snapshot.

use super::engine::snapshot_name;
use super::index::{Indexed, SharedIndex};
use super::node::SnapshotNode;
use super::places::{Place, Places};
use super::settle::Settler;
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
use std::time::Instant;
use storage::{NodeBudget, Table};
use vfs::sync::Mutex;
use vfs::{Blocking, FileKey, FsError, FsLimits, FsResult, ViewId, Wait};

/// The root of a volume, with its directory of snapshots.
pub(crate) struct SnapshotRoot {
    pub(crate) root: Directory,
    pub(crate) key: FileKey,
    pub(crate) limits: FsLimits,
    pub(crate) budget: Arc<NodeBudget>,
    pub(super) places: Places,
    settler: Settler,
}

impl SnapshotRoot {
    pub(crate) fn new(root: Directory, key: FileKey, limits: FsLimits, budget: &Arc<NodeBudget>) -> Self {
        let settler = Settler::new(root.cluster());
        Self { root, key, limits, budget: Arc::clone(budget), places: Places::default(), settler }
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
    /// Nobody serves the snapshot any more.
    is_closed: AtomicBool,
    index: SharedIndex,
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
            is_closed: AtomicBool::new(false),
            index: SharedIndex::default(),
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

    /// Drops the nodes, which refer to the view.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.table.close();
    }

    /// Looks up a name in a directory of the snapshot.
    pub(super) fn lookup(&self, dir: &Arc<Inode>, name: &CStr) -> Result<(Inode, Statx), Errno> {
        self.volume.settler.lookup(dir, name)
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
            let found = self.lookup(&node.inode()?, &name);
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
        match self.index.find(number, || self.start_index())? {
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

    /// Starts the thread that makes the index. It ends early if the snapshot is closed.
    fn start_index(self: &Arc<Self>) -> FsResult<()> {
        let view = Arc::downgrade(self);
        let thread = std::thread::Builder::new().name("snapshot-index".into());
        let started = thread.spawn(move || {
            let Some(view) = view.upgrade() else { return };
            let begun = Instant::now();
            let is_closed = || view.is_closed.load(Ordering::Relaxed) || view.check().is_err();
            let made = view.index.make(view.root_inode().map(|(root, _)| root).map_err(refused), &is_closed);
            match made {
                Ok(()) => {
                    tracing::debug!(view = view.view.0, time = ?begun.elapsed(), "a snapshot has an index")
                }
                Err(_) if is_closed() => {}
                Err(error) => {
                    tracing::error!(view = view.view.0, %error, "cannot make the index of a snapshot")
                }
            }
        });
        started.map(drop).map_err(|_| FsError::Resource)
    }
}

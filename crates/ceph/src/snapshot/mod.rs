//! Snapshots of a volume: those of CephFS, of the volume's root.
//!
//! docs/formats/cephfs.md says where they are. The metadata server makes and deletes one in a single step.

mod engine;
pub(crate) mod held;
mod index;
mod node;
mod places;
mod settle;
mod view;

use crate::error::refused;
use crate::ffi::{Inode, Object};
use crate::node::tree::Tree;
use crate::space::file_system_stat;
pub(crate) use engine::{list, remove_below};
use engine::{remove, snapshot_name};
use node::SnapshotNode;
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use vfs::sync::Mutex;
use vfs::{
    Backend, Blocking, Capabilities, ChangedRanges, FileKey, FsError, FsLimits, FsResult, FsStat, NodeRef,
    Pace, Progress, SnapshotUsage, Snapshots, ViewId,
};
pub(crate) use view::SnapshotRoot;
use view::SnapshotView;

/// The snapshots of an open volume.
pub(crate) struct VolumeSnapshots {
    volume: Arc<SnapshotRoot>,
    tree: Arc<Tree>,
    capabilities: Capabilities,
    open: Mutex<HashMap<ViewId, Weak<OpenSnapshot>>>,
}

impl VolumeSnapshots {
    /// `capabilities` are those of the volume.
    pub(crate) fn new(volume: SnapshotRoot, tree: &Arc<Tree>, capabilities: Capabilities) -> Self {
        let (volume, tree) = (Arc::new(volume), Arc::clone(tree));
        Self { volume, tree, capabilities, open: Mutex::default() }
    }

    /// The directory of the engine that has the snapshots.
    pub(crate) fn dir(&self) -> FsResult<Inode> {
        self.volume.dir().map_err(refused)
    }

    /// Releases the files of open snapshots that were not used for a while.
    pub(crate) fn sweep(&self, idle_ticks: u32) {
        let open: Vec<_> = self.open.lock().values().filter_map(Weak::upgrade).collect();
        open.iter().for_each(|opened| opened.view.sweep(idle_ticks));
    }
}

impl Snapshots for VolumeSnapshots {
    fn create(&self, view: ViewId) -> FsResult<()> {
        if view == ViewId::LIVE || view > ViewId::MAX {
            return Err(FsError::Invalid);
        }
        let (dir, client) = (self.dir()?, self.tree.cluster.client());
        // Most data is in the cluster before changes wait.
        client.sync().map_err(refused)?;
        let made = {
            let _closed = self.tree.gate.close();
            dir.make(&snapshot_name(view), Object::Directory, 0o700, (0, 0))
        };
        match made {
            Ok(_) => {}
            Err(Errno::MLINK) => {
                tracing::error!(
                    "CephFS allows no more snapshots of this volume: raise mds_max_snaps_per_dir (100 unless changed) in the \
                     configuration of the metadata servers, or delete snapshots"
                );
                return Err(FsError::TooManyLinks);
            }
            Err(errno @ (Errno::PERM | Errno::ACCESS)) => {
                tracing::error!(
                    "CephFS refuses a snapshot: give the Ceph user the capability `s`, and allow new snapshots of the file \
                     system"
                );
                return Err(refused(errno));
            }
            Err(errno) => return Err(refused(errno)),
        }
        // Data that was acknowledged before and is not in the cluster yet belongs to the snapshot.
        client.sync().map_err(refused)
    }

    fn list(&self) -> FsResult<Vec<ViewId>> {
        list(&self.dir()?)
    }

    fn open(&self, view: ViewId) -> FsResult<Arc<dyn Backend>> {
        let mut open = self.open.lock();
        if let Some(opened) = open.get(&view).and_then(Weak::upgrade) {
            return Ok(opened);
        }
        let opened = SnapshotView::open(&self.volume, view)?;
        let root = opened.root_node()?;
        let opened = Arc::new(OpenSnapshot { root, view: opened, capabilities: self.capabilities });
        open.retain(|_, opened| opened.strong_count() > 0);
        open.insert(view, Arc::downgrade(&opened));
        Ok(opened)
    }

    fn delete(&self, view: ViewId, pace: &mut Pace<'_>) -> FsResult<bool> {
        let dir = self.dir()?;
        {
            let mut open = self.open.lock();
            remove(&dir, view)?;
            if let Some(opened) = open.remove(&view).and_then(|opened| opened.upgrade()) {
                opened.view.detach();
            }
        }
        self.volume.forget(view);
        let volume = self.volume.root.inode().and_then(|root| root.lookup(c"..")).map_err(refused)?.0;
        held::sweep(&volume, &dir)?;
        let _ends_anyway = pace(Progress { done: 1, total: Some(1) });
        Ok(true)
    }

    /// CephFS does not know the data that a snapshot alone holds.
    fn usage(&self, view: ViewId) -> FsResult<SnapshotUsage> {
        let found = self.volume.dir().and_then(|dir| dir.lookup(&snapshot_name(view)));
        found.map(|_| SnapshotUsage::default()).map_err(refused)
    }

    fn changes(&self, _: ViewId, _: ViewId) -> FsResult<Option<Arc<dyn ChangedRanges>>> {
        Ok(None)
    }
}

/// The backend of a [`SnapshotView`].
struct OpenSnapshot {
    view: Arc<SnapshotView>,
    root: Arc<SnapshotNode>,
    capabilities: Capabilities,
}

impl Drop for OpenSnapshot {
    /// Nodes and the view refer to each other.
    fn drop(&mut self) {
        self.view.close();
    }
}

impl Backend for OpenSnapshot {
    fn root(&self) -> NodeRef {
        Arc::clone(&self.root) as _
    }

    fn node(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef> {
        Ok(self.view.find(key, blocking)?)
    }

    fn stat(&self) -> FsResult<FsStat> {
        file_system_stat(&*self.root.inode()?)
    }

    fn limits(&self) -> FsLimits {
        self.view.volume.limits
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn sync(&self) -> FsResult<()> {
        Ok(())
    }

    fn flush_failures(&self) -> u64 {
        0
    }

    fn knows_memory(&self) -> bool {
        false
    }
}

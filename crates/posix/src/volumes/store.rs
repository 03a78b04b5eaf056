//! The backend over one directory.

use super::host_snapshots::{HostSnapshots, SnapshotDirError};
use super::snapshots::SnapshotDir;
use crate::capacity::limit::Limit;
use crate::error::refused;
use crate::fs_type::file_system_stat;
use crate::node::Node;
use crate::node::mount::options::Options;
use crate::node::mount::{Mount, TreeKind};
use crate::node::ranges::clone_bytes;
use crate::node::xattrs::NAME_BYTES_MAX;
use crate::snapshot::UndoSnapshots;
use crate::sys;
use crate::undo::UndoPlace;
use rustix::fs::{Mode, OFlags, fstatvfs, syncfs};
use rustix::process::umask;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use vfs::backend::snapshots::{Pace, Snapshots};
use vfs::{
    Backend, Blocking, Capabilities, FileKey, FsError, FsLimits, FsResult, FsStat, NodeRef, Quotas,
    RangeLimits, Snapshot, ViewId, XattrLimits,
};

pub struct Store {
    pub(crate) mount: Arc<Mount>,
    root: Arc<Node>,
    /// The snapshots of the volume, which may be one of them.
    pub(crate) snapshots: Option<Arc<SnapshotDir>>,
    /// The snapshots of a volume that has no subvolumes.
    undo: Option<UndoSnapshots>,
    /// The snapshots that other programs make.
    host_snapshots: OnceLock<HostSnapshots>,
}

impl Store {
    /// Serves the tree below `dir`.
    ///
    /// Sets the umask of the process to zero, so that modes are exact, and ignores SIGXFSZ, so that a write past the
    /// file size limit fails with an error.
    pub fn open(dir: &Path, options: Options) -> io::Result<Arc<Self>> {
        Self::open_within(dir, &options, None, None, None)
    }

    /// With `snapshots`, the directory must be a subvolume of Btrfs.
    pub(crate) fn open_within(
        dir: &Path,
        options: &Options,
        limit: Option<Arc<Limit>>,
        snapshots: Option<Arc<SnapshotDir>>,
        undo: Option<UndoPlace>,
    ) -> io::Result<Arc<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root: OwnedFd = rustix::fs::open(dir, flags, Mode::empty())?;
        umask(Mode::empty());
        sys::ignore_file_size_signal();
        let kind = if snapshots.is_some() { TreeKind::Subvolume } else { TreeKind::Directory };
        let mount = Mount::new(root, kind, options, limit, undo).map_err(io::Error::other)?;
        Self::over(mount, snapshots).map_err(io::Error::other)
    }

    /// Shows snapshots that other programs make of the tree, which must be a subvolume of Btrfs: at most `count_max`, below
    /// the directories `dirs`. [`Store::scan_snapshots`] finds them.
    pub fn show_snapshots(
        &self,
        options: &Options,
        dirs: Vec<PathBuf>,
        count_max: usize,
    ) -> Result<(), SnapshotDirError> {
        let shown = HostSnapshots::new(Arc::clone(&self.mount), options.clone(), dirs, count_max)?;
        // A second call changes nothing.
        let _first = self.host_snapshots.set(shown);
        Ok(())
    }

    /// Looks for new and deleted snapshots of other programs, and releases the files of deleted ones. Returns the list if
    /// it has changed.
    pub fn scan_snapshots(&self) -> Option<Vec<Snapshot>> {
        self.host_snapshots.get().and_then(HostSnapshots::scan)
    }

    pub(crate) fn over(mount: Mount, snapshots: Option<Arc<SnapshotDir>>) -> FsResult<Arc<Self>> {
        let mount = Arc::new(mount);
        if let Some(limit) = &mount.limit {
            let live: Weak<Mount> = Arc::downgrade(&mount);
            limit.owners().attach(live);
        }
        let (root, _) = mount.root_node()?;
        let mut store = Self { mount, root, snapshots, undo: None, host_snapshots: OnceLock::new() };
        store.undo = UndoSnapshots::new(&store.mount, store.limits(), store.capabilities());
        Ok(Arc::new(store))
    }

    /// Releases the unlinked files that were closed. Drops the nodes without other references that were not looked up
    /// in the last `idle_ticks` calls, so that files deleted by other processes are freed. Call this about once a
    /// second.
    pub fn sweep(&self, idle_ticks: u32) {
        let mut nameless = self.mount.unlinked_open.lock();
        let closed: Vec<_> = nameless.extract_if(.., |node| !node.is_pinned()).collect();
        drop(nameless);
        closed.iter().for_each(|node| node.release_if_unlinked());
        self.mount.table.sweep(idle_ticks);
        if let (false, Some(snapshots)) = (self.mount.is_snapshot, &self.snapshots) {
            snapshots.stores().iter().for_each(|snapshot| snapshot.sweep(idle_ticks));
        }
        if let Some(snapshots) = self.host_snapshots.get() {
            snapshots.stores().iter().for_each(|snapshot| snapshot.sweep(idle_ticks));
        }
    }

    /// Refunds all unlinked files, even open ones: they end with the process.
    pub(crate) fn release_unlinked(&self) {
        let nameless = std::mem::take(&mut *self.mount.unlinked_open.lock());
        nameless.iter().for_each(|node| node.release_if_unlinked());
    }

    /// Brings the files back to a snapshot of the undo store.
    pub(super) fn revert_undo(&self, view: ViewId, pace: &mut Pace<'_>) -> FsResult<bool> {
        self.undo.as_ref().ok_or(FsError::NotSupported)?.revert(view, pace)
    }

    /// Writes what the next process must know of the undo store.
    pub(super) fn seal_undo(&self) {
        if let Some(Err(error)) = self.mount.undo().map(|undo| undo.seal()) {
            tracing::warn!(%error, "cannot close the undo store of a volume: new files may take space in snapshots");
        }
    }

    /// Whether files are found with an index of names, because the process may not open by handle.
    pub fn uses_index(&self) -> bool {
        self.mount.index.is_some()
    }

    /// Whether owner, group and mode are stored in an extended attribute, because the process may not set the real
    /// ones.
    pub fn uses_owner_attribute(&self) -> bool {
        self.mount.owner_attribute
    }

    pub(crate) fn detach_all(&self) {
        self.mount.detach_all();
    }

    pub fn node_count(&self) -> usize {
        self.mount.table.node_count()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // The nodes own the mount and the mount owns the nodes: break the cycle.
        self.mount.unlinked_open.lock().clear();
        self.mount.table.close();
    }
}

impl Backend for Store {
    fn root(&self) -> NodeRef {
        Arc::clone(&self.root) as NodeRef
    }

    fn node(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef> {
        Ok(self.mount.node(key, blocking)?)
    }

    fn stat(&self) -> FsResult<FsStat> {
        let below = file_system_stat(self.mount.root.as_fd())?;
        self.mount.limit.as_ref().map_or(Ok(below), |limit| limit.stat(&below))
    }

    fn flush_failures(&self) -> u64 {
        self.mount.flush_failures.load(Ordering::SeqCst)
    }

    fn is_removed(&self, key: &FileKey) -> bool {
        self.mount.is_deleted(key)
    }

    fn knows_memory(&self) -> bool {
        self.mount.is_memory || !self.mount.no_nowait.load(Ordering::Relaxed)
    }

    fn limits(&self) -> FsLimits {
        let name_bytes_max = fstatvfs(&self.mount.root)
            .ok()
            .and_then(|state| u32::try_from(state.f_namemax).ok())
            .filter(|&bytes| bytes > 0)
            .map_or(255, |bytes| bytes.min(255));
        FsLimits {
            links_max: self.mount.links_max,
            name_bytes_max,
            file_bytes_max: self.mount.file_bytes_max,
            time_step_ns: 1,
        }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            xattrs: self.mount.xattrs.then_some(XattrLimits { name_bytes_max: NAME_BYTES_MAX }),
            ranges: Some(RangeLimits { clone_bytes: clone_bytes(&self.mount.root) }),
            acls: self.mount.acls,
        }
    }

    fn quotas(&self) -> Option<&dyn Quotas> {
        self.mount.limit.is_some().then_some(self)
    }

    fn sync(&self) -> FsResult<()> {
        syncfs(&self.mount.root).map_err(refused)
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        match (&self.undo, self.host_snapshots.get()) {
            (Some(undo), _) => Some(undo),
            (None, Some(host)) => Some(host),
            (None, None) => (self.snapshots.is_some() && !self.mount.is_snapshot).then_some(self),
        }
    }
}

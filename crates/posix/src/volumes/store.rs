//! The backend: opening a directory, and what concerns the whole of it.

use crate::capacity::limit::Limit;
use crate::error::refused;
use crate::fs_type::file_system_stat;
use crate::node::Node;
use crate::node::mount::Mount;
use crate::node::mount::options::Options;
use crate::node::ranges::clone_bytes;
use crate::node::xattrs::NAME_BYTES_MAX;
use crate::sys;
use rustix::fs::{Mode, OFlags, fstatvfs, syncfs};
use rustix::process::umask;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{
    Backend, Blocking, Capabilities, FileKey, FsLimits, FsResult, FsStat, NodeRef, RangeLimits, XattrLimits,
};

/// A directory tree as a [`Backend`].
pub struct Store {
    mount: Arc<Mount>,
    root: Arc<Node>,
}

impl Store {
    /// Serves the tree below `dir`.
    ///
    /// Sets the process's umask to zero and ignores SIGXFSZ: modes are given exactly, a file that would be too large is a
    /// refusal, and both belong to the whole process.
    pub fn open(dir: &Path, options: Options) -> io::Result<Arc<Self>> {
        Self::open_within(dir, &options, None)
    }

    /// As [`Store::open`], keeping to a capacity.
    pub(crate) fn open_within(
        dir: &Path,
        options: &Options,
        limit: Option<Arc<Limit>>,
    ) -> io::Result<Arc<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root: OwnedFd = rustix::fs::open(dir, flags, Mode::empty())?;
        umask(Mode::empty());
        sys::ignore_file_size_signal();
        let mount = Arc::new(Mount::new(root, options, limit).map_err(io::Error::other)?);
        let (root, _) = mount.root_node().map_err(io::Error::other)?;
        Ok(Arc::new(Self { mount, root }))
    }

    /// Frees the files without a name that nobody has open any more, and drops the nodes that nobody holds and nobody asked for during
    /// the last `idle_ticks` calls, so that files deleted by other processes are freed. To be called about once a second.
    pub fn sweep(&self, idle_ticks: u32) {
        let mut nameless = self.mount.nameless.lock();
        let closed: Vec<_> = nameless.extract_if(.., |node| !node.is_pinned()).collect();
        drop(nameless);
        closed.iter().for_each(|node| node.free());
        self.mount.table.sweep(idle_ticks);
    }

    /// Gives back what the files without a name are charged, also those that somebody has open: the process ends, and they with it.
    pub(crate) fn free_nameless(&self) {
        let nameless = std::mem::take(&mut *self.mount.nameless.lock());
        nameless.iter().for_each(|node| node.free());
    }

    /// Whether files are found by an index of names, because the process may not open by handle.
    pub fn uses_index(&self) -> bool {
        self.mount.index.is_some()
    }

    /// Whether owner, group and mode are kept in an extended attribute, because the process may not set the real ones.
    pub fn uses_owner_attribute(&self) -> bool {
        self.mount.owner_attribute
    }

    /// Lets go of all files that are in use: the tree is being removed.
    pub(crate) fn let_go(&self) {
        self.mount.table.all().iter().for_each(|node| node.let_go());
    }

    /// How many nodes are kept.
    pub fn node_count(&self) -> usize {
        self.mount.table.len()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // The nodes hold the mount and the mount holds the nodes: break the circle.
        self.mount.nameless.lock().clear();
        self.mount.table.clear();
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
        self.mount.is_gone(key)
    }

    fn knows_memory(&self) -> bool {
        self.mount.memory || !self.mount.no_nowait.load(Ordering::Relaxed)
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

    fn sync(&self) -> FsResult<()> {
        syncfs(&self.mount.root).map_err(refused)
    }
}

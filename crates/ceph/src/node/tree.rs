//! The files of a volume: finds them by key and by name.

use super::Node;
use super::gate::ChangeGate;
use super::live_count::LiveCount;
use crate::cluster::{Cluster, Place};
use crate::error::refused;
use crate::ffi::{Inode, LIVE, Statx};
use crate::space::Limit;
use crate::stat::{inode_of, key_of};
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use storage::{NodeBudget, Table};
use vfs::model::caller::INVALID_ID;
use vfs::sync::Mutex;
use vfs::{Blocking, FileKey, FsError, FsResult, Wait};

pub(crate) struct Tree {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) gate: ChangeGate,
    root_key: FileKey,
    pub(crate) table: Arc<Table<Node>>,
    /// The directory of objects that are being made.
    staging: Place,
    staged: AtomicU64,
    pub(crate) limit: Arc<Limit>,
    /// Open files without a name.
    pub(crate) nameless: Mutex<Vec<Arc<Node>>>,
    pub(crate) flush_failures: AtomicU64,
    pub(crate) file_bytes_max: u64,
    is_removed: AtomicBool,
    /// The count of the files that is under way.
    count: Mutex<Option<Arc<LiveCount>>>,
    is_counting: AtomicBool,
}

impl Tree {
    pub(crate) fn new(
        root: &Inode,
        staging: Place,
        limit: Arc<Limit>,
        budget: &Arc<NodeBudget>,
        file_bytes_max: u64,
    ) -> FsResult<Self> {
        let root_key = key_of(&root.attrs().map_err(refused)?)?;
        Ok(Self {
            cluster: Arc::clone(staging.cluster()),
            gate: ChangeGate::default(),
            root_key,
            table: Table::new(budget),
            staging,
            staged: AtomicU64::new(0),
            limit,
            nameless: Mutex::default(),
            flush_failures: AtomicU64::new(0),
            file_bytes_max,
            is_removed: AtomicBool::new(false),
            count: Mutex::default(),
            is_counting: AtomicBool::new(false),
        })
    }

    pub(crate) fn root_key(&self) -> &FileKey {
        &self.root_key
    }

    pub(crate) fn is_root(&self, key: &FileKey) -> bool {
        *key == self.root_key
    }

    /// The node of an inode with this state.
    pub(crate) fn adopt(self: &Arc<Self>, inode: Inode, stat: &Statx) -> FsResult<Arc<Node>> {
        let key = key_of(stat)?;
        if let Some(node) = self.table.find(&key) {
            return Ok(node);
        }
        Ok(self.table.insert(Node::new(Arc::clone(self), key, inode, stat)?))
    }

    pub(crate) fn find(self: &Arc<Self>, key: &FileKey, blocking: Blocking) -> FsResult<Arc<Node>> {
        if let Some(node) = self.table.find(key) {
            return Ok(node);
        }
        let number = inode_of(key)?;
        if blocking == Blocking::Never {
            return Err(FsError::Wait(Wait::Storage));
        }
        if self.is_removed.load(Ordering::SeqCst) {
            return Err(FsError::Stale);
        }
        let inode = self.cluster.client().inode_of(number, LIVE).map_err(stale_if_missing)?;
        let stat = inode.attrs().map_err(stale_if_missing)?;
        if key_of(&stat)? != *key || stat.links == 0 || stat.uid == INVALID_ID {
            return Err(FsError::Stale);
        }
        self.adopt(inode, &stat)
    }

    pub(crate) fn root_node(self: &Arc<Self>) -> FsResult<Arc<Node>> {
        self.find(&self.root_key, Blocking::Allowed)
    }

    /// A new name in the directory of objects that are being made.
    pub(crate) fn staging_name(&self) -> FsResult<(Arc<Inode>, CString)> {
        let staging = self.staging.inode().map_err(refused)?;
        let number = self.staged.fetch_add(1, Ordering::Relaxed);
        Ok((staging, CString::new(number.to_string()).map_err(|_| FsError::Invalid)?))
    }

    /// Closes all files of a removed volume, even those in use.
    pub(crate) fn detach_all(&self) {
        self.is_removed.store(true, Ordering::SeqCst);
        self.table.all().iter().for_each(|node| node.detach());
        self.table.close();
    }

    /// Releases the files without a name that nobody uses any more, and the nodes that were not used for a while.
    pub(crate) fn sweep(&self, idle_ticks: u32) {
        self.release_nameless();
        self.table.sweep(idle_ticks);
    }

    pub(crate) fn release_nameless(&self) {
        // A count that begins finds each of them in the list, or refunded.
        let _passed = self.gate.pass();
        let unused: Vec<_> = self.nameless.lock().extract_if(.., |node| !node.is_pinned()).collect();
        unused.iter().for_each(|node| node.release_if_nameless());
    }

    /// The count under way, if the volume is counted while it changes.
    pub(super) fn count(&self) -> Option<Arc<LiveCount>> {
        if !self.is_counting.load(Ordering::SeqCst) {
            return None;
        }
        self.count.lock().clone()
    }

    pub(crate) fn set_count(&self, count: Option<Arc<LiveCount>>) {
        let mut present = self.count.lock();
        self.is_counting.store(count.is_some(), Ordering::SeqCst);
        *present = count;
    }

    pub(crate) fn mark_count_doubtful(&self) {
        self.limit.counts().mark_doubtful();
    }
}

pub(crate) fn stale_if_missing(errno: rustix::io::Errno) -> FsError {
    match refused(errno) {
        FsError::NotFound | FsError::Invalid => FsError::Stale,
        error => error,
    }
}

//! Counts the files of a volume while clients change them.
//!
//! The count is of the moment at which it began: later changes are in the sums of the ledger. Each object of that moment is
//! counted once. The walk counts the objects that did not change since, and each change counts its objects before it begins.
//! A moved directory also goes to the walk, which may have passed its new place. New objects are only noted.

use super::Node;
use super::tree::Tree;
use super::xattr_sizes::xattrs_charged;
use crate::error::refused;
use crate::ffi::{Inode, Statx};
use crate::stat::{file_type, held_name, key_of};
use roaring::RoaringTreemap;
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;
use vfs::backend::charge::{INODE_BYTES, NAME_BYTES, ROOT_BYTES, content};
use vfs::sync::{Condvar, Mutex};
use vfs::{FileKey, FileType, FsError, FsResult, Usage, Wait};

pub(crate) struct LiveCount {
    root: Arc<Inode>,
    root_number: u64,
    /// The directory of files that a revert has taken out. A file that is back may still have its name there.
    held: Option<Inode>,
    seen: Mutex<Seen>,
    dirs: Mutex<Dirs>,
    changed: Condvar,
    is_stopped: AtomicBool,
    /// A change could not count its object.
    is_broken: AtomicBool,
}

#[derive(Default)]
struct Seen {
    numbers: RoaringTreemap,
    usage: Usage,
}

/// The directories to walk through.
#[derive(Default)]
struct Dirs {
    waiting: Vec<Arc<Inode>>,
    /// Threads that have one.
    busy: usize,
}

impl Dirs {
    fn is_done(&self) -> bool {
        self.busy == 0 && self.waiting.is_empty()
    }
}

impl LiveCount {
    /// A count of the objects below and including `root`. [`LiveCount::start`] follows.
    pub(crate) fn new(root: Arc<Inode>, held: Option<Inode>) -> FsResult<Self> {
        Ok(Self {
            root_number: root.attrs().map_err(refused)?.inode,
            root,
            held,
            seen: Mutex::default(),
            dirs: Mutex::default(),
            changed: Condvar::new(),
            is_stopped: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
        })
    }

    /// Begins with the root.
    pub(crate) fn start(&self) -> FsResult<()> {
        let stat = self.root.attrs().map_err(refused)?;
        if self.visit(&self.root, &stat, || {})? {
            self.push(Arc::clone(&self.root));
        }
        Ok(())
    }

    /// Counts an object with the state `stat`, unless that was done. Returns whether it did. Calls `settle` after it read the
    /// object and before it notes that.
    pub(crate) fn visit(&self, inode: &Inode, stat: &Statx, settle: impl FnOnce()) -> FsResult<bool> {
        if self.seen.lock().numbers.contains(stat.inode) {
            return Ok(false);
        }
        // Read before the object is noted: its changes begin only then.
        let charge = self.charge(inode, stat)?;
        settle();
        let mut seen = self.seen.lock();
        let is_new = seen.numbers.insert(stat.inode);
        if is_new {
            seen.usage.bytes += charge;
            seen.usage.files += 1;
        }
        Ok(is_new)
    }

    /// The bytes of an object with all its names.
    fn charge(&self, inode: &Inode, stat: &Statx) -> FsResult<u64> {
        let kind = file_type(stat)?;
        let xattrs = match kind {
            FileType::Regular | FileType::Directory => xattrs_charged(inode).map_err(refused)?,
            _ => 0,
        };
        let free = if stat.inode == self.root_number { ROOT_BYTES } else { 0 };
        Ok(INODE_BYTES + NAME_BYTES * self.names(kind, stat)? + content(kind, stat.size) + xattrs - free)
    }

    fn names(&self, kind: FileType, stat: &Statx) -> FsResult<u64> {
        let links = u64::from(stat.links);
        if kind == FileType::Directory || links < 2 {
            return Ok(1);
        }
        let Some(held) = &self.held else { return Ok(links) };
        match held.lookup(&held_name(&key_of(stat)?)) {
            Ok(_) => Ok(links - 1),
            Err(Errno::NOENT) => Ok(links),
            Err(errno) => Err(refused(errno)),
        }
    }

    /// Notes an object that counts elsewhere.
    fn note(&self, number: u64) {
        self.seen.lock().numbers.insert(number);
    }

    pub(crate) fn usage(&self) -> FsResult<Usage> {
        if self.is_broken.load(Ordering::SeqCst) || self.is_stopped.load(Ordering::SeqCst) {
            return Err(FsError::Wait(Wait::Recall));
        }
        Ok(self.seen.lock().usage)
    }

    /// Adds a directory to walk through.
    fn push(&self, dir: Arc<Inode>) {
        self.dirs.lock().waiting.push(dir);
        self.changed.notify_all();
    }

    /// Leaves a directory to another thread, unless `enough` are waiting.
    pub(crate) fn offer(&self, dir: Arc<Inode>, enough: usize) -> Option<Arc<Inode>> {
        let mut dirs = self.dirs.lock();
        if dirs.waiting.len() >= enough {
            return Some(dir);
        }
        dirs.waiting.push(dir);
        drop(dirs);
        self.changed.notify_all();
        None
    }

    /// The next directory to walk through. [`LiveCount::end_dir`] follows. `None` at the end of the count.
    pub(crate) fn next_dir(&self) -> Option<Arc<Inode>> {
        let mut dirs = self.dirs.lock();
        loop {
            if self.is_stopped() {
                dirs.waiting.clear();
            }
            if dirs.is_done() {
                return None;
            }
            if let Some(dir) = dirs.waiting.pop() {
                dirs.busy += 1;
                return Some(dir);
            }
            dirs = self.changed.wait(dirs);
        }
    }

    pub(crate) fn end_dir(&self) {
        self.dirs.lock().busy -= 1;
        self.changed.notify_all();
    }

    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Waits up to `patience` for the end of the walk. Returns whether it has ended.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        self.changed.wait_timeout_while(self.dirs.lock(), patience, |dirs| !dirs.is_done()).0.is_done()
    }
}

impl Node {
    /// Counts this object before its first change, while the volume is counted.
    pub(super) fn count_before_change(&self) {
        let Some(count) = self.tree.count() else { return };
        let visit = |inode: Arc<Inode>| {
            let stat = inode.attrs().map_err(refused)?;
            if count.visit(&inode, &stat, || {})? && self.kind == FileType::Directory {
                count.push(inode);
            }
            Ok(())
        };
        match self.inode().and_then(visit) {
            // An object without a name was counted before it lost the last one.
            Ok(()) | Err(FsError::Stale) => {}
            Err(_) => count.is_broken.store(true, Ordering::SeqCst),
        }
    }

    /// The bytes that this object is charged for, if it has lost its last name and its charge was not refunded.
    fn nameless_charge(&self) -> FsResult<Option<u64>> {
        if !self.is_nameless.load(Ordering::SeqCst) || self.space_released.load(Ordering::Acquire) {
            return Ok(None);
        }
        let inode = self.inode()?;
        let stat = inode.attrs().map_err(refused)?;
        let content = match &self.dir {
            Some(dir) => dir.charged.bytes(),
            None => content(self.kind, self.reservations_now().charged_size(stat.size)),
        };
        Ok(Some(INODE_BYTES + content + self.xattrs_charged(&inode)))
    }

    /// The bytes that this file is charged for past its end.
    fn reserved_charge(&self) -> FsResult<u64> {
        let reservations = self.reservations_now();
        if reservations.is_empty() || self.is_nameless.load(Ordering::SeqCst) {
            return Ok(0);
        }
        let size = self.inode()?.attrs().map_err(refused)?.size;
        Ok(content(self.kind, reservations.charged_size(size)) - content(self.kind, size))
    }

    /// The reservations while the gate is closed: no change holds the lock.
    fn reservations_now(&self) -> MutexGuard<'_, storage::SpaceReservations> {
        self.change_lock.lock()
    }
}

impl Tree {
    /// Begins a count of the files as they are now, with the charges that no walk finds. The gate is closed.
    pub(crate) fn begin_count(&self, count: &Arc<LiveCount>) -> FsResult<()> {
        let mut usage = Usage::default();
        for node in self.nameless_nodes() {
            if let Some(bytes) = node.nameless_charge()? {
                count.note(crate::stat::inode_of(&node.key)?);
                usage.bytes += bytes;
                usage.files += 1;
            }
        }
        for node in self.table.all() {
            usage.bytes += node.reserved_charge()?;
        }
        let mut seen = count.seen.lock();
        seen.usage.bytes += usage.bytes;
        seen.usage.files += usage.files;
        drop(seen);
        self.set_count(Some(Arc::clone(count)));
        Ok(())
    }

    /// Notes a new object before its directory is unlocked, so that no walk counts it.
    pub(super) fn note_new(&self, stat: &Statx) {
        self.count().into_iter().for_each(|count| count.note(stat.inode));
    }

    /// Waits for a change of a directory's entries that is under way.
    pub(crate) fn wait_for_change(&self, dir: &FileKey) {
        if let Some(node) = self.table.find(dir) {
            drop(node.change_lock.lock());
        }
    }
}

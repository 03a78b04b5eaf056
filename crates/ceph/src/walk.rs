//! Walks over the files of a volume, below the model: counts and deletes them.

use crate::error::refused;
use crate::ffi::{Inode, Wanted};
use crate::node::xattr_sizes::xattrs_charged;
use crate::stat::file_type;
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use storage::{OwnerIds, Tally, add_to_tally, merge_tally};
use vfs::backend::charge::{INODE_BYTES, NAME_BYTES, ROOT_BYTES, content};
use vfs::backend::quotas;
use vfs::sync::{Condvar, Mutex};
use vfs::{FileType, FsError, FsResult, Usage, Wait};

/// Threads of a walk that counts.
const WORKERS: usize = 4;
/// Files of a thread between two updates of the number of all.
const STEP: u64 = 256;
/// Time between two reports of a walk that counts.
const REPORT: Duration = Duration::from_millis(50);
/// Entries that are deleted between two listings of a directory.
const BATCH: usize = 256;

/// The usage of the tree below and including `root`. With `tally`, files are counted by owner too. `go_on` receives the
/// number of files since its last call and in all; if it returns false, the walk ends with [`FsError::Wait`].
pub(crate) fn count(
    root: Arc<Inode>,
    tally: Option<&mut Tally>,
    go_on: &mut dyn FnMut(u64, u64) -> bool,
) -> FsResult<Usage> {
    let stat = root.attrs().map_err(refused)?;
    let bytes = INODE_BYTES + NAME_BYTES + content(FileType::Directory, stat.size) - ROOT_BYTES;
    let own = xattrs_charged(&root).map_err(refused)?;
    let walk = CountWalk::new(root, tally.is_some());
    let parts = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(|| walk.run())).collect();
        walk.report(go_on);
        workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| FsError::Io)?)
            .collect::<FsResult<Vec<_>>>()
    })?;
    if walk.is_stopped.load(Ordering::SeqCst) {
        return Err(FsError::Wait(Wait::Recall));
    }
    let mut usage = Usage { bytes: bytes + own, files: 1 };
    for part in &parts {
        usage.bytes += part.usage.bytes;
        usage.files += part.usage.files;
    }
    if let Some(tally) = tally {
        parts.iter().for_each(|part| merge_tally(tally, &part.tally));
    }
    Ok(usage)
}

/// A walk that counts, by several threads: most of the time goes to waiting for the metadata server.
struct CountWalk {
    queue: Mutex<Queue>,
    changed: Condvar,
    files: AtomicU64,
    is_stopped: AtomicBool,
    by_owner: bool,
}

#[derive(Default)]
struct Queue {
    dirs: Vec<Arc<Inode>>,
    /// Threads that have a directory.
    busy: usize,
    /// The files with several names that were counted.
    linked: HashSet<u64>,
}

impl Queue {
    fn is_done(&self) -> bool {
        self.busy == 0 && self.dirs.is_empty()
    }
}

/// The files that one thread has counted.
#[derive(Default)]
struct Part {
    usage: Usage,
    tally: Tally,
}

impl CountWalk {
    fn new(root: Arc<Inode>, by_owner: bool) -> Self {
        Self {
            queue: Mutex::new(Queue { dirs: vec![root], ..Queue::default() }),
            changed: Condvar::new(),
            files: AtomicU64::new(0),
            is_stopped: AtomicBool::new(false),
            by_owner,
        }
    }

    /// Reports the progress until the walk ends.
    fn report(&self, go_on: &mut dyn FnMut(u64, u64) -> bool) {
        let mut reported = 0;
        loop {
            let (queue, _) =
                self.changed.wait_timeout_while(self.queue.lock(), REPORT, |queue| !queue.is_done());
            let is_done = queue.is_done();
            drop(queue);
            let files = self.files.load(Ordering::Relaxed);
            if !go_on(files - reported, files) && !is_done {
                self.is_stopped.store(true, Ordering::SeqCst);
                self.changed.notify_all();
            }
            reported = files;
            if is_done {
                return;
            }
        }
    }

    fn run(&self) -> FsResult<Part> {
        let mut part = Part::default();
        while let Some(dir) = self.next() {
            let counted = self.count_below(&dir, &mut part);
            let mut queue = self.queue.lock();
            queue.busy -= 1;
            if counted.is_err() {
                queue.dirs.clear();
                self.is_stopped.store(true, Ordering::SeqCst);
            }
            drop(queue);
            self.changed.notify_all();
            counted?;
        }
        Ok(part)
    }

    fn next(&self) -> Option<Arc<Inode>> {
        let mut queue = self.queue.lock();
        loop {
            if self.is_stopped.load(Ordering::SeqCst) {
                queue.dirs.clear();
            }
            if queue.is_done() {
                return None;
            }
            if let Some(dir) = queue.dirs.pop() {
                queue.busy += 1;
                return Some(dir);
            }
            queue = self.changed.wait(queue);
        }
    }

    /// Leaves a directory to another thread if one is idle.
    fn offer(&self, dir: Arc<Inode>) -> Option<Arc<Inode>> {
        let mut queue = self.queue.lock();
        if queue.dirs.len() >= WORKERS {
            return Some(dir);
        }
        queue.dirs.push(dir);
        drop(queue);
        self.changed.notify_all();
        None
    }

    fn count_below(&self, dir: &Inode, part: &mut Part) -> FsResult<()> {
        let mut waiting = vec![dir.open_dir().map_err(refused)?];
        let mut files = 0;
        while let Some(dir) = waiting.last_mut() {
            let Some(entry) = dir.next(Wanted::Inode).map_err(refused)? else {
                waiting.pop();
                continue;
            };
            if matches!(&entry.name[..], b"." | b"..") {
                continue;
            }
            part.usage.bytes += NAME_BYTES;
            if entry.stat.links > 1 && !self.queue.lock().linked.insert(entry.stat.inode) {
                continue;
            }
            let (kind, inode) = (file_type(&entry.stat)?, entry.inode.ok_or(FsError::Io)?);
            part.usage.bytes += INODE_BYTES + content(kind, entry.stat.size);
            part.usage.files += 1;
            if matches!(kind, FileType::Regular | FileType::Directory) {
                part.usage.bytes += xattrs_charged(&inode).map_err(refused)?;
            }
            if kind == FileType::Directory {
                if let Some(inode) = self.offer(Arc::new(inode)) {
                    waiting.push(inode.open_dir().map_err(refused)?);
                }
            } else if self.by_owner {
                let ids = OwnerIds::both(entry.stat.uid, entry.stat.gid);
                add_to_tally(&mut part.tally, ids, quotas::charge(kind, entry.stat.size));
            }
            files += 1;
            if files == STEP {
                self.files.fetch_add(std::mem::take(&mut files), Ordering::Relaxed);
                if self.is_stopped.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
        }
        self.files.fetch_add(files, Ordering::Relaxed);
        Ok(())
    }
}

/// Deletes everything below `root`. Returns false once `stop` returns true.
pub(crate) fn empty(root: &Inode, stop: &dyn Fn() -> bool) -> Result<bool, Errno> {
    let mut levels: Vec<(Inode, CString)> = Vec::new();
    loop {
        let dir = levels.last().map_or(root, |(dir, _)| dir);
        match delete_batch(dir, stop)? {
            Batch::Stopped => return Ok(false),
            Batch::Subdirectory(child, name) => levels.push((child, name)),
            Batch::More => {}
            Batch::Empty => {
                let Some((dir, name)) = levels.pop() else { return Ok(true) };
                drop(dir);
                let parent = levels.last().map_or(root, |(dir, _)| dir);
                ignore_missing(parent.remove_dir(&name))?;
            }
        }
    }
}

enum Batch {
    Stopped,
    /// A directory that must be emptied first.
    Subdirectory(Inode, CString),
    More,
    Empty,
}

fn delete_batch(dir: &Inode, stop: &dyn Fn() -> bool) -> Result<Batch, Errno> {
    let mut entries = dir.open_dir()?;
    let mut deleted = 0;
    while let Some(entry) = entries.next(Wanted::Inode)? {
        if matches!(&entry.name[..], b"." | b"..") {
            continue;
        }
        if stop() {
            return Ok(Batch::Stopped);
        }
        let name = CString::new(entry.name).map_err(|_| Errno::INVAL)?;
        let is_dir = file_type(&entry.stat) == Ok(FileType::Directory);
        match entry.inode.filter(|_| is_dir) {
            Some(child) => return Ok(Batch::Subdirectory(child, name)),
            None => ignore_missing(dir.unlink(&name))?,
        }
        deleted += 1;
        if deleted == BATCH {
            return Ok(Batch::More);
        }
    }
    Ok(if deleted == 0 { Batch::Empty } else { Batch::More })
}

fn ignore_missing(done: Result<(), Errno>) -> Result<(), Errno> {
    match done {
        Err(Errno::NOENT) => Ok(()),
        done => done,
    }
}

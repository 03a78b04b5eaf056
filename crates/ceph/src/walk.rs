//! Walks over the files of a volume, below the model: counts and deletes them.

use crate::error::refused;
use crate::ffi::{Dir, Inode, Wanted};
use crate::node::live_count::LiveCount;
use crate::node::tree::Tree;
use crate::stat::{file_type, key_of};
use rustix::io::Errno;
use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use storage::{OwnerIds, Tally, add_to_tally, merge_tally};
use vfs::backend::quotas;
use vfs::{FileKey, FileType, FsError, FsResult, Usage};

/// Threads of a walk that counts.
const WORKERS: usize = 4;
/// Files of a thread between two updates of the number of all.
const STEP: u64 = 256;
/// Time between two reports of a walk that counts.
const REPORT: Duration = Duration::from_millis(50);
/// Entries that are deleted between two listings of a directory.
const BATCH: usize = 256;

/// The usage of the tree below and including `root`, which does not change. With `tally`, files are counted by owner too.
/// `go_on` receives the number of files since its last call and in all; if it returns false, the walk ends with
/// [`FsError::Wait`].
pub(crate) fn count(
    root: Arc<Inode>,
    held: Option<Inode>,
    tally: Option<&mut Tally>,
    go_on: &mut dyn FnMut(u64, u64) -> bool,
) -> FsResult<Usage> {
    run(&LiveCount::new(root, held)?, &[], tally, go_on)
}

/// [`count`] of a volume that changes, as it was when the count began. `trees` are those through which it changes.
pub(crate) fn count_live(
    count: &LiveCount,
    trees: &[Weak<Tree>],
    go_on: &mut dyn FnMut(u64, u64) -> bool,
) -> FsResult<Usage> {
    run(count, trees, None, go_on)
}

fn run(
    count: &LiveCount,
    trees: &[Weak<Tree>],
    tally: Option<&mut Tally>,
    go_on: &mut dyn FnMut(u64, u64) -> bool,
) -> FsResult<Usage> {
    count.start()?;
    let walk = CountWalk { count, trees, files: AtomicU64::new(0), by_owner: tally.is_some() };
    let parts = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(|| walk.run())).collect();
        walk.report(go_on);
        workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| FsError::Io)?)
            .collect::<FsResult<Vec<_>>>()
    })?;
    if let Some(tally) = tally {
        parts.iter().for_each(|part| merge_tally(tally, part));
    }
    count.usage()
}

/// A walk by several threads: most of the time goes to waiting for the metadata server.
struct CountWalk<'w> {
    count: &'w LiveCount,
    trees: &'w [Weak<Tree>],
    files: AtomicU64,
    by_owner: bool,
}

impl CountWalk<'_> {
    /// Reports the progress until the walk ends.
    fn report(&self, go_on: &mut dyn FnMut(u64, u64) -> bool) {
        let mut reported = 0;
        loop {
            let is_done = self.count.wait(REPORT);
            let files = self.files.load(Ordering::Relaxed);
            if !go_on(files - reported, files) && !is_done {
                self.count.stop();
            }
            reported = files;
            if is_done {
                return;
            }
        }
    }

    fn run(&self) -> FsResult<Tally> {
        let mut tally = Tally::new();
        while let Some(dir) = self.count.next_dir() {
            let counted = self.count_below(dir, &mut tally);
            if counted.is_err() {
                self.count.stop();
            }
            self.count.end_dir();
            counted?;
        }
        Ok(tally)
    }

    fn count_below(&self, dir: Arc<Inode>, tally: &mut Tally) -> FsResult<()> {
        let mut waiting = vec![self.open(dir)?];
        let mut files = 0;
        while let Some((dir, key)) = waiting.last_mut() {
            let Some(entry) = dir.next(Wanted::Inode).map_err(refused)? else {
                waiting.pop();
                continue;
            };
            if matches!(&entry.name[..], b"." | b"..") {
                continue;
            }
            let inode = Arc::new(entry.inode.ok_or(FsError::Io)?);
            // Until then a new object may not be noted.
            let settle =
                || self.trees.iter().filter_map(Weak::upgrade).for_each(|tree| tree.wait_for_change(key));
            if !self.count.visit(&inode, &entry.stat, settle)? {
                continue;
            }
            let kind = file_type(&entry.stat)?;
            if kind == FileType::Directory {
                if let Some(dir) = self.count.offer(inode, WORKERS) {
                    waiting.push(self.open(dir)?);
                }
            } else if self.by_owner {
                let ids = OwnerIds::both(entry.stat.uid, entry.stat.gid);
                add_to_tally(tally, ids, quotas::charge(kind, entry.stat.size));
            }
            files += 1;
            if files == STEP {
                self.files.fetch_add(std::mem::take(&mut files), Ordering::Relaxed);
                if self.count.is_stopped() {
                    return Ok(());
                }
            }
        }
        self.files.fetch_add(files, Ordering::Relaxed);
        Ok(())
    }

    /// The entries of a directory, and its key.
    fn open(&self, dir: Arc<Inode>) -> FsResult<(Dir, FileKey)> {
        let key = key_of(&dir.attrs().map_err(refused)?)?;
        Ok((dir.open_dir().map_err(refused)?, key))
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

//! Counting what a volume holds, where the file system does not: exact under concurrency, without a lock.
//!
//! What an object is charged ([`vfs::backend::charge`]) follows from what `stat` and `listxattr` say, whenever they are asked, so a recount
//! finds what was counted. Growth is reserved before the change and corrected after it; both happen under the file's lock, so
//! nobody else moves its size. docs/decisions/0015-capacity.md says why not blocks, 0063-overhead.md what is charged.
//!
//! A change is *pending* from before it takes something until after it has given back the rest. The count is written down at the
//! end of the process only when none is: it would be wrong by what that change took.

use super::dir_lock::DirLock;
use super::usage_file::{UsageFile, UsageRecord};
use crate::error::refused;
use rustix::fs::syncfs;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};
use vfs::sync::Mutex;
use vfs::{Capacity, FsError, FsResult, Usage, Wait};

const COUNTED: u8 = 0;
const COUNTING: u8 = 1;
const UNCOUNTABLE: u8 = 2;
/// Counted, and the process ends: no change begins any more.
const CLOSED: u8 = 3;

/// A change under way, until it is dropped.
pub(crate) struct PendingChange<'l>(&'l Ledger);

impl Deref for PendingChange<'_> {
    type Target = Ledger;
    fn deref(&self) -> &Ledger {
        self.0
    }
}

impl Drop for PendingChange<'_> {
    fn drop(&mut self) {
        self.0.pending.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What an open volume holds and may hold.
pub(crate) struct Ledger {
    bytes: AtomicU64,
    files: AtomicU64,
    bytes_max: AtomicU64,
    files_max: AtomicU64,
    /// Whether `bytes` and `files` are right: [`COUNTED`], [`COUNTING`], [`UNCOUNTABLE`] or [`CLOSED`].
    state: AtomicU8,
    /// Changes under way.
    pending: AtomicU64,
    /// The record says that the volume is in use.
    marked: AtomicBool,
    /// Something failed half-way: the count may be wrong, so it shall not be trusted after the end.
    doubtful: AtomicBool,
    /// The volume was removed: nothing is to be recorded any more.
    removed: AtomicBool,
    record: Mutex<UsageFile>,
    /// The volume's root, to make it durable before the count is.
    root: OwnedFd,
    /// Held as long as a volume is open.
    _dir_lock: Arc<DirLock>,
}

impl Ledger {
    /// Goes on from `entry`. Clean, its usage is right; otherwise the volume is to be counted, and until then nothing is
    /// taken or given back.
    pub(crate) fn new(entry: &UsageRecord, record: UsageFile, root: OwnedFd, claim: Arc<DirLock>) -> Self {
        Self {
            bytes: AtomicU64::new(entry.usage.bytes),
            files: AtomicU64::new(entry.usage.files),
            bytes_max: AtomicU64::new(entry.capacity.bytes),
            files_max: AtomicU64::new(entry.capacity.files),
            state: AtomicU8::new(if entry.is_clean { COUNTED } else { COUNTING }),
            pending: AtomicU64::new(0),
            marked: AtomicBool::new(!entry.is_clean),
            doubtful: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            record: Mutex::new(record),
            root,
            _dir_lock: claim,
        }
    }

    /// The root directory of the volume.
    pub(crate) fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// Begins a change: [`FsError::Wait(Wait::Recall)`] while the volume is counted and when the process ends, [`FsError::Io`] if it cannot be
    /// counted.
    #[inline]
    pub(crate) fn begin(&self) -> FsResult<PendingChange<'_>> {
        let pending = self.begin_refund();
        self.check_counted().map(|()| pending)
    }

    /// Begins a change that only gives back, whatever the state.
    pub(crate) fn begin_refund(&self) -> PendingChange<'_> {
        // Before the state is looked at: the end looks in the other order.
        self.pending.fetch_add(1, Ordering::SeqCst);
        PendingChange(self)
    }

    /// Goes on with a change that was begun and forgotten.
    pub(crate) fn resume(&self) -> PendingChange<'_> {
        PendingChange(self)
    }

    #[inline]
    fn check_counted(&self) -> FsResult<()> {
        match self.state.load(Ordering::SeqCst) {
            COUNTED => Ok(()),
            COUNTING | CLOSED => Err(FsError::Wait(Wait::Recall)),
            _ => Err(FsError::Io),
        }
    }

    /// Whether it is still to be counted.
    pub(crate) fn is_uncounted(&self) -> bool {
        let state = self.state.load(Ordering::Acquire);
        matches!(state, COUNTING | UNCOUNTABLE) && !self.removed.load(Ordering::Relaxed)
    }

    /// The volume was counted and holds this.
    pub(crate) fn set_counted(&self, usage: Usage) {
        self.bytes.store(usage.bytes, Ordering::Relaxed);
        self.files.store(usage.files, Ordering::Relaxed);
        self.state.store(COUNTED, Ordering::Release);
    }

    /// The volume cannot be counted.
    pub(crate) fn set_uncountable(&self) {
        self.state.store(UNCOUNTABLE, Ordering::Release);
    }

    /// Whether it could not be counted; if so, it is to be counted again.
    pub(crate) fn retry(&self) -> bool {
        let retry = self.state.compare_exchange(UNCOUNTABLE, COUNTING, Ordering::AcqRel, Ordering::Relaxed);
        retry.is_ok()
    }

    /// What the volume holds now; while it is counted, what was last known.
    pub(crate) fn usage(&self) -> Usage {
        Usage { bytes: self.bytes.load(Ordering::Relaxed), files: self.files.load(Ordering::Relaxed) }
    }

    /// What it may hold.
    pub(crate) fn capacity(&self) -> Capacity {
        Capacity {
            bytes: self.bytes_max.load(Ordering::Relaxed),
            files: self.files_max.load(Ordering::Relaxed),
        }
    }

    /// Changes what it may hold, durably.
    pub(crate) fn set_capacity(&self, capacity: Capacity) -> FsResult<()> {
        let record = self.lock();
        let is_clean = !self.marked.load(Ordering::Relaxed);
        record.write(&UsageRecord { is_clean, capacity, usage: self.usage() })?;
        self.bytes_max.store(capacity.bytes, Ordering::Relaxed);
        self.files_max.store(capacity.files, Ordering::Relaxed);
        Ok(())
    }

    /// Writes down what it holds, for whoever asks after a crash and before the recount.
    pub(crate) fn checkpoint(&self) {
        let record = self.lock();
        if self.marked.load(Ordering::Relaxed) && !self.removed.load(Ordering::Relaxed) {
            // The mark is what counts, and it stands: a failure here costs nothing.
            let _written = record.write_lazily(&self.entry(false));
        }
    }

    /// From now on nothing is recorded.
    pub(crate) fn set_removed(&self) {
        self.removed.store(true, Ordering::Relaxed);
    }

    /// The count is no longer trusted after the end.
    pub(crate) fn mark_doubtful(&self) {
        self.doubtful.store(true, Ordering::Relaxed);
    }

    /// To be called before a change that takes nothing but may give back. Never refuses: removal works on a full disk.
    pub(crate) fn mark_best_effort(&self) {
        // Where the mark cannot be written, a crash leaves a count that is too high: the safe side.
        let _marked = self.mark();
    }

    /// Takes `bytes` and `files` for a change that has begun, all or nothing: [`FsError::NoSpace`] if that would be more than it
    /// may hold.
    #[inline]
    pub(crate) fn take(&self, bytes: u64, files: u64) -> FsResult<()> {
        self.mark()?;
        take(&self.bytes, &self.bytes_max, bytes)?;
        take(&self.files, &self.files_max, files).inspect_err(|_| self.refund(bytes, 0))
    }

    /// Gives back what was taken.
    #[inline]
    pub(crate) fn refund(&self, bytes: u64, files: u64) {
        for (count, back) in [(&self.bytes, bytes), (&self.files, files)] {
            if back != 0
                && count
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| held.checked_sub(back))
                    .is_err()
            {
                // Somebody else put files into the tree, and we have removed them.
                count.store(0, Ordering::Relaxed);
                self.mark_doubtful();
            }
        }
        self.reopen();
    }

    /// What was charged `from` bytes is charged `to` from now on, though that may be more than there is room for: the file system
    /// has taken it.
    pub(crate) fn adjust(&self, from: u64, to: u64) {
        if to > from {
            self.bytes.fetch_add(to - from, Ordering::Relaxed);
            self.reopen();
        } else if from > to {
            self.refund(from - to, 0);
        }
    }

    /// Takes back the mark of an orderly end where the count has moved after it.
    #[inline]
    fn reopen(&self) {
        if self.state.load(Ordering::SeqCst) == CLOSED && self.mark_now().is_err() {
            tracing::error!(
                "a count that is wrong after this end could not be marked: remove the usage file"
            );
        }
    }

    /// Ends the count: no change begins any more, and those under way are waited for until then.
    pub(crate) fn close(&self, until: Instant) {
        // A count that is not known is made at the next start.
        let _closed = self.state.compare_exchange(COUNTED, CLOSED, Ordering::SeqCst, Ordering::SeqCst);
        while self.pending.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Writes down the count after [`Ledger::close`], once what was counted is on disk.
    pub(crate) fn seal(&self) {
        if self.removed.load(Ordering::Relaxed) || !self.marked.load(Ordering::Acquire) {
            return;
        }
        let is_known = self.state.load(Ordering::SeqCst) == CLOSED && !self.doubtful.load(Ordering::Relaxed);
        if !is_known || self.pending.load(Ordering::SeqCst) > 0 {
            tracing::info!("what a volume holds is not known for certain: it is counted at the next start");
            return;
        }
        let synced = syncfs(&self.root).map_err(refused);
        let record = self.lock();
        match synced.and_then(|()| record.write(&self.entry(true))) {
            Ok(()) => self.marked.store(false, Ordering::Release),
            Err(error) => {
                tracing::warn!(%error, "cannot record what a volume holds: it is counted at the next start");
            }
        }
    }

    /// Says in the record, durably, that the volume is in use: before the first change of its count.
    #[inline]
    fn mark(&self) -> FsResult<()> {
        if self.marked.load(Ordering::Acquire) { Ok(()) } else { self.mark_now() }
    }

    #[cold]
    fn mark_now(&self) -> FsResult<()> {
        let record = self.lock();
        if !self.marked.load(Ordering::Acquire) {
            record.write(&self.entry(false))?;
            self.marked.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn entry(&self, is_clean: bool) -> UsageRecord {
        UsageRecord { is_clean, capacity: self.capacity(), usage: self.usage() }
    }

    fn lock(&self) -> MutexGuard<'_, UsageFile> {
        self.record.lock()
    }
}

impl Drop for Ledger {
    /// Nobody else is left.
    fn drop(&mut self) {
        self.close(Instant::now());
        self.seal();
    }
}

#[inline]
fn take(count: &AtomicU64, most: &AtomicU64, wanted: u64) -> FsResult<()> {
    if wanted == 0 {
        return Ok(());
    }
    let fits = |held: u64| held.checked_add(wanted).filter(|&held| held <= most.load(Ordering::Relaxed));
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).map_err(|_| FsError::NoSpace)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_past_the_most() {
        let (count, most) = (AtomicU64::new(5), AtomicU64::new(10));
        assert_eq!(take(&count, &most, 5), Ok(()));
        assert_eq!(take(&count, &most, 1), Err(FsError::NoSpace));
        assert_eq!(take(&count, &most, u64::MAX), Err(FsError::NoSpace));
        most.store(3, Ordering::Relaxed);
        assert_eq!(take(&count, &most, 0), Ok(()), "what takes nothing is never refused");
        assert_eq!(count.into_inner(), 10);
    }
}

//! Counting what a volume holds, where the file system does not: exact under concurrency, without a lock.
//!
//! A regular file is charged its size, rounded up to blocks ([`charge`]); nothing else is charged bytes, and every object
//! is one file. That follows from what `stat` says, whenever it is asked, so a recount finds what was counted. Growth is
//! reserved before the change and corrected after it; both happen under the file's lock, so nobody else moves its size.
//! docs/decisions/0015-capacity.md says why not blocks.

use crate::claim::Claim;
use crate::error::refused;
use crate::record::{Entry, Record};
use rustix::fs::syncfs;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vfs::{Capacity, FsError, FsResult, Usage};

/// Bytes of the blocks that are charged.
pub(crate) const BLOCK_BYTES: u64 = 4096;

const COUNTED: u8 = 0;
const COUNTING: u8 = 1;
const UNCOUNTABLE: u8 = 2;

/// What a regular file of `size` bytes is charged, in bytes.
pub(crate) fn charge(size: u64) -> u64 {
    size.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES)
}

/// What an open volume holds and may hold.
pub(crate) struct Ledger {
    bytes: AtomicU64,
    files: AtomicU64,
    bytes_max: AtomicU64,
    files_max: AtomicU64,
    /// Whether `bytes` and `files` are right: [`COUNTED`], [`COUNTING`] or [`UNCOUNTABLE`].
    state: AtomicU8,
    /// The record says that the volume is in use.
    marked: AtomicBool,
    /// Something failed half-way: the count may be wrong, so it shall not be trusted after the end.
    doubtful: AtomicBool,
    /// The volume was removed: nothing is to be recorded any more.
    removed: AtomicBool,
    record: Mutex<Record>,
    /// The volume's root, to make it durable before the count is.
    root: OwnedFd,
    /// Held as long as a volume is open.
    _claim: Arc<Claim>,
}

impl Ledger {
    /// Goes on from `entry`. Clean, its usage is right; otherwise the volume is to be counted, and until then nothing is
    /// taken or given back.
    pub(crate) fn new(entry: &Entry, record: Record, root: OwnedFd, claim: Arc<Claim>) -> Self {
        Self {
            bytes: AtomicU64::new(entry.usage.bytes),
            files: AtomicU64::new(entry.usage.files),
            bytes_max: AtomicU64::new(entry.capacity.bytes),
            files_max: AtomicU64::new(entry.capacity.files),
            state: AtomicU8::new(if entry.is_clean { COUNTED } else { COUNTING }),
            marked: AtomicBool::new(!entry.is_clean),
            doubtful: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            record: Mutex::new(record),
            root,
            _claim: claim,
        }
    }

    /// The root directory of the volume.
    pub(crate) fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// Whether the count is right: [`FsError::Delay`] while the volume is counted, [`FsError::Io`] if it cannot be.
    #[inline]
    pub(crate) fn check_counted(&self) -> FsResult<()> {
        match self.state.load(Ordering::Acquire) {
            COUNTED => Ok(()),
            COUNTING => Err(FsError::Delay),
            _ => Err(FsError::Io),
        }
    }

    /// Whether it is still to be counted.
    pub(crate) fn is_uncounted(&self) -> bool {
        self.check_counted().is_err() && !self.removed.load(Ordering::Relaxed)
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
        record.write(&Entry { is_clean, capacity, usage: self.usage() })?;
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
    pub(crate) fn doubt(&self) {
        self.doubtful.store(true, Ordering::Relaxed);
    }

    /// To be called before a change that takes nothing but may give back. Refuses only what is not counted: removal works on a
    /// full disk.
    pub(crate) fn announce(&self) -> FsResult<()> {
        self.check_counted()?;
        // Where the mark cannot be written, a crash leaves a count that is too high: the safe side.
        let _marked = self.mark();
        Ok(())
    }

    /// Takes `bytes` and `files`, all or nothing: [`FsError::NoSpace`] if that would be more than it may hold.
    #[inline]
    pub(crate) fn take(&self, bytes: u64, files: u64) -> FsResult<()> {
        self.check_counted()?;
        self.mark()?;
        take(&self.bytes, &self.bytes_max, bytes)?;
        take(&self.files, &self.files_max, files).inspect_err(|_| self.give(bytes, 0))
    }

    /// Gives back what was taken.
    #[inline]
    pub(crate) fn give(&self, bytes: u64, files: u64) {
        for (count, back) in [(&self.bytes, bytes), (&self.files, files)] {
            if back != 0
                && count
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| held.checked_sub(back))
                    .is_err()
            {
                // Somebody else put files into the tree, and we have removed them.
                count.store(0, Ordering::Relaxed);
                self.doubt();
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

    fn entry(&self, is_clean: bool) -> Entry {
        Entry { is_clean, capacity: self.capacity(), usage: self.usage() }
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ledger {
    /// The count is good after this only if what was counted is on disk first.
    fn drop(&mut self) {
        let counted = self.check_counted().is_ok() && !self.doubtful.load(Ordering::Relaxed);
        if counted && !self.removed.load(Ordering::Relaxed) && self.marked.load(Ordering::Relaxed) {
            let entry = self.entry(true);
            let recorded = syncfs(&self.root).map_err(refused).and_then(|()| self.lock().write(&entry));
            if let Err(error) = recorded {
                tracing::warn!(%error, "cannot record what a volume holds: it is counted at the next start");
            }
        }
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
    fn sizes_are_charged_in_blocks() {
        assert_eq!([0, 1, 4096, 4097].map(charge), [0, 4096, 4096, 8192]);
        assert_eq!(charge(i64::MAX.unsigned_abs()), 1 << 63);
        assert_eq!(charge(u64::MAX), u64::MAX);
    }

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

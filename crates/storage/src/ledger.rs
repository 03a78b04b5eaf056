//! Counts the space of a volume where the file system does not: exact under concurrency, without a lock.
//!
//! The charge of an object ([`vfs::backend::charge`]) follows from `stat` and `listxattr`, so a recount finds the same
//! sum. Growth is charged before the change and corrected after it. Both happen under the file's lock, so nothing else
//! changes its size in between. docs/decisions/0015-capacity.md explains why blocks are not counted, 0063-overhead.md
//! the charges.
//!
//! A change is *pending* from before its charge until after its refund. The count is saved at the end of the process
//! only if no change is pending: it would be wrong by that change.
//!
//! A storage can count a volume after a crash while its files change. The saved record then has a bound that the usage
//! has never exceeded. The sums start from it, so they are too high and never too low. The count is of one moment
//! ([`Ledger::begin_count`]), so that its end corrects them by the difference.

use crate::usage_record::UsageRecord;
use std::ops::Deref;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vfs::sync::Mutex;
use vfs::{Capacity, FsError, FsResult, Usage, Wait};

const COUNTED: u8 = 0;
const COUNTING: u8 = 1;
const UNCOUNTABLE: u8 = 2;
/// Counted, and the process is ending: no change may begin.
const CLOSED: u8 = 3;
/// Being counted: the usage is an upper bound, and changes may begin.
const BOUNDED: u8 = 4;

/// Distance at which the bound is raised. Changes that grow after the fact, such as directories, stay below it.
const BOUND_SLACK: Usage = Usage { bytes: 1 << 20, files: 64 };
/// A raise of the bound, if not a 64th of the capacity.
const BOUND_STEP_MIN: Usage = Usage { bytes: 64 << 20, files: 1024 };
const BOUND_STEP_MAX: Usage = Usage { bytes: 1 << 30, files: 1 << 20 };

/// The place of a volume's [`UsageRecord`] between two runs.
pub trait UsageStore: Send {
    /// Replaces the record durably, all or nothing. Succeeds on a full disk.
    fn write(&self, record: &UsageRecord) -> FsResult<()>;

    /// [`UsageStore::write`] without waiting for the storage.
    fn write_lazily(&self, record: &UsageRecord) -> FsResult<()>;

    /// Makes all changes of the volume's files durable.
    fn sync_files(&self) -> FsResult<()>;

    /// Whether the record has a bound of the usage while the volume is in use.
    fn keeps_bound(&self) -> bool {
        false
    }
}

/// A change under way. Ends on drop.
pub struct PendingChange<'l>(&'l Ledger);

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

/// The space of snapshots.
#[derive(Clone, Copy)]
struct SnapshotSpace {
    /// Bytes that only snapshots need.
    held: u64,
    /// Bytes that files do not get, whatever snapshots need.
    reserve: u64,
}

impl SnapshotSpace {
    /// The bytes that files do not get.
    fn charged(self) -> u64 {
        self.held.max(self.reserve)
    }
}

pub struct Ledger {
    /// The bytes of the live files, and [`SnapshotSpace::charged`]. So a charge of a file compares one number.
    bytes: AtomicU64,
    files: AtomicU64,
    /// Locked while it changes together with `bytes`, so that concurrent changes share the reserve exactly.
    snapshots: Mutex<SnapshotSpace>,
    bytes_max: AtomicU64,
    files_max: AtomicU64,
    /// The saved bound of the usage, the largest number if the store keeps none.
    bytes_bound: AtomicU64,
    files_bound: AtomicU64,
    /// The usage at the moment of which the files are counted, if changes do not wait for the count.
    origin: Mutex<Option<Usage>>,
    /// Whether `bytes` and `files` are right: [`COUNTED`], [`COUNTING`], [`UNCOUNTABLE`], [`CLOSED`] or [`BOUNDED`].
    state: AtomicU8,
    pending: AtomicU64,
    /// The saved record says that the volume is in use.
    marked: AtomicBool,
    /// An operation failed half-way, so the count may be wrong. The next start must recount.
    doubtful: AtomicBool,
    /// The volume was removed: the record is no longer written.
    removed: AtomicBool,
    store: Mutex<Box<dyn UsageStore>>,
}

impl Ledger {
    /// A ledger that continues from `entry`. If `entry` is clean, its usage is right. Otherwise the volume must be
    /// counted, and until then changes are refused.
    pub fn new(entry: &UsageRecord, store: Box<dyn UsageStore>) -> Self {
        let bound = if store.keeps_bound() {
            entry.bound.unwrap_or_default()
        } else {
            Usage { bytes: u64::MAX, files: u64::MAX }
        };
        Self {
            bytes: AtomicU64::new(entry.usage.bytes),
            files: AtomicU64::new(entry.usage.files),
            snapshots: Mutex::new(SnapshotSpace { held: entry.held, reserve: 0 }),
            bytes_max: AtomicU64::new(entry.capacity.bytes),
            files_max: AtomicU64::new(entry.capacity.files),
            bytes_bound: AtomicU64::new(bound.bytes),
            files_bound: AtomicU64::new(bound.files),
            origin: Mutex::default(),
            state: AtomicU8::new(if entry.is_clean { COUNTED } else { COUNTING }),
            pending: AtomicU64::new(0),
            marked: AtomicBool::new(!entry.is_clean),
            doubtful: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            store: Mutex::new(store),
        }
    }

    /// Begins a change. [`FsError::Wait`]`(Wait::Recall)` while the volume is counted and while the process ends;
    /// [`FsError::Io`] if the volume cannot be counted.
    #[inline]
    pub fn begin(&self) -> FsResult<PendingChange<'_>> {
        let pending = self.begin_refund();
        self.check_counted().map(|()| pending)
    }

    /// Begins a change that only refunds, in any state.
    pub fn begin_refund(&self) -> PendingChange<'_> {
        // Before the state is read: `close` reads the two in the other order.
        self.pending.fetch_add(1, Ordering::SeqCst);
        PendingChange(self)
    }

    /// Continues a change that was begun and forgotten.
    pub fn resume(&self) -> PendingChange<'_> {
        PendingChange(self)
    }

    #[inline]
    fn check_counted(&self) -> FsResult<()> {
        match self.state.load(Ordering::SeqCst) {
            COUNTED | BOUNDED => Ok(()),
            COUNTING | CLOSED => Err(FsError::Wait(Wait::Recall)),
            _ => Err(FsError::Io),
        }
    }

    pub fn is_uncounted(&self) -> bool {
        let state = self.state.load(Ordering::Acquire);
        matches!(state, COUNTING | UNCOUNTABLE | BOUNDED) && !self.removed.load(Ordering::Relaxed)
    }

    /// Whether changes may begin before the count ends.
    pub fn is_bounded(&self) -> bool {
        self.state.load(Ordering::Acquire) == BOUNDED
    }

    fn has_bound(&self) -> bool {
        let bound = self.bytes_bound.load(Ordering::Relaxed);
        self.state.load(Ordering::Acquire) == COUNTING && bound != 0 && bound != u64::MAX
    }

    /// Lets changes begin before the count ends, if the saved record has a bound: until then the usage is that. The
    /// storage has no bytes that only snapshots need.
    pub fn serve_while_counting(&self) {
        if !self.has_bound() {
            return;
        }
        self.bytes.store(self.bytes_bound.load(Ordering::SeqCst), Ordering::SeqCst);
        self.files.store(self.files_bound.load(Ordering::SeqCst), Ordering::SeqCst);
        self.state.store(BOUNDED, Ordering::SeqCst);
    }

    /// Begins a count of the files as they are now. No change is under way.
    pub fn begin_count(&self) {
        *self.origin.lock() = Some(self.usage());
    }

    /// Sets the count: `usage` is without the bytes that only snapshots need.
    pub fn set_counted(&self, usage: Usage, held: u64) {
        let mut origin = self.origin.lock();
        if let Some(origin) = origin.take() {
            // The sums have the changes since then.
            self.bytes.fetch_add(usage.bytes.wrapping_sub(origin.bytes), Ordering::SeqCst);
            self.files.fetch_add(usage.files.wrapping_sub(origin.files), Ordering::SeqCst);
        } else {
            let mut snapshots = self.snapshots.lock();
            snapshots.held = held;
            self.bytes.store(usage.bytes.saturating_add(snapshots.charged()), Ordering::SeqCst);
            self.files.store(usage.files, Ordering::SeqCst);
        }
        self.state.store(COUNTED, Ordering::SeqCst);
        drop(origin);
        self.checkpoint();
    }

    pub fn set_uncountable(&self) {
        *self.origin.lock() = None;
        self.state.store(UNCOUNTABLE, Ordering::SeqCst);
    }

    /// Restarts a count that failed. Returns whether there was one.
    pub fn retry(&self) -> bool {
        let retry = self.state.compare_exchange(UNCOUNTABLE, COUNTING, Ordering::AcqRel, Ordering::Relaxed);
        retry.is_ok()
    }

    /// Current usage; while the volume is counted, the last known usage.
    pub fn usage(&self) -> Usage {
        self.usage_with(*self.snapshots.lock())
    }

    fn usage_with(&self, snapshots: SnapshotSpace) -> Usage {
        let unused = snapshots.charged() - snapshots.held;
        let bytes = self.bytes.load(Ordering::Relaxed).saturating_sub(unused);
        Usage { bytes, files: self.files.load(Ordering::Relaxed) }
    }

    /// The part of the reserve that snapshots do not need at present.
    pub fn unused_reserve(&self) -> u64 {
        let snapshots = self.snapshots.lock();
        snapshots.charged() - snapshots.held
    }

    /// Changes the reserve for snapshots, even past the capacity.
    pub fn set_reserve(&self, bytes: u64) {
        // The bound moves with the sum, so that the saved one stays right.
        let _store = self.lock();
        let mut snapshots = self.snapshots.lock();
        let before = snapshots.charged();
        snapshots.reserve = bytes;
        let after = snapshots.charged();
        let has_bound = ![0, u64::MAX].contains(&self.bytes_bound.load(Ordering::SeqCst));
        if has_bound && after < before {
            self.bytes_bound.fetch_sub(before - after, Ordering::SeqCst);
        }
        // Wraps in the sum where it falls.
        self.bytes.fetch_add(after.wrapping_sub(before), Ordering::SeqCst);
        if has_bound && after > before {
            self.bytes_bound.fetch_add(after - before, Ordering::SeqCst);
        }
    }

    pub fn capacity(&self) -> Capacity {
        Capacity {
            bytes: self.bytes_max.load(Ordering::Relaxed),
            files: self.files_max.load(Ordering::Relaxed),
        }
    }

    /// Changes the capacity, durably.
    pub fn set_capacity(&self, capacity: Capacity) -> FsResult<()> {
        let store = self.lock();
        let is_clean = !self.marked.load(Ordering::Relaxed);
        store.write(&UsageRecord { is_clean, capacity, ..self.entry(is_clean) })?;
        self.bytes_max.store(capacity.bytes, Ordering::Relaxed);
        self.files_max.store(capacity.files, Ordering::Relaxed);
        Ok(())
    }

    /// Saves the usage for queries after a crash, before the recount is done.
    pub fn checkpoint(&self) {
        let store = self.lock();
        if self.marked.load(Ordering::Relaxed) && !self.removed.load(Ordering::Relaxed) {
            self.lower_bound();
            // A failure here costs nothing: the saved mark already requires a recount.
            let _written = store.write_lazily(&self.entry(false));
        }
    }

    pub fn set_removed(&self) {
        self.removed.store(true, Ordering::Relaxed);
    }

    /// Requires a recount at the next start.
    pub fn mark_doubtful(&self) {
        self.doubtful.store(true, Ordering::Relaxed);
    }

    /// Marks the volume as in use before a change that only refunds. Never refuses: removal works on a full disk.
    pub fn mark_best_effort(&self) {
        // If the mark cannot be written, a crash leaves a count that is too high: the safe side.
        let _marked = self.mark();
    }

    /// Charges `bytes` and `files` for a change that has begun, all or nothing. [`FsError::NoSpace`] if the usage would
    /// exceed the capacity.
    #[inline]
    pub fn charge(&self, bytes: u64, files: u64) -> FsResult<()> {
        self.mark()?;
        self.take(&self.bytes, &self.bytes_max, bytes)?;
        self.take(&self.files, &self.files_max, files).inspect_err(|_| self.refund(bytes, 0))?;
        if self.is_near_bound() {
            self.raise_bound().inspect_err(|_| self.refund(bytes, files))?;
        }
        Ok(())
    }

    #[inline]
    fn take(&self, count: &AtomicU64, max: &AtomicU64, amount: u64) -> FsResult<()> {
        take(count, max, amount).or_else(|_| self.take_after_count(count, max, amount))
    }

    /// Decides about a change that the present count refuses.
    #[cold]
    fn take_after_count(&self, count: &AtomicU64, max: &AtomicU64, amount: u64) -> FsResult<()> {
        // The count changes together with the state under this lock.
        let _origin = self.origin.lock();
        if self.is_bounded() { Err(FsError::Wait(Wait::Recall)) } else { take(count, max, amount) }
    }

    /// Whether the bound must be raised before the usage grows further.
    #[inline]
    fn is_near_bound(&self) -> bool {
        let near = |count: &AtomicU64, bound: &AtomicU64, slack: u64| {
            count.load(Ordering::SeqCst).saturating_add(slack) > bound.load(Ordering::SeqCst)
        };
        near(&self.bytes, &self.bytes_bound, BOUND_SLACK.bytes)
            || near(&self.files, &self.files_bound, BOUND_SLACK.files)
    }

    /// A bound with room for some growth.
    fn next_bound(&self) -> Usage {
        let next = |count: &AtomicU64, max: &AtomicU64, slack: u64, min: u64, most: u64| {
            let step = (max.load(Ordering::SeqCst) / 64).clamp(min, most);
            // Not the largest number, which says that there is no bound.
            count.load(Ordering::SeqCst).saturating_add(slack).saturating_add(step).min(u64::MAX - 1)
        };
        let (slack, min, most) = (BOUND_SLACK, BOUND_STEP_MIN, BOUND_STEP_MAX);
        Usage {
            bytes: next(&self.bytes, &self.bytes_max, slack.bytes, min.bytes, most.bytes),
            files: next(&self.files, &self.files_max, slack.files, min.files, most.files),
        }
    }

    #[cold]
    fn raise_bound(&self) -> FsResult<()> {
        let store = self.lock();
        while self.is_near_bound() {
            self.write_in_use(&**store)?;
        }
        Ok(())
    }

    /// Marks the volume as in use, with a new bound, durably.
    fn write_in_use(&self, store: &dyn UsageStore) -> FsResult<()> {
        let bound = store.keeps_bound().then(|| self.next_bound());
        store.write(&UsageRecord { bound: bound.map(|bound| self.saved(bound)), ..self.entry(false) })?;
        // After it is durable: other changes rely on it.
        bound.into_iter().for_each(|bound| self.set_bound(bound));
        Ok(())
    }

    /// A bound as it is saved: without the unused part of the reserve, which the next process adds.
    fn saved(&self, bound: Usage) -> Usage {
        Usage { bytes: bound.bytes.saturating_sub(self.unused_reserve()), ..bound }
    }

    fn set_bound(&self, bound: Usage) {
        self.bytes_bound.store(bound.bytes, Ordering::SeqCst);
        self.files_bound.store(bound.files, Ordering::SeqCst);
    }

    /// Lowers a bound that the usage is far from. The record may follow late.
    fn lower_bound(&self) {
        let before = self.bound();
        let next = self.next_bound();
        let lower = Usage { bytes: before.bytes.min(next.bytes), files: before.files.min(next.files) };
        if before.bytes == u64::MAX || lower == before {
            return;
        }
        self.set_bound(lower);
        // A change may have relied on the bound before.
        if self.is_near_bound() {
            self.set_bound(before);
        }
    }

    fn bound(&self) -> Usage {
        Usage {
            bytes: self.bytes_bound.load(Ordering::SeqCst),
            files: self.files_bound.load(Ordering::SeqCst),
        }
    }

    #[inline]
    pub fn refund(&self, bytes: u64, files: u64) {
        self.subtract(&self.bytes, bytes);
        self.subtract(&self.files, files);
        self.reopen();
    }

    #[inline]
    fn subtract(&self, count: &AtomicU64, amount: u64) {
        if amount != 0
            && count
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| used.checked_sub(amount))
                .is_err()
        {
            // Another process added files to the tree, and they were removed here.
            count.store(0, Ordering::Relaxed);
            self.mark_doubtful();
        }
    }

    /// Changes a charge from `from` bytes to `to`, even past the capacity: the file system has already allocated them.
    pub fn adjust(&self, from: u64, to: u64) {
        if to > from {
            self.bytes.fetch_add(to - from, Ordering::SeqCst);
            self.reopen();
            if self.is_near_bound() && self.raise_bound().is_err() {
                tracing::warn!("cannot save a bound of the usage of a volume");
            }
        } else if from > to {
            self.refund(from - to, 0);
        }
    }

    /// Bytes that only snapshots need, a part of the usage.
    pub fn held(&self) -> u64 {
        self.snapshots.lock().held
    }

    /// Charges bytes that only snapshots need. With `exceeds`, even past the capacity: the change releases as much.
    pub fn hold(&self, bytes: u64, exceeds: bool) -> FsResult<()> {
        // Before the lock: writing the mark takes it.
        if exceeds {
            self.mark_best_effort();
        } else {
            self.mark()?;
        }
        let mut snapshots = self.snapshots.lock();
        let more = SnapshotSpace { held: snapshots.held.saturating_add(bytes), ..*snapshots };
        let growth = more.charged() - snapshots.charged();
        if exceeds {
            self.bytes.fetch_add(growth, Ordering::Relaxed);
        } else {
            take(&self.bytes, &self.bytes_max, growth)?;
        }
        *snapshots = more;
        drop(snapshots);
        if exceeds {
            self.reopen();
        }
        Ok(())
    }

    pub fn release_held(&self, bytes: u64) {
        self.mark_best_effort();
        let mut snapshots = self.snapshots.lock();
        let before = snapshots.charged();
        snapshots.held = snapshots.held.saturating_sub(bytes);
        self.subtract(&self.bytes, before - snapshots.charged());
        drop(snapshots);
        self.reopen();
    }

    /// Removes the mark of an orderly end if the count has changed after it.
    #[inline]
    fn reopen(&self) {
        if self.state.load(Ordering::SeqCst) == CLOSED && self.mark_now().is_err() {
            tracing::error!(
                "cannot mark the saved usage as outdated: delete the saved usage to force a recount"
            );
        }
    }

    /// Ends the count: no change may begin. Waits until `until` for changes under way.
    pub fn close(&self, until: Instant) {
        // A volume that is not counted yet is counted at the next start.
        let _closed = self.state.compare_exchange(COUNTED, CLOSED, Ordering::SeqCst, Ordering::SeqCst);
        while self.pending.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Syncs the files, then saves the count. Call after [`Ledger::close`].
    pub fn seal(&self) {
        if self.removed.load(Ordering::Relaxed) || !self.marked.load(Ordering::Acquire) {
            return;
        }
        let is_known = self.state.load(Ordering::SeqCst) == CLOSED && !self.doubtful.load(Ordering::Relaxed);
        if !is_known || self.pending.load(Ordering::SeqCst) > 0 {
            tracing::info!("the usage of a volume is uncertain: the next start counts it");
            return;
        }
        let store = self.lock();
        match store.sync_files().and_then(|()| store.write(&self.entry(true))) {
            Ok(()) => self.marked.store(false, Ordering::Release),
            Err(error) => {
                tracing::warn!(%error, "cannot save the usage of a volume: the next start counts it");
            }
        }
    }

    /// Marks the volume as in use, durably, before the first change of its count.
    #[inline]
    fn mark(&self) -> FsResult<()> {
        if self.marked.load(Ordering::Acquire) { Ok(()) } else { self.mark_now() }
    }

    #[cold]
    fn mark_now(&self) -> FsResult<()> {
        let store = self.lock();
        if !self.marked.load(Ordering::Acquire) {
            self.write_in_use(&**store)?;
            self.marked.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn entry(&self, is_clean: bool) -> UsageRecord {
        let snapshots = *self.snapshots.lock();
        let usage = self.usage_with(snapshots);
        // A clean record needs no bound: its usage is exact.
        let bound = Some(self.bound()).filter(|bound| !is_clean && ![0, u64::MAX].contains(&bound.bytes));
        let bound = bound.map(|bound| self.saved(bound));
        UsageRecord { is_clean, capacity: self.capacity(), usage, held: snapshots.held, bound }
    }

    fn lock(&self) -> MutexGuard<'_, Box<dyn UsageStore>> {
        self.store.lock()
    }
}

#[inline]
fn take(count: &AtomicU64, max: &AtomicU64, amount: u64) -> FsResult<()> {
    if amount == 0 {
        return Ok(());
    }
    let add = |used: u64| used.checked_add(amount).filter(|&used| used <= max.load(Ordering::Relaxed));
    count.fetch_update(Ordering::SeqCst, Ordering::Relaxed, add).map_err(|_| FsError::NoSpace)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charge_past_maximum_is_refused() {
        let (count, max) = (AtomicU64::new(5), AtomicU64::new(10));
        assert_eq!(take(&count, &max, 5), Ok(()));
        assert_eq!(take(&count, &max, 1), Err(FsError::NoSpace));
        assert_eq!(take(&count, &max, u64::MAX), Err(FsError::NoSpace));
        max.store(3, Ordering::Relaxed);
        assert_eq!(take(&count, &max, 0), Ok(()), "what takes nothing is never refused");
        assert_eq!(count.into_inner(), 10);
    }

    const CAPACITY: Capacity = Capacity { bytes: 1 << 40, files: 1 << 20 };

    /// Remembers the last record, which a crash leaves.
    #[derive(Clone, Default)]
    struct Saved(std::sync::Arc<Mutex<Option<UsageRecord>>>);

    impl UsageStore for Saved {
        fn write(&self, record: &UsageRecord) -> FsResult<()> {
            *self.0.lock() = Some(*record);
            Ok(())
        }

        fn write_lazily(&self, record: &UsageRecord) -> FsResult<()> {
            self.write(record)
        }

        fn sync_files(&self) -> FsResult<()> {
            Ok(())
        }

        fn keeps_bound(&self) -> bool {
            true
        }
    }

    fn clean(usage: Usage) -> UsageRecord {
        UsageRecord { is_clean: true, capacity: CAPACITY, usage, held: 0, bound: None }
    }

    /// A ledger with this usage, and one that continues after its crash.
    fn crashed(usage: Usage) -> (Saved, Ledger) {
        let saved = Saved::default();
        let ledger = Ledger::new(&clean(usage), Box::new(saved.clone()));
        ledger.charge(0, 0).unwrap();
        let record = saved.0.lock().unwrap();
        let after = Ledger::new(&record, Box::new(saved.clone()));
        (saved, after)
    }

    #[test]
    fn saved_bound_is_never_below_the_usage() {
        let saved = Saved::default();
        let ledger = Ledger::new(&clean(Usage::default()), Box::new(saved.clone()));
        for round in 0..2000 {
            ledger.charge(1 << 20, 7).unwrap();
            if round % 3 == 0 {
                ledger.refund(1 << 19, 1);
            }
            if round % 100 == 0 {
                ledger.checkpoint();
            }
            let (usage, bound) = (ledger.usage(), saved.0.lock().unwrap().bound.unwrap());
            assert!(usage.bytes <= bound.bytes && usage.files <= bound.files, "{usage:?} {bound:?}");
            assert!(bound.bytes <= usage.bytes + (BOUND_STEP_MAX.bytes * 2), "{usage:?} {bound:?}");
        }
    }

    #[test]
    fn count_corrects_the_sums_of_a_volume_that_changed_meanwhile() {
        let before = Usage { bytes: 5 << 20, files: 50 };
        let (saved, ledger) = crashed(before);
        assert_eq!(ledger.begin().err(), Some(FsError::Wait(Wait::Recall)));
        ledger.serve_while_counting();
        drop(ledger.begin().unwrap());
        ledger.charge(4096, 1).unwrap();
        assert!(ledger.usage().bytes > before.bytes, "an upper bound");
        ledger.begin_count();
        ledger.charge(8192, 1).unwrap();
        ledger.refund(4096, 2);
        assert!(ledger.is_uncounted());
        // The files at the moment of the count.
        ledger.set_counted(Usage { bytes: before.bytes + 4096, files: 51 }, 0);
        let after = Usage { bytes: before.bytes + 8192, files: 50 };
        assert_eq!((ledger.usage(), ledger.is_uncounted()), (after, false));
        let record = saved.0.lock().unwrap();
        assert!(record.bound.unwrap().bytes < after.bytes + (17 << 30), "the bound follows");
        ledger.close(Instant::now());
        ledger.seal();
        assert_eq!(*saved.0.lock(), Some(clean(after)));
    }

    #[test]
    fn reserve_for_snapshots_is_in_no_saved_bound() {
        let saved = Saved::default();
        let before = Usage { bytes: 5 << 20, files: 50 };
        let ledger = Ledger::new(&clean(before), Box::new(saved.clone()));
        ledger.set_reserve(1 << 39);
        ledger.charge(4096, 0).unwrap();
        let bound = |saved: &Saved| saved.0.lock().unwrap().bound.unwrap();
        assert!(bound(&saved).bytes < 2 << 30);
        ledger.set_reserve(1 << 20);
        for _ in 0..4000 {
            ledger.charge(1 << 20, 0).unwrap();
            assert!(ledger.usage().bytes <= bound(&saved).bytes);
        }
        let after = Ledger::new(&saved.0.lock().unwrap(), Box::new(saved.clone()));
        after.serve_while_counting();
        after.set_reserve(1 << 39);
        assert_eq!(after.usage(), bound(&saved));
        assert_eq!(after.charge(1 << 30, 0), Ok(()));
    }

    #[test]
    fn growth_past_the_capacity_waits_for_the_count() {
        let (_, ledger) = crashed(Usage { bytes: 5 << 20, files: 50 });
        ledger.serve_while_counting();
        ledger.begin_count();
        let origin = ledger.usage();
        ledger.set_capacity(Capacity { bytes: origin.bytes + 100, files: origin.files }).unwrap();
        assert_eq!(ledger.charge(101, 0), Err(FsError::Wait(Wait::Recall)));
        assert_eq!(ledger.charge(0, 1), Err(FsError::Wait(Wait::Recall)));
        ledger.set_counted(Usage { bytes: 5 << 20, files: 50 }, 0);
        assert_eq!(ledger.charge(101, 1), Ok(()));
        assert_eq!(ledger.charge(origin.bytes, 0), Err(FsError::NoSpace));
    }

    #[test]
    fn count_without_a_bound_keeps_changes_waiting() {
        let record = UsageRecord { is_clean: false, ..clean(Usage { bytes: 1, files: 1 }) };
        let ledger = Ledger::new(&record, Box::new(Saved::default()));
        ledger.serve_while_counting();
        assert_eq!(ledger.begin().err(), Some(FsError::Wait(Wait::Recall)));
        ledger.set_counted(Usage { bytes: 9, files: 2 }, 0);
        assert_eq!(ledger.usage(), Usage { bytes: 9, files: 2 });
    }
}

//! Space that the kernel counts, by project quotas of XFS: the files of a volume are one project, the records of its undo
//! store another one.
//!
//! The kernel enforces a limit of the files alone, so that deleting a file of a full volume may still record it. The limit
//! is the size without what snapshots have, or without their reserve. It follows the snapshots in steps: each step is
//! taken from the files before records use it. So files and records together never exceed the size.

use std::os::fd::OwnedFd;
use vfs::sync::Mutex;
use vfs::{Capacity, FsError, FsResult, Usage};

/// Space that snapshots get at once, at most.
const STEP_BYTES: u64 = 1 << 20;
/// The kernel asks for this much more than it writes when a file changes that shares blocks with a record. Otherwise full
/// files could not be overwritten within the reserve.
const SHARED_WRITE_BYTES: u64 = 1 << 20;

/// The kernel's counts of a volume.
pub(crate) trait KernelCounts: Send + Sync {
    fn live(&self) -> FsResult<Usage>;
    /// Bytes that only snapshots need.
    fn held(&self) -> FsResult<u64>;
    /// Whether records may exist, which share blocks with files.
    fn has_records(&self) -> bool;
    /// Sets what files may have.
    fn limit(&self, capacity: Capacity) -> FsResult<()>;
    /// Frees what the kernel counts for files for a while: blocks that it keeps ready for growing files, and both the old
    /// and the new blocks of data that it has not written yet.
    fn free_ready(&self);
}

struct State {
    capacity: Capacity,
    /// Bytes that files do not get, whatever snapshots need.
    reserve: u64,
    /// Bytes that files do not get because records have or may take them.
    granted: u64,
    /// At least the bytes that records have, and will have when the changes under way end.
    taken: u64,
    /// The part of `taken` that the kernel may not count yet.
    in_flight: u64,
    /// The limit that the kernel enforces; `None` if it is not known.
    limit: Option<Capacity>,
    /// The volume was removed: another one may get its project.
    is_removed: bool,
}

impl State {
    fn wanted_limit(&self, has_records: bool) -> Capacity {
        let rounding = if has_records { SHARED_WRITE_BYTES } else { 0 };
        let withheld = self.granted.max(self.reserve.saturating_sub(rounding));
        Capacity { bytes: self.capacity.bytes.saturating_sub(withheld), ..self.capacity }
    }
}

pub(crate) struct KernelSpace {
    counts: Box<dyn KernelCounts>,
    /// The volume's root.
    root: OwnedFd,
    state: Mutex<State>,
}

/// Bytes that a change takes for a snapshot, until the kernel counts them.
pub(crate) struct InFlight<'s> {
    space: &'s KernelSpace,
    bytes: u64,
}

impl InFlight<'_> {
    /// Gives back bytes that were not used.
    pub(crate) fn refund(&self, bytes: u64) {
        let mut state = self.space.state.lock();
        state.taken = state.taken.saturating_sub(bytes);
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.space.state.lock().in_flight -= self.bytes;
    }
}

impl KernelSpace {
    pub(crate) fn new(counts: Box<dyn KernelCounts>, root: OwnedFd, capacity: Capacity) -> FsResult<Self> {
        let state = State {
            capacity,
            reserve: 0,
            granted: 0,
            taken: 0,
            in_flight: 0,
            limit: None,
            is_removed: false,
        };
        let space = Self { counts, root, state: Mutex::new(state) };
        space.settle()?;
        Ok(space)
    }

    pub(crate) fn root(&self) -> &OwnedFd {
        &self.root
    }

    pub(crate) fn held(&self) -> FsResult<u64> {
        self.counts.held()
    }

    pub(crate) fn capacity(&self) -> Capacity {
        self.state.lock().capacity
    }

    pub(crate) fn set_capacity(&self, capacity: Capacity) -> FsResult<()> {
        self.state.lock().capacity = capacity;
        self.settle()
    }

    /// Changes the reserve for snapshots, even past the capacity.
    pub(crate) fn set_reserve(&self, bytes: u64) -> FsResult<()> {
        self.state.lock().reserve = bytes;
        self.settle()
    }

    pub(crate) fn set_removed(&self) {
        self.state.lock().is_removed = true;
    }

    /// The files, and what snapshots have besides.
    pub(crate) fn usage(&self) -> FsResult<Usage> {
        let Usage { bytes, files } = self.counts.live()?;
        Ok(Usage { bytes: bytes.saturating_add(self.counts.held()?), files })
    }

    /// The part of the reserve that snapshots do not need at present.
    pub(crate) fn unused_reserve(&self) -> FsResult<u64> {
        let reserve = self.state.lock().reserve;
        Ok(reserve.saturating_sub(self.counts.held()?))
    }

    /// Gives files what snapshots do not need any more, and takes from them what these need.
    pub(crate) fn settle(&self) -> FsResult<()> {
        let mut state = self.state.lock();
        state.taken = self.counts.held()?.saturating_add(state.in_flight);
        state.granted = state.taken;
        self.apply(&mut state)
    }

    /// Makes the kernel enforce the limit of files.
    fn apply(&self, state: &mut State) -> FsResult<()> {
        let wanted = state.wanted_limit(self.counts.has_records());
        if state.limit != Some(wanted) && !state.is_removed {
            state.limit = None;
            self.counts.limit(wanted)?;
            state.limit = Some(wanted);
        }
        Ok(())
    }

    /// Takes bytes for snapshots, before they are used. [`FsError::NoSpace`] if the volume has not that much; with
    /// `exceeds`, even then.
    pub(crate) fn hold(&self, bytes: u64, exceeds: bool) -> FsResult<InFlight<'_>> {
        self.try_hold(bytes, exceeds).or_else(|error| match error {
            FsError::NoSpace => {
                // Outside the lock: it may write much.
                self.counts.free_ready();
                self.try_hold(bytes, exceeds)
            }
            error => Err(error),
        })
    }

    fn try_hold(&self, bytes: u64, exceeds: bool) -> FsResult<InFlight<'_>> {
        let mut state = self.state.lock();
        let after = state.taken.saturating_add(bytes);
        if after <= state.granted {
            state.taken = after;
        } else {
            self.grant(&mut state, bytes, exceeds)?;
        }
        state.in_flight += bytes;
        drop(state);
        Ok(InFlight { space: self, bytes })
    }

    /// Takes bytes, and some more if there are, from the files.
    fn grant(&self, state: &mut State, bytes: u64, exceeds: bool) -> FsResult<()> {
        let before = self.counts.held()?.saturating_add(state.in_flight);
        let after = before.saturating_add(bytes);
        let size = state.capacity.bytes;
        let left = size.saturating_sub(self.counts.live()?.bytes).checked_sub(after);
        if left.is_none() && !exceeds {
            return Err(FsError::NoSpace);
        }
        // No more than half of the rest, which files may need.
        state.granted = after + (left.unwrap_or(0) / 2).min(STEP_BYTES);
        self.apply(state)?;
        // Files may have grown until the limit was there, and not since.
        let fits = |state: &State| {
            Ok::<_, FsError>(exceeds || self.counts.live()?.bytes.saturating_add(state.granted) <= size)
        };
        if !fits(state)? {
            state.granted = after;
            self.apply(state)?;
            if !fits(state)? {
                state.granted = before;
                state.taken = before;
                self.apply(state)?;
                return Err(FsError::NoSpace);
            }
        }
        state.taken = after;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    const MIB: u64 = 1 << 20;
    const SIZE: u64 = 100 * MIB;

    #[derive(Default)]
    struct Counts {
        live: AtomicU64,
        held: AtomicU64,
        /// Blocks for growing files, a part of `live`.
        ready: AtomicU64,
        limit: AtomicU64,
        has_records: AtomicBool,
        limits_set: AtomicU64,
    }

    impl KernelCounts for Arc<Counts> {
        fn live(&self) -> FsResult<Usage> {
            Ok(Usage { bytes: self.live.load(Ordering::SeqCst), files: 1 })
        }

        fn held(&self) -> FsResult<u64> {
            Ok(self.held.load(Ordering::SeqCst))
        }

        fn has_records(&self) -> bool {
            self.has_records.load(Ordering::SeqCst)
        }

        fn limit(&self, capacity: Capacity) -> FsResult<()> {
            self.limits_set.fetch_add(1, Ordering::SeqCst);
            self.limit.store(capacity.bytes, Ordering::SeqCst);
            Ok(())
        }

        fn free_ready(&self) {
            self.live.fetch_sub(self.ready.swap(0, Ordering::SeqCst), Ordering::SeqCst);
        }
    }

    fn space() -> (Arc<Counts>, KernelSpace) {
        let counts = Arc::new(Counts { has_records: AtomicBool::new(true), ..Counts::default() });
        let root = OwnedFd::from(std::fs::File::open("/").unwrap());
        let capacity = Capacity { bytes: SIZE, files: 9 };
        let space = KernelSpace::new(Box::new(Arc::clone(&counts)), root, capacity).unwrap();
        (counts, space)
    }

    fn limit(counts: &Counts) -> u64 {
        counts.limit.load(Ordering::SeqCst)
    }

    #[test]
    fn records_take_from_the_limit_of_files_before_they_are_made() {
        let (counts, space) = space();
        assert_eq!(limit(&counts), SIZE);
        counts.live.store(60 * MIB, Ordering::SeqCst);
        let in_flight = space.hold(4096, false).unwrap();
        assert!(limit(&counts) <= SIZE - 4096 && limit(&counts) >= SIZE - 2 * MIB, "{}", limit(&counts));
        let before = counts.limits_set.load(Ordering::SeqCst);
        drop((in_flight, space.hold(4096, false).unwrap()));
        assert_eq!(counts.limits_set.load(Ordering::SeqCst), before, "a step is enough for many changes");
        counts.held.store(8192, Ordering::SeqCst);
        space.settle().unwrap();
        assert_eq!(limit(&counts), SIZE - 8192, "what is not needed goes back to files");
        assert_eq!(space.usage(), Ok(Usage { bytes: 60 * MIB + 8192, files: 1 }));
        assert_eq!(space.held(), Ok(8192));
    }

    #[test]
    fn changes_under_way_stay_withheld_from_files() {
        let (counts, space) = space();
        counts.live.store(60 * MIB, Ordering::SeqCst);
        let large = space.hold(30 * MIB, false).unwrap();
        space.settle().unwrap();
        assert_eq!(limit(&counts), 70 * MIB);
        assert_eq!(space.hold(11 * MIB, false).err(), Some(FsError::NoSpace));
        assert_eq!(limit(&counts), 70 * MIB, "a refusal changes nothing");
        counts.held.store(20 * MIB, Ordering::SeqCst);
        large.refund(10 * MIB);
        drop(large);
        drop(space.hold(15 * MIB, false).unwrap());
        space.settle().unwrap();
        assert_eq!(limit(&counts), SIZE - 20 * MIB);
    }

    #[test]
    fn files_and_records_never_exceed_the_size() {
        let (counts, space) = space();
        counts.live.store(SIZE - 10_000, Ordering::SeqCst);
        drop(space.hold(8192, false).unwrap());
        counts.held.store(8192, Ordering::SeqCst);
        assert!(limit(&counts) + 8192 <= SIZE);
        assert_eq!(space.hold(4096, false).err(), Some(FsError::NoSpace));
        // What removes a file may go past it. Files may not grow then.
        drop(space.hold(4096, true).unwrap());
        assert!(limit(&counts) + 8192 + 4096 <= SIZE);
        counts.ready.store(MIB, Ordering::SeqCst);
        drop(space.hold(4096, false).unwrap());
    }

    #[test]
    fn reserve_is_withheld_from_files_except_for_the_rounding_of_the_kernel() {
        let (counts, space) = space();
        counts.has_records.store(false, Ordering::SeqCst);
        space.set_reserve(20 * MIB).unwrap();
        assert_eq!((limit(&counts), space.unused_reserve()), (80 * MIB, Ok(20 * MIB)));
        counts.has_records.store(true, Ordering::SeqCst);
        counts.live.store(80 * MIB, Ordering::SeqCst);
        drop(space.hold(4096, false).unwrap());
        assert_eq!(limit(&counts), 81 * MIB, "within the reserve, files keep what they have");
        counts.held.store(15 * MIB, Ordering::SeqCst);
        space.settle().unwrap();
        assert_eq!((limit(&counts), space.unused_reserve()), (81 * MIB, Ok(5 * MIB)));
        counts.held.store(25 * MIB, Ordering::SeqCst);
        space.settle().unwrap();
        assert_eq!((limit(&counts), space.unused_reserve()), (75 * MIB, Ok(0)));
        space.set_capacity(Capacity { bytes: 10 * MIB, files: 9 }).unwrap();
        assert_eq!((limit(&counts), space.capacity().bytes), (0, 10 * MIB));
        space.set_removed();
        space.set_reserve(0).unwrap();
        space.set_capacity(Capacity { bytes: SIZE, files: 9 }).unwrap();
        assert_eq!(limit(&counts), 0, "another volume may have the project");
    }
}

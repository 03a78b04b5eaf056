//! Change counters: a number for each state of a file.
//!
//! The counter is the change time in nanoseconds plus an *offset*. A change through this process that leaves the change
//! time as it was raises the offset by one, so the counter rises with every change. Changes by other processes move the
//! counter as far as they move the change time. The offset outlives the node, but not the process: after a restart the
//! counter is the change time again. It then differs from all earlier counters, unless several changes were made within
//! one step of the change time and the file has not changed since. Two stores that show one tree treat each other's
//! changes like those of another process.
//!
//! The counter of an idle file may rise with that of another file that shares its floor.
//!
//! The offset is read *before* the state. So attributes may come with the counter of an earlier state, which costs a
//! client one more request, but never with that of a later one.

use crate::error::refused;
use rustix::fs::{AtFlags, Stat, StatxAttributes, StatxFlags, fstat, statx};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use vfs::{FileKey, FsResult, Time};

/// Largest offset of the files whose keys collide. A new node starts from it.
static FLOORS: [AtomicU64; COUNT] = [const { AtomicU64::new(0) }; COUNT];
const COUNT: usize = 4096;

/// Offset of a file's counter from its change time, in nanoseconds. It only rises.
pub(crate) struct CounterOffset {
    offset: AtomicU64,
    floor: &'static AtomicU64,
}

impl CounterOffset {
    pub(crate) fn new(key: &FileKey) -> Self {
        let floor = floor(key);
        Self { offset: AtomicU64::new(floor.load(Ordering::SeqCst)), floor }
    }

    /// The offset of a file that nobody changes: its counter is its change time.
    pub(crate) fn fixed() -> Self {
        static FLOOR: AtomicU64 = AtomicU64::new(0);
        Self { offset: AtomicU64::new(0), floor: &FLOOR }
    }

    pub(crate) fn load(&self) -> u64 {
        self.offset.load(Ordering::SeqCst)
    }

    /// The counter of a file that has changed since `before` and has the change time `changed` now.
    pub(crate) fn raise_above(&self, before: u64, changed: Time) -> u64 {
        let needed = before.saturating_add(1).saturating_sub(nanos(changed));
        let offset = self.offset.fetch_max(needed, Ordering::SeqCst).max(needed);
        self.floor.fetch_max(offset, Ordering::SeqCst);
        nanos(changed).saturating_add(offset)
    }

    pub(crate) fn advance(&self) {
        let offset = self.offset.fetch_add(1, Ordering::SeqCst) + 1;
        self.floor.fetch_max(offset, Ordering::SeqCst);
    }
}

/// The offset of a file without a node.
pub(crate) fn offset_of(key: &FileKey) -> u64 {
    floor(key).load(Ordering::SeqCst)
}

fn floor(key: &FileKey) -> &'static AtomicU64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let index = usize::try_from(hasher.finish() % COUNT as u64).unwrap_or(0);
    &FLOORS[index]
}

/// A change time as a counter; 0 before 1970.
fn nanos(time: Time) -> u64 {
    u64::try_from(time.seconds)
        .map_or(0, |seconds| seconds.saturating_mul(1_000_000_000).saturating_add(time.nanos.into()))
}

/// The state of a file, with the offset read just before.
#[derive(Clone, Copy)]
pub(crate) struct VersionedStat {
    stat: Stat,
    offset: u64,
}

impl VersionedStat {
    pub(crate) fn new(stat: Stat, offset: u64) -> Self {
        Self { stat, offset }
    }

    #[inline]
    pub(crate) fn read(file: BorrowedFd<'_>, offset: u64) -> FsResult<Self> {
        Ok(Self { stat: fstat(file).map_err(refused)?, offset })
    }

    /// This state of a file that has no name any more.
    pub(crate) fn without_links(mut self) -> Self {
        self.stat.st_nlink = 0;
        self
    }

    #[inline]
    pub(crate) fn change(&self, changed: Time) -> u64 {
        nanos(changed).saturating_add(self.offset)
    }
}

impl Deref for VersionedStat {
    type Target = Stat;
    fn deref(&self) -> &Stat {
        &self.stat
    }
}

/// The birth time of `name` in the directory `file`, or of `file` itself if the name is empty.
pub(crate) fn birth_time(file: BorrowedFd<'_>, name: &[u8]) -> Option<Time> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
    let state = statx(file, name, flags, StatxFlags::BTIME).ok()?;
    let (seconds, nanos) = (state.stx_btime.tv_sec, state.stx_btime.tv_nsec);
    (state.stx_mask & StatxFlags::BTIME.bits() != 0).then_some(Time { seconds, nanos })
}

/// Whether a file has the flag of files that only a snapshot keeps (`nodump`). Other programs may set it, too.
pub(crate) fn has_retained_mark(file: BorrowedFd<'_>) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
    statx(file, "", flags, StatxFlags::empty())
        .is_ok_and(|state| state.stx_attributes.contains(StatxAttributes::NODUMP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_counter_rises_when_clock_jumps() {
        let time = |nanos| Time { seconds: 0, nanos };
        let key = FileKey::new(b"a file whose clock jumps").unwrap();
        let offset = CounterOffset::new(&key);
        let mut last = 100 + offset.load();
        for changed in [100, 100, 104, 102, 103, 90, 200, 200] {
            let now = offset.raise_above(last, time(changed));
            assert!(now > last, "{now} after {last} at {changed}");
            assert_eq!(now, u64::from(changed) + offset.load(), "what a look tells");
            last = now;
        }
        offset.advance();
        assert_eq!(CounterOffset::new(&key).load(), offset.load(), "a new node goes on");
        assert_eq!(offset_of(&key), offset.load());
    }
}

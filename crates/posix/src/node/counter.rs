//! Change counters: a number for each state of a file, from its change time and what happened within one of its steps.
//!
//! The counter is the change time in nanoseconds plus how far it is *ahead* of that. A change through this process that
//! leaves the change time where it was puts the counter one further ahead, so it rises with every change, and what other
//! processes do moves it as far as they move the change time. How far a file is ahead outlives its node, but not the
//! process: after a restart the counter is the change time again. It then differs from all earlier ones, unless several
//! changes were made within one step of the change time and nobody has changed the file since. A tree that two stores show
//! is to each as if another process changed it.
//!
//! Once nobody has used a file for a while, its counter may rise with another's that shares its floor.
//!
//! The distance is read *before* the state it goes with. So attributes may come with the number of an earlier state, which
//! costs a client one more look, but never with that of a later one.

use crate::error::refused;
use rustix::fs::{AtFlags, Stat, StatxFlags, fstat, statx};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use vfs::{FileKey, FsResult, Time};

/// How far those files were ahead at most whose keys fall together: where a new node goes on from.
static FLOORS: [AtomicU64; COUNT] = [const { AtomicU64::new(0) }; COUNT];
const COUNT: usize = 4096;

/// How far the counter of a file is ahead of its change time, in nanoseconds. It only rises.
pub(crate) struct CounterOffset {
    offset_of: AtomicU64,
    floor: &'static AtomicU64,
}

impl CounterOffset {
    /// Of the file of `key`.
    pub(crate) fn new(key: &FileKey) -> Self {
        let floor = floor(key);
        Self { offset_of: AtomicU64::new(floor.load(Ordering::SeqCst)), floor }
    }

    /// The distance for a state that is looked at after this.
    pub(crate) fn load(&self) -> u64 {
        self.offset_of.load(Ordering::SeqCst)
    }

    /// The counter of a file that has changed since it was `before` and shows this change time now.
    pub(crate) fn raise_above(&self, before: u64, changed: Time) -> u64 {
        let needed = before.saturating_add(1).saturating_sub(nanos(changed));
        let distance = self.offset_of.fetch_max(needed, Ordering::SeqCst).max(needed);
        self.floor.fetch_max(distance, Ordering::SeqCst);
        nanos(changed).saturating_add(distance)
    }

    /// The file has changed, or may have.
    pub(crate) fn advance(&self) {
        let distance = self.offset_of.fetch_add(1, Ordering::SeqCst) + 1;
        self.floor.fetch_max(distance, Ordering::SeqCst);
    }
}

/// How far a file without a node is ahead.
pub(crate) fn distance(key: &FileKey) -> u64 {
    floor(key).load(Ordering::SeqCst)
}

fn floor(key: &FileKey) -> &'static AtomicU64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let index = usize::try_from(hasher.finish() % COUNT as u64).unwrap_or(0);
    &FLOORS[index]
}

/// A change time as a counter. Before 1970 all are one.
fn nanos(time: Time) -> u64 {
    u64::try_from(time.seconds)
        .map_or(0, |seconds| seconds.saturating_mul(1_000_000_000).saturating_add(time.nanos.into()))
}

/// The state of a file, and how far its counter was ahead just before.
#[derive(Clone, Copy)]
pub(crate) struct VersionedStat {
    stat: Stat,
    offset: u64,
}

impl VersionedStat {
    /// A state that was looked at after `ahead` was.
    pub(crate) fn new(stat: Stat, ahead: u64) -> Self {
        Self { stat, offset: ahead }
    }

    /// Looks at what `file` has open.
    #[inline]
    pub(crate) fn read(file: BorrowedFd<'_>, ahead: u64) -> FsResult<Self> {
        Ok(Self { stat: fstat(file).map_err(refused)?, offset: ahead })
    }

    /// The change counter.
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

/// When what `file` has open was made, or `name` in the directory `file` if there is one.
pub(crate) fn birth_time(file: BorrowedFd<'_>, name: &[u8]) -> Option<Time> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
    let state = statx(file, name, flags, StatxFlags::BTIME).ok()?;
    let (seconds, nanos) = (state.stx_btime.tv_sec, state.stx_btime.tv_nsec);
    (state.stx_mask & StatxFlags::BTIME.bits() != 0).then_some(Time { seconds, nanos })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_rises_whatever_the_clock_does() {
        let time = |nanos| Time { seconds: 0, nanos };
        let key = FileKey::new(b"a file whose clock jumps").unwrap();
        let ahead = CounterOffset::new(&key);
        let mut last = 100 + ahead.load();
        for changed in [100, 100, 104, 102, 103, 90, 200, 200] {
            let now = ahead.raise_above(last, time(changed));
            assert!(now > last, "{now} after {last} at {changed}");
            assert_eq!(now, u64::from(changed) + ahead.load(), "what a look tells");
            last = now;
        }
        ahead.advance();
        assert_eq!(CounterOffset::new(&key).load(), ahead.load(), "a new node goes on");
        assert_eq!(distance(&key), ahead.load());
    }
}

//! Change counters: a number for each state of a file.
//!
//! The counter is the change time in nanoseconds plus an offset ([`storage::CounterOffset`]). Changes by other processes
//! move the counter as far as they move the change time. After a restart the counter is the change time again. It then
//! differs from all earlier counters, unless several changes were made within one step of the change time and the file
//! has not changed since. Two stores that show one tree treat each other's changes like those of another process.
//!
//! A revert gives files their earlier change times back. Clients take a lower counter for an old answer, so a revert
//! raises the *base* of the volume, which all counters contain: an extended attribute of the root.
//! docs/formats/data-directory.md draws its bytes.
//!
//! The offset is read *before* the state. So attributes may come with the counter of an earlier state, which costs a
//! client one more request, but never with that of a later one.

use crate::error::refused;
use rustix::fs::{
    AtFlags, Stat, StatxAttributes, StatxFlags, XattrFlags, fgetxattr, fsetxattr, fstat, statx,
};
use std::ops::Deref;
use std::os::fd::BorrowedFd;
use std::time::{SystemTime, UNIX_EPOCH};
use vfs::{FsResult, Time};

/// More than any offset of a counter: the nanoseconds of a day.
const RAISED_MAX: u64 = 86_400_000_000_000;

/// The base of all counters of a volume, by its class.
const BASE: [&str; 2] = ["user.plimsoll.counter", "trusted.plimsoll.counter"];

/// A change time as a counter; 0 before 1970.
pub(crate) fn nanos(time: Time) -> u64 {
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

    /// Makes this the state of a file without a name.
    pub(crate) fn remove_links(&mut self) {
        self.stat.st_nlink = 0;
    }

    #[inline]
    pub(crate) fn change(&self, changed: Time) -> u64 {
        nanos(changed).wrapping_add(self.offset)
    }
}

impl Deref for VersionedStat {
    type Target = Stat;
    fn deref(&self) -> &Stat {
        &self.stat
    }
}

/// The base of the volume with the root `root`; 0 without one.
pub(crate) fn base(root: BorrowedFd<'_>, is_trusted: bool) -> u64 {
    let mut value = [0; size_of::<u64>()];
    let read = fgetxattr(root, BASE[usize::from(is_trusted)], &mut value[..]);
    if read == Ok(value.len()) { u64::from_be_bytes(value) } else { 0 }
}

/// Gives the root `copy` of a snapshot a base with which all its files have later counters than those of the live volume
/// `live`: their change times are no earlier than the birth of the volume.
pub(crate) fn raise_base(copy: BorrowedFd<'_>, live: BorrowedFd<'_>, is_trusted: bool) -> FsResult<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    let age = now.saturating_sub(birth_time(live, b"").map_or(0, nanos));
    let value = base(live, is_trusted).wrapping_add(age).wrapping_add(RAISED_MAX).to_be_bytes();
    fsetxattr(copy, BASE[usize::from(is_trusted)], &value, XattrFlags::empty()).map_err(refused)
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

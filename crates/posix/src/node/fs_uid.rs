//! Making files as their owner: the thread takes the owner's file-system ids for the one call that makes the file.
//!
//! The file is then created complete, in one transaction of the file system, so the flush of its directory
//! covers its owner too. Setting the owner afterwards would be a second transaction and, for each new file, a
//! second flush.

use crate::error::refused;
use crate::sys;
use rustix::process::{getegid, geteuid};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, capabilities, capabilities_secure_bits,
    set_capabilities_secure_bits,
};
use std::cell::OnceCell;
use std::sync::LazyLock;
use vfs::FsResult;

thread_local! {
    /// Whether this thread can act as others without losing its capabilities.
    static READY: OnceCell<bool> = const { OnceCell::new() };
}

/// The ids of the process, which do not change while it serves.
static OWN: LazyLock<(u32, u32)> = LazyLock::new(|| (geteuid().as_raw(), getegid().as_raw()));

/// Files that this thread makes belong to somebody else until this is dropped.
pub(crate) struct FsUidGuard(());

impl FsUidGuard {
    /// Whether this thread may.
    pub(crate) fn is_possible() -> bool {
        READY.with(|ready| *ready.get_or_init(prepare))
    }

    /// Makes this thread's new files belong to `uid` and `gid`; `None` if the process may not do that. An error if there
    /// are no such ids here: a user namespace has only those that are mapped into it.
    pub(crate) fn begin(uid: u32, gid: u32) -> FsResult<Option<Self>> {
        if !Self::is_possible() {
            return Ok(None);
        }
        let guard = Self(());
        sys::set_fs_ids(uid, gid).map_err(refused)?;
        Ok(Some(guard))
    }
}

impl Drop for FsUidGuard {
    fn drop(&mut self) {
        let (uid, gid) = *OWN;
        let restored = sys::set_fs_ids(uid, gid);
        // The kernel never keeps a thread from the effective ids of its process. If it did, the thread must not go on.
        assert!(restored.is_ok(), "this thread cannot stop acting as another user");
    }
}

/// Whether what this process makes belongs to `uid` and `gid` anyway.
pub(crate) fn is_own(uid: u32, gid: u32) -> bool {
    (uid, gid) == *OWN
}

/// The user to whom files belong that this process makes while it acts as nobody else.
pub(crate) fn own_uid() -> u32 {
    OWN.0
}

/// Whether the process may give files any owner and mode, and pass through directories that forbid it.
pub(crate) fn may_own() -> bool {
    has(CapabilitySet::CHOWN | CapabilitySet::FOWNER | CapabilitySet::DAC_OVERRIDE)
}

fn has(wanted: CapabilitySet) -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(wanted))
}

/// The kernel takes capabilities along with the file-system user id 0, unless the thread says otherwise once. A sandbox may
/// forbid the calls.
fn prepare() -> bool {
    let (uid, gid) = *OWN;
    sys::set_fs_ids(uid, gid).is_ok()
        && has(CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::SETPCAP | CapabilitySet::FSETID)
        && capabilities_secure_bits().is_ok_and(|bits| {
            set_capabilities_secure_bits(bits | CapabilitiesSecureBits::NO_SETUID_FIXUP).is_ok()
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::model::caller::INVALID_ID;

    /// User and group for file access of this thread, as the kernel tells them.
    fn fs_ids() -> (u32, u32) {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().last().unwrap().parse().unwrap()
        };
        (of("Uid:"), of("Gid:"))
    }

    #[test]
    fn a_thread_acts_as_asked_or_not_at_all() {
        assert!(FsUidGuard::is_possible(), "run as root");
        let own = fs_ids();
        let guard = FsUidGuard::begin(1234, 4321).unwrap();
        assert_eq!((fs_ids(), guard.is_some()), ((1234, 4321), true));
        drop(guard);
        assert_eq!(fs_ids(), own);
        for (uid, gid) in [(INVALID_ID, INVALID_ID), (INVALID_ID, 4321), (1234, INVALID_ID)] {
            assert!(FsUidGuard::begin(uid, gid).is_err(), "{uid}:{gid}");
            assert_eq!(fs_ids(), own, "after {uid}:{gid} was refused");
        }
    }
}

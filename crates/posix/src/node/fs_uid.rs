//! Creates files as their owner: the thread uses the owner's file-system ids during the call.
//!
//! The file is then created complete, in one transaction of the file system, so a flush of its directory covers its
//! owner too. Setting the owner afterwards would be a second transaction and, for each new file, a second flush.

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
    /// Whether this thread can act as other users without losing its capabilities.
    static READY: OnceCell<bool> = const { OnceCell::new() };
}

/// The ids of the process, which do not change.
static OWN: LazyLock<(u32, u32)> = LazyLock::new(|| (geteuid().as_raw(), getegid().as_raw()));

/// While this exists, the thread creates files as another user.
pub(crate) struct FsUidGuard(());

impl FsUidGuard {
    pub(crate) fn is_possible() -> bool {
        READY.with(|ready| *ready.get_or_init(prepare))
    }

    /// Makes this thread create files as `uid` and `gid`; `None` if the process may not do that. An error if the ids do
    /// not exist here: a user namespace maps only some ids.
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
        // The kernel always lets a thread return to the effective ids of its process. If it did not, the thread must
        // not continue.
        assert!(restored.is_ok(), "this thread cannot stop acting as another user");
    }
}

/// Whether files of this process belong to `uid` and `gid` anyway.
pub(crate) fn is_own(uid: u32, gid: u32) -> bool {
    (uid, gid) == *OWN
}

pub(crate) fn own_uid() -> u32 {
    OWN.0
}

/// Whether the process may give files any owner and mode, and pass through directories that forbid it.
pub(crate) fn may_own() -> bool {
    has(CapabilitySet::CHOWN | CapabilitySet::FOWNER | CapabilitySet::DAC_OVERRIDE)
}

fn has(needed: CapabilitySet) -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

/// Without the secure bit, the kernel changes the capabilities along with the file-system user id 0. A sandbox may
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

    fn fs_ids() -> (u32, u32) {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().last().unwrap().parse().unwrap()
        };
        (of("Uid:"), of("Gid:"))
    }

    #[test]
    fn thread_gets_both_fs_ids_or_error() {
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

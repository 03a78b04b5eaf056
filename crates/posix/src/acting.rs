//! Making files as their owner: the thread takes the owner's file-system ids for the one call that makes the file.
//!
//! The file is then born as it shall be, in one transaction of the file system, so the flush of its directory covers its
//! owner too. Setting the owner afterwards would be a second transaction and, for each new file, a second flush.

use crate::sys;
use rustix::process::{getegid, geteuid};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, capabilities, capabilities_secure_bits,
    set_capabilities_secure_bits,
};
use std::cell::OnceCell;
use std::sync::LazyLock;

thread_local! {
    /// Whether this thread can act as others without losing its capabilities.
    static READY: OnceCell<bool> = const { OnceCell::new() };
}

/// The ids of the process, which do not change while it serves.
static OWN: LazyLock<(u32, u32)> = LazyLock::new(|| (geteuid().as_raw(), getegid().as_raw()));

/// As long as it lives, files that this thread makes belong to somebody else.
pub(crate) struct Acting(());

impl Acting {
    /// Whether this thread may.
    pub(crate) fn is_possible() -> bool {
        READY.with(|ready| *ready.get_or_init(prepare))
    }

    /// Makes this thread's new files belong to `uid` and `gid`; `None` if the process may not do that.
    pub(crate) fn begin(uid: u32, gid: u32) -> Option<Self> {
        if !Self::is_possible() {
            return None;
        }
        let acting = Self(());
        sys::set_fs_ids(uid, gid);
        Some(acting)
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        let (uid, gid) = *OWN;
        sys::set_fs_ids(uid, gid);
    }
}

/// Whether what this process makes belongs to `uid` and `gid` anyway.
pub(crate) fn is_own(uid: u32, gid: u32) -> bool {
    (uid, gid) == *OWN
}

/// Whether the process may give files any owner and mode, and pass through directories that forbid it.
pub(crate) fn may_own() -> bool {
    has(CapabilitySet::CHOWN | CapabilitySet::FOWNER | CapabilitySet::DAC_OVERRIDE)
}

fn has(wanted: CapabilitySet) -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(wanted))
}

/// The kernel takes capabilities along with the file-system user id 0, unless the thread says otherwise once.
fn prepare() -> bool {
    has(CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::SETPCAP | CapabilitySet::FSETID)
        && capabilities_secure_bits().is_ok_and(|bits| {
            set_capabilities_secure_bits(bits | CapabilitiesSecureBits::NO_SETUID_FIXUP).is_ok()
        })
}

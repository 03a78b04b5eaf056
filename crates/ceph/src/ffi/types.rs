//! Structures and constants of libcephfs.h and ceph_ll_client.h.

use super::table::opaque;
use libc::{c_int, c_uint};

opaque!(MountInfo, Inode, Fh, Directory, UserPerm);

/// `vinodeno_t`: an inode in a snapshot, or its live state.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct VersionedInode {
    pub(super) number: u64,
    pub(super) snapshot: u64,
}

/// `CEPH_NOSNAP`: the live state of an inode.
pub(crate) const LIVE: u64 = u64::MAX - 1;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct TimeSpec {
    pub(crate) seconds: i64,
    pub(crate) nanos: i64,
}

/// `ceph_statx`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Statx {
    pub(crate) mask: u32,
    pub(crate) block_size: u32,
    pub(crate) links: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mode: u16,
    pub(crate) inode: u64,
    pub(crate) size: u64,
    pub(crate) blocks: u64,
    pub(crate) device: u64,
    pub(crate) special_device: u64,
    pub(crate) accessed: TimeSpec,
    pub(crate) changed: TimeSpec,
    pub(crate) modified: TimeSpec,
    pub(crate) born: TimeSpec,
    pub(crate) version: u64,
}

/// `CEPH_STATX_ALL_STATS`.
pub(super) const ALL_STATS: c_uint = 0x1fff;
/// `CEPH_STATX_INO`.
pub(super) const INODE_ONLY: c_uint = 0x100;
/// `AT_STATX_DONT_SYNC`: answer from memory.
pub(super) const DONT_SYNC: c_uint = 0x4000;
/// `CEPH_RECLAIM_RESET`: end the session of the uuid.
pub(super) const RECLAIM_RESET: c_uint = 1;

/// Bits of `CEPH_SETATTR_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SetMask(pub(super) c_int);

impl SetMask {
    pub(crate) const MODE: Self = Self(1);
    pub(crate) const UID: Self = Self(1 << 1);
    pub(crate) const GID: Self = Self(1 << 2);
    pub(crate) const MODIFIED: Self = Self(1 << 3);
    pub(crate) const ACCESSED: Self = Self(1 << 4);
    pub(crate) const SIZE: Self = Self(1 << 5);

    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }

    pub(crate) fn add(&mut self, bits: Self) {
        self.0 |= bits.0;
    }
}

//! Project quotas of XFS: the kernel enforces the capacity.
//!
//! The files of a volume are a project: its root carries the project's number, and everything created below inherits it.
//! The records of its undo store are another one. ext4 has the same calls, but its limits do not bind a process with
//! CAP_SYS_RESOURCE, which a service run by root has.

use crate::error::refused;
use crate::sys::{self, DirProject, Quota};
use rustix::fs::{Mode, OFlags, fstatfs, fsync, openat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use vfs::sync::Mutex;
use vfs::{Capacity, FsResult, Usage};

/// Unit of the kernel's space limits.
const SECTOR_BYTES: u64 = 512;
const XFS: u64 = 0x5846_5342;
/// Locked while a number is chosen and assigned.
static CHOICE: Mutex<()> = Mutex::new(());

pub(crate) struct Project {
    dir: OwnedFd,
    number: u32,
}

/// Whether the file system of `dir` enforces project quotas, and this process may set them.
pub(crate) fn is_possible(dir: BorrowedFd<'_>) -> bool {
    let is_xfs = fstatfs(dir).is_ok_and(|state| u64::try_from(state.f_type) == Ok(XFS));
    // Reading the usage of another project needs CAP_SYS_ADMIN, as setting a limit does.
    is_xfs
        && sys::enforces_projects(dir).unwrap_or(false)
        && matches!(sys::project_quota(dir, 1), Ok(_) | Err(Errno::NOENT))
}

/// The number of the project that new files in `dir` inherit; `None` if they inherit none.
pub(crate) fn number_at(dir: BorrowedFd<'_>) -> Option<u32> {
    let DirProject { number, inherits } = sys::project(dir).ok()?;
    (inherits && number != 0).then_some(number)
}

impl Project {
    /// The project of the volume with the root `dir`, if it has one with enforced limits.
    pub(crate) fn of(dir: OwnedFd) -> Option<Self> {
        let number = number_at(dir.as_fd())?;
        is_possible(dir.as_fd()).then_some(Self { dir, number })
    }

    pub(crate) fn at(dir: BorrowedFd<'_>, name: &CStr) -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Self::of(openat(dir, name, flags, Mode::empty()).ok()?)
    }

    /// Makes `dir`, which must be empty, the root of a project without files. A project contains at least its root, also
    /// during deletion. The search begins at a number derived from `seed`.
    pub(crate) fn assign(dir: BorrowedFd<'_>, seed: u64) -> FsResult<()> {
        let _locked = CHOICE.lock();
        let [.., a, b, c, d] = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32).to_be_bytes();
        let mut number = u32::from_be_bytes([a, b, c, d]);
        loop {
            // 0 means "no project", and `u32::MAX` is not a valid number.
            number = if number >= u32::MAX - 1 { 1 } else { number + 1 };
            let has_files = match sys::project_quota(dir, number) {
                Ok(quota) => quota.files != 0,
                Err(Errno::NOENT) => false,
                Err(errno) => return Err(refused(errno)),
            };
            if !has_files {
                break;
            }
        }
        sys::set_project(dir, number).map_err(refused)?;
        fsync(dir).map_err(refused)
    }

    /// Usage by the kernel's count. It includes preallocated blocks and lags a little after a removal.
    pub(crate) fn usage(&self) -> FsResult<Usage> {
        let Quota { sectors, files, .. } = self.quota()?;
        Ok(Usage { bytes: sectors.saturating_mul(SECTOR_BYTES), files })
    }

    pub(crate) fn capacity(&self) -> FsResult<Capacity> {
        let Quota { sectors_max, files_max, .. } = self.quota()?;
        Ok(Capacity { bytes: sectors_max.saturating_mul(SECTOR_BYTES), files: files_max })
    }

    pub(crate) fn set_capacity(&self, capacity: Capacity) -> FsResult<()> {
        // 0 would mean no limit.
        let sectors = (capacity.bytes / SECTOR_BYTES).max(1);
        sys::set_project_limits(self.dir.as_fd(), self.number, sectors, capacity.files.max(1))
            .map_err(refused)
    }

    /// Frees blocks that the kernel keeps ready for growing files.
    pub(crate) fn free_preallocated(&self) {
        // Otherwise it frees them some minutes later.
        let _freed = sys::free_preallocated(self.dir.as_fd(), self.number);
    }

    /// Removes the limits, so that another volume may use the number.
    pub(crate) fn release(&self) {
        // A limit that remains applies to no files.
        let _lifted = sys::set_project_limits(self.dir.as_fd(), self.number, 0, 0);
    }

    fn quota(&self) -> FsResult<Quota> {
        match sys::project_quota(self.dir.as_fd(), self.number) {
            Err(Errno::NOENT) => Ok(Quota::default()),
            quota => quota.map_err(refused),
        }
    }
}

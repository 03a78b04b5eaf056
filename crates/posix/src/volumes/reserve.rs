//! Reserved space in the data directory for management on a full disk. docs/formats/data-directory.md draws it.
//!
//! The space is lent only for the time of one operation and only if the disk is full: clients would fill it.

use super::tree::{entries, make_private};
use crate::fs_type::file_system_stat;
use rustix::fs::{
    AtFlags, FallocateFlags, Mode, OFlags, fallocate, fstat, fstatvfs, fsync, openat, unlinkat,
};
use rustix::io::{Errno, pwrite};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, MutexGuard};
use vfs::sync::Mutex;
use vfs::{FsResult, FsStat};

const RESERVE: &str = "reserve";
/// Several files, because a disk can also run out of inodes.
const FILES: u32 = 16;
const FILE_BYTES_MAX: u64 = 256 << 10;
const FILE_BYTES_MIN: u64 = 16 << 10;
/// All files together are at most this fraction of a small disk.
const DISK_FRACTION: u64 = 32;

pub(crate) struct Reserve {
    data: OwnedFd,
    leases: Mutex<usize>,
}

/// A lease of the reserve. The last one to be dropped restores it, as far as there is space.
pub(crate) struct ReserveLease(Arc<Reserve>);

impl Reserve {
    pub(crate) fn new(data: OwnedFd) -> Arc<Self> {
        Arc::new(Self { data, leases: Mutex::default() })
    }

    /// Frees the reserve if the disk is full.
    pub(crate) fn lend(self: &Arc<Self>) -> ReserveLease {
        let mut leases = self.lock();
        *leases += 1;
        if self.is_short().unwrap_or(false)
            && let Err(error) = self.release()
        {
            tracing::warn!(%error, "cannot release the reserve on a full disk");
        }
        ReserveLease(Arc::clone(self))
    }

    /// Fills the reserve as far as there is space, unless it is lent.
    pub(crate) fn restore(&self) {
        let leases = self.lock();
        if *leases == 0
            && let Err(errno) = self.make()
            && !matches!(errno, Errno::NOSPC | Errno::DQUOT)
        {
            tracing::warn!(error = %std::io::Error::from(errno), "cannot restore the reserve for a full disk");
        }
    }

    fn is_short(&self) -> FsResult<bool> {
        let stat = file_system_stat(self.data.as_fd())?;
        let is_root = rustix::process::geteuid().is_root();
        // Root may use the blocks that a file system reserves for root.
        let bytes_available = if is_root { stat.bytes_free } else { stat.bytes_available };
        Ok(FsStat { bytes_available, ..stat }.is_full())
    }

    fn release(&self) -> FsResult<()> {
        let dir = make_private(&self.data, RESERVE).map_err(crate::error::refused)?;
        let names = entries(&dir)?;
        for name in &names {
            // Best effort: each removed file adds space.
            let _removed = unlinkat(&dir, name, AtFlags::empty());
        }
        if !names.is_empty() {
            // Some file systems free the blocks of removed files with their next commit.
            fsync(&dir).map_err(crate::error::refused)?;
            tracing::info!("the disk is full: the reserve is released for this operation");
        }
        Ok(())
    }

    fn make(&self) -> Result<(), Errno> {
        let dir = make_private(&self.data, RESERVE)?;
        let total = fstatvfs(&dir).map_or(0, |disk| disk.f_blocks.saturating_mul(disk.f_frsize));
        let bytes = (total / DISK_FRACTION / u64::from(FILES)).clamp(FILE_BYTES_MIN, FILE_BYTES_MAX);
        for number in 0..FILES {
            let name = format!("{number:02}");
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let file = openat(&dir, &name, flags, Mode::RUSR | Mode::WUSR)?;
            let stat = fstat(&file)?;
            if u64::try_from(stat.st_size).is_ok_and(|size| size >= bytes) {
                continue;
            }
            if let Err(errno) = fill(&file, bytes) {
                unlinkat(&dir, &name, AtFlags::empty())?;
                return Err(errno);
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.leases.lock()
    }
}

impl Drop for ReserveLease {
    fn drop(&mut self) {
        *self.0.lock() -= 1;
        self.0.restore();
    }
}

fn fill(file: &OwnedFd, bytes: u64) -> Result<(), Errno> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        done => return done,
    }
    let chunk = [0; 4096];
    let mut at = 0;
    while at < bytes {
        at += pwrite(file, &chunk, at)? as u64;
    }
    fsync(file)
}

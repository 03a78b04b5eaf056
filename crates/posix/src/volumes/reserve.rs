//! Room that is kept aside in the data directory, in case the disk is full: docs/formats/data-directory.md draws it.
//!
//! It is lent to whoever writes what management must, and only if there is no other room: what is given up for longer, clients
//! fill.

use super::trash::entries;
use super::tree::make_private;
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
/// Several files, because a disk can be out of inodes, too.
const FILES: u32 = 16;
const FILE_BYTES_MAX: u64 = 256 << 10;
const FILE_BYTES_MIN: u64 = 16 << 10;
/// Of a small disk all of them together are this part.
const DISK_FRACTION: u64 = 32;

/// The directory of the files whose room is lent.
pub(crate) struct Reserve {
    data: OwnedFd,
    /// How many have it lent now.
    leases: Mutex<usize>,
}

/// What is lent. Kept aside again, as far as it is still there, when the last of these is dropped.
pub(crate) struct ReserveLease(Arc<Reserve>);

impl Reserve {
    /// In the data directory `data`.
    pub(crate) fn new(data: OwnedFd) -> Arc<Self> {
        Arc::new(Self { data, leases: Mutex::default() })
    }

    /// Gives it up if the disk is full.
    pub(crate) fn lend(self: &Arc<Self>) -> ReserveLease {
        let mut lent = self.lock();
        *lent += 1;
        if self.is_short().unwrap_or(false)
            && let Err(error) = self.release()
        {
            tracing::warn!(%error, "cannot give up what is kept aside for a full disk");
        }
        ReserveLease(Arc::clone(self))
    }

    /// Keeps aside what there is room for, unless it is lent.
    pub(crate) fn restore(&self) {
        let lent = self.lock();
        if *lent == 0
            && let Err(errno) = self.make()
            && !matches!(errno, Errno::NOSPC | Errno::DQUOT)
        {
            tracing::warn!(error = %std::io::Error::from(errno), "cannot keep room aside for a full disk");
        }
    }

    fn is_short(&self) -> FsResult<bool> {
        let stat = file_system_stat(self.data.as_fd())?;
        let is_root = rustix::process::geteuid().is_root();
        // What a file system keeps for root is root's to use.
        let bytes_available = if is_root { stat.bytes_free } else { stat.bytes_available };
        Ok(FsStat { bytes_available, ..stat }.is_full())
    }

    fn release(&self) -> FsResult<()> {
        let dir = make_private(&self.data, RESERVE).map_err(crate::error::refused)?;
        let names = entries(&dir)?;
        for name in &names {
            // One that stays is one less that is lent.
            let _removed = unlinkat(&dir, name, AtFlags::empty());
        }
        if !names.is_empty() {
            // Some file systems give the blocks of removed files back with their next commit.
            fsync(&dir).map_err(crate::error::refused)?;
            tracing::info!("the disk is full: what is kept aside for that is given up for a moment");
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

/// Gives a file its blocks.
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

//! The file with the capacity and usage of a volume between two runs. docs/formats/usage-file.md draws the bytes.

use super::dir_lock::DirLock;
use crate::error::refused;
use rustix::fs::{FlockOperation, Mode, OFlags, fdatasync, flock, openat, syncfs};
use rustix::io::{Errno, pread, pwrite};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use storage::{USAGE_RECORD_BYTES_MAX, UsageRecord, UsageStore};
use vfs::{FsError, FsResult};

/// An open usage file, locked against other processes.
pub(crate) struct UsageFile(OwnedFd);

impl UsageFile {
    /// Opens or creates `name` in `dir`. Waits for the lock: a volume that is being closed still holds it.
    pub(crate) fn open(dir: BorrowedFd<'_>, name: &str) -> FsResult<Self> {
        open_locked(dir, name).map(Self)
    }

    /// Reads `name` in `dir` without the lock; `None` if there is no such file or its contents are invalid.
    pub(crate) fn peek(dir: BorrowedFd<'_>, name: &str) -> FsResult<Option<UsageRecord>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match openat(dir, name, flags, Mode::empty()) {
            Ok(file) => Self(file).read(),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(refused(errno)),
        }
    }

    /// `None` if the file is new or its contents are invalid.
    pub(crate) fn read(&self) -> FsResult<Option<UsageRecord>> {
        let mut bytes = [0; USAGE_RECORD_BYTES_MAX + 1];
        let read = pread(&self.0, &mut bytes[..], 0).map_err(refused)?;
        Ok(UsageRecord::decode(&bytes[..read]))
    }

    /// Writes `entry` durably. In place: the write must succeed on a full disk, and 48 bytes at the start of a sector
    /// reach the disk all or not at all.
    pub(crate) fn write(&self, entry: &UsageRecord) -> FsResult<()> {
        self.write_lazily(entry)?;
        fdatasync(&self.0).map_err(refused)
    }

    /// [`UsageFile::write`] without waiting for the disk.
    pub(crate) fn write_lazily(&self, entry: &UsageRecord) -> FsResult<()> {
        let bytes = entry.encode();
        match pwrite(&self.0, &bytes, 0) {
            Ok(written) if written == bytes.len() => Ok(()),
            Ok(_) => Err(FsError::NoSpace),
            Err(errno) => Err(refused(errno)),
        }
    }
}

/// The usage file of an open volume.
pub(crate) struct OpenUsageFile {
    pub(crate) file: UsageFile,
    /// The volume's root, to sync the files before the count is saved.
    pub(crate) root: Arc<OwnedFd>,
    /// Locks the data directory as long as the volume is open.
    pub(crate) _dir_lock: Arc<DirLock>,
}

impl UsageStore for OpenUsageFile {
    fn write(&self, record: &UsageRecord) -> FsResult<()> {
        self.file.write(record)
    }

    fn write_lazily(&self, record: &UsageRecord) -> FsResult<()> {
        self.file.write_lazily(record)
    }

    fn sync_files(&self) -> FsResult<()> {
        syncfs(&self.root).map_err(refused)
    }
}

/// Opens or creates `name` in `dir`, and waits for its lock.
pub(super) fn open_locked(dir: impl AsFd, name: &str) -> FsResult<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = openat(dir, name, flags, Mode::RUSR | Mode::WUSR).map_err(refused)?;
    loop {
        match flock(&file, FlockOperation::LockExclusive) {
            Err(Errno::INTR) => {}
            done => return done.map(|()| file).map_err(refused),
        }
    }
}

//! Removed files that snapshots still need: the file itself becomes part of its records.
//!
//! The file gets a name among the pending ones before it loses its own, then a mark, then its place. A mark makes live
//! handles of the file stale: it is a flag of the inode that no client can set, so the records are asked only for files
//! that have it.

use super::{PENDING, Undo, key_of, open_dir, path_of, remove};
use crate::capacity::project;
use crate::error::refused;
use crate::sys::{open_existing, proc_path, set_file_project};
use rustix::fs::{
    AtFlags, CWD, IFlags, Mode, OFlags, RawDir, RenameFlags, ioctl_getflags, ioctl_setflags, linkat, openat,
    renameat, renameat_with, statat,
};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use vfs::{FileKey, FsError, FsResult};

/// The name of a removed file in its directory of records.
pub(super) const FILE: &str = "file";
const READ_BYTES: usize = 32 * 1024;

impl Undo {
    /// Gives a file that is about to lose its last name a name among the pending ones.
    pub(crate) fn begin_retain(&self, key: &FileKey, file: BorrowedFd<'_>) -> FsResult<()> {
        match linkat(CWD, proc_path(file), &self.pending, pending_name(key), AtFlags::SYMLINK_FOLLOW) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(refused(errno)),
        }
    }

    /// Ends [`Undo::begin_retain`] of a file that has kept its name.
    pub(crate) fn cancel_retain(&self, key: &FileKey) -> FsResult<()> {
        remove(self.pending.as_fd(), &pending_name(key), AtFlags::empty())
    }

    /// Puts a file that has lost its last name among its records.
    pub(crate) fn finish_retain(&self, key: &FileKey) -> FsResult<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let name = pending_name(key);
        let file = openat(&self.pending, &*name, flags, Mode::empty()).map_err(refused)?;
        let now = ioctl_getflags(&file).map_err(refused)?;
        ioctl_setflags(&file, now | IFlags::NODUMP).map_err(refused)?;
        if let Some(number) = self.project {
            // From the files of the volume. Only a file of the same project may move to a directory of it.
            set_file_project(file.as_fd(), number).map_err(refused)?;
        }
        self.in_key_dir(key, |dir| renameat(&self.pending, &*name, dir, FILE))
    }

    /// Opens the removed file of a key for reading; `None` if no removed file has it.
    pub(crate) fn open_retained(&self, key: &FileKey) -> FsResult<Option<OwnedFd>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let path = format!("{}/{FILE}", path_of(key));
        open_existing(self.records.as_fd(), &path, flags).map_err(refused)
    }

    /// Whether a file with the mark is among the records.
    pub(crate) fn has_retained(&self, key: &FileKey) -> FsResult<bool> {
        match statat(&self.records, format!("{}/{FILE}", path_of(key)), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(refused(errno)),
        }
    }

    /// Moves a removed file from its records to a name of the live tree.
    pub(crate) fn take_back(&self, key: &FileKey, dir: BorrowedFd<'_>, name: &[u8]) -> FsResult<()> {
        let Some(file) = self.open_retained(key)? else { return Err(FsError::Io) };
        let from = format!("{}/{FILE}", path_of(key));
        if self.project.is_some() {
            // The descriptor may be one without rights.
            let dir = open_dir(dir, ".").map_err(refused)?;
            let number = project::number_at(dir.as_fd()).unwrap_or(0);
            set_file_project(file.as_fd(), number).map_err(refused)?;
        }
        renameat_with(&self.records, from, dir, name, RenameFlags::NOREPLACE).map_err(refused)?;
        // Without its place among the records, the mark has no meaning any more.
        let now = ioctl_getflags(&file).map_err(refused)?;
        ioctl_setflags(&file, now - IFlags::NODUMP).map_err(refused)
    }

    /// Finishes what an interrupted process has left among the pending names.
    pub(super) fn finish_pending(&self) -> FsResult<()> {
        let pending = open_dir(self.dir.as_fd(), PENDING).map_err(refused)?;
        let mut buffer = vec![MaybeUninit::uninit(); READ_BYTES];
        let mut raw = RawDir::new(&pending, &mut buffer);
        let mut keys = Vec::new();
        while let Some(entry) = raw.next() {
            let entry = entry.map_err(refused)?;
            keys.extend(key_of(entry.file_name().to_bytes()));
        }
        for key in keys {
            let stat = statat(&pending, pending_name(&key), AtFlags::SYMLINK_NOFOLLOW).map_err(refused)?;
            // With another name, the file was not removed.
            if stat.st_nlink > 1 { self.cancel_retain(&key)? } else { self.finish_retain(&key)? }
        }
        Ok(())
    }
}

/// The name of a pending file: its key in hexadecimal digits.
fn pending_name(key: &FileKey) -> String {
    path_of(key).split_off(3)
}

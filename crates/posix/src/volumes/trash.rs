//! The directory of removed volumes.

use super::tree::{delete, entries};
use crate::capacity::project::Project;
use crate::error::refused;
use rustix::fs::{fsync, renameat};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use vfs::FsResult;

pub(super) struct TrashDir(pub(super) OwnedFd);

impl TrashDir {
    /// Moves the directory `name` of `from` here, durably; false if it does not exist.
    pub(super) fn take(&self, from: &OwnedFd, name: &str) -> FsResult<bool> {
        // One of the same name may have been removed before, and its files may still be here.
        for again in 0u64.. {
            let place = if again == 0 { name.to_owned() } else { format!("{name}.{again}") };
            match renameat(from, name, &self.0, place) {
                Ok(()) => break,
                Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                Err(Errno::NOENT) => return Ok(false),
                Err(errno) => return Err(refused(errno)),
            }
        }
        fsync(&self.0).and_then(|()| fsync(from)).map_err(refused)?;
        Ok(true)
    }
}

impl storage::TrashDir for TrashDir {
    fn names(&self) -> FsResult<Vec<CString>> {
        entries(&self.0)
    }

    fn delete(&self, name: &CStr, stop: &dyn Fn() -> bool) -> FsResult<bool> {
        let project = Project::at(self.0.as_fd(), name);
        match delete(self.0.as_fd(), name, stop) {
            Ok(()) => {
                project.into_iter().for_each(|project| project.release());
                Ok(true)
            }
            Err(Errno::CANCELED) => Ok(false),
            Err(errno) => Err(refused(errno)),
        }
    }
}

//! The directory of removed volumes.

use crate::cluster::Place;
use crate::error::refused;
use crate::ffi::{Inode, Wanted};
use crate::snapshot;
use crate::walk;
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use vfs::FsResult;

pub(super) struct TrashDir(pub(super) Place);

impl TrashDir {
    /// Moves the directory `name` of `from` here, durably; false if it does not exist.
    pub(super) fn take(&self, from: &Inode, name: &CStr) -> FsResult<bool> {
        let trash = &*self.0.inode().map_err(refused)?;
        // One of the same name may have been removed before, and its files may still be here.
        for again in 0u64.. {
            let suffix = if again == 0 { String::new() } else { format!(".{again}") };
            let place = CString::new([name.to_bytes(), suffix.as_bytes()].concat()).unwrap_or_default();
            match from.rename(name, trash, &place) {
                Ok(()) => break,
                Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                Err(Errno::NOENT) => return Ok(false),
                Err(errno) => return Err(refused(errno)),
            }
        }
        trash.sync(false).and_then(|()| from.sync(false)).map_err(refused)?;
        Ok(true)
    }

    fn list(&self) -> Result<Vec<CString>, Errno> {
        let mut entries = self.0.inode()?.open_dir()?;
        let mut names = Vec::new();
        while let Some(entry) = entries.next(Wanted::Nothing)? {
            if !matches!(&entry.name[..], b"." | b"..") {
                names.push(CString::new(entry.name).map_err(|_| Errno::INVAL)?);
            }
        }
        Ok(names)
    }

    fn delete_tree(&self, name: &CStr, stop: &dyn Fn() -> bool) -> Result<bool, Errno> {
        let dir = self.0.inode()?;
        let (root, _) = dir.lookup(name)?;
        // The engine removes no directory that has snapshots.
        snapshot::remove_below(&root, self.0.cluster().snapshot_dir())?;
        if !walk::empty(&root, stop)? {
            return Ok(false);
        }
        drop(root);
        dir.remove_dir(name).map(|()| true)
    }
}

impl storage::TrashDir for TrashDir {
    fn names(&self) -> FsResult<Vec<CString>> {
        self.list().map_err(refused)
    }

    fn delete(&self, name: &CStr, stop: &dyn Fn() -> bool) -> FsResult<bool> {
        self.delete_tree(name, stop).map_err(refused)
    }
}

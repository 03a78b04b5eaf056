//! Locates files with the index: by the last known name, else by a scan of the tree.

use super::Mount;
use super::index::{Index, LEVELS_MAX, Route, key_hash};
use crate::error::refused;
use rustix::fs::{FileType as Kind, Mode, OFlags, RawDir, openat, statat};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use vfs::{Blocking, FileKey, FsError, FsResult};

/// Buffer size of one `getdents` call.
const READ_BYTES: usize = 32 * 1024;

impl Mount {
    /// Opens the file of `key` as `O_PATH`, by its last known name, else by a scan.
    pub(crate) fn locate(&self, index: &Index, key: &FileKey) -> FsResult<OwnedFd> {
        let wanted = key_hash(key);
        if let Some(fd) = self.walk_to(index, wanted, key) {
            return Ok(fd);
        }
        if index.lock().deleted.contains(&wanted) {
            return Err(FsError::Stale);
        }
        let mut scan = index.scan.lock();
        // Another thread's scan may have found it during the wait.
        if let Some(fd) = self.walk_to(index, wanted, key) {
            return Ok(fd);
        }
        // A scan under way may have passed the file's new directory before the file moved there: only a whole scan
        // proves absence.
        let mut is_whole = false;
        loop {
            match scan.pop() {
                Some(dir) => {
                    // An unreadable directory hides its files; the rest of the tree is still good.
                    if self.scan_dir(index, dir, wanted, &mut scan).unwrap_or(false)
                        && let Some(fd) = self.walk_to(index, wanted, key)
                    {
                        return Ok(fd);
                    }
                }
                None if is_whole => break,
                None => {
                    is_whole = true;
                    scan.push(key_hash(&self.root_key));
                }
            }
        }
        drop(scan);
        index.record_deleted(key);
        Err(FsError::Stale)
    }

    fn walk_to(&self, index: &Index, wanted: u64, key: &FileKey) -> Option<OwnedFd> {
        let fd = self.walk(index, wanted).ok()?;
        (self.key_at(fd.as_fd(), b"").ok()? == *key).then_some(fd)
    }

    /// Opens the file at the known location of `wanted`.
    fn walk(&self, index: &Index, wanted: u64) -> FsResult<OwnedFd> {
        let root = key_hash(&self.root_key);
        // Directories to read on the way, with the id to find in each. The one nearest to the root is last.
        let mut unread: Vec<(u64, u64)> = Vec::new();
        for _ in 0..LEVELS_MAX {
            let goal = unread.last().map_or(wanted, |&(dir, _)| dir);
            let names = match index.route(goal, root).ok_or(FsError::NotFound)? {
                Route::Names(names) => names,
                Route::Read { dir, id } => {
                    unread.push((dir, id));
                    continue;
                }
            };
            let mut fd = self.open_name(self.root.as_fd(), b".", Blocking::Allowed)?;
            for name in names.iter().rev() {
                fd = self.open_name(fd.as_fd(), name, Blocking::Allowed)?;
            }
            let Some((dir, id)) = unread.pop() else { return Ok(fd) };
            if !self.learn_names(index, fd.as_fd(), dir, id, &mut Vec::new())? {
                break;
            }
        }
        Err(FsError::NotFound)
    }

    /// Records all entries of the directory `dir` and adds its subdirectories to `unvisited`.
    /// Returns whether it found `wanted`.
    fn scan_dir(&self, index: &Index, dir: u64, wanted: u64, unvisited: &mut Vec<u64>) -> FsResult<bool> {
        let fd = self.walk(index, dir)?;
        self.learn_names(index, fd.as_fd(), dir, wanted, unvisited)
    }

    /// [`Mount::scan_dir`] for the directory open as `fd`.
    fn learn_names(
        &self,
        index: &Index,
        fd: BorrowedFd<'_>,
        dir: u64,
        wanted: u64,
        unvisited: &mut Vec<u64>,
    ) -> FsResult<bool> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = openat(fd, ".", flags, Mode::empty()).map_err(refused)?;
        let mut found_name = None;
        let mut buffer = vec![MaybeUninit::uninit(); READ_BYTES];
        let mut raw = RawDir::new(&fd, &mut buffer);
        while let Some(entry) = raw.next() {
            let entry = entry.map_err(refused)?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            // Removed meanwhile, or a mount point: not ours.
            let Ok(key) = self.key_at(fd.as_fd(), name) else { continue };
            let child = key_hash(&key);
            index.record_id(child, dir, name);
            if child == wanted {
                found_name = Some(name.to_vec());
            }
            if is_directory(fd.as_fd(), name, entry.file_type()) {
                unvisited.push(child);
            }
        }
        // Again, because a large directory may have evicted the name.
        if let Some(name) = &found_name {
            index.record_id(wanted, dir, name);
        }
        Ok(found_name.is_some())
    }
}

fn is_directory(dir: BorrowedFd<'_>, name: &[u8], kind: Kind) -> bool {
    match kind {
        Kind::Directory => true,
        // Some file systems store no types in their directories.
        Kind::Unknown => statat(dir, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| Kind::from_raw_mode(stat.st_mode) == Kind::Directory),
        _ => false,
    }
}

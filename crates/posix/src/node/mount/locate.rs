//! How a file is found by the index: by its last known place, else by a scan of the tree.

use super::Mount;
use super::index::{Index, LEVELS_MAX, Route, key_hash};
use crate::error::refused;
use rustix::fs::{FileType as Kind, Mode, OFlags, RawDir, openat, statat};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use vfs::{Blocking, FileKey, FsError, FsResult};

/// Bytes of entries taken from the kernel at once.
const READ_BYTES: usize = 32 * 1024;

impl Mount {
    /// Names the file of `key` with an `O_PATH`, by its last known place, else by a scan.
    pub(crate) fn locate(&self, index: &Index, key: &FileKey) -> FsResult<OwnedFd> {
        let sought = key_hash(key);
        if let Some(fd) = self.walk_to(index, sought, key) {
            return Ok(fd);
        }
        if index.known().deleted.contains(&sought) {
            return Err(FsError::Stale);
        }
        let mut scan = index.scan.lock();
        // Somebody else's scan may have met it while we waited.
        if let Some(fd) = self.walk_to(index, sought, key) {
            return Ok(fd);
        }
        // A scan under way has perhaps passed the file's place before it moved there: only a whole one proves absence.
        let mut whole = false;
        loop {
            match scan.pop() {
                Some(dir) => {
                    // A directory that cannot be read hides what is in it; the rest of the tree is still good.
                    if self.scan_dir(index, dir, sought, &mut scan).unwrap_or(false)
                        && let Some(fd) = self.walk_to(index, sought, key)
                    {
                        return Ok(fd);
                    }
                }
                None if whole => break,
                None => {
                    whole = true;
                    scan.push(key_hash(&self.root_key));
                }
            }
        }
        drop(scan);
        index.record_deleted(key);
        Err(FsError::Stale)
    }

    fn walk_to(&self, index: &Index, sought: u64, key: &FileKey) -> Option<OwnedFd> {
        let fd = self.walk(index, sought).ok()?;
        (self.key_at(fd.as_fd(), b"").ok()? == *key).then_some(fd)
    }

    /// Opens what lies at the known place of `sought`.
    fn walk(&self, index: &Index, sought: u64) -> FsResult<OwnedFd> {
        let root = key_hash(&self.root_key);
        // Directories to be read on the way, and whose names are to be learnt there: the nearest to the root last.
        let mut unread: Vec<(u64, u64)> = Vec::new();
        for _ in 0..LEVELS_MAX {
            let goal = unread.last().map_or(sought, |&(dir, _)| dir);
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

    /// Records all that is in the directory `dir`; adds the directories in it to `waiting`; tells if it met `sought`.
    fn scan_dir(&self, index: &Index, dir: u64, sought: u64, waiting: &mut Vec<u64>) -> FsResult<bool> {
        let fd = self.walk(index, dir)?;
        self.learn_names(index, fd.as_fd(), dir, sought, waiting)
    }

    /// As [`Mount::scan_dir`], of the directory that is open as `fd`.
    fn learn_names(
        &self,
        index: &Index,
        fd: BorrowedFd<'_>,
        dir: u64,
        sought: u64,
        waiting: &mut Vec<u64>,
    ) -> FsResult<bool> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = openat(fd, ".", flags, Mode::empty()).map_err(refused)?;
        let mut met = None;
        let mut buffer = vec![MaybeUninit::uninit(); READ_BYTES];
        let mut raw = RawDir::new(&fd, &mut buffer);
        while let Some(entry) = raw.next() {
            let entry = entry.map_err(refused)?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            // Gone meanwhile, or mounted on: not ours.
            let Ok(key) = self.key_at(fd.as_fd(), name) else { continue };
            let child = key_hash(&key);
            index.record_id(child, dir, name);
            if child == sought {
                met = Some(name.to_vec());
            }
            if is_directory(fd.as_fd(), name, entry.file_type()) {
                waiting.push(child);
            }
        }
        // Once more, because a large directory may have more names than are remembered.
        if let Some(name) = &met {
            index.record_id(sought, dir, name);
        }
        Ok(met.is_some())
    }
}

fn is_directory(dir: BorrowedFd<'_>, name: &[u8], kind: Kind) -> bool {
    match kind {
        Kind::Directory => true,
        // Some file systems keep no types in their directories.
        Kind::Unknown => statat(dir, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| Kind::from_raw_mode(stat.st_mode) == Kind::Directory),
        _ => false,
    }
}

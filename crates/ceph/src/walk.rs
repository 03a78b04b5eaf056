//! Walks over the files of a volume, below the model: counts and deletes them.

use crate::error::refused;
use crate::ffi::{Inode, Wanted};
use crate::node::xattr_sizes::xattrs_charged;
use crate::stat::file_type;
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::CString;
use storage::{OwnerIds, Tally, add_to_tally};
use vfs::backend::charge::{INODE_BYTES, NAME_BYTES, ROOT_BYTES, content};
use vfs::backend::quotas;
use vfs::{FileType, FsError, FsResult, Usage, Wait};

/// Files between two reports of a walk that counts.
const STEP: u64 = 256;
/// Entries that are deleted between two listings of a directory.
const BATCH: usize = 256;

/// The usage of the tree below and including `root`. With `tally`, files are counted by owner too. `go_on` receives the
/// number of files since its last call and in all; if it returns false, the walk ends with [`FsError::Wait`].
pub(crate) fn count(
    root: &Inode,
    mut tally: Option<&mut Tally>,
    go_on: &mut dyn FnMut(u64, u64) -> bool,
) -> FsResult<Usage> {
    let stat = root.attrs().map_err(refused)?;
    let bytes = INODE_BYTES + NAME_BYTES + content(FileType::Directory, stat.size) - ROOT_BYTES;
    let own = xattrs_charged(root).map_err(refused)?;
    let mut usage = Usage { bytes: bytes + own, files: 1 };
    let (mut linked, mut waiting) = (HashSet::new(), vec![root.open_dir().map_err(refused)?]);
    while let Some(dir) = waiting.last_mut() {
        let Some(entry) = dir.next(Wanted::Inode).map_err(refused)? else {
            waiting.pop();
            continue;
        };
        if matches!(&entry.name[..], b"." | b"..") {
            continue;
        }
        usage.bytes += NAME_BYTES;
        if entry.stat.links > 1 && !linked.insert(entry.stat.inode) {
            continue;
        }
        let (kind, inode) = (file_type(&entry.stat)?, entry.inode.ok_or(FsError::Io)?);
        usage.bytes += INODE_BYTES + content(kind, entry.stat.size);
        usage.files += 1;
        if matches!(kind, FileType::Regular | FileType::Directory) {
            usage.bytes += xattrs_charged(&inode).map_err(refused)?;
        }
        if kind == FileType::Directory {
            waiting.push(inode.open_dir().map_err(refused)?);
        } else if let Some(tally) = &mut tally {
            let ids = OwnerIds::both(entry.stat.uid, entry.stat.gid);
            add_to_tally(tally, ids, quotas::charge(kind, entry.stat.size));
        }
        if usage.files.is_multiple_of(STEP) && !go_on(STEP, usage.files) {
            return Err(FsError::Wait(Wait::Recall));
        }
    }
    go_on(usage.files % STEP, usage.files);
    Ok(usage)
}

/// Deletes everything below `root`. Returns false once `stop` returns true.
pub(crate) fn empty(root: &Inode, stop: &dyn Fn() -> bool) -> Result<bool, Errno> {
    let mut levels: Vec<(Inode, CString)> = Vec::new();
    loop {
        let dir = levels.last().map_or(root, |(dir, _)| dir);
        match delete_batch(dir, stop)? {
            Batch::Stopped => return Ok(false),
            Batch::Subdirectory(child, name) => levels.push((child, name)),
            Batch::More => {}
            Batch::Empty => {
                let Some((dir, name)) = levels.pop() else { return Ok(true) };
                drop(dir);
                let parent = levels.last().map_or(root, |(dir, _)| dir);
                ignore_missing(parent.remove_dir(&name))?;
            }
        }
    }
}

enum Batch {
    Stopped,
    /// A directory that must be emptied first.
    Subdirectory(Inode, CString),
    More,
    Empty,
}

fn delete_batch(dir: &Inode, stop: &dyn Fn() -> bool) -> Result<Batch, Errno> {
    let mut entries = dir.open_dir()?;
    let mut deleted = 0;
    while let Some(entry) = entries.next(Wanted::Inode)? {
        if matches!(&entry.name[..], b"." | b"..") {
            continue;
        }
        if stop() {
            return Ok(Batch::Stopped);
        }
        let name = CString::new(entry.name).map_err(|_| Errno::INVAL)?;
        let is_dir = file_type(&entry.stat) == Ok(FileType::Directory);
        match entry.inode.filter(|_| is_dir) {
            Some(child) => return Ok(Batch::Subdirectory(child, name)),
            None => ignore_missing(dir.unlink(&name))?,
        }
        deleted += 1;
        if deleted == BATCH {
            return Ok(Batch::More);
        }
    }
    Ok(if deleted == 0 { Batch::Empty } else { Batch::More })
}

fn ignore_missing(done: Result<(), Errno>) -> Result<(), Errno> {
    match done {
        Err(Errno::NOENT) => Ok(()),
        done => done,
    }
}

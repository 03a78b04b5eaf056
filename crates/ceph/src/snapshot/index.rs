//! The index of a snapshot: the directory of every file, by its number. It finds files of which a client has only the key,
//! as after a restart.
//!
//! A thread lists the snapshot once. It takes 16 bytes of memory a file until the snapshot is closed.

use super::places::Place;
use crate::error::refused;
use crate::ffi::Inode;
use crate::node::listing::Groups;
use crate::stat::file_type;
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::CString;
use vfs::{FileType, FsError, FsResult};

/// Files that an index has at most: 512 MiB.
const FILES_MAX: usize = 1 << 25;

/// A name of a file: its directory, and the hash of the name.
struct Entry {
    number: u64,
    dir: u32,
    hash: u32,
}

struct DirEntry {
    number: u64,
    /// The position of its parent; its own for the root.
    parent: u32,
    name: CString,
}

pub(super) struct Index {
    /// In the order of their numbers.
    files: Vec<Entry>,
    dirs: Vec<DirEntry>,
    /// Positions in `dirs`.
    by_number: HashMap<u64, u32>,
}

/// The position of a file in an index.
pub(super) enum Indexed {
    Directory(Place),
    /// A file in the directory of this number, under a name with this hash.
    File {
        parent: u64,
        hash: u32,
    },
}

impl Index {
    /// Lists everything below `root`. Ends with [`Errno::CANCELED`] once `stop` returns true.
    pub(super) fn of(root: Inode, stop: &dyn Fn() -> bool) -> FsResult<Self> {
        let number = root.attrs().map_err(refused)?.inode;
        let top = DirEntry { number, parent: 0, name: CString::default() };
        let mut index =
            Self { files: Vec::new(), dirs: vec![top], by_number: HashMap::from([(number, 0)]) };
        // Each directory with its position; its parents stay open, so that its path is known.
        let mut waiting = vec![(root, 0u32)];
        let mut levels: Vec<(Inode, Vec<(CString, u32)>)> = Vec::new();
        while let Some((dir, position)) = waiting.pop() {
            let below = index.list(&dir, position, stop)?;
            levels.push((dir, below));
            while let Some((parent, below)) = levels.last_mut() {
                let Some((name, position)) = below.pop() else {
                    levels.pop();
                    continue;
                };
                waiting.push((parent.lookup(&name).map_err(refused)?.0, position));
                break;
            }
        }
        index.files.sort_unstable_by_key(|entry| entry.number);
        index.files.shrink_to_fit();
        Ok(index)
    }

    /// Adds the entries of a directory. Returns its subdirectories.
    fn list(
        &mut self,
        dir: &Inode,
        position: u32,
        stop: &dyn Fn() -> bool,
    ) -> FsResult<Vec<(CString, u32)>> {
        let mut below = Vec::new();
        let mut groups = Groups::begin(dir.open_dir().map_err(refused)?, 0, false);
        while let Some(group) = groups.next()? {
            if stop() {
                return Err(refused(Errno::CANCELED));
            }
            for listed in group {
                let (number, hash) = (listed.entry.number, listed.hash());
                if file_type(&listed.entry.stat)? != FileType::Directory {
                    self.files.push(Entry { number, dir: position, hash });
                    continue;
                }
                let name = CString::new(listed.entry.name).map_err(|_| FsError::Io)?;
                let place = u32::try_from(self.dirs.len()).map_err(|_| FsError::Resource)?;
                self.by_number.insert(number, place);
                self.dirs.push(DirEntry { number, parent: position, name: name.clone() });
                below.push((name, place));
            }
            if self.files.len() + self.dirs.len() > FILES_MAX {
                return Err(FsError::Resource);
            }
        }
        Ok(below)
    }

    pub(super) fn find(&self, number: u64) -> Option<Indexed> {
        if let Some(&place) = self.by_number.get(&number) {
            let dir = self.dirs.get(place as usize)?;
            let parent = self.dirs.get(dir.parent as usize)?.number;
            return Some(Indexed::Directory(Place { parent, name: dir.name.clone() }));
        }
        let first = self.files.partition_point(|entry| entry.number < number);
        let entry = self.files.get(first).filter(|entry| entry.number == number)?;
        let parent = self.dirs.get(entry.dir as usize)?.number;
        Some(Indexed::File { parent, hash: entry.hash })
    }
}

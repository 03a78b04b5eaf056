//! The index of a snapshot: the directory of every file, by its number. It finds files of which a client has only the key,
//! as after a restart.
//!
//! A thread lists the snapshot once, from the top, and publishes what it has found. It takes about 26 bytes of memory a file
//! until the snapshot is closed.

use super::places::Place;
use crate::error::refused;
use crate::ffi::Inode;
use crate::node::listing::Groups;
use crate::stat::file_type;
use std::collections::HashMap;
use std::ffi::CString;
use std::time::{Duration, Instant};
use vfs::sync::{Condvar, Mutex};
use vfs::{FileType, FsError, FsResult, Wait};

/// Files that an index has at most: about 450 MB.
const FILES_MAX: usize = 1 << 24;
/// Time that a call waits for the index, before its client has to ask again: of the first calls, and of others, so that few
/// threads wait.
const PATIENCE: Duration = Duration::from_secs(10);
const PATIENCE_OF_OTHERS: Duration = Duration::from_millis(100);
const WAITING_MAX: u32 = 2;
/// Time after a failure until the next attempt.
const PAUSE: Duration = Duration::from_secs(60);

/// An index that a thread makes while others use it.
#[derive(Default)]
pub(super) struct SharedIndex {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    phase: Phase,
    names: Names,
    /// Calls that wait.
    waiting: u32,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Missing,
    UnderWay,
    Done,
    Failed(Instant),
}

/// The names that were found so far.
#[derive(Default)]
struct Names {
    /// The position of its directory, and the hash of its name.
    files: HashMap<u64, (u32, u32)>,
    dirs: Vec<DirEntry>,
    /// Positions in `dirs`.
    by_number: HashMap<u64, u32>,
}

struct DirEntry {
    number: u64,
    /// The position of its parent; its own for the root.
    parent: u32,
    name: CString,
}

/// The place of a file in an index.
pub(super) enum Indexed {
    Directory(Place),
    /// A file in the directory of this number, under a name with this hash.
    File {
        parent: u64,
        hash: u32,
    },
}

/// A directory, and the subdirectories that are not listed yet, each with its position.
struct Level {
    dir: Inode,
    below: Vec<(CString, u32)>,
}

impl SharedIndex {
    /// The place of the file with this number; [`FsError::Stale`] if the snapshot does not have it. `start` makes the index.
    pub(super) fn find(&self, number: u64, start: impl FnOnce() -> FsResult<()>) -> FsResult<Indexed> {
        let mut state = self.state.lock();
        let is_due = match state.phase {
            Phase::Missing => true,
            Phase::Failed(at) => at.elapsed() > PAUSE,
            Phase::UnderWay | Phase::Done => false,
        };
        if is_due {
            start()?;
            (state.phase, state.names) = (Phase::UnderWay, Names::default());
        }
        let patience = if state.waiting < WAITING_MAX { PATIENCE } else { PATIENCE_OF_OTHERS };
        state.waiting += 1;
        let is_open =
            |state: &mut State| state.phase == Phase::UnderWay && state.names.find(number).is_none();
        state = self.changed.wait_timeout_while(state, patience, is_open).0;
        state.waiting -= 1;
        state.names.find(number).ok_or(match state.phase {
            Phase::Done => FsError::Stale,
            Phase::UnderWay => FsError::Wait(Wait::Recall),
            Phase::Missing | Phase::Failed(_) => FsError::Resource,
        })
    }

    /// Lists everything below `root`. Ends early once `stop` returns true.
    pub(super) fn make(&self, root: FsResult<Inode>, stop: &dyn Fn() -> bool) -> FsResult<()> {
        let made = root.and_then(|root| self.list_all(root, stop));
        self.state.lock().phase = if made.is_ok() { Phase::Done } else { Phase::Failed(Instant::now()) };
        self.changed.notify_all();
        made
    }

    fn list_all(&self, root: Inode, stop: &dyn Fn() -> bool) -> FsResult<()> {
        let number = root.attrs().map_err(refused)?.inode;
        self.state.lock().names.add_dir(number, 0, CString::default())?;
        let below = self.list(&root, 0, stop)?;
        // The parents of a directory stay in use, so that libcephfs knows its path.
        let mut levels = vec![Level { dir: root, below }];
        while let Some(level) = levels.last_mut() {
            let Some((name, position)) = level.below.pop() else {
                levels.pop();
                continue;
            };
            let dir = level.dir.lookup(&name).map_err(refused)?.0;
            let below = self.list(&dir, position, stop)?;
            levels.push(Level { dir, below });
        }
        Ok(())
    }

    /// Adds the entries of a directory. Returns its subdirectories.
    fn list(&self, dir: &Inode, position: u32, stop: &dyn Fn() -> bool) -> FsResult<Vec<(CString, u32)>> {
        let mut below = Vec::new();
        let mut groups = Groups::begin(dir.open_dir().map_err(refused)?, 0, false);
        while let Some(group) = groups.next()? {
            if stop() {
                return Err(FsError::Stale);
            }
            let mut state = self.state.lock();
            for listed in group {
                let (number, hash) = (listed.entry.number, listed.hash());
                if file_type(&listed.entry.stat)? == FileType::Directory {
                    let name = CString::new(listed.entry.name).map_err(|_| FsError::Io)?;
                    below.push((name.clone(), state.names.add_dir(number, position, name)?));
                } else {
                    state.names.files.insert(number, (position, hash));
                }
            }
            if state.names.files.len() + state.names.dirs.len() > FILES_MAX {
                return Err(FsError::Resource);
            }
        }
        self.changed.notify_all();
        Ok(below)
    }
}

impl Names {
    fn add_dir(&mut self, number: u64, parent: u32, name: CString) -> FsResult<u32> {
        let position = u32::try_from(self.dirs.len()).map_err(|_| FsError::Resource)?;
        self.by_number.insert(number, position);
        self.dirs.push(DirEntry { number, parent, name });
        Ok(position)
    }

    fn dir(&self, position: u32) -> Option<&DirEntry> {
        self.dirs.get(usize::try_from(position).ok()?)
    }

    fn find(&self, number: u64) -> Option<Indexed> {
        if let Some(&position) = self.by_number.get(&number) {
            let dir = self.dir(position)?;
            let parent = self.dir(dir.parent)?.number;
            return Some(Indexed::Directory(Place { parent, name: dir.name.clone() }));
        }
        let &(dir, hash) = self.files.get(&number)?;
        Some(Indexed::File { parent: self.dir(dir)?.number, hash })
    }
}

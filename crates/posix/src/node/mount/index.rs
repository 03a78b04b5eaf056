//! Finds files by key when the process may not open by handle. Recently used keys map to their names, many more to
//! their directories.
//!
//! Nothing is stored: after a restart the tree is scanned, one directory at a time, until the key is found. A name is
//! only a hint. A file opened by it counts only if it has the key.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::MutexGuard;
use vfs::FileKey;
use vfs::sync::Mutex;

/// Deeper than PATH_MAX allows. Also ends a cycle of outdated names.
pub(crate) const LEVELS_MAX: usize = 4096;
/// Number of deleted keys to remember. Each one spares a scan.
const DELETED_MAX: usize = 65_536;
/// Number of names to cache: about 8 MiB.
const NAMES_MAX: usize = 65_536;
/// Files of which only the directory is cached. A table of this size takes 17 MiB. A full table starts afresh, and a
/// scan finds the lost files.
const PARENTS_MAX: usize = (1 << 20) / 8 * 7;

/// An index of file locations. Keys are stored as 64-bit hashes; the check of the opened file makes that safe.
#[derive(Default)]
pub(crate) struct Index {
    entries: Mutex<Entries>,
    /// Directories that the current scan has yet to read.
    pub(crate) scan: Mutex<Vec<u64>>,
}

#[derive(Default)]
pub(crate) struct Entries {
    entries: HashMap<u64, IndexEntry>,
    /// The order in which names were added. Some are no longer in `entries`.
    order: VecDeque<u64>,
    /// The directories of files whose names were evicted.
    parents: HashMap<u64, u64>,
    pub(crate) deleted: HashSet<u64>,
}

struct IndexEntry {
    parent: u64,
    name: Box<[u8]>,
    /// A lookup used the entry since it was added.
    is_used: bool,
}

pub(crate) enum Route {
    /// Names to follow, the last one first.
    Names(Vec<Box<[u8]>>),
    /// The directory `dir` must be read first, to learn the name of `id` in it.
    Read { dir: u64, id: u64 },
}

impl Index {
    pub(crate) fn record(&self, key: &FileKey, parent: &FileKey, name: &[u8]) {
        self.record_id(key_hash(key), key_hash(parent), name);
    }

    pub(crate) fn record_id(&self, id: u64, parent: u64, name: &[u8]) {
        let mut entries = self.lock();
        if entries.entries.get(&id).is_some_and(|entry| entry.parent == parent && *entry.name == *name) {
            return;
        }
        entries.deleted.remove(&id);
        entries.parents.remove(&id);
        let entry = IndexEntry { parent, name: name.into(), is_used: false };
        if entries.entries.insert(id, entry).is_none() {
            entries.order.push_back(id);
            entries.evict_names();
        }
    }

    pub(crate) fn record_deleted(&self, key: &FileKey) {
        let mut entries = self.lock();
        entries.entries.remove(&key_hash(key));
        entries.parents.remove(&key_hash(key));
        if entries.deleted.len() >= DELETED_MAX {
            entries.deleted.clear();
        }
        entries.deleted.insert(key_hash(key));
    }

    pub(crate) fn route(&self, mut id: u64, root: u64) -> Option<Route> {
        let mut entries = self.lock();
        let mut names = Vec::new();
        while id != root {
            let Some(entry) = entries.entries.get_mut(&id) else {
                return entries.parents.get(&id).map(|&dir| Route::Read { dir, id });
            };
            entry.is_used = true;
            names.push(entry.name.clone());
            id = entry.parent;
            if names.len() > LEVELS_MAX {
                return None;
            }
        }
        Some(Route::Names(names))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }
}

impl Entries {
    /// Evicts names above the limit: the oldest that were not used since. Their directories stay.
    fn evict_names(&mut self) {
        while self.order.len() > NAMES_MAX {
            let Some(id) = self.order.pop_front() else { return };
            match self.entries.get_mut(&id) {
                Some(entry) if entry.is_used => {
                    entry.is_used = false;
                    self.order.push_back(id);
                }
                Some(entry) => {
                    let parent = entry.parent;
                    self.entries.remove(&id);
                    if self.parents.len() >= PARENTS_MAX {
                        self.parents.clear();
                    }
                    self.parents.insert(id, parent);
                }
                None => {}
            }
        }
    }
}

pub(crate) fn key_hash(key: &FileKey) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

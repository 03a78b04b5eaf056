//! Where keys are found when the process may not open by handle: a name for every key that was given out lately, and for
//! many more the directory that has it.
//!
//! Nothing is written: after a restart the tree is scanned, one directory at a time, until the key turns up. A name is
//! only a hint. Whatever is opened by it counts only if its key is the one that was sought.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::MutexGuard;
use vfs::FileKey;
use vfs::sync::Mutex;

/// Deeper than anybody can name with PATH_MAX; also ends a circle of outdated places.
pub(crate) const LEVELS_MAX: usize = 4096;
/// Keys known to be gone that are remembered, to spare a scan for each.
const DELETED_MAX: usize = 65_536;
/// Names that are remembered: about 8 MiB.
const NAMES_MAX: usize = 65_536;
/// Files of which only the directory is remembered. A table of this size takes 17 MiB; past it, it starts afresh, and
/// what it has lost is found by a scan.
const PARENTS_MAX: usize = (1 << 20) / 8 * 7;

/// Where files are. Keys are held as 64-bit hashes, which the check of the opened file makes safe.
#[derive(Default)]
pub(crate) struct Index {
    entries: Mutex<Entries>,
    /// Directories that the scan under way has still to read.
    pub(crate) scan: Mutex<Vec<u64>>,
}

/// What is remembered.
#[derive(Default)]
pub(crate) struct Entries {
    entries: HashMap<u64, IndexEntry>,
    /// The order in which the places came to be known; some are gone.
    order: VecDeque<u64>,
    /// The directories of files whose names were known before.
    parents: HashMap<u64, u64>,
    pub(crate) deleted: HashSet<u64>,
}

struct IndexEntry {
    parent: u64,
    name: Box<[u8]>,
    /// A file was sought by it since it came to be known.
    is_used: bool,
}

/// How to get to a file.
pub(crate) enum Route {
    /// By these names, the last one first.
    Names(Vec<Box<[u8]>>),
    /// A directory on the way must first be read to learn the name of an id in it.
    Read { dir: u64, id: u64 },
}

impl Index {
    /// Notes that `name` in the directory `parent` is the file of `key`.
    pub(crate) fn record(&self, key: &FileKey, parent: &FileKey, name: &[u8]) {
        self.record_id(key_hash(key), key_hash(parent), name);
    }

    /// As [`Index::record`], by the hashes.
    pub(crate) fn record_id(&self, id: u64, parent: u64, name: &[u8]) {
        let mut known = self.known();
        if known.entries.get(&id).is_some_and(|entry| entry.parent == parent && *entry.name == *name) {
            return;
        }
        known.deleted.remove(&id);
        known.parents.remove(&id);
        let entry = IndexEntry { parent, name: name.into(), is_used: false };
        if known.entries.insert(id, entry).is_none() {
            known.order.push_back(id);
            known.evict_names();
        }
    }

    /// Notes that the file of `key` has no name left.
    pub(crate) fn record_deleted(&self, key: &FileKey) {
        let mut known = self.known();
        known.entries.remove(&key_hash(key));
        known.parents.remove(&key_hash(key));
        if known.deleted.len() >= DELETED_MAX {
            known.deleted.clear();
        }
        known.deleted.insert(key_hash(key));
    }

    /// What leads from the root to `id`.
    pub(crate) fn route(&self, mut id: u64, root: u64) -> Option<Route> {
        let mut known = self.known();
        let mut names = Vec::new();
        while id != root {
            let Some(entry) = known.entries.get_mut(&id) else {
                return known.parents.get(&id).map(|&dir| Route::Read { dir, id });
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

    pub(crate) fn known(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }
}

impl Entries {
    /// Keeps the names within their bound: those go that came first and were not used since. Their directories stay.
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

/// What a key is known by.
pub(crate) fn key_hash(key: &FileKey) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

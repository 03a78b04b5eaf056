//! Where keys are found when the process may not open by handle: a name for every key that was given out lately, and for
//! many more the directory that has it.
//!
//! Nothing is written: after a restart the tree is scanned, one directory at a time, until the key turns up. A name is
//! only a hint. Whatever is opened by it counts only if its key is the one that was sought.

use crate::error::refused;
use crate::mount::Mount;
use rustix::fs::{FileType as Kind, Mode, OFlags, RawDir, openat, statat};
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use vfs::{Blocking, FileKey, FsError, FsResult};

/// Deeper than anybody can name with PATH_MAX; also ends a circle of outdated places.
const LEVELS_MAX: usize = 4096;
/// Keys known to be gone that are remembered, to spare a scan for each.
const GONE_MAX: usize = 65_536;
/// Names that are remembered: about 8 MiB.
const PLACES_MAX: usize = 65_536;
/// Files of which only the directory is remembered. A table of this size takes 17 MiB; past it, it starts afresh, and
/// what it has lost is found by a scan.
const PARENTS_MAX: usize = (1 << 20) / 8 * 7;
/// Bytes of entries taken from the kernel at once.
const READ_BYTES: usize = 32 * 1024;

/// Where files are. Keys are held as 64-bit hashes, which the check of the opened file makes safe.
#[derive(Default)]
pub(crate) struct Index {
    known: Mutex<Known>,
    /// Directories that the scan under way has still to read.
    scan: Mutex<Vec<u64>>,
}

#[derive(Default)]
struct Known {
    entries: HashMap<u64, IndexEntry>,
    /// The order in which the places came to be known; some are gone.
    order: VecDeque<u64>,
    /// The directories of files whose names were known before.
    parents: HashMap<u64, u64>,
    gone: HashSet<u64>,
}

struct IndexEntry {
    parent: u64,
    name: Box<[u8]>,
    /// A file was sought by it since it came to be known.
    used: bool,
}

/// How to get to a file.
enum Route {
    /// By these names, the last one first.
    Names(Vec<Box<[u8]>>),
    /// A directory on the way must first be read to learn the name of an id in it.
    Read { dir: u64, id: u64 },
}

impl Index {
    /// Notes that `name` in the directory `parent` is the file of `key`.
    pub(crate) fn record(&self, key: &FileKey, parent: &FileKey, name: &[u8]) {
        self.record_id(id(key), id(parent), name);
    }

    fn record_id(&self, id: u64, parent: u64, name: &[u8]) {
        let mut known = self.known();
        if known.entries.get(&id).is_some_and(|entry| entry.parent == parent && *entry.name == *name) {
            return;
        }
        known.gone.remove(&id);
        known.parents.remove(&id);
        let entry = IndexEntry { parent, name: name.into(), used: false };
        if known.entries.insert(id, entry).is_none() {
            known.order.push_back(id);
            known.forget_names();
        }
    }

    /// Notes that the file of `key` has no name left.
    pub(crate) fn forget(&self, key: &FileKey) {
        let mut known = self.known();
        known.entries.remove(&id(key));
        known.parents.remove(&id(key));
        if known.gone.len() >= GONE_MAX {
            known.gone.clear();
        }
        known.gone.insert(id(key));
    }

    /// What leads from the root to `id`.
    fn route(&self, mut id: u64, root: u64) -> Option<Route> {
        let mut known = self.known();
        let mut names = Vec::new();
        while id != root {
            let Some(entry) = known.entries.get_mut(&id) else {
                return known.parents.get(&id).map(|&dir| Route::Read { dir, id });
            };
            entry.used = true;
            names.push(entry.name.clone());
            id = entry.parent;
            if names.len() > LEVELS_MAX {
                return None;
            }
        }
        Some(Route::Names(names))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Keeps the names within their bound: those go that came first and were not used since. Their directories stay.
    fn forget_names(&mut self) {
        while self.order.len() > PLACES_MAX {
            let Some(id) = self.order.pop_front() else { return };
            match self.entries.get_mut(&id) {
                Some(entry) if entry.used => {
                    entry.used = false;
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

fn id(key: &FileKey) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

impl Mount {
    /// Names the file of `key` with an `O_PATH`, by its last known place, else by a scan.
    pub(crate) fn locate(&self, index: &Index, key: &FileKey) -> FsResult<OwnedFd> {
        let sought = id(key);
        if let Some(fd) = self.walk_to(index, sought, key) {
            return Ok(fd);
        }
        if index.known().gone.contains(&sought) {
            return Err(FsError::Stale);
        }
        let mut scan = index.scan.lock().unwrap_or_else(PoisonError::into_inner);
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
                    scan.push(id(&self.root_key));
                }
            }
        }
        drop(scan);
        index.forget(key);
        Err(FsError::Stale)
    }

    fn walk_to(&self, index: &Index, sought: u64, key: &FileKey) -> Option<OwnedFd> {
        let fd = self.walk(index, sought).ok()?;
        (self.key_at(fd.as_fd(), b"").ok()? == *key).then_some(fd)
    }

    /// Opens what lies at the known place of `sought`.
    fn walk(&self, index: &Index, sought: u64) -> FsResult<OwnedFd> {
        let root = id(&self.root_key);
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
            let child = id(&key);
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

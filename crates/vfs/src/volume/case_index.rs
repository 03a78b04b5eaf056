//! Lookup of names regardless of case, for protocols that ignore it.
//!
//! A directory is listed once and its names are indexed under its change number, so that a change from outside this
//! process is noticed. A change through this process updates the index ([`CaseIndexes::changed`]) with the directory's
//! attributes before and after. So a directory that is being filled is not listed again for each new name. Where
//! nothing is indexed, an update is one atomic load.

use crate::file_key::FileKey;
use crate::model::attrs::Change;
use crate::sync::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maps all spellings of a name to one form; `None` for a name that is not valid in the protocol.
pub type Fold = fn(&[u8]) -> Option<Vec<u8>>;

/// Memory for the names of one volume's directories.
const BYTES_MAX: usize = 16 << 20;
/// Memory of a name besides its bytes.
const NAME_BYTES: usize = 48;
const DIRS_MAX: usize = 1024;
/// Indexes of one volume under construction at a time, each limited to the memory of all finished ones.
/// Further lookups scan without building an index.
const BUILDS_MAX: usize = 4;

/// The case indexes of one volume's directories.
#[derive(Default)]
pub(crate) struct CaseIndexes {
    /// Entries of `cached`, including unfinished ones.
    count: AtomicUsize,
    cached: Mutex<CachedIndexes>,
    hasher: RandomState,
    builds: AtomicUsize,
}

#[derive(Default)]
struct CachedIndexes {
    dirs: HashMap<FileKey, Dir>,
    bytes: usize,
    /// Counts uses, so that the least recently used index is evicted first.
    clock: u64,
}

struct Dir {
    /// The directory's change number of these names.
    change: u64,
    state: State,
    used: u64,
}

enum State {
    /// Being listed; the changes since the listing began.
    Listing(Vec<(Change, NameChange)>),
    Indexed {
        fold: Fold,
        names: Names,
    },
}

/// Names by the hash of their folded form.
#[derive(Default)]
struct Names {
    by_hash: BTreeSet<(u64, Box<[u8]>)>,
    bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NameChange {
    Added(Box<[u8]>),
    Removed(Box<[u8]>),
}

/// The limit of changes during a listing.
const MISSED_MAX: usize = 4096;

pub(crate) enum CaseLookup<'i> {
    /// The stored name, or `None` if no name matches.
    Stored(Option<Vec<u8>>),
    /// The directory must be listed. Collect the names in the build, unless other threads do.
    NotIndexed(Option<IndexBuild<'i>>),
}

/// The unfinished index of a directory that is being listed.
pub(crate) struct IndexBuild<'i> {
    indexes: &'i CaseIndexes,
    dir: FileKey,
    /// The directory's change number when the listing began.
    change: u64,
    fold: Fold,
    names: Names,
    is_finished: bool,
}

impl CaseIndexes {
    /// The stored name in a directory that equals `name` under `fold`, if known for the state `change`.
    pub(crate) fn find(&self, dir: &FileKey, change: u64, name: &[u8], fold: Fold) -> CaseLookup<'_> {
        let Some(wanted) = fold(name) else { return CaseLookup::Stored(None) };
        let mut cached = self.cached();
        cached.clock += 1;
        let clock = cached.clock;
        if let Some(Dir { change: of, state: State::Indexed { fold: by, names }, used }) =
            cached.dirs.get_mut(dir)
            && *of == change
            && std::ptr::fn_addr_eq(*by, fold)
        {
            *used = clock;
            return CaseLookup::Stored(names.find(self.hasher.hash_one(&wanted[..]), &wanted, fold));
        }
        let is_being_built = |entry: &Dir| entry.change == change && matches!(entry.state, State::Listing(_));
        if cached.dirs.get(dir).is_some_and(is_being_built)
            || self.builds.load(Ordering::SeqCst) >= BUILDS_MAX
        {
            return CaseLookup::NotIndexed(None);
        }
        if cached.remove(dir).is_none() {
            self.count.fetch_add(1, Ordering::SeqCst);
        }
        cached.dirs.insert(*dir, Dir { change, state: State::Listing(Vec::new()), used: clock });
        self.builds.fetch_add(1, Ordering::SeqCst);
        let (dir, names) = (*dir, Names::default());
        CaseLookup::NotIndexed(Some(IndexBuild {
            indexes: self,
            dir,
            change,
            fold,
            names,
            is_finished: false,
        }))
    }

    /// Keeps the names that a listing has found, which began at the state `change`.
    fn install(&self, dir: &FileKey, change: u64, mut names: Names, fold: Fold) {
        let mut cached = self.cached();
        let missed = match cached.dirs.get_mut(dir) {
            Some(Dir { change: of, state: State::Listing(missed), .. }) if *of == change => {
                std::mem::take(missed)
            }
            // Another thread lists it too, or the entry was evicted.
            _ => return,
        };
        let mut at = change;
        for (change, what) in missed {
            if change.before.change != at {
                return self.forget(&mut cached, dir);
            }
            names.apply(what, fold, &self.hasher);
            at = change.after.change;
        }
        if names.bytes > BYTES_MAX {
            return self.forget(&mut cached, dir);
        }
        cached.bytes += names.bytes;
        if let Some(entry) = cached.dirs.get_mut(dir) {
            (entry.state, entry.change) = (State::Indexed { fold, names }, at);
        }
        while cached.bytes > BYTES_MAX || cached.dirs.len() > DIRS_MAX {
            let others = cached.dirs.iter().filter(|(key, _)| *key != dir);
            let Some(oldest) = others.min_by_key(|(_, entry)| entry.used).map(|(key, _)| *key) else {
                return;
            };
            self.forget(&mut cached, &oldest);
        }
    }

    /// Updates the index after a change through this process.
    #[inline]
    pub(crate) fn changed(&self, dir: &FileKey, change: &Change, what: impl FnOnce() -> Vec<NameChange>) {
        if self.count.load(Ordering::SeqCst) > 0 {
            self.apply(dir, change, what());
        }
    }

    #[cold]
    fn apply(&self, dir: &FileKey, change: &Change, what: Vec<NameChange>) {
        let mut cached = self.cached();
        let CachedIndexes { dirs, bytes, .. } = &mut *cached;
        let Some(entry) = dirs.get_mut(dir) else { return };
        let is_finished = match &mut entry.state {
            State::Listing(missed) => {
                // All of one change: the later ones of it begin where the first has ended.
                let mut at = *change;
                for what in what {
                    missed.push((at, what));
                    at.before = at.after;
                }
                missed.len() <= MISSED_MAX
            }
            State::Indexed { .. } if entry.change != change.before.change => false,
            State::Indexed { fold, names } => {
                *bytes -= names.bytes;
                for what in what {
                    names.apply(what, *fold, &self.hasher);
                }
                *bytes += names.bytes;
                entry.change = change.after.change;
                *bytes <= BYTES_MAX
            }
        };
        if !is_finished {
            self.forget(&mut cached, dir);
        }
    }

    fn abandon(&self, dir: &FileKey, change: u64) {
        let mut cached = self.cached();
        let is_its = |entry: &Dir| entry.change == change && matches!(entry.state, State::Listing(_));
        if cached.dirs.get(dir).is_some_and(is_its) {
            self.forget(&mut cached, dir);
        }
    }

    fn forget(&self, cached: &mut CachedIndexes, dir: &FileKey) {
        if cached.remove(dir).is_some() {
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn cached(&self) -> MutexGuard<'_, CachedIndexes> {
        self.cached.lock()
    }
}

impl IndexBuild<'_> {
    /// Adds a name with its folded form. `None` once the index exceeds its memory.
    pub(crate) fn with(mut self, name: &[u8], folded: Option<&[u8]>) -> Option<Self> {
        if let Some(folded) = folded {
            self.names.insert(self.indexes.hasher.hash_one(folded), name.into());
        }
        (self.names.bytes <= BYTES_MAX).then_some(self)
    }

    pub(crate) fn finish(mut self) {
        self.is_finished = true;
        self.indexes.install(&self.dir, self.change, std::mem::take(&mut self.names), self.fold);
    }
}

impl Drop for IndexBuild<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.indexes.abandon(&self.dir, self.change);
        }
        self.indexes.builds.fetch_sub(1, Ordering::SeqCst);
    }
}

impl CachedIndexes {
    fn remove(&mut self, dir: &FileKey) -> Option<Dir> {
        let entry = self.dirs.remove(dir)?;
        if let State::Indexed { names, .. } = &entry.state {
            self.bytes -= names.bytes;
        }
        Some(entry)
    }
}

impl Names {
    fn add(&mut self, name: Box<[u8]>, fold: Fold, hasher: &RandomState) {
        if let Some(folded) = fold(&name) {
            self.insert(hasher.hash_one(&folded[..]), name);
        }
    }

    fn insert(&mut self, hash: u64, name: Box<[u8]>) {
        let bytes = NAME_BYTES + name.len();
        if self.by_hash.insert((hash, name)) {
            self.bytes += bytes;
        }
    }

    fn apply(&mut self, what: NameChange, fold: Fold, hasher: &RandomState) {
        match what {
            NameChange::Added(name) => self.add(name, fold, hasher),
            NameChange::Removed(name) => {
                let Some(folded) = fold(&name) else { return };
                let bytes = NAME_BYTES + name.len();
                if self.by_hash.remove(&(hasher.hash_one(&folded[..]), name)) {
                    self.bytes -= bytes;
                }
            }
        }
    }

    /// Returns the first name whose folded form is `wanted`.
    fn find(&self, hash: u64, wanted: &[u8], fold: Fold) -> Option<Vec<u8>> {
        let from = Bound::Included((hash, Box::default()));
        let same_hash = self.by_hash.range((from, Bound::Unbounded)).take_while(|(other, _)| *other == hash);
        let mut like = same_hash.filter(|(_, name)| fold(name).as_deref() == Some(wanted));
        like.next().map(|(_, name)| name.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::attrs::{Attrs, Device, FileType, Time};

    fn lower(name: &[u8]) -> Option<Vec<u8>> {
        (name != b"no name").then(|| name.to_ascii_lowercase())
    }

    fn key(number: u8) -> FileKey {
        FileKey::new(&[number]).unwrap()
    }

    fn change(before: u64, after: u64) -> Change {
        let time = Time::default();
        let at = |change| Attrs {
            file_type: FileType::Directory,
            mode: 0o755,
            links: 2,
            uid: 0,
            gid: 0,
            size: 0,
            used: 0,
            device: Device::default(),
            file_id: 1,
            accessed: time,
            modified: time,
            changed: time,
            change,
            born: None,
            view: crate::file_key::ViewId::LIVE,
        };
        Change { before: at(before), after: at(after) }
    }

    fn added(name: &str) -> Vec<NameChange> {
        vec![NameChange::Added(name.as_bytes().into())]
    }

    /// Begins to list a directory.
    fn list<'i>(indexes: &'i CaseIndexes, dir: &FileKey, change: u64) -> Option<IndexBuild<'i>> {
        match indexes.find(dir, change, b"x", lower) {
            CaseLookup::Stored(found) => panic!("it is known to have {found:?}"),
            CaseLookup::NotIndexed(gathering) => gathering,
        }
    }

    /// Finds these names and no more.
    fn end(mut gathering: IndexBuild<'_>, names: &[&str]) {
        for name in names {
            gathering = gathering.with(name.as_bytes(), lower(name.as_bytes()).as_deref()).unwrap();
        }
        gathering.finish();
    }

    /// Looks up a name; `None` if the directory has to be listed.
    fn find(indexes: &CaseIndexes, change: u64, name: &str) -> Option<Option<String>> {
        match indexes.find(&key(1), change, name.as_bytes(), lower) {
            CaseLookup::Stored(stored) => Some(stored.map(|name| String::from_utf8(name).unwrap())),
            CaseLookup::NotIndexed(_) => None,
        }
    }

    #[test]
    fn a_directory_is_listed_once_for_each_of_its_states() {
        let indexes = CaseIndexes::default();
        end(list(&indexes, &key(1), 7).unwrap(), &["abc", "no name", "Other"]);
        assert_eq!(find(&indexes, 7, "ABC"), Some(Some("abc".into())));
        assert_eq!(find(&indexes, 7, "oTHER"), Some(Some("Other".into())));
        assert_eq!(find(&indexes, 7, "abcd"), Some(None));
        assert_eq!(find(&indexes, 7, "no name"), Some(None));
        let before = list(&indexes, &key(1), 8).expect("somebody else has changed it");
        let after = list(&indexes, &key(1), 9).unwrap();
        end(before, &["abc"]);
        assert_eq!(find(&indexes, 9, "abc"), None, "that listing was of another state");
        end(after, &["abc"]);
        assert_eq!(find(&indexes, 9, "abc"), Some(Some("abc".into())));
    }

    #[test]
    fn changes_that_are_told_need_no_listing() {
        let indexes = CaseIndexes::default();
        let gathering = list(&indexes, &key(1), 1).unwrap();
        indexes.changed(&key(1), &change(1, 2), || added("New"));
        end(gathering, &["old"]);
        assert_eq!(find(&indexes, 2, "NEW"), Some(Some("New".into())), "it came while it was install");
        indexes.changed(&key(1), &change(2, 3), || vec![NameChange::Removed(b"New"[..].into())]);
        indexes.changed(&key(1), &change(3, 4), || added("Third"));
        assert_eq!(find(&indexes, 4, "new"), Some(None));
        assert_eq!(find(&indexes, 4, "third"), Some(Some("Third".into())));
        indexes.changed(&key(2), &change(4, 5), || added("x"));
        assert_eq!(find(&indexes, 4, "third"), Some(Some("Third".into())), "that was another directory");
        indexes.changed(&key(1), &change(5, 6), || added("x"));
        assert_eq!(find(&indexes, 6, "x"), None, "something between was not told");
    }

    #[test]
    fn a_gap_while_it_is_listed_lets_the_listing_go() {
        let indexes = CaseIndexes::default();
        let gathering = list(&indexes, &key(1), 1).unwrap();
        indexes.changed(&key(1), &change(2, 3), || added("b"));
        end(gathering, &["a"]);
        let again = list(&indexes, &key(1), 3).unwrap();
        assert_eq!(indexes.count.load(Ordering::SeqCst), 1);
        drop(again);
        assert_eq!(indexes.count.load(Ordering::SeqCst), 0, "what is not install to its end is not cached");
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_goes_first() {
        let indexes = CaseIndexes::default();
        let many = |dir: u8| {
            let names: Vec<String> = (0..80_000u32).map(|n| format!("{n:0100}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            end(list(&indexes, &key(dir), 1).unwrap(), &names);
        };
        many(1);
        many(2);
        let cached = indexes.cached();
        assert!(cached.bytes <= BYTES_MAX && cached.dirs.len() == 1 && cached.dirs.contains_key(&key(2)));
        drop(cached);
        for dir in 0..=255u8 {
            for second in 0..8u8 {
                let dir = FileKey::new(&[dir, second]).unwrap();
                end(list(&indexes, &dir, 1).unwrap(), &["a"]);
            }
        }
        assert!(indexes.cached().dirs.len() <= DIRS_MAX);
        assert_eq!(indexes.count.load(Ordering::SeqCst), indexes.cached().dirs.len());
    }

    /// An oversized listing stops at the limit and leaves no names in memory.
    #[test]
    fn names_of_a_large_directory_are_let_go_while_it_is_listed() {
        let indexes = CaseIndexes::default();
        let mut gathering = list(&indexes, &key(1), 1);
        let mut most = 0;
        for number in 0..200_000u32 {
            let name = format!("{number:0100}").into_bytes();
            gathering = gathering.take().and_then(|gathering| gathering.with(&name, Some(&name)));
            most = most.max(gathering.as_ref().map_or(0, |gathering| gathering.names.bytes));
        }
        assert!(gathering.is_none() && most > BYTES_MAX / 2 && most <= BYTES_MAX);
        assert!(indexes.cached().dirs.is_empty());
        assert_eq!(indexes.count.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn one_gathers_the_names_of_a_directory_and_few_do_at_one_time() {
        let indexes = CaseIndexes::default();
        let dirs: Vec<FileKey> = (0..=u8::try_from(BUILDS_MAX).unwrap()).map(key).collect();
        let mut first: Vec<_> = dirs[1..].iter().map(|dir| list(&indexes, dir, 1).unwrap()).collect();
        assert!(list(&indexes, &dirs[1], 1).is_none(), "somebody does so already");
        assert!(list(&indexes, &dirs[0], 1).is_none(), "too many do");
        first.drain(..).for_each(|gathering| end(gathering, &["a"]));
        assert_eq!(find(&indexes, 1, "A"), Some(Some("a".into())));
        end(list(&indexes, &dirs[0], 1).unwrap(), &["b"]);
    }
}

//! Per-thread caches of recent calls: opened handles, resolved names and credentials.
//!
//! Each thread has its own caches, so the cached path takes no lock. Entries are validated on use.
//! A handle is valid while its export is unchanged in the namespace and its file has a name.
//! A name is valid while the directory's change time is unchanged.
//! A cached handle keeps its file open, so the number of descriptors bounds the handles.
//! A cached name keeps nothing open.

mod credentials;

pub use credentials::{CredentialCache, decode as decode_credential};

use super::{Handle, HandleSigner};
use crate::call_stats::ThreadCounters;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;
use vfs::{Attrs, Export, File, Namespace, Time, Volume};

pub struct CachedFile {
    pub handle: Rc<Handle>,
    pub file: File,
}

impl AsRef<Volume> for CachedFile {
    #[inline]
    fn as_ref(&self) -> &Volume {
        self.file.volume()
    }
}

pub struct HandleCache {
    handles: Table<Rc<CachedFile>>,
    names: Table<NameEntry>,
    pub credentials: CredentialCache,
    pub counts: Option<Box<ThreadCounters>>,
    hasher: RandomState,
    secret: u64,
    hits: u64,
    misses: u64,
}

struct NameEntry {
    dir: Rc<Handle>,
    dir_changed: Time,
    name: Box<[u8]>,
    /// `None`: the name does not exist.
    found: Option<Rc<Handle>>,
}

impl NameEntry {
    fn is(&self, dir: &CachedFile, name: &[u8]) -> bool {
        *self.name == *name && (Rc::ptr_eq(&self.dir, &dir.handle) || self.dir == dir.handle)
    }
}

/// Minimum age of a directory's last change before its names are cached.
/// File systems stamp by the timer tick (1 to 10 ms), so the next change could leave the change time the same.
const SETTLED_NS: i128 = 20_000_000;

impl HandleCache {
    pub fn new(handles: usize, names: usize, credentials: usize) -> Self {
        let credentials = CredentialCache::new(credentials);
        let (handles, names, hasher) = (Table::new(handles), Table::new(names), RandomState::new());
        let secret = hasher.hash_one("handles");
        Self { handles, names, credentials, counts: None, hasher, secret, hits: 0, misses: 0 }
    }

    /// The file of a recently opened handle.
    #[inline]
    pub fn handle(&mut self, handle: &[u8]) -> Option<Rc<CachedFile>> {
        let hash = self.handle_hash(handle);
        let found = self.handles.find(hash, |opened| opened.handle.bytes() == handle).map(Rc::clone);
        if found.is_some() {
            self.hits += 1;
        } else {
            self.misses += 1;
        }
        found
    }

    /// Cache hits and misses of handles since the last call.
    pub fn take_counts(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.hits), std::mem::take(&mut self.misses))
    }

    pub fn add_handle(&mut self, opened: &Rc<CachedFile>) {
        let hash = self.handle_hash(opened.handle.bytes());
        self.handles.insert(hash, Rc::clone(opened));
    }

    pub fn forget_handle(&mut self, handle: &[u8]) {
        let hash = self.handle_hash(handle);
        self.handles.remove(hash, |opened| opened.handle.bytes() == handle);
    }

    /// The cached result of looking `name` up in `dir`, if `dir_attrs.changed` is unchanged.
    /// The inner `None` is a cached absence.
    #[inline]
    pub fn name(&mut self, dir: &CachedFile, dir_attrs: &Attrs, name: &[u8]) -> Option<Option<Rc<Handle>>> {
        let hash = self.name_hash(dir, name);
        let entry = self.names.find(hash, |entry| entry.is(dir, name))?;
        (entry.dir_changed == dir_attrs.changed).then(|| entry.found.clone())
    }

    /// Caches a lookup, if the directory has not changed recently.
    pub fn add_name(
        &mut self,
        dir: &CachedFile,
        dir_attrs: &Attrs,
        name: &[u8],
        found: Option<&CachedFile>,
        now: Time,
    ) {
        if now.as_nanos() - dir_attrs.changed.as_nanos() < SETTLED_NS {
            return;
        }
        let hash = self.name_hash(dir, name);
        // Without a duplicate, an older result cannot reappear.
        self.names.remove(hash, |entry| entry.is(dir, name));
        let entry = NameEntry {
            dir: Rc::clone(&dir.handle),
            dir_changed: dir_attrs.changed,
            name: name.into(),
            found: found.map(|found| Rc::clone(&found.handle)),
        };
        self.names.insert(hash, entry);
    }

    /// Replaces the namespace: drops the entries of exports that changed or disappeared.
    pub fn change(&mut self, old: &Namespace, new: &Namespace) {
        let is_served =
            |export: &Arc<Export>| new.export(export.id).is_some_and(|now| Arc::ptr_eq(now, export));
        self.handles.retain(|opened| is_served(opened.file.export()));
        self.credentials.retain(is_served);
        self.names.retain(|entry| {
            let of = |namespace: &'_ Namespace| {
                let export = HandleSigner::claimed_export(entry.dir.bytes())?;
                namespace.export(export).map(Arc::as_ptr)
            };
            of(new).is_some_and(|now| of(old) == Some(now))
        });
    }

    /// Drops entries not used since the last sweep, so that files deleted elsewhere are closed.
    pub fn sweep(&mut self) {
        self.handles.sweep();
        self.names.sweep();
        self.credentials.sweep();
    }

    /// The MAC is already uniform. The secret keeps clients from choosing files that evict each other.
    #[inline]
    fn handle_hash(&self, handle: &[u8]) -> u64 {
        (HandleSigner::claimed_mac(handle) ^ self.secret).wrapping_mul(0x9e37_79b9_7f4a_7c15).swap_bytes()
    }

    #[inline]
    fn name_hash(&self, dir: &CachedFile, name: &[u8]) -> u64 {
        self.hasher.hash_one((HandleSigner::claimed_mac(dir.handle.bytes()), name))
    }
}

/// A set-associative table: four slots per hash, of which the least recently used is replaced.
struct Table<V> {
    sets: Vec<[Option<Slot<V>>; WAYS]>,
    clock: u32,
}

struct Slot<V> {
    hash: u64,
    used: u32,
    value: V,
}

const WAYS: usize = 4;

impl<V> Table<V> {
    fn new(entries: usize) -> Self {
        let sets = entries.div_ceil(WAYS).next_power_of_two();
        Self { sets: (0..sets).map(|_| [const { None }; WAYS]).collect(), clock: 1 }
    }

    fn set(&mut self, hash: u64) -> &mut [Option<Slot<V>>; WAYS] {
        // The mask keeps only the low bits, so truncation is harmless.
        #[expect(clippy::cast_possible_truncation, reason = "masked to the table's size")]
        let place = hash as usize & (self.sets.len() - 1);
        &mut self.sets[place]
    }

    #[inline]
    fn find(&mut self, hash: u64, is_it: impl Fn(&V) -> bool) -> Option<&V> {
        let clock = self.clock;
        let slot =
            self.set(hash).iter_mut().flatten().find(|slot| slot.hash == hash && is_it(&slot.value))?;
        slot.used = clock;
        Some(&slot.value)
    }

    fn insert(&mut self, hash: u64, value: V) {
        let slot = Slot { hash, used: self.clock, value };
        let set = self.set(hash);
        let place = set.iter().enumerate().min_by_key(|(_, slot)| slot.as_ref().map_or(0, |slot| slot.used));
        let place = place.map_or(0, |(place, _)| place);
        set[place] = Some(slot);
    }

    fn remove(&mut self, hash: u64, is_it: impl Fn(&V) -> bool) {
        for slot in self.set(hash) {
            if slot.as_ref().is_some_and(|slot| slot.hash == hash && is_it(&slot.value)) {
                *slot = None;
            }
        }
    }

    fn retain(&mut self, is_kept: impl Fn(&V) -> bool) {
        for slot in self.sets.iter_mut().flatten() {
            if slot.as_ref().is_some_and(|slot| !is_kept(&slot.value)) {
                *slot = None;
            }
        }
    }

    fn sweep(&mut self) {
        let oldest = self.clock;
        for slot in self.sets.iter_mut().flatten() {
            if slot.as_ref().is_some_and(|slot| slot.used < oldest) {
                *slot = None;
            }
        }
        self.clock += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_keeps_what_is_used() {
        let mut table = Table::new(4);
        for n in 0..4u64 {
            table.insert(n, n);
        }
        table.sweep();
        assert!(table.find(2, |&v| v == 2).is_some());
        table.insert(9, 9);
        assert!(table.find(2, |&v| v == 2).is_some(), "used since: another one went");
        table.sweep();
        table.sweep();
        assert!(table.find(2, |&v| v == 2).is_none(), "unused for two sweeps");
    }

    #[test]
    fn equal_hashes_are_told_apart() {
        let mut table = Table::new(4);
        table.insert(1, "a");
        table.insert(1, "b");
        assert_eq!(table.find(1, |&v| v == "b"), Some(&"b"));
        table.remove(1, |&v| v == "b");
        assert_eq!(table.find(1, |&v| v == "b"), None);
        assert_eq!(table.find(1, |&v| v == "a"), Some(&"a"));
    }
}

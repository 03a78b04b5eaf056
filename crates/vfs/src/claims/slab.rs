//! [`Slab`]: entries by number, in as little memory as they need.

use std::ops::{Index, IndexMut};

pub(super) const NIL: u32 = u32::MAX;

/// The size below which a slab is not compacted.
const SMALL: usize = 64;

/// An entry with room for a number, which is used while the entry is free.
pub(super) trait Entry {
    fn next_free(&mut self) -> &mut u32;
}

/// Entries that keep their numbers. Numbers of removed entries are assigned again.
#[derive(Debug)]
pub(super) struct Slab<E> {
    entries: Vec<E>,
    free: u32,
    count: u32,
}

impl<E> Default for Slab<E> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: NIL, count: 0 }
    }
}

impl<E> Slab<E> {
    pub(super) fn len(&self) -> usize {
        self.count as usize
    }

    pub(super) fn get(&self, at: u32) -> Option<&E> {
        self.entries.get(at as usize)
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut E> {
        self.entries.get_mut(at as usize)
    }

    /// Whether the memory is sparse enough to move the entries to a smaller one.
    pub(super) fn is_sparse(&self) -> bool {
        self.entries.len() > SMALL && self.len() < self.entries.len() / 4
    }

    /// All entries in the order of their numbers, the free ones as well.
    pub(super) fn iter(&self) -> impl Iterator<Item = &E> {
        self.entries.iter()
    }
}

impl<E: Entry> Slab<E> {
    pub(super) fn insert(&mut self, entry: E) -> u32 {
        self.count += 1;
        if let Some(free) = self.entries.get_mut(self.free as usize) {
            let next = *free.next_free();
            *free = entry;
            return std::mem::replace(&mut self.free, next);
        }
        if self.entries.len() == self.entries.capacity() {
            // Most files have one range at most, and many ranges waste no more than a fifth of their memory.
            self.entries.reserve_exact((self.entries.len() / 4).max(1));
        }
        self.entries.push(entry);
        u32::try_from(self.entries.len() - 1).unwrap_or(NIL)
    }

    pub(super) fn remove(&mut self, at: u32) {
        self.count -= 1;
        if self.count == 0 {
            // A file that had many ranges once need not have their memory.
            *self = Self::default();
            return;
        }
        *self[at].next_free() = self.free;
        self.free = at;
    }
}

impl<E> Index<u32> for Slab<E> {
    type Output = E;

    fn index(&self, at: u32) -> &E {
        &self.entries[at as usize]
    }
}

impl<E> IndexMut<u32> for Slab<E> {
    fn index_mut(&mut self, at: u32) -> &mut E {
        &mut self.entries[at as usize]
    }
}

//! Names that are being made. Two that differ by case alone are one name to clients: who makes one looks for the other first, and
//! nobody makes that meanwhile. NFS makes both if it wants to, and so does a client by the rules of Unix.

use crate::limits::NAME_LOCKS;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::MutexGuard;
use vfs::File;
use vfs::sync::Mutex;

/// Locks of names. All spellings of one have the same lock; others may share it, so nobody takes a second one.
pub(crate) struct NameLocks {
    locks: Box<[Mutex<()>]>,
    hasher: RandomState,
}

/// Held from before a name is looked for until it is made.
pub(crate) type NameLock<'l> = MutexGuard<'l, ()>;

impl Default for NameLocks {
    fn default() -> Self {
        let locks = std::iter::repeat_with(Mutex::default).take(NAME_LOCKS).collect();
        Self { locks, hasher: RandomState::default() }
    }
}

impl NameLocks {
    /// Locks what has this spelling in a directory, or among the streams of a file.
    pub(crate) fn lock(&self, of: &File, spelling: impl Hash) -> NameLock<'_> {
        let hash = self.hasher.hash_one((of.volume().id(), of.key(), spelling));
        let index = usize::try_from(hash % NAME_LOCKS as u64).unwrap_or_default();
        self.locks[index].lock()
    }
}

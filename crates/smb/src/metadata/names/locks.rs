//! Locks of names in creation. To Windows clients, names that differ by case alone are one name, so a creator checks
//! for the other spelling under the lock. NFS and POSIX opens may create both.

use crate::limits::NAME_LOCKS;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::MutexGuard;
use vfs::File;
use vfs::sync::Mutex;

/// All spellings of a name share a lock. Unrelated names may share one too, so a thread must not take two.
pub(crate) struct NameLocks {
    locks: Box<[Mutex<()>]>,
    hasher: RandomState,
}

/// Held from the lookup of a name until its creation.
pub(crate) type NameLock<'l> = MutexGuard<'l, ()>;

impl Default for NameLocks {
    fn default() -> Self {
        let locks = std::iter::repeat_with(Mutex::default).take(NAME_LOCKS).collect();
        Self { locks, hasher: RandomState::default() }
    }
}

impl NameLocks {
    /// Locks a spelling in a directory, or among the streams of a file.
    pub(crate) fn lock(&self, of: &File, spelling: impl Hash) -> NameLock<'_> {
        let hash = self.hasher.hash_one((of.volume().id(), of.key(), spelling));
        let index = usize::try_from(hash % NAME_LOCKS as u64).unwrap_or_default();
        self.locks[index].lock()
    }
}

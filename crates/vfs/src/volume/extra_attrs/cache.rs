//! A cache of extended attribute records, so that repeated reads need no storage.
//!
//! A record belongs to a state of its file, which [`Attrs::change`] numbers. Any change of the record changes that
//! number, so an entry is valid while the number is the same. The cache needs no invalidation.

use super::ExtraAttrs;
use crate::acl::Record;
use crate::backend::xattrs::XattrsSize;
use crate::file_key::FileKey;
use crate::model::attrs::Attrs;
use crate::sync::Mutex;
use std::array;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, MutexGuard};

/// Cached records of all volumes, one for each slot: about 9 MiB.
const SLOTS: usize = 1 << 16;
/// Longer access control lists are not cached but read each time.
/// Cached lists take at most 40 MiB, and 80 MiB more with the longest foreign identifiers.
const ACL_ENTRIES_REMEMBERED: usize = 16;
/// Concurrent record changes. A change reads, then writes; further changes wait.
const CHANGES: usize = 64;

static SLOTS_OF_ALL: LazyLock<Box<[Mutex<CachedExtraAttrs>]>> =
    LazyLock::new(|| (0..SLOTS).map(|_| Mutex::default()).collect());
static CHANGING: LazyLock<[Mutex<()>; CHANGES]> = LazyLock::new(|| array::from_fn(|_| Mutex::default()));
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A record, and the state of a file that it belongs to.
#[derive(Default)]
struct CachedExtraAttrs {
    file: u64,
    change: u64,
    extra: Option<ExtraAttrs>,
    /// The size of the file's extended attributes.
    xattrs: Option<XattrsSize>,
    /// The access control list; `Some(None)` if the file has none.
    acl: Option<Option<Arc<Record>>>,
}

/// The records of one volume's files.
pub(crate) struct ExtraAttrsCache {
    /// A number that no other volume of this process has had.
    volume: u64,
}

impl Default for ExtraAttrsCache {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self { volume: NEXT.fetch_add(1, Ordering::Relaxed) }
    }
}

/// The cache slot of a file.
pub(crate) struct Slot {
    /// A hash of the volume and the key, seeded per process: no client can make another file have it.
    file: u64,
}

impl ExtraAttrsCache {
    pub(crate) fn slot(&self, key: &FileKey) -> Slot {
        // 0 is the file of an empty slot.
        Slot { file: HASHER.hash_one((self.volume, key)).max(1) }
    }
}

impl Slot {
    pub(crate) fn recall(&self, attrs: &Attrs) -> Option<ExtraAttrs> {
        self.of(attrs, |remembered| remembered.extra)
    }

    pub(crate) fn remember(&self, attrs: &Attrs, extra: ExtraAttrs) {
        self.of(attrs, |remembered| remembered.extra = Some(extra));
    }

    pub(crate) fn recall_xattrs(&self, attrs: &Attrs) -> Option<XattrsSize> {
        self.of(attrs, |remembered| remembered.xattrs)
    }

    pub(crate) fn remember_xattrs(&self, attrs: &Attrs, size: XattrsSize) {
        self.of(attrs, |remembered| remembered.xattrs = Some(size));
    }

    /// The file's access control list in this state, or that it has none, if that was read.
    pub(crate) fn recall_acl(&self, attrs: &Attrs) -> Option<Option<Arc<Record>>> {
        self.of(attrs, |remembered| remembered.acl.clone())
    }

    pub(crate) fn remember_acl(&self, attrs: &Attrs, acl: Option<Arc<Record>>) {
        let entries = acl.as_ref().and_then(|record| record.acl.entries.as_ref()).map_or(0, Vec::len);
        if entries <= ACL_ENTRIES_REMEMBERED {
            self.of(attrs, |remembered| remembered.acl = Some(acl));
        }
    }

    fn of<T>(&self, attrs: &Attrs, act: impl FnOnce(&mut CachedExtraAttrs) -> T) -> T {
        let index = usize::try_from(self.file % SLOTS as u64).unwrap_or(0);
        let mut slot = SLOTS_OF_ALL[index].lock();
        if (slot.file, slot.change) != (self.file, attrs.change) {
            *slot = CachedExtraAttrs { file: self.file, change: attrs.change, ..CachedExtraAttrs::default() };
        }
        act(&mut slot)
    }

    pub(crate) fn lock_change(&self) -> MutexGuard<'static, ()> {
        let index = usize::try_from(self.file % CHANGES as u64).unwrap_or(0);
        CHANGING[index].lock()
    }
}

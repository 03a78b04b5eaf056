//! What was read of files' records lately, so that asking again reads nothing.
//!
//! A record belongs to a state of its file, which [`Attrs::change`] numbers: whoever changes the record changes that number. So a
//! cached record is good for as long as the number is the same, and nothing has to be told to the cache.

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

/// Records of all volumes that are remembered, one a slot: about 9 MiB.
const SLOTS: usize = 1 << 16;
/// Most entries of an access control list that is remembered: longer ones are read again each time. So all that are remembered take
/// at most 40 MiB, and 80 MiB more where they are about strangers with the longest identifiers.
const ACL_ENTRIES_REMEMBERED: usize = 16;
/// Records that are changed at a time: a change is a look and a write, and others wait.
const CHANGES: usize = 64;

static SLOTS_OF_ALL: LazyLock<Box<[Mutex<Remembered>]>> =
    LazyLock::new(|| (0..SLOTS).map(|_| Mutex::default()).collect());
static CHANGING: LazyLock<[Mutex<()>; CHANGES]> = LazyLock::new(|| array::from_fn(|_| Mutex::default()));
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A record, and the state of a file that it belongs to.
#[derive(Default)]
struct Remembered {
    file: u64,
    change: u64,
    kept: Option<ExtraAttrs>,
    /// What its extended attributes take.
    xattrs: Option<XattrsSize>,
    /// Its access control list, or that it has none.
    acl: Option<Option<Arc<Record>>>,
}

/// The records of one volume's files.
pub(crate) struct KeptCache {
    /// A number that no other volume of this process has had.
    volume: u64,
}

impl Default for KeptCache {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self { volume: NEXT.fetch_add(1, Ordering::Relaxed) }
    }
}

/// Where the record of a file is remembered.
pub(crate) struct Slot {
    /// A number of the file among those of all volumes, which nobody can make another file have.
    file: u64,
}

impl KeptCache {
    pub(crate) fn slot(&self, key: &FileKey) -> Slot {
        // 0 is the file of an empty slot.
        Slot { file: HASHER.hash_one((self.volume, key)).max(1) }
    }
}

impl Slot {
    /// The record of the file in this state, if it was read.
    pub(crate) fn recall(&self, attrs: &Attrs) -> Option<ExtraAttrs> {
        self.of(attrs, |remembered| remembered.kept)
    }

    /// The record was `kept` when the file was in this state, or since.
    pub(crate) fn remember(&self, attrs: &Attrs, kept: ExtraAttrs) {
        self.of(attrs, |remembered| remembered.kept = Some(kept));
    }

    /// What the file's extended attributes take in this state, if they were looked at.
    pub(crate) fn recall_xattrs(&self, attrs: &Attrs) -> Option<XattrsSize> {
        self.of(attrs, |remembered| remembered.xattrs)
    }

    /// The same of what its extended attributes take.
    pub(crate) fn remember_xattrs(&self, attrs: &Attrs, size: XattrsSize) {
        self.of(attrs, |remembered| remembered.xattrs = Some(size));
    }

    /// The file's access control list in this state, or that it has none, if that was read.
    pub(crate) fn recall_acl(&self, attrs: &Attrs) -> Option<Option<Arc<Record>>> {
        self.of(attrs, |remembered| remembered.acl.clone())
    }

    /// The same of its access control list.
    pub(crate) fn remember_acl(&self, attrs: &Attrs, acl: Option<Arc<Record>>) {
        let entries = acl.as_ref().and_then(|record| record.acl.entries.as_ref()).map_or(0, Vec::len);
        if entries <= ACL_ENTRIES_REMEMBERED {
            self.of(attrs, |remembered| remembered.acl = Some(acl));
        }
    }

    /// What is remembered of the file in this state, after whatever was here.
    fn of<T>(&self, attrs: &Attrs, act: impl FnOnce(&mut Remembered) -> T) -> T {
        let index = usize::try_from(self.file % SLOTS as u64).unwrap_or(0);
        let mut slot = SLOTS_OF_ALL[index].lock();
        if (slot.file, slot.change) != (self.file, attrs.change) {
            *slot = Remembered { file: self.file, change: attrs.change, ..Remembered::default() };
        }
        act(&mut slot)
    }

    /// Keeps other changes of this file's record away.
    pub(crate) fn lock_change(&self) -> MutexGuard<'static, ()> {
        let index = usize::try_from(self.file % CHANGES as u64).unwrap_or(0);
        CHANGING[index].lock()
    }
}

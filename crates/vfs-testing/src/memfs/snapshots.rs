//! Snapshots of a [`MemFs`]: copies of all its tables.

use super::MemFs;
use crate::UncheckedNode;
use std::ops::Range;
use std::sync::Arc;
use vfs::backend::Backend;
use vfs::backend::snapshots::{ChangedRanges, Pace, Progress, SnapshotUsage, Snapshots};
use vfs::error::{FsError, FsResult};
use vfs::file_key::ViewId;
use vfs::{Blocking, FileKey};

impl MemFs {
    /// Replaces the live files with those of a snapshot.
    pub(super) fn revert(&self, view: ViewId) -> FsResult<()> {
        let snapshot = self.snapshot(view)?;
        let mut live = self.0.lock();
        *live = snapshot.0.lock().thawed(&live);
        self.0.acls.lock().clone_from(&snapshot.0.acls.lock());
        Ok(())
    }

    /// Makes a volume with the files of a snapshot.
    pub(super) fn clone_of(&self, view: ViewId) -> FsResult<Self> {
        let snapshot = self.snapshot(view)?;
        let acls = snapshot.0.acls.lock().clone();
        let store = snapshot.0.lock();
        Ok(Self::from_store(self.0.clock.clone(), self.0.limits, store.thawed(&store), acls))
    }

    /// Whether a reference to the volume or to a file of it exists besides this one.
    pub(super) fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    pub(super) fn snapshot(&self, view: ViewId) -> FsResult<Self> {
        self.0.snapshots.lock().get(&view).cloned().ok_or(FsError::NotFound)
    }
}

impl Snapshots for MemFs {
    fn create(&self, view: ViewId) -> FsResult<()> {
        let mut snapshots = self.0.snapshots.lock();
        if view == ViewId::LIVE || snapshots.contains_key(&view) {
            return Err(if view == ViewId::LIVE { FsError::Invalid } else { FsError::Exists });
        }
        let store = self.0.lock();
        let acls = self.0.acls.lock().clone();
        let copy = Self::from_store(self.0.clock.clone(), self.0.limits, store.whole_copy(), acls);
        drop(store);
        snapshots.insert(view, copy);
        Ok(())
    }

    fn list(&self) -> FsResult<Vec<ViewId>> {
        Ok(self.0.snapshots.lock().keys().copied().collect())
    }

    fn open(&self, view: ViewId) -> FsResult<Arc<dyn Backend>> {
        Ok(Arc::new(self.snapshot(view)?))
    }

    fn delete(&self, view: ViewId, pace: &mut Pace<'_>) -> FsResult<bool> {
        self.0.snapshots.lock().remove(&view);
        let _ends_anyway = pace(Progress { done: 1, total: Some(1) });
        Ok(true)
    }

    fn usage(&self, view: ViewId) -> FsResult<SnapshotUsage> {
        self.snapshot(view).map(|_| SnapshotUsage::default())
    }
    fn changes(&self, from: ViewId, to: ViewId) -> FsResult<Option<Arc<dyn ChangedRanges>>> {
        Ok(Some(Arc::new(Compared([self.snapshot(from)?, self.snapshot(to)?]))))
    }
}

/// Two snapshots, whose data is compared.
struct Compared([MemFs; 2]);

impl ChangedRanges for Compared {
    fn may_differ(&self, key: &FileKey, range: Range<u64>) -> bool {
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let [old, new] = self.0.each_ref().map(|snapshot| {
            snapshot.node(key, Blocking::Allowed)?.read_vec(range.start, len, Blocking::Allowed)
        });
        old.is_err() || old != new
    }
}

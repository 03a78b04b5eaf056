//! Snapshots of a [`MemFs`]: copies of all its tables.

use super::MemFs;
use std::sync::Arc;
use vfs::backend::Backend;
use vfs::backend::snapshots::{Pace, Progress, SnapshotUsage, Snapshots};
use vfs::error::{FsError, FsResult};
use vfs::file_key::ViewId;

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
        let found = self.0.snapshots.lock().get(&view).cloned().ok_or(FsError::NotFound)?;
        Ok(Arc::new(found))
    }

    fn delete(&self, view: ViewId, pace: &mut Pace<'_>) -> FsResult<bool> {
        self.0.snapshots.lock().remove(&view);
        let _ends_anyway = pace(Progress { done: 1, total: Some(1) });
        Ok(true)
    }

    fn usage(&self, view: ViewId) -> FsResult<SnapshotUsage> {
        self.0.snapshots.lock().get(&view).map(|_| SnapshotUsage::default()).ok_or(FsError::NotFound)
    }
}

//! Undo stores of volumes: snapshots where the file system has none of its own.

use super::store::Store;
use super::{Volumes, name};
use crate::capacity::ledger::Ledger;
use crate::capacity::usage_file::UsageFile;
use crate::error::refused;
use crate::fs_type::FsType;
use crate::node::mount::Mount;
use crate::node::ranges::clone_bytes;
use crate::snapshot::{self, OpenSnapshot, SnapshotView};
use crate::undo::{self, Method, UndoPlace, unit_of};
use rustix::fs::fstat;
use std::os::fd::AsFd;
use std::sync::Arc;
use vfs::{
    Backend, Capabilities, FsError, FsLimits, FsResult, Pace, SnapshotUsage, Snapshots, ViewId, VolumeId,
};

impl Volumes {
    /// Where a volume has its undo store; `None` if its storage can make no snapshots.
    pub(super) fn undo_place(&self, id: VolumeId) -> FsResult<Option<UndoPlace>> {
        let stat = fstat(&self.snapshots).map_err(refused)?;
        if fstat(&self.volumes).map_err(refused)?.st_dev != stat.st_dev {
            return Ok(None);
        }
        let fs_type = FsType::of(&self.snapshots, &stat)?;
        let method =
            match (fs_type.is_ordered && clone_bytes(&self.snapshots).is_some(), self.options.copy_snapshots)
            {
                (true, _) => Method::Share,
                (false, true) => Method::Copy,
                (false, false) => return Ok(None),
            };
        let stores = super::tree::reopen(&self.snapshots).map_err(refused)?;
        let unit = unit_of(self.snapshots.as_fd())?;
        Ok(Some(UndoPlace { stores, name: name(id), method, unit }))
    }

    /// The bytes that only snapshots of a volume need, by the running count; `None` if the kernel counts them with the
    /// others.
    pub(super) fn held_bytes(&self, id: VolumeId) -> FsResult<Option<u64>> {
        if let Some(limit) = self.slot(id).try_lock().and_then(|slot| slot.limit.upgrade()) {
            return Ok(limit.ledger().map(Ledger::held));
        }
        Ok(UsageFile::peek(self.usage.as_fd(), &name(id))?.map(|record| record.held))
    }

    /// Counts the bytes that only snapshots of a volume need, to compare with the running count.
    pub fn recount_held(&self, id: VolumeId) -> FsResult<u64> {
        undo::count(self.snapshots.as_fd(), &name(id))
    }
}

impl Store {
    /// Writes what the next process must know of the undo store.
    pub(super) fn seal_undo(&self) {
        if let Some(Err(error)) = self.mount.undo().map(|undo| undo.seal()) {
            tracing::warn!(%error, "cannot close the undo store of a volume: new files may take space in snapshots");
        }
    }
}

/// The snapshots of a volume with an undo store.
pub(crate) struct UndoSnapshots {
    mount: Arc<Mount>,
    limits: FsLimits,
    capabilities: Capabilities,
}

impl UndoSnapshots {
    /// `None` if the volume can have none.
    pub(super) fn of(store: &Store) -> Option<Self> {
        let mount = Arc::clone(&store.mount);
        let has_any = mount.can_have_undo();
        has_any.then(|| Self { mount, limits: store.limits(), capabilities: store.capabilities() })
    }
}

impl Snapshots for UndoSnapshots {
    fn create(&self, view: ViewId) -> FsResult<()> {
        let undo = self.mount.make_undo()?.ok_or(FsError::NotSupported)?;
        snapshot::create(&self.mount, undo, view)
    }

    fn list(&self) -> FsResult<Vec<ViewId>> {
        Ok(self.mount.undo().map(|undo| undo.views()).unwrap_or_default())
    }

    fn open(&self, view: ViewId) -> FsResult<Arc<dyn Backend>> {
        let undo = self.mount.undo().ok_or(FsError::NotFound)?;
        let opened = SnapshotView::open(&self.mount, undo, view, self.limits, self.capabilities)?;
        Ok(Arc::new(OpenSnapshot(opened)))
    }

    fn delete(&self, view: ViewId, pace: &mut Pace<'_>) -> FsResult<bool> {
        let Some(undo) = self.mount.undo() else { return Ok(true) };
        undo.mark_deleted(view)?;
        snapshot::sweep(&self.mount, undo, pace)
    }

    fn usage(&self, view: ViewId) -> FsResult<SnapshotUsage> {
        let undo = self.mount.undo().ok_or(FsError::NotFound)?;
        undo.find(view).map(|_| SnapshotUsage::default()).ok_or(FsError::NotFound)
    }
}

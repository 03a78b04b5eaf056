//! Volumes as subvolumes of Btrfs: made, reverted to a snapshot, cloned from one.

use super::snapshots::{SnapshotDir, is_remainder, revert_name, root_in};
use super::tree::{entries, make_private, open_dir};
use super::{Volumes, name};
use crate::capacity::usage_file::UsageFile;
use crate::error::refused;
use crate::fs_type::{can_set_trusted_xattrs, is_subvolume};
use crate::node::counter::raise_base;
use crate::sys;
use crate::undo::unit_of;
use rustix::fs::{Mode, RenameFlags, fsync, mkdirat, renameat_with};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use storage::{OwnerLedger, UsageRecord, volume_of};
use vfs::{FsError, FsResult, Pace, Progress, ViewId, VolumeId};

impl Volumes {
    /// Makes the empty root of a volume, on Btrfs as a subvolume.
    pub(super) fn make_root(&self, id: VolumeId) -> FsResult<()> {
        if self.has_subvolumes {
            match sys::make_subvolume(self.volumes.as_fd(), name(id).as_bytes()) {
                // A sandbox.
                Err(Errno::PERM | Errno::NOTTY | Errno::OPNOTSUPP) => {}
                made => return made.map_err(refused),
            }
        }
        mkdirat(&self.volumes, name(id), Mode::RWXU).map_err(refused)?;
        let root = self.dir(id)?;
        // XFS alone has it.
        let _ = sys::set_cow_extent_size(root.as_fd(), unit_of(root.as_fd())?);
        Ok(())
    }

    /// The directory for the snapshots of the volume with the root `root`, made if missing. `None` if the volume is a
    /// directory, which can have none.
    pub(super) fn snapshot_dir(&self, id: VolumeId, root: &OwnedFd) -> FsResult<Option<Arc<SnapshotDir>>> {
        if !self.has_subvolumes || !is_subvolume(root.as_fd()) {
            return Ok(None);
        }
        let dir = make_private(&self.snapshots, &name(id)).map_err(refused)?;
        fsync(&self.snapshots).map_err(refused)?;
        Ok(Some(Arc::new(SnapshotDir::new(dir, self.options.clone(), Arc::clone(&self.dir_lock)))))
    }

    /// Moves the snapshots of a volume to the trash. Returns whether there may have been any.
    pub(super) fn discard_snapshots(&self, id: VolumeId) -> FsResult<bool> {
        self.trash.dir().take(&self.snapshots, &name(id))
    }

    /// Moves to the trash the snapshots of removed volumes and the remainders of interrupted operations.
    pub(super) fn drop_remainders(&self) -> FsResult<()> {
        for id in entries(&self.snapshots)?.iter().filter_map(|name| volume_of(name.to_bytes())) {
            if !self.has(id)? {
                self.discard_snapshots(id)?;
                continue;
            }
            let dir = open_dir(self.snapshots.as_fd(), name(id)).map_err(refused)?;
            for remainder in entries(&dir)?.iter().filter(|name| is_remainder(name)) {
                // It takes space, but no operation depends on its absence.
                if let Err(error) = self.discard(&dir, &remainder.to_string_lossy()) {
                    let (volume, entry) = (name(id), remainder.to_string_lossy());
                    tracing::error!(volume, %entry, %error, "cannot delete the rest of a snapshot");
                }
            }
        }
        self.trash.wake();
        Ok(())
    }

    /// Moves a subvolume to the trash; false if it does not exist.
    fn discard(&self, dir: &OwnedFd, name: &str) -> FsResult<bool> {
        match open_dir(dir.as_fd(), name) {
            Err(Errno::NOENT) => return Ok(false),
            // A read-only directory cannot move to another parent.
            opened => {
                let root = opened.map_err(refused)?;
                if is_subvolume(root.as_fd()) {
                    sys::clear_read_only(root.as_fd()).map_err(refused)?;
                }
            }
        }
        self.trash.dir().take(dir, name)
    }

    /// Puts a copy of a snapshot in the place of a volume that is not open. The copy comes into being and takes its place
    /// in one step each; the former files go to the trash.
    pub(super) fn revert_closed(&self, id: VolumeId, view: ViewId, pace: &mut Pace<'_>) -> FsResult<bool> {
        let dir = self.snapshots_of(id)?;
        let snapshot = root_in(&dir, view)?;
        let staged = revert_name(view);
        if pace(Progress { done: 0, total: Some(1) }).is_break() {
            return Ok(false);
        }
        // The rest of an interrupted revert: a copy, or the files that it replaced.
        self.discard(&dir, &staged)?;
        self.require_count(id)?;
        sys::make_snapshot(dir.as_fd(), staged.as_bytes(), snapshot.as_fd(), false).map_err(refused)?;
        let (copy, live) = (open_dir(dir.as_fd(), &*staged).map_err(refused)?, self.dir(id)?);
        raise_base(copy.as_fd(), live.as_fd(), can_set_trusted_xattrs(&live))?;
        fsync(&copy).map_err(refused)?;
        // An open file of a subvolume would hold its space.
        drop((copy, live));
        renameat_with(&self.volumes, name(id), &dir, &staged, RenameFlags::EXCHANGE)
            .and_then(|()| fsync(&self.volumes))
            .and_then(|()| fsync(&dir))
            .map_err(refused)?;
        self.discard(&dir, &staged)?;
        self.trash.wake();
        let _ends_anyway = pace(Progress { done: 1, total: Some(1) });
        Ok(true)
    }

    /// Makes a new volume from a snapshot of another one. They share the storage of what neither changes.
    pub(super) fn make_clone(
        &self,
        source: VolumeId,
        view: ViewId,
        id: VolumeId,
        pace: &mut Pace<'_>,
    ) -> FsResult<bool> {
        let snapshot = root_in(&self.snapshots_of(source)?, view)?;
        if pace(Progress { done: 0, total: Some(1) }).is_break() {
            return Ok(false);
        }
        sys::make_snapshot(self.volumes.as_fd(), name(id).as_bytes(), snapshot.as_fd(), false)
            .map_err(refused)?;
        let _ends_anyway = pace(Progress { done: 1, total: Some(1) });
        Ok(true)
    }

    /// The bytes that the snapshots of a volume hold. Only quota groups tell a part of it: they count whole extents, so
    /// an overwritten file without any snapshot would seem to have some.
    pub(super) fn bytes_of_snapshots(&self, id: VolumeId) -> FsResult<Option<u64>> {
        let has_none = match self.snapshots_of(id) {
            Ok(dir) => entries(&dir)?.is_empty(),
            Err(FsError::NotSupported) => true,
            // None was ever opened, so none was made.
            Err(FsError::NotFound) => self.dir(id).map(|_| true)?,
            Err(error) => return Err(error),
        };
        Ok(has_none.then_some(0))
    }

    /// The directory with the snapshots of a volume. [`FsError::NotFound`] if the volume does not exist,
    /// [`FsError::NotSupported`] if it can have none.
    fn snapshots_of(&self, id: VolumeId) -> FsResult<OwnedFd> {
        if !self.has_subvolumes || !is_subvolume(self.dir(id)?.as_fd()) {
            return Err(FsError::NotSupported);
        }
        open_dir(self.snapshots.as_fd(), name(id)).map_err(refused)
    }

    /// Marks the saved usage of a volume, and that of its owners, as outdated, durably: the next open counts the files.
    pub(super) fn require_count(&self, id: VolumeId) -> FsResult<()> {
        OwnerLedger::require_count(self.owner_files(id))?;
        let usage_file = UsageFile::open(self.usage.as_fd(), &name(id))?;
        match usage_file.read()?.filter(|record| record.is_clean) {
            Some(record) => usage_file.write(&UsageRecord { is_clean: false, ..record }),
            None => Ok(()),
        }
    }
}

//! Undo stores of volumes: snapshots where the file system has none of its own.

use super::store::Store;
use super::tree::make_private;
use super::{SNAPSHOTS, Volumes, name};
use crate::capacity::kernel::KernelCounts;
use crate::capacity::usage_file::UsageFile;
use crate::error::refused;
use crate::fs_type::FsType;
use crate::node::ranges::clone_bytes;
use crate::undo::{self, Method, UndoPlace, unit_of};
use rustix::fs::{fstat, fsync, renameat};
use rustix::io::Errno;
use std::os::fd::AsFd;
use vfs::volume::copies::copy_tree;
use vfs::{Backend, FsError, FsResult, Pace, ViewId, VolumeId, unpaced};

/// The files of a clone that is being made, in the directory of its snapshots.
const CLONE: &str = "clone";

impl Volumes {
    /// The place of a volume's undo store; `None` if its storage can make no snapshots.
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
        // Records are counted apart from files, by another number.
        let project_seed = self.projects(id, self.dir(id)?)?.map(|_| !id.0);
        Ok(Some(UndoPlace { stores, name: name(id), method, unit, project_seed }))
    }

    /// Brings a volume that is not open back to a snapshot. The next open counts its files.
    pub(super) fn revert_changes(&self, id: VolumeId, view: ViewId, pace: &mut Pace<'_>) -> FsResult<bool> {
        let has_store = self.dir(id).and_then(|_| self.undo_place(id))?.is_some();
        if !has_store {
            return Err(FsError::NotSupported);
        }
        self.require_count(id)?;
        if let Some(projects) = self.projects(id, self.dir(id)?)? {
            // A revert may need more for a while, as where this process counts. The next open sets the limit again.
            projects.live.release();
        }
        self.store(id, None, None)?.revert_undo(view, pace)
    }

    /// Ends a revert that the last process has begun.
    pub(super) fn finish_revert(&self, id: VolumeId) -> FsResult<()> {
        match undo::interrupted_revert(self.snapshots.as_fd(), &name(id))? {
            Some(view) => self.revert_changes(id, view, &mut unpaced).map(drop),
            None => Ok(()),
        }
    }

    /// Makes a new volume from a snapshot of another one, file by file. Where the file system can, they share the
    /// storage of what neither changes.
    pub(super) fn copy_clone(
        &self,
        source: VolumeId,
        view: ViewId,
        id: VolumeId,
        pace: &mut Pace<'_>,
    ) -> FsResult<bool> {
        let source = self.open_store(source)?;
        let snapshots = Backend::snapshots(&*source).ok_or(FsError::NotSupported)?;
        let snapshot = snapshots.open(view)?;
        // In the directory of its snapshots, which goes if this is interrupted.
        let place = make_private(&self.snapshots, &name(id)).map_err(refused)?;
        let staged = make_private(&place, CLONE).map_err(refused)?;
        self.assign_project(id, &staged)?;
        let path = self.data.join(SNAPSHOTS).join(name(id)).join(CLONE);
        let target = Store::open_within(&path, &self.options, None, None, None);
        let target = target.map_err(|error| Errno::from_io_error(&error).map_or(FsError::Io, refused))?;
        if !copy_tree(&*snapshot, &*target, pace)? {
            return Ok(false);
        }
        target.sync()?;
        drop(target);
        let renamed = renameat(&place, CLONE, &self.volumes, name(id));
        renamed.and_then(|()| fsync(&self.volumes)).map_err(refused)?;
        Ok(true)
    }

    /// The bytes that only snapshots of a volume need, by the running count.
    pub(super) fn held_bytes(&self, id: VolumeId) -> FsResult<u64> {
        let dir = self.dir(id)?;
        if let Some(limit) = self.slot(id).try_lock().and_then(|slot| slot.limit.upgrade()) {
            return limit.held();
        }
        if let Some(projects) = self.projects(id, dir)? {
            return projects.held();
        }
        Ok(UsageFile::peek(self.usage.as_fd(), &name(id))?.map_or(0, |record| record.held))
    }

    /// Counts the bytes that only snapshots of a volume need, to compare with the running count.
    pub fn recount_held(&self, id: VolumeId) -> FsResult<u64> {
        undo::count(self.snapshots.as_fd(), &name(id))
    }
}

//! Undo stores of volumes: snapshots where the file system has none of its own.

use super::{Volumes, name};
use crate::capacity::ledger::Ledger;
use crate::capacity::usage_file::UsageFile;
use crate::error::refused;
use crate::fs_type::FsType;
use crate::node::ranges::clone_bytes;
use crate::undo::{self, Method, UndoPlace, unit_of};
use rustix::fs::fstat;
use std::os::fd::AsFd;
use vfs::{FsResult, VolumeId};

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

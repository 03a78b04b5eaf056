//! The space of a volume: what files need, what snapshots need, and what is left.

use super::{Service, levels};
use crate::error::{Error, Result};
use crate::name::VolumeName;
use crate::volume::Volume;
use vfs::{FsResult, Usage};

/// The space of a volume, as clients see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeSpace {
    /// Files and their snapshots.
    pub used: Usage,
    /// The bytes of `used` that only snapshots need; `None` if the storage does not know them.
    pub snapshot_bytes: Option<u64>,
    /// Bytes that files leave to snapshots.
    pub reserve_bytes: u64,
    /// Bytes that files can still take: without the unused part of the reserve, and at most what the disk has.
    pub available_bytes: u64,
}

impl VolumeSpace {
    /// The bytes that files need; `None` if the storage does not know them.
    pub fn live_bytes(&self) -> Option<u64> {
        self.snapshot_bytes.map(|snapshots| self.used.bytes.saturating_sub(snapshots))
    }

    /// The bytes of the volume that files do not get any more: those in use, and the unused part of the reserve.
    fn taken_bytes(&self) -> u64 {
        let unused = self.reserve_bytes.saturating_sub(self.snapshot_bytes.unwrap_or(0));
        self.used.bytes.saturating_add(unused)
    }

    /// Whether the part for files of a volume of `size` bytes is full to `percent`.
    pub(crate) fn is_full(&self, size: u64, percent: u64) -> bool {
        let (for_files, left) = (
            u128::from(size.saturating_sub(self.reserve_bytes)),
            u128::from(size.saturating_sub(self.taken_bytes())),
        );
        left * 100 <= for_files * u128::from(100_u64.saturating_sub(percent))
    }
}

impl Service {
    pub fn space(&self, name: &VolumeName) -> Result<VolumeSpace> {
        let volume = self.find_volume(name)?;
        self.space_of(&volume).map_err(Error::storage(format!("report the usage of the volume {name}")))
    }

    pub(super) fn space_of(&self, volume: &Volume) -> FsResult<VolumeSpace> {
        let space = self.counted(volume)?;
        let served = self.served(&volume.name).and_then(|served| served.stat().ok());
        let closed = || volume.size.0.saturating_sub(space.taken_bytes());
        Ok(VolumeSpace { available_bytes: served.map_or_else(closed, |stat| stat.bytes_available), ..space })
    }

    /// The space of a volume, except what is available.
    fn counted(&self, volume: &Volume) -> FsResult<VolumeSpace> {
        let provisioner = &self.dependencies.provisioner;
        let (used, snapshot_bytes) = (provisioner.usage(volume.id)?, provisioner.snapshot_bytes(volume.id)?);
        Ok(VolumeSpace { used, snapshot_bytes, reserve_bytes: levels::reserve(volume), available_bytes: 0 })
    }

    /// Tells the storage of an open volume its reserve for snapshots.
    pub(super) fn apply_reserve(&self, volume: &Volume) -> FsResult<()> {
        self.dependencies.provisioner.set_snapshot_reserve(volume.id, levels::reserve(volume))
    }

    /// Refuses a reserve that leaves less to files than they have. May be forced: files stay, and cannot grow.
    pub(super) fn check_reserve(&self, before: &Volume, after: &Volume, force: bool) -> Result<()> {
        let for_files = |volume: &Volume| volume.size.0.saturating_sub(levels::reserve(volume));
        let wanted = for_files(after);
        if after.snap_reserve == 0 || wanted >= for_files(before) || force {
            return Ok(());
        }
        let space = self.counted(before);
        let space =
            space.map_err(Error::storage(format!("report the usage of the volume {}", before.name)))?;
        let snapshots = space.snapshot_bytes.unwrap_or(0);
        let live = space.used.bytes.saturating_sub(snapshots);
        // A reserve that snapshots exceed already takes nothing more.
        if live <= wanted || snapshots >= levels::reserve(after) {
            return Ok(());
        }
        Err(Error::BelowUse { volume: before.name.to_string(), used: live, wanted })
    }
}

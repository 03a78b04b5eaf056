//! Numbers about the snapshots of a volume, for monitoring.

use super::Service;
use crate::error::Result;
use crate::snapshot::SnapshotState;
use crate::store;
use crate::volume::Volume;
use std::collections::HashMap;
use vfs::VolumeId;
use vfs::sync::Mutex;

/// Runs of policies that failed since the service started.
#[derive(Default)]
pub(crate) struct FailedRuns(Mutex<HashMap<VolumeId, u64>>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotFigures {
    /// Snapshots that clients can read.
    pub count: u64,
    /// The time of the newest of them, in milliseconds since 1970.
    pub newest_ms: Option<u64>,
    /// Runs of its policy that failed since the service started.
    pub failed_runs: u64,
}

impl FailedRuns {
    pub(super) fn add(&self, volume: VolumeId) {
        *self.0.lock().entry(volume).or_default() += 1;
    }

    fn of(&self, volume: VolumeId) -> u64 {
        self.0.lock().get(&volume).copied().unwrap_or(0)
    }
}

impl Service {
    pub fn snapshot_figures(&self, volume: &Volume) -> Result<SnapshotFigures> {
        let mut all = self.read(|store| Ok(store::snapshot::of_volume(store, volume.id)?))?;
        all.retain(|one| one.state == SnapshotState::Ready);
        Ok(SnapshotFigures {
            count: all.len().try_into().unwrap_or(u64::MAX),
            newest_ms: all.iter().map(|one| one.created_ms).max(),
            failed_runs: self.failed_runs.of(volume.id),
        })
    }
}

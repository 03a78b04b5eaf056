//! The families of snapshots.

use super::families;
use super::family::{Document, Seconds};
use super::gather::VolumeFigures;
use control::{SnapshotFigures, VolumeSpace};

const NANOS_PER_MS: u64 = 1_000_000;

/// The snapshots of a volume as its metrics show them.
pub(super) struct Shown {
    pub(super) figures: SnapshotFigures,
    pub(super) space: VolumeSpace,
}

pub(super) fn add(document: &mut Document, volumes: &[VolumeFigures]) {
    type Value = fn(&Shown) -> Option<u64>;
    let gauges: [(_, Value); 5] = [
        (families::VOLUME_AVAILABLE, |shown| Some(shown.space.available_bytes)),
        (families::VOLUME_SNAPSHOTS, |shown| Some(shown.figures.count)),
        (families::VOLUME_SNAPSHOT_BYTES, |shown| shown.space.snapshot_bytes),
        (families::VOLUME_SNAPSHOT_RESERVE, |shown| Some(shown.space.reserve_bytes)),
        (families::VOLUME_POLICY_FAILURES, |shown| Some(shown.figures.failed_runs)),
    ];
    for (family, value) in gauges {
        let mut family = document.family(family);
        for VolumeFigures { volume, snapshots, .. } in volumes {
            let labels = [("volume", volume.name.as_str())];
            value(snapshots).into_iter().for_each(|value| family.sample(&labels, value));
        }
    }
    let mut family = document.family(families::VOLUME_SNAPSHOT_TIME);
    for VolumeFigures { volume, snapshots, .. } in volumes {
        if let Some(ms) = snapshots.figures.newest_ms {
            let time = Seconds(ms.saturating_mul(NANOS_PER_MS));
            family.sample(&[("volume", volume.name.as_str())], time);
        }
    }
}

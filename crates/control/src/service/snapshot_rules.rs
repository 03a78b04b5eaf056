//! Checks the snapshots of a volume against the level that it moves to.

use super::{Service, levels};
use crate::error::{Error, Result};
use crate::pool::Pool;
use crate::snapshot::{SnapshotKind, SnapshotState};
use crate::store;
use crate::volume::Volume;
use envelope::Refusal;

impl Service {
    /// Refuses another level, pool or share of a volume with snapshots or a policy that are not permitted there.
    pub(super) fn check_moved_snapshots(
        &self,
        before: (&Pool, &Volume),
        after: (&Pool, &Volume),
    ) -> Result<()> {
        let (pool, volume) = after;
        let level = levels::level_of(pool, volume)?;
        if levels::level_of(before.0, before.1)? == level && before.1.share == volume.share {
            return Ok(());
        }
        let mut all = self.read(|store| Ok(store::snapshot::of_volume(store, volume.id)?))?;
        all.retain(|one| one.state != SnapshotState::Deleting);
        if !all.is_empty() {
            levels::check_snapshots(pool, volume, all.len())?;
        }
        for snapshot in all.iter().filter(|one| one.kind == SnapshotKind::Manual) {
            levels::check_snapshot_name(pool, volume, &snapshot.name).map_err(|error| match error {
                Error::Refused(Refusal { allowed, source, .. }) => Error::Refused(Refusal {
                    what: format!("{level}: the volume {} with the snapshot {}", volume.name, snapshot.name),
                    allowed: format!("snapshots with names as {allowed}; delete the others first"),
                    source,
                }),
                error => error,
            })?;
        }
        match &volume.policy {
            Some(policy) if before.1.policy == volume.policy => {
                self.check_keep(pool, volume, &self.policy(policy)?)
            }
            _ => Ok(()),
        }
    }
}

//! Reconciles backups at the start. Their jobs are in the journal and go on by themselves. What else an earlier run can leave
//! is a snapshot whose backup was not begun, or has ended.

use crate::backup::BackupState;
use crate::error::Result;
use crate::kind::Kind;
use crate::kind::State;
use crate::operation::{Actor, ChangeContext, Outcome};
use crate::service::Service;
use crate::snapshot::{SnapshotKind, SnapshotState};
use crate::store;
use crate::volume::Volume;
use std::collections::BTreeMap;

impl Service {
    pub(crate) fn reconcile_backups(&self) -> Result<()> {
        let context = ChangeContext::by(Actor::new("plimsoll"));
        let left = self.read(|store| {
            let backups = store::backup::all(store)?;
            // Also the one that the next backup is compared with.
            let mut ready: Vec<_> = backups.iter().filter(|one| one.state == BackupState::Ready).collect();
            ready.sort_by_key(|one| (one.taken_ms, one.created_ms));
            let last: BTreeMap<_, _> =
                ready.into_iter().map(|one| ((one.vault_row, one.volume_id), one)).collect();
            let lasting = last.values().filter_map(|one| Some((one.volume_id, one.made_from?)));
            let unfinished = backups.iter().filter_map(|one| Some((one.volume_id, one.view?)));
            let used: Vec<_> = lasting.chain(unfinished).collect();
            let mut left = Vec::new();
            for volume in store::volume::all(store)? {
                let snapshots = store::snapshot::of_volume(store, volume.id)?.into_iter();
                left.extend(snapshots.filter(|one| {
                    one.kind == SnapshotKind::Backup
                        && one.state == SnapshotState::Ready
                        && !used.contains(&(one.volume_id, one.view))
                }));
            }
            Ok(left)
        })?;
        for snapshot in left {
            // The storage of its volume may not be there today.
            _ = self.delete_snapshot(&context, &snapshot.volume, &snapshot.name);
        }
        Ok(())
    }

    /// Whether a job restores the volume, which is not served before its end.
    pub(crate) fn is_restoring(&self, volume: &Volume) -> Result<bool> {
        if volume.state != State::Creating {
            return Ok(false);
        }
        let running =
            self.read(|store| Ok(store::operation::running(store, Kind::Volume, volume.name.as_str())?))?;
        Ok(running.is_some_and(|one| one.spec.is_some() && one.outcome == Outcome::Running))
    }
}

//! Breaks replications. The files of an unfinished transfer have to go first: that is a job, as a revert is.

use super::{Service, refused};
use crate::error::Result;
use crate::job::JobSpec;
use crate::kind::{Kind, State};
use crate::name::VolumeName;
use crate::operation::{ChangeContext, ChangeResult, Operation, OperationId, Outcome, Verb};
use crate::replication::{Phase, Replication, ReplicationError};
use crate::service::change::PoolAndVolume;
use crate::service::{UNCHANGED, check_version};
use crate::snapshot::Snapshot;
use crate::store::{self, operation::NewOperation};
use crate::volume::Volume;
use vfs::{ViewId, VolumeId};

impl Service {
    /// Makes the destination writable, at its last point. A transfer that runs is dropped if this is forced; without any
    /// point the replication is then aborted. If there are files of an unfinished transfer, a job drops them first, and
    /// clients wait. Asked again, it returns the job that runs.
    pub fn break_replication(
        &self,
        context: &ChangeContext,
        volume: &VolumeName,
    ) -> Result<ChangeResult<Replication>> {
        let replication = self.replication(volume)?;
        if let Some(running) = self.running_transfer(&replication)? {
            if running.spec.is_some_and(JobSpec::is_break) {
                return Ok(ChangeResult { value: replication, operation: self.operation(running.id)? });
            }
            if !context.force {
                return Err(ReplicationError::Transferring { volume: volume.to_string() }.into());
            }
            _ = self.cancel_operation(running.id);
            self.jobs.wait(running.id);
        }
        let _locked = self.lock_volume(volume, None)?;
        let replication = self.replication(volume)?;
        check_version(context, Kind::Replication, volume.as_str(), replication.version)?;
        if self.running_transfer(&replication)?.is_some() {
            return Err(ReplicationError::Transferring { volume: volume.to_string() }.into());
        }
        if replication.phase != Phase::Active {
            let operation = self.record_replication(context, &replication, UNCHANGED)?;
            return Ok(ChangeResult { value: replication, operation });
        }
        let of = self.find_volume(volume)?;
        let last = self.points(&replication, of.id)?.pop();
        if let Some((_, last)) = &last
            && self.is_partial(&replication)?
        {
            let operation = self.begin_break(context, &replication, &of, last)?;
            return Ok(ChangeResult { value: replication, operation });
        }
        let phase = if last.is_none() { Phase::Aborted } else { Phase::Stopped };
        let after = self.updated(Replication { phase, ..replication });
        let operation = self.change(|store| {
            store::replication::update(store, &after)?;
            self.record(store, context, Verb::Update, (Kind::Replication, volume.as_str()), "break")
        })?;
        self.reopen(&of, &|| Ok(()))?;
        Ok(ChangeResult { value: after, operation })
    }

    /// Starts the job that takes the live files back to the last point.
    fn begin_break(
        &self,
        context: &ChangeContext,
        replication: &Replication,
        of: &Volume,
        last: &Snapshot,
    ) -> Result<Operation> {
        self.work_dir(replication)?.invalidate().map_err(refused)?;
        let (version, changed_ms) = (of.version + 1, self.now_ms());
        let volume = Volume { state: State::Reverting, version, changed_ms, ..of.clone() };
        let after = PoolAndVolume { pool: self.find_pool(&of.pool)?, volume };
        let begun = NewOperation {
            actor: &context.actor,
            verb: Verb::Update,
            kind: Kind::Replication,
            name: of.name.as_str(),
            detail: "break",
            spec: Some(JobSpec::Break { volume: of.id.0, view: last.view.0 }),
        };
        let operation = self.begin_revert(self.state(), of, &after, &begun)?;
        self.close_replica(of.id);
        Ok(operation)
    }

    /// Serves the volume again: writable, or, after a failure, as the destination that it was.
    pub(in crate::service) fn end_break(
        &self,
        id: OperationId,
        of: (VolumeId, ViewId),
        outcome: &Outcome,
    ) -> Result<()> {
        let (volume, _) = of;
        let Some(row) = self.read(|store| Ok(store::volume::find_id(store, volume)?))? else { return Ok(()) };
        let found = self.read(|store| Ok(store::replication::find(store, volume)?))?;
        if let (Outcome::Succeeded, Some(replication)) = (outcome, found) {
            let points = self.points(&replication, volume)?.into_iter().map(|(number, _)| number);
            self.work_dir(&replication)?.discard(&points.collect::<Vec<_>>()).map_err(refused)?;
            // The volume is opened as this says. If it does not open, the next start does all of it again.
            let after = self.updated(Replication { phase: Phase::Stopped, ..replication });
            self.change(|store| Ok(store::replication::update(store, &after)?))?;
        }
        self.end_revert(id, of, row.size, outcome, false)
    }
}

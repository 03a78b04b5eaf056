//! Reverts volumes to their snapshots. A revert is a [job](super::job): until it ends, clients find a
//! [placeholder](vfs::Volume::placeholder) in the place of the volume, and wait.

use super::change::PoolAndVolume;
use super::job::JobEnd;
use super::snapshot::check_ready;
use super::{OpenVolume, Service, ServiceState, check_version, levels};
use crate::error::{Error, Result};
use crate::job::JobSpec;
use crate::kind::{Kind, State};
use crate::limits::{REVERT_RETRY_MS, REVERT_WAIT_MS};
use crate::name::{SnapshotName, VolumeName};
use crate::operation::{ChangeContext, Operation, OperationId, Outcome, Verb};
use crate::snapshot::{Snapshot, SnapshotState};
use crate::store::{self, lock_clock, operation::NewOperation};
use crate::volume::{Volume, VolumeChange};
use crate::warning::Warning;
use envelope::Bytes;
use rusqlite::Connection;
use std::ops::ControlFlow;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;
use vfs::claims::Grace;
use vfs::{FsError, ViewId, VolumeId};

impl Service {
    /// Starts the job that replaces the files of a volume with those of its snapshot, and deletes all newer snapshots. The
    /// volume gets the greater of its sizes then and now. Asked again for the same snapshot, it returns the job that runs.
    pub fn revert_volume(
        &self,
        context: &ChangeContext,
        name: &VolumeName,
        to: &SnapshotName,
    ) -> Result<Operation> {
        let _locked = self.lock_volume(name, None)?;
        let target = self.snapshot(name, to)?;
        let volume = self.find_volume(name)?;
        if volume.state == State::Reverting {
            return self.running_revert(&volume, &target);
        }
        self.finish_named(name)?;
        check_version(context, Kind::Snapshot, &target.full_name(), target.version)?;
        check_ready(&target)?;
        self.served_for_snapshots(&volume)?;
        self.check_writable_volume(&volume, "go back to a snapshot")?;
        self.check_newer(&target)?;
        self.check_no_job((Kind::Volume, name.as_str()), |spec| {
            spec.volume() == Some(volume.id) || spec.pinned().is_some_and(|(pinned, _)| pinned == volume.id)
        })?;
        let before = PoolAndVolume { pool: self.find_pool(&volume.pool)?, volume: self.find_volume(name)? };
        let size = Some(target.volume_size.max(before.volume.size));
        let (mut after, changes) =
            self.changed(&before, &VolumeChange { size, ..VolumeChange::default() })?;
        let state = self.state();
        self.check_change(&state, &before, &after, context.force)?;
        let (version, changed_ms) = (before.volume.version + 1, self.now_ms());
        after.volume = Volume { state: State::Reverting, version, changed_ms, ..after.volume };
        let to = format!("to the snapshot {to}");
        let detail = [to].into_iter().chain(changes).collect::<Vec<_>>().join(", ");
        let (volume, view, size_before) = (volume.id.0, target.view.0, before.volume.size.0);
        let begun = NewOperation {
            actor: &context.actor,
            verb: Verb::Revert,
            kind: Kind::Volume,
            name: name.as_str(),
            detail: &detail,
            spec: Some(JobSpec::Revert { volume, view, size_before }),
        };
        self.begin_revert(state, &before.volume, &after, &begun)
    }

    /// Writes the intent to replace the files of a volume, closes it to clients, and starts the job.
    pub(super) fn begin_revert(
        &self,
        mut state: MutexGuard<'_, ServiceState>,
        before: &Volume,
        after: &PoolAndVolume,
        begun: &NewOperation<'_>,
    ) -> Result<Operation> {
        let operation = self.change(|store| {
            after.write(store)?;
            lock_clock::advance(store, self.lock_now_ms())?;
            Ok(store::operation::begin(store, begun, self.now_ms())?)
        })?;
        state.totals.begin_change(before, &after.volume);
        self.serve_placeholder(&mut state, after)?;
        drop(state);
        self.enqueue(&operation);
        Ok(operation)
    }

    /// The snapshots that a revert to this one deletes, the newest first.
    pub fn newer_snapshots(&self, than: &Snapshot) -> Result<Vec<Snapshot>> {
        let mut all = self.read(|store| Ok(store::snapshot::of_volume(store, than.volume_id)?))?;
        all.retain(|one| one.view > than.view);
        all.sort_by_key(|one| std::cmp::Reverse(one.view));
        Ok(all)
    }

    /// Refuses a target that is older than a snapshot that must stay.
    fn check_newer(&self, target: &Snapshot) -> Result<()> {
        self.newer_snapshots(target)?.iter().try_for_each(|newer| {
            self.check_no_point(newer)?;
            match self.check_unlocked(newer) {
                Err(Error::Locked { snapshot, until }) => Err(Error::RevertLocked { snapshot, until }),
                other => other,
            }
        })
    }

    /// The job of a volume that is being reverted. If it has failed and the storage did not open, it runs again.
    fn running_revert(&self, volume: &Volume, target: &Snapshot) -> Result<Operation> {
        let changing = || Error::Changing { volume: volume.name.to_string(), state: volume.state };
        let wanted = (volume.id.0, target.view.0);
        let is_same = |spec| matches!(spec, JobSpec::Revert { volume, view, .. } if (volume, view) == wanted);
        let running = self.find_job(is_same)?.ok_or_else(changing)?;
        let id = running.id;
        if !self.jobs.has(id) {
            self.jobs.push(running);
        }
        self.operation(id)
    }

    /// Puts a placeholder in the place of a volume whose storage is closed.
    pub(crate) fn serve_placeholder(
        &self,
        state: &mut ServiceState,
        PoolAndVolume { pool, volume }: &PoolAndVolume,
    ) -> Result<()> {
        let gate = state.meters.apply(pool, volume)?;
        let (durability, instance) = (volume.durability, self.dependencies.instance);
        let pacer = Arc::clone(&self.dependencies.pacer);
        let closed = vfs::Volume::placeholder(volume.id, volume.name.as_str(), durability, instance);
        let closed = Arc::new(closed.with_gate(gate).with_clock(move || pacer.now()));
        let open = OpenVolume::new(volume.clone(), closed, &state.hosts, self.protocols());
        state.open.insert(volume.name.clone(), open);
        self.publish(state);
        Ok(())
    }

    /// Waits until nothing uses the former files, and replaces them.
    pub(super) fn revert_in_storage(&self, id: OperationId, volume: VolumeId, view: ViewId) -> JobEnd {
        self.jobs.begin(id, self.dependencies.pacer.now());
        let since = self.now_ms();
        let mut recorded_ms = 0;
        // Half of a revert is never served, so it cannot be cancelled once it has begun.
        let mut pace = |progress| {
            self.jobs.final_step(id, progress)?;
            _ = self.record_progress(id, &mut recorded_ms);
            ControlFlow::Continue(())
        };
        loop {
            match self.dependencies.provisioner.revert(volume, view, &mut pace) {
                Ok(done) => return self.job_end(id, Ok(done)),
                Err(FsError::Locked) if self.now_ms().abs_diff(since) < REVERT_WAIT_MS => {}
                Err(FsError::Locked) => {
                    let seconds = REVERT_WAIT_MS / 1_000;
                    return JobEnd::Failed(format!(
                        "requests of clients used its files for {seconds} seconds"
                    ));
                }
                Err(error) => {
                    return JobEnd::Failed(Error::storage("revert the volume")(error).to_string());
                }
            }
            if self.jobs.rest(id, Duration::from_millis(REVERT_RETRY_MS)).is_break() {
                return if self.jobs.is_cancelled(id) { JobEnd::Cancelled } else { JobEnd::Stopped };
            }
        }
    }

    /// Serves the volume again, and begins to delete the newer snapshots if they go. If the storage does not open, clients go on
    /// waiting, and the next start repeats the job.
    pub(super) fn end_revert(
        &self,
        id: OperationId,
        of: (VolumeId, ViewId),
        size_before: Bytes,
        outcome: &Outcome,
        deletes_newer: bool,
    ) -> Result<()> {
        let (volume, view) = of;
        let Some(row) = self.read(|store| Ok(store::volume::find_id(store, volume)?))? else { return Ok(()) };
        let is_done = *outcome == Outcome::Succeeded;
        let mut after = self.after_revert(&row, if is_done { row.size } else { size_before })?;
        let gate = self.state().meters.apply(&after.pool, &after.volume)?;
        let capacity = levels::capacity(&after.pool, &after.volume);
        let opened = self.dependencies.provisioner.set_capacity(volume, capacity);
        let opened = opened.and_then(|()| self.open_storage(&after.volume, gate, Grace::default()));
        let served = opened.map_err(Error::storage(format!("open the volume {}", row.name)))?;
        (after.volume.version, after.volume.changed_ms) = (row.version + 1, self.now_ms());
        let deletions = self.change(|store| {
            after.write(store)?;
            self.end_operation(store, id, outcome)?;
            if is_done && deletes_newer { self.delete_newer(store, volume, view) } else { Ok(Vec::new()) }
        })?;
        self.show_snapshots(&after.volume, &served)?;
        let mut state = self.state();
        state.totals.set(&after.volume);
        let is_other =
            |warning: &Warning| !matches!(warning, Warning::Unfinished { volume, .. } if *volume == row.name);
        state.startup_warnings.retain(is_other);
        let open = OpenVolume::new(after.volume.clone(), served, &state.hosts, self.protocols());
        state.open.insert(row.name, open);
        self.publish(&state);
        drop(state);
        deletions.iter().for_each(|deletion| self.enqueue(deletion));
        Ok(())
    }

    /// The volume and its pool once it is served again with this size.
    fn after_revert(&self, row: &Volume, size: Bytes) -> Result<PoolAndVolume> {
        let reverting = PoolAndVolume { pool: self.find_pool(&row.pool)?, volume: row.clone() };
        let change = VolumeChange { size: Some(size), ..VolumeChange::default() };
        let (after, _) = self.changed(&reverting, &change)?;
        Ok(PoolAndVolume { volume: Volume { state: State::Ready, ..after.volume }, ..after })
    }

    fn delete_newer(&self, store: &Connection, volume: VolumeId, than: ViewId) -> Result<Vec<Operation>> {
        let mut begun = Vec::new();
        for newer in store::snapshot::of_volume(store, volume)?.into_iter().filter(|one| one.view > than) {
            let (state, version) = (SnapshotState::Deleting, newer.version + 1);
            let (name, view) = (newer.full_name(), newer.view);
            store::snapshot::update(store, &Snapshot { state, version, reason: String::new(), ..newer })?;
            let spec = JobSpec::delete_snapshot(volume, view);
            begun.push(self.begin_job(store, &name, spec, "newer than the files after a revert")?);
        }
        Ok(begun)
    }
}

//! Reconciles the snapshots of a volume at the start: those in the store, those in the storage, and those that clients see.
//!
//! An unfinished creation is finished if the storage has the snapshot, else dropped. An unfinished deletion goes on as a job.
//! The storage deletes snapshots that the store does not know: a creation that failed may have left them.

use crate::error::{Error, Result};
use crate::job::JobSpec;
use crate::kind::Kind;
use crate::operation::{Actor, Operation, Outcome, Verb};
use crate::service::Service;
use crate::snapshot::{Snapshot, SnapshotState, full_name};
use crate::store::{self, operation::NewOperation};
use crate::volume::Volume;
use crate::warning::Warning;
use rusqlite::Connection;
use std::collections::BTreeSet;
use vfs::ViewId;

impl Service {
    /// For a volume that has just been opened. A failure is a warning: the volume is served without snapshots.
    pub(crate) fn reconcile_snapshots(&self, volume: &Volume, served: &vfs::Volume) {
        if let Err(error) = self.try_reconcile_snapshots(volume, served) {
            let warning =
                Warning::SnapshotsNotRead { volume: volume.name.clone(), reason: error.to_string() };
            self.state().startup_warnings.push(warning);
        }
    }

    fn try_reconcile_snapshots(&self, volume: &Volume, served: &vfs::Volume) -> Result<()> {
        let rows = self.read(|store| Ok(store::snapshot::of_volume(store, volume.id)?))?;
        let stored = match served.snapshot_storage() {
            Some(storage) => storage.list().map_err(Error::storage("list the snapshots"))?,
            None => Vec::new(),
        };
        let stored: BTreeSet<ViewId> = stored.into_iter().collect();
        let is_settled = |row: &Snapshot| {
            let expected =
                if stored.contains(&row.view) { SnapshotState::Ready } else { SnapshotState::Error };
            row.state == expected
        };
        let known: BTreeSet<ViewId> = rows.iter().map(|row| row.view).collect();
        let strays: Vec<ViewId> = stored.difference(&known).copied().collect();
        // A start writes nothing if there is nothing to do.
        if !strays.is_empty() || !rows.iter().all(is_settled) {
            self.change(|store| {
                rows.iter().try_for_each(|row| self.settle(store, row, stored.contains(&row.view)))?;
                strays.iter().try_for_each(|&view| self.begin_deletion(store, volume, view))
            })?;
        }
        let volume_name = || volume.name.clone();
        let strays = strays.iter().map(|view| Warning::StraySnapshot { volume: volume_name(), view: view.0 });
        self.state().startup_warnings.extend(strays);
        self.show_snapshots(volume, served)
    }

    /// Brings a row into agreement with the storage.
    fn settle(&self, store: &Connection, row: &Snapshot, is_stored: bool) -> Result<()> {
        let name = row.full_name();
        let running = store::operation::running(store, Kind::Snapshot, &name)?;
        let end = |outcome| {
            running
                .clone()
                .map_or(Ok(()), |one| store::operation::end(store, one, outcome, self.now_ms()).map(drop))
        };
        match row.state {
            SnapshotState::Creating if !is_stored => {
                store::snapshot::delete(store, row.volume_id, row.view)?;
                end(Outcome::Failed(
                    "the service ended before the storage had made the snapshot".to_owned(),
                ))?;
            }
            SnapshotState::Creating | SnapshotState::Error if is_stored => {
                let (state, reason) = (SnapshotState::Ready, String::new());
                store::snapshot::update(store, &Snapshot { state, reason, ..row.clone() })?;
                end(Outcome::Succeeded)?;
            }
            SnapshotState::Ready if !is_stored => {
                let (state, reason) = (SnapshotState::Error, "the storage does not have it".to_owned());
                let version = row.version + 1;
                store::snapshot::update(store, &Snapshot { state, reason, version, ..row.clone() })?;
            }
            SnapshotState::Deleting if running.as_ref().is_none_or(|one| one.spec.is_none()) => {
                let spec = JobSpec::delete_snapshot(row.volume_id, row.view);
                self.begin_job(store, &name, spec, "finishing it")?;
            }
            SnapshotState::Creating
            | SnapshotState::Ready
            | SnapshotState::Deleting
            | SnapshotState::Error => {}
        }
        Ok(())
    }

    /// Begins to delete a snapshot without a row. No name of a snapshot begins with `@`.
    fn begin_deletion(&self, store: &Connection, volume: &Volume, view: ViewId) -> Result<()> {
        store::snapshot::skip_numbers(store, volume.id, view)?;
        let name = full_name(&volume.name, format_args!("@{}", view.0));
        let name = name.as_str();
        if store::operation::running(store, Kind::Snapshot, name)?.is_some() {
            return Ok(());
        }
        let spec = JobSpec::delete_snapshot(volume.id, view);
        self.begin_job(store, name, spec, "a snapshot that the store does not know").map(drop)
    }

    /// Begins the deletion of a snapshot on the service's own account.
    pub(crate) fn begin_job(
        &self,
        store: &Connection,
        name: &str,
        spec: JobSpec,
        detail: &str,
    ) -> Result<Operation> {
        let actor = Actor::new("plimsoll");
        let (verb, kind) = (Verb::Delete, Kind::Snapshot);
        let begun = NewOperation { actor: &actor, verb, kind, name, detail, spec: Some(spec) };
        Ok(store::operation::begin(store, &begun, self.now_ms())?)
    }

    /// Has the unfinished jobs of earlier runs go on.
    pub(crate) fn resume_jobs(&self) -> Result<()> {
        let jobs = self.read(|store| Ok(store::operation::jobs(store)?))?;
        jobs.into_iter().for_each(|job| self.jobs.push(job));
        Ok(())
    }
}

//! The work of jobs with vaults. Each can end at any moment and go on later: a backup at the object where it was, all others
//! from their beginning.

use super::Service;
use super::vault::vault_error;
use crate::backup::{Backup, BackupState, time_of};
use crate::error::{Error, Result};
use crate::job::JobProgress;
use crate::job_backup::BackupJob;
use crate::kind::Kind;
use crate::operation::{OperationId, Outcome};
use crate::store;
use crate::vault::Vault;
use replicate::{Depth, Error as VaultError, Fault, Job, Manifest, Progress, Source, Sweep, Verify};
use stable::files::{PRIVATE_DIR, make_dirs};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use vfs::{ChangedRanges, Snapshots, Time, ViewId};

/// Temporary files of jobs, below the data directory. They have no names.
const SCRATCH: &str = "scratch";
/// The pause between two looks whether another sweep of the vault has ended.
const LEASE_PAUSE: Duration = Duration::from_millis(500);
/// Damaged objects that a reason names.
const FAULTS_NAMED: usize = 3;

/// The end of a job's run.
pub(super) enum VaultJobEnd {
    Made(Box<Manifest>),
    Deleted,
    Verified(Vec<Fault>),
    Restored,
    Cancelled,
    /// The service stops; the next start goes on with it.
    Stopped,
    Failed(String),
}

/// A job with what it works on.
pub(super) struct VaultJob<'s> {
    pub(super) service: &'s Service,
    pub(super) id: OperationId,
    pub(super) vault: Vault,
    pub(super) backup: Backup,
    recorded_ms: Cell<u64>,
    /// Bytes of files that a backup has packed and not sent yet.
    waiting_bytes: Cell<u64>,
}

impl Service {
    pub(super) fn run_backup_job(&self, id: OperationId, of: BackupJob) {
        let end = match self.vault_job(id, of) {
            Ok(job) => {
                self.jobs.begin(id, self.dependencies.pacer.now());
                let mut recorded_ms = 0;
                // Without this record a cancellation takes the job for one that has not begun.
                match self.record_progress(id, &mut recorded_ms) {
                    Ok(()) => job.work(of),
                    Err(error) => VaultJobEnd::Failed(error.to_string()),
                }
            }
            Err(error) => VaultJobEnd::Failed(error.to_string()),
        };
        // If the store refuses, the job is still running there, and the next start goes on with it.
        _ = self.end_backup_job(id, of, end);
    }

    fn vault_job(&self, id: OperationId, of: BackupJob) -> Result<VaultJob<'_>> {
        let (vault, backup) = self.read(|store| {
            let vault = store::vault::find_row(store, of.vault())?;
            Ok((vault, store::backup::find_id(store, of.vault(), of.backup())?))
        })?;
        let vault = vault.ok_or_else(|| Error::not_found(Kind::Vault, of.vault()))?;
        let backup = backup.ok_or_else(|| Error::not_found(Kind::Backup, of.backup()))?;
        Ok(VaultJob {
            service: self,
            id,
            vault,
            backup,
            recorded_ms: Cell::default(),
            waiting_bytes: Cell::default(),
        })
    }

    /// Ends a job that panicked.
    pub(super) fn fail_backup_job(&self, id: OperationId, of: BackupJob, reason: String) -> Result<()> {
        self.end_backup_job(id, of, VaultJobEnd::Failed(reason))
    }

    /// Ends a job that waited for a thread.
    pub(super) fn withdraw_backup_job(&self, id: OperationId, of: BackupJob) -> Result<()> {
        let begun = self.operation(id)?.progress.is_some();
        self.change(|store| {
            store::operation::cancel(store, id)?;
            // An earlier run may have left parts in the vault.
            match store::backup::find_id(store, of.vault(), of.backup())? {
                Some(backup) if begun && matches!(of, BackupJob::Create { .. }) => {
                    let (state, reason) = (BackupState::Error, "it was cancelled".to_owned());
                    Ok(store::backup::update(store, &Backup { state, reason, ..backup })?)
                }
                _ => Ok(()),
            }
        })?;
        self.end_backup_job(id, of, VaultJobEnd::Cancelled)
    }

    fn end_backup_job(&self, id: OperationId, of: BackupJob, end: VaultJobEnd) -> Result<()> {
        if matches!(end, VaultJobEnd::Stopped) {
            return Ok(());
        }
        if matches!(end.outcome(), Outcome::Failed(_))
            && let Some(vault) = self.read(|store| Ok(store::vault::find_row(store, of.vault())?))?
        {
            self.vaults.count_failure(&vault.name);
        }
        if let BackupJob::RestoreVolume { volume, .. } = of {
            return self.end_volume_restore(id, vfs::VolumeId(volume), end);
        }
        let progress = self.jobs.progress(id);
        let ended = self.change(|store| {
            let Some(operation) = store::operation::find(store, id)? else { return Ok(None) };
            // The removal of its volume has ended it already.
            if operation.outcome != Outcome::Running {
                return Ok(None);
            }
            let backup = store::backup::find_id(store, of.vault(), of.backup())?;
            let outcome = match &backup {
                Some(backup) => self.settle_backup(store, of, backup, &end)?,
                None => end.outcome(),
            };
            if let BackupJob::RestoreFiles { request, .. } = of {
                store::backup::delete_restore(store, request)?;
            }
            progress.map_or(Ok(()), |progress| store::operation::record(store, id, progress))?;
            store::operation::end(store, operation, outcome, self.now_ms())?;
            Ok(backup)
        })?;
        let Some(backup) = ended else { return Ok(()) };
        match (of, &end) {
            (BackupJob::Create { .. }, VaultJobEnd::Made(_)) => {
                self.delete_former_snapshots(&backup)?;
                self.retire(&backup)
            }
            (BackupJob::Create { .. }, VaultJobEnd::Cancelled) => {
                self.delete_own_snapshot(&backup);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Brings the row of a backup to the end of its job.
    fn settle_backup(
        &self,
        store: &rusqlite::Connection,
        of: BackupJob,
        backup: &Backup,
        end: &VaultJobEnd,
    ) -> Result<Outcome> {
        let now = self.now_ms();
        let next = || Backup { version: backup.version + 1, changed_ms: now, ..backup.clone() };
        match (of, end) {
            (BackupJob::Create { .. }, VaultJobEnd::Made(manifest)) => {
                let made = Backup { view: None, ..next().with_manifest(manifest) };
                store::backup::update(store, &made)?;
            }
            (BackupJob::Create { .. }, VaultJobEnd::Cancelled) if backup.state == BackupState::Creating => {
                store::backup::delete(store, backup.vault_row, backup.id)?;
            }
            (BackupJob::Create { .. }, VaultJobEnd::Failed(reason)) => {
                let state = BackupState::Error;
                store::backup::update(store, &Backup { state, reason: reason.clone(), ..next() })?;
            }
            (BackupJob::Delete { .. }, VaultJobEnd::Deleted) => {
                store::backup::delete(store, backup.vault_row, backup.id)?;
            }
            (BackupJob::Delete { .. }, VaultJobEnd::Failed(reason)) => {
                store::backup::update(store, &Backup { reason: reason.clone(), ..next() })?;
            }
            (BackupJob::Verify { reads_data, .. }, VaultJobEnd::Verified(faults)) => {
                let damage = described(faults);
                let is_whole = reads_data || !faults.is_empty();
                let verified_ms = if is_whole { Some(now) } else { backup.verified_ms };
                let damage = if is_whole { damage } else { backup.damage.clone() };
                store::backup::update(store, &Backup { verified_ms, damage, ..next() })?;
            }
            _ => {}
        }
        Ok(end.outcome())
    }
}

impl VaultJobEnd {
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::Verified(faults) if !faults.is_empty() => {
                Outcome::Failed(format!("damaged: {}", described(faults)))
            }
            Self::Made(_) | Self::Deleted | Self::Verified(_) | Self::Restored => Outcome::Succeeded,
            Self::Cancelled => Outcome::Cancelled,
            Self::Stopped => Outcome::Running,
            Self::Failed(reason) => Outcome::Failed(reason.clone()),
        }
    }
}

/// The damaged objects of a backup in words; empty without any.
fn described(faults: &[Fault]) -> String {
    let named = faults.iter().take(FAULTS_NAMED).map(|fault| format!("{}: {}", fault.object, fault.why));
    let more = faults.len().saturating_sub(FAULTS_NAMED);
    let named: Vec<String> = named.chain((more > 0).then(|| format!("and {more} more"))).collect();
    named.join("; ")
}

impl VaultJob<'_> {
    fn work(&self, of: BackupJob) -> VaultJobEnd {
        let done = match of {
            BackupJob::Create { .. } => self.send(),
            BackupJob::Delete { .. } => self.delete(),
            BackupJob::Verify { reads_data, .. } => self.verify(reads_data),
            BackupJob::RestoreVolume { volume, .. } => self.restore_volume(vfs::VolumeId(volume)),
            BackupJob::RestoreFiles { volume, request, .. } => {
                self.restore_files(vfs::VolumeId(volume), request)
            }
        };
        match done {
            Ok(end) => end,
            Err(_) if self.service.jobs.is_cancelled(self.id) => match of {
                BackupJob::Create { .. } => self.abandon(),
                _ => VaultJobEnd::Cancelled,
            },
            Err(_) if self.service.jobs.is_closed() => VaultJobEnd::Stopped,
            Err(error) => VaultJobEnd::Failed(error.to_string()),
        }
    }

    /// Gives up a backup that was cancelled, so that no part of it stays in the vault after the next sweep.
    fn abandon(&self) -> VaultJobEnd {
        let done = self.open().and_then(|vault| {
            let mut random = |bytes: &mut [u8]| self.random(bytes);
            replicate::abandon(&vault, self.backup.id, &mut random).map_err(|error| self.failed(error))
        });
        match done {
            // It was complete at the last moment.
            Ok(false) => VaultJobEnd::Failed("it was cancelled too late: the backup is complete".to_owned()),
            Ok(true) => VaultJobEnd::Cancelled,
            Err(error) => {
                VaultJobEnd::Failed(format!("it was cancelled, and parts of it are in the vault: {error}"))
            }
        }
    }

    fn send(&self) -> Result<VaultJobEnd> {
        let of = &self.backup;
        let closed = || Error::storage("open the volume")(vfs::FsError::NotFound);
        let served = self.service.served_by_id(of.volume_id).ok_or_else(closed)?;
        let storage = super::snapshot::storage(&served, &of.volume)?;
        let view = of.view.ok_or_else(|| Error::not_found(Kind::Snapshot, &of.snapshot))?;
        let files = storage.open(view).map_err(Error::storage("open the snapshot"))?;
        let vault = self.open()?;
        let scratch = self.service.dependencies.dir.join(SCRATCH);
        make_dirs(&scratch, PRIVATE_DIR).map_err(|error| self.failed(VaultError::Scratch(error)))?;
        let (volume, snapshot) = (of.volume_in_vault(), of.snapshot_in_vault());
        let changes = self.changes_since_previous(storage, view)?;
        let source = Source {
            backend: &*files,
            volume: &volume,
            snapshot: &snapshot,
            taken: of.taken(),
            previous: of.previous,
            changes: changes.as_deref(),
            locked_until: of.locked_until_ms.map(time_of),
        };
        let made = replicate::backup(
            &vault,
            of.id,
            &source,
            &mut Job {
                scratch: &scratch,
                random: &mut |bytes| self.random(bytes),
                now: &|| time_of(self.service.now_ms()),
                pace: &mut |bytes| self.pace(bytes),
                progress: &mut |progress| self.step(progress),
            },
        );
        made.map(|manifest| VaultJobEnd::Made(Box::new(manifest))).map_err(|error| self.failed(error))
    }

    /// The changes since the snapshot of the last backup; `None` if that is gone, or the storage does not know it.
    fn changes_since_previous(
        &self,
        storage: &dyn Snapshots,
        view: ViewId,
    ) -> Result<Option<Arc<dyn ChangedRanges>>> {
        let Some(previous) = self.backup.previous else { return Ok(None) };
        let found =
            self.service.read(|store| Ok(store::backup::find_id(store, self.backup.vault_row, previous)?))?;
        match found.and_then(|found| found.made_from).filter(|from| *from < view) {
            None => Ok(None),
            Some(from) => match storage.changes(from, view) {
                Err(vfs::FsError::NotFound) => Ok(None),
                found => found.map_err(Error::storage("compare two snapshots")),
            },
        }
    }

    fn delete(&self) -> Result<VaultJobEnd> {
        let vault = self.open()?;
        let (id, mut random) = (self.backup.id, |bytes: &mut [u8]| self.random(bytes));
        let is_complete = self.backup.finished_ms.is_some()
            || !replicate::abandon(&vault, id, &mut random).map_err(|error| self.failed(error))?;
        if is_complete {
            match replicate::delete(&vault, id, self.lock_time(), &mut random) {
                // An earlier run has deleted it.
                Ok(()) | Err(VaultError::NotFound(_)) => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        self.sweep(&vault)?;
        Ok(VaultJobEnd::Deleted)
    }

    /// Frees what no backup needs. Another sweep, or one that a crash has ended, holds the right to it for minutes.
    fn sweep(&self, vault: &replicate::Vault) -> Result<()> {
        loop {
            let swept = replicate::sweep(
                vault,
                &mut Sweep {
                    random: &mut |bytes| self.random(bytes),
                    now: &|| self.lock_time(),
                    progress: &mut |done, total| self.count(done, Some(total)),
                },
            );
            match swept {
                Err(VaultError::Leased(_)) => {
                    if self.service.jobs.rest(self.id, LEASE_PAUSE).is_break() {
                        return Err(self.failed(VaultError::Stopped));
                    }
                }
                swept => return swept.map(drop).map_err(|error| self.failed(error)),
            }
        }
    }

    fn verify(&self, reads_data: bool) -> Result<VaultJobEnd> {
        let vault = self.open()?;
        let depth = if reads_data { Depth::Data } else { Depth::Objects };
        let manifest = match vault.manifest(self.backup.id) {
            Err(VaultError::Damaged(object, why)) => {
                return Ok(VaultJobEnd::Verified(vec![Fault { object, why }]));
            }
            Err(VaultError::NotFound(_)) => {
                let object = format!("backup {}", self.backup.id);
                return Ok(VaultJobEnd::Verified(vec![Fault { object, why: "it is not in the vault" }]));
            }
            found => found.map_err(|error| self.failed(error))?,
        };
        let checked = replicate::verify(
            &vault,
            &manifest,
            &mut Verify {
                depth,
                pace: &mut |bytes| self.pace(bytes),
                progress: &mut |done, total| self.count(done, Some(total)),
            },
        );
        checked.map(VaultJobEnd::Verified).map_err(|error| self.failed(error))
    }

    pub(super) fn open(&self) -> Result<replicate::Vault> {
        self.service.open_vault(&self.vault)
    }

    pub(super) fn failed(&self, error: VaultError) -> Error {
        vault_error(&self.vault.name, error)
    }

    fn random(&self, bytes: &mut [u8]) {
        (self.service.dependencies.entropy)(bytes);
    }

    fn lock_time(&self) -> Time {
        time_of(self.service.lock_now_ms())
    }

    /// Waits as long as the limit of the vault demands.
    pub(super) fn pace(&self, bytes: u64) -> ControlFlow<()> {
        let pause = self.service.vaults.pause(&self.vault, bytes, self.service.dependencies.pacer.now());
        self.service.jobs.rest(self.id, pause)?;
        // A pack can take long: its progress and the speed are shown meanwhile.
        let Some(JobProgress { done, total, .. }) = self.service.jobs.progress(self.id) else {
            return ControlFlow::Continue(());
        };
        let sent = bytes.min(self.waiting_bytes.get());
        self.waiting_bytes.set(self.waiting_bytes.get() - sent);
        self.count(done + sent, total)
    }

    pub(super) fn step(&self, progress: &Progress) -> ControlFlow<()> {
        // While files are counted, their bytes are not those that are done.
        match progress.bytes_total {
            Some(total) => {
                let waiting = progress.bytes_waiting.min(progress.bytes_done);
                self.waiting_bytes.set(waiting);
                self.count(progress.bytes_done - waiting, Some(total))
            }
            None => self.count(0, None),
        }
    }

    /// Records a step.
    pub(super) fn count(&self, done: u64, total: Option<u64>) -> ControlFlow<()> {
        let now = self.service.dependencies.pacer.now();
        self.service.jobs.step_at(self.id, vfs::Progress { done, total }, now)?;
        let mut recorded_ms = self.recorded_ms.get();
        // The record is for the time after a restart alone.
        _ = self.service.record_progress(self.id, &mut recorded_ms);
        self.recorded_ms.set(recorded_ms);
        ControlFlow::Continue(())
    }
}

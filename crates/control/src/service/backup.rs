//! Begins, deletes, checks and lists backups. The work is that of [jobs](super::backup_job).

use super::snapshot::{Scheduled, check_ready};
use super::{Page, Service, UNCHANGED, check_version};
use crate::backup::{Backup, BackupState, BackupTotals, NewBackup, full_name};
use crate::backup_error::BackupError;
use crate::error::{Error, Result};
use crate::job::JobSpec;
use crate::job_backup::{BackupJob, number};
use crate::kind::{Kind, State};
use crate::name::{BackupName, VaultName};
use crate::operation::{ChangeContext, ChangeResult, Operation, Outcome, Verb};
use crate::snapshot::{NewSnapshot, Snapshot, SnapshotKind, SnapshotState};
use crate::store::{self, lock_clock, operation::NewOperation};
use crate::vault::Vault;
use crate::volume::Volume;
use replicate::BackupId;
use rusqlite::Connection;
use vfs::VolumeId;

const DAY_MS: u64 = 86_400_000;

impl Service {
    /// Begins a backup. Asked again, it returns the job that runs, or goes on with one that failed.
    pub fn create_backup(
        &self,
        context: &ChangeContext,
        vault: &VaultName,
        new: &NewBackup,
    ) -> Result<ChangeResult<Backup>> {
        self.begin_backup(context, vault, new, SnapshotKind::Manual)
    }

    pub(super) fn begin_backup(
        &self,
        context: &ChangeContext,
        vault: &VaultName,
        new: &NewBackup,
        kind: SnapshotKind,
    ) -> Result<ChangeResult<Backup>> {
        let vault = self.vault(vault)?;
        if let Some(name) = &new.name
            && let Some(found) = self.read(|store| Ok(store::backup::find(store, vault.row, name)?))?
        {
            return self.repeated(context, new, found);
        }
        let volume = self.find_volume(&new.volume)?;
        self.check_can_back_up(&volume)?;
        self.check_lock_time(new.locked_until_ms)?;
        let (snapshot, is_own) = match &new.snapshot {
            Some(name) => (self.snapshot(&volume.name, name)?, false),
            None => {
                let scheduled = Scheduled { kind: SnapshotKind::Backup, replaces: false };
                let made = self.make_snapshot(context, &volume.name, &NewSnapshot::default(), scheduled)?;
                (made.value, true)
            }
        };
        let begun = {
            let _locked = self.lock_snapshots(&volume.name);
            self.change(|store| self.insert_backup(store, context, &vault, new, kind, &snapshot))
        };
        if begun.is_err() && is_own {
            // The first error is the one to report. The next start deletes what is left.
            _ = self.delete_snapshot(context, &volume.name, &snapshot.name);
        }
        let begun = begun?;
        self.enqueue(&begun.operation);
        Ok(begun)
    }

    fn check_can_back_up(&self, volume: &Volume) -> Result<()> {
        if volume.state != State::Ready {
            return Err(Error::Changing { volume: volume.name.to_string(), state: volume.state });
        }
        self.check_snapshot_storage(&volume.name)
    }

    /// The answer to a request for a backup whose name exists.
    fn repeated(
        &self,
        context: &ChangeContext,
        new: &NewBackup,
        found: Backup,
    ) -> Result<ChangeResult<Backup>> {
        let name = found.full_name();
        let differs = new.differs_from(&found);
        if !differs.is_empty() {
            return Err(Error::Conflict { kind: Kind::Backup, name, differs });
        }
        let thing = (Kind::Backup, name.as_str());
        match found.state {
            BackupState::Ready => {
                let operation =
                    self.change(|store| self.record(store, context, Verb::Create, thing, UNCHANGED))?;
                Ok(ChangeResult { value: found, operation })
            }
            BackupState::Creating => {
                let running =
                    self.read(|store| Ok(store::operation::running(store, Kind::Backup, &name)?))?;
                let running = running.ok_or_else(|| Error::not_found(Kind::Operation, &name))?;
                Ok(ChangeResult { value: found, operation: self.operation(running.id)? })
            }
            BackupState::Error if found.view.is_some() => {
                let begun = self.change(|store| {
                    let (version, changed_ms) = (found.version + 1, self.now_ms());
                    let state = BackupState::Creating;
                    let after = Backup { state, version, changed_ms, reason: String::new(), ..found.clone() };
                    store::backup::update(store, &after)?;
                    let operation = self.begin_create(store, context, &after, "going on")?;
                    Ok(ChangeResult { value: after, operation })
                })?;
                self.enqueue(&begun.operation);
                Ok(begun)
            }
            BackupState::Error | BackupState::Deleting => {
                Err(BackupError::State { backup: name, state: found.state.as_str() }.into())
            }
        }
    }

    /// Writes the intent to make a backup. From then on its snapshot cannot be deleted.
    fn insert_backup(
        &self,
        store: &Connection,
        context: &ChangeContext,
        vault: &Vault,
        new: &NewBackup,
        kind: SnapshotKind,
        snapshot: &Snapshot,
    ) -> Result<ChangeResult<Backup>> {
        let vault = store::vault::find_row(store, vault.row)?
            .ok_or_else(|| Error::not_found(Kind::Vault, &vault.name))?;
        let found = store::snapshot::find_view(store, snapshot.volume_id, snapshot.view)?;
        let snapshot = found.ok_or_else(|| Error::not_found(Kind::Snapshot, snapshot.full_name()))?;
        check_ready(&snapshot)?;
        let others = store::backup::of_volume(store, snapshot.volume_id)?;
        if let Some(other) = others.iter().find(|one| one.state == BackupState::Creating) {
            return Err(busy(store, other)?);
        }
        let mut id = [0; 8];
        (self.dependencies.entropy)(&mut id);
        // The storage made the snapshot no earlier than this.
        let taken_ms = snapshot.created_ms.min(snapshot.changed_ms);
        let name = match &new.name {
            Some(name) => name.clone(),
            None => default_name(store, &snapshot, kind)?,
        };
        if let Some(found) = store::backup::find(store, vault.row, &name)? {
            let (kind, differs) = (Kind::Backup, new.differs_from(&found));
            return Err(Error::Conflict { kind, name: found.full_name(), differs });
        }
        let is_base = |one: &&Backup| one.vault_row == vault.row && one.state == BackupState::Ready;
        let now = self.now_ms();
        let backup = Backup {
            vault_row: vault.row,
            id: BackupId(id),
            vault: vault.name.clone(),
            name,
            volume: snapshot.volume.clone(),
            volume_id: snapshot.volume_id,
            snapshot: snapshot.name.clone(),
            kind,
            view: Some(snapshot.view),
            made_from: Some(snapshot.view),
            previous: others.iter().rfind(is_base).map(|one| one.id),
            taken_ms,
            finished_ms: None,
            totals: BackupTotals::default(),
            state: BackupState::Creating,
            reason: String::new(),
            verified_ms: None,
            damage: String::new(),
            locked_until_ms: self.lock_of(&vault, new.locked_until_ms),
            version: 1,
            created_ms: now,
            changed_ms: now,
        };
        store::backup::insert(store, &backup)?;
        lock_clock::advance(store, self.lock_now_ms())?;
        let detail = format!("snapshot {}", snapshot.full_name());
        let operation = self.begin_create(store, context, &backup, &detail)?;
        Ok(ChangeResult { value: backup, operation })
    }

    /// The end of a new backup's lock: the later one of its own and of its vault's.
    fn lock_of(&self, vault: &Vault, own: Option<u64>) -> Option<u64> {
        let days = (vault.lock_days > 0)
            .then(|| self.lock_now_ms().saturating_add(u64::from(vault.lock_days).saturating_mul(DAY_MS)));
        own.max(days)
    }

    fn begin_create(
        &self,
        store: &Connection,
        context: &ChangeContext,
        backup: &Backup,
        detail: &str,
    ) -> Result<Operation> {
        let spec = BackupJob::Create {
            vault: backup.vault_row,
            backup: number(backup.id),
            volume: backup.volume_id.0,
        };
        self.begin_backup_job(store, context, Verb::Create, (Kind::Backup, &backup.full_name()), detail, spec)
    }

    pub(super) fn begin_backup_job(
        &self,
        store: &Connection,
        context: &ChangeContext,
        verb: Verb,
        thing: (Kind, &str),
        detail: &str,
        spec: BackupJob,
    ) -> Result<Operation> {
        let (kind, name) = thing;
        let spec = Some(JobSpec::Backup(spec));
        let begun = NewOperation { actor: &context.actor, verb, kind, name, detail, spec };
        Ok(store::operation::begin(store, &begun, self.now_ms())?)
    }

    /// Starts the job that deletes a backup, or abandons one that failed. Asked again, it returns the job that runs.
    pub fn delete_backup(
        &self,
        context: &ChangeContext,
        vault: &VaultName,
        name: &BackupName,
    ) -> Result<Operation> {
        let before = self.backup(vault, name)?;
        let full_name = before.full_name();
        check_version(context, Kind::Backup, &full_name, before.version)?;
        let running = self.read(|store| Ok(store::operation::running(store, Kind::Backup, &full_name)?))?;
        if let Some(running) = running.filter(|_| before.state == BackupState::Deleting) {
            return self.operation(running.id);
        }
        self.check_backup_unlocked(&before)?;
        let operation = self.change(|store| {
            let before = find_again(store, &before)?;
            if let Some(operation) = user_of(store, &before)? {
                return Err(BackupError::Busy { backup: full_name.clone(), operation: operation.0 }.into());
            }
            let of_volume = store::backup::of_volume(store, before.volume_id)?;
            if let Some(other) = of_volume.iter().find(|one| is_made_from(one, &before)) {
                return Err(busy(store, other)?);
            }
            let is_ready =
                |one: &&Backup| one.vault_row == before.vault_row && one.state == BackupState::Ready;
            if of_volume.iter().rfind(is_ready).is_some_and(|last| last.id == before.id) && !context.force {
                return Err(BackupError::Last {
                    backup: full_name.clone(),
                    volume: before.volume.to_string(),
                }
                .into());
            }
            let (version, changed_ms) = (before.version + 1, self.now_ms());
            let state = BackupState::Deleting;
            let after =
                Backup { state, version, changed_ms, reason: String::new(), view: None, ..before.clone() };
            store::backup::update(store, &after)?;
            lock_clock::advance(store, self.lock_now_ms())?;
            let spec = BackupJob::Delete { vault: after.vault_row, backup: number(after.id) };
            self.begin_backup_job(store, context, Verb::Delete, (Kind::Backup, &full_name), "", spec)
        })?;
        self.delete_own_snapshot(&before);
        self.enqueue(&operation);
        Ok(operation)
    }

    /// Starts the job that checks a backup.
    pub fn verify_backup(
        &self,
        context: &ChangeContext,
        vault: &VaultName,
        name: &BackupName,
        reads_data: bool,
    ) -> Result<Operation> {
        let backup = self.backup(vault, name)?;
        let operation = self.change(|store| {
            let backup = ready_to_read(store, &backup)?;
            let spec = BackupJob::Verify { vault: backup.vault_row, backup: number(backup.id), reads_data };
            let detail = if reads_data { "all data" } else { "the objects alone" };
            let thing = (Kind::Backup, backup.full_name());
            self.begin_backup_job(store, context, Verb::Verify, (thing.0, &thing.1), detail, spec)
        })?;
        self.enqueue(&operation);
        Ok(operation)
    }

    pub fn backup(&self, vault: &VaultName, name: &BackupName) -> Result<Backup> {
        let row = self.vault(vault)?.row;
        let found = self.read(|store| Ok(store::backup::find(store, row, name)?))?;
        found.ok_or_else(|| Error::not_found(Kind::Backup, full_name(vault, name)))
    }

    /// Lists the backups of a vault by name after `after`, the [`Page::next`] of the previous page.
    pub fn backups(&self, vault: &VaultName, after: Option<&str>, most: usize) -> Result<Page<Backup>> {
        let row = self.vault(vault)?.row;
        let after = after.unwrap_or("");
        self.page(
            most,
            |store, most| store::backup::list(store, row, after, most),
            |one| one.name.to_string(),
        )
    }

    /// The backups of all vaults.
    pub fn all_backups(&self) -> Result<Vec<Backup>> {
        self.read(|store| Ok(store::backup::all(store)?))
    }

    /// Deletes the snapshots of earlier backups of a volume in the same vault: the next one is compared with this one.
    pub(super) fn delete_former_snapshots(&self, last: &Backup) -> Result<()> {
        let mut former = self.read(|store| Ok(store::backup::of_volume(store, last.volume_id)?))?;
        former.retain(|one| one.vault_row == last.vault_row && one.id != last.id && one.view.is_none());
        former.iter().for_each(|one| self.delete_own_snapshot(one));
        Ok(())
    }

    /// Deletes the snapshot that a backup had made for itself. A failure is in the record, and the next start repeats it.
    pub(super) fn delete_own_snapshot(&self, backup: &Backup) {
        let (volume, name) = (&backup.volume, &backup.snapshot);
        let is_own = |found: &Snapshot| {
            // A later snapshot can have the same name.
            found.kind == SnapshotKind::Backup
                && found.volume_id == backup.volume_id
                && Some(found.view) == backup.made_from
                && found.state == SnapshotState::Ready
        };
        if self.snapshot(volume, name).is_ok_and(|found| is_own(&found)) {
            _ = self.delete_snapshot(&ChangeContext::by(crate::Actor::new("plimsoll")), volume, name);
        }
    }

    fn check_backup_unlocked(&self, backup: &Backup) -> Result<()> {
        let Some(until) = backup.locked_until_ms.filter(|&until| until > self.lock_now_ms()) else {
            return Ok(());
        };
        // What is not complete is of no use to anybody.
        if backup.finished_ms.is_none() {
            return Ok(());
        }
        let until = self.lock_end_text(until)?;
        Err(BackupError::Locked { backup: backup.full_name(), until }.into())
    }

    /// Refuses the deletion of a snapshot from which a backup is made.
    pub(super) fn check_no_backup(&self, snapshot: &Snapshot) -> Result<()> {
        let backups = self.read(|store| Ok(store::backup::of_volume(store, snapshot.volume_id)?))?;
        match backups.iter().find(|one| one.view == Some(snapshot.view)) {
            Some(one) => {
                let (snapshot, backup) = (snapshot.full_name(), one.full_name());
                Err(BackupError::SnapshotPinned { snapshot, backup }.into())
            }
            None => Ok(()),
        }
    }

    /// Ends the jobs of backups and restores that use a volume that is gone. Its complete backups stay.
    pub(super) fn end_backup_jobs(&self, store: &Connection, volume: VolumeId) -> Result<()> {
        for job in store::operation::jobs(store)? {
            let JobSpec::Backup(of) = job.spec else { continue };
            if of.volume() == Some(volume)
                && let Some(running) = store::operation::find(store, job.id)?
            {
                store::operation::end(store, running, Outcome::Cancelled, self.now_ms())?;
            }
        }
        for backup in store::backup::of_volume(store, volume)?.into_iter().filter(|one| one.view.is_some()) {
            let (state, reason) = (BackupState::Error, "its volume was deleted before it ended".to_owned());
            let version = backup.version + 1;
            store::backup::update(store, &Backup { state, reason, version, view: None, ..backup })?;
        }
        Ok(())
    }
}

/// Whether a backup is being made from another one.
fn is_made_from(backup: &Backup, base: &Backup) -> bool {
    let is_unfinished = matches!(backup.state, BackupState::Creating | BackupState::Error);
    is_unfinished
        && backup.finished_ms.is_none()
        && backup.vault_row == base.vault_row
        && backup.previous == Some(base.id)
        && backup.view.is_some()
}

pub(super) fn find_again(store: &Connection, backup: &Backup) -> Result<Backup> {
    let found = store::backup::find_id(store, backup.vault_row, backup.id)?;
    found.ok_or_else(|| Error::not_found(Kind::Backup, backup.full_name()))
}

/// The backup as it is now, complete and without a job that changes it.
pub(super) fn ready_to_read(store: &Connection, backup: &Backup) -> Result<Backup> {
    let now = find_again(store, backup)?;
    let name = now.full_name();
    if now.state != BackupState::Ready {
        return Err(BackupError::State { backup: name, state: now.state.as_str() }.into());
    }
    if let Some(running) = store::operation::running(store, Kind::Backup, &name)? {
        return Err(BackupError::Busy { backup: name, operation: running.id.0 }.into());
    }
    Ok(now)
}

/// The job that uses a backup.
fn user_of(store: &Connection, backup: &Backup) -> Result<Option<crate::OperationId>> {
    let uses = |spec: JobSpec| match spec {
        JobSpec::Backup(of) => of.vault() == backup.vault_row && of.backup() == backup.id,
        _ => false,
    };
    Ok(store::operation::jobs(store)?.into_iter().find(|job| uses(job.spec)).map(|job| job.id))
}

/// The error for a backup that is being made.
fn busy(store: &Connection, backup: &Backup) -> Result<Error> {
    let name = backup.full_name();
    let running = store::operation::running(store, Kind::Backup, &name)?;
    Ok(match running {
        Some(running) => Error::from(BackupError::Busy { backup: name, operation: running.id.0 }),
        None => Error::from(BackupError::State { backup: name, state: backup.state.as_str() }),
    })
}

/// The name of a backup without one, in UTC, so that no hour is doubled. It has the volume's, because a vault takes the
/// backups of many.
fn default_name(store: &Connection, snapshot: &Snapshot, kind: SnapshotKind) -> Result<BackupName> {
    let (volume, created) = (&snapshot.volume, snapshot.created_ms);
    let time = |form: &str| lock_clock::utc(store, form, created);
    let name = match kind {
        SnapshotKind::Manual => format!("{volume}.{}", time("%Y-%m-%d_%H%M%S")?),
        kind => format!("{volume}.{kind}.{}", time("%Y-%m-%d_%H%M")?),
    };
    name.parse()
}

//! Restores: of a backup to a new volume, which is not served before the end, and of files to a volume that clients use.

use super::Service;
use super::backup::ready_to_read;
use super::backup_job::{VaultJob, VaultJobEnd};
use super::snapshot::check_settled;
use crate::backup::BackupFileRestore;
use crate::error::{Error, Result};
use crate::job_backup::{BackupJob, number};
use crate::kind::Kind;
use crate::levels;
use crate::limits::{RESTORE_PATH_CHARS_MAX, RESTORE_PATHS_MAX};
use crate::name::{BackupName, VaultName, VolumeName, check_labels};
use crate::operation::{ChangeContext, ChangeResult, Operation, OperationId, Outcome, Verb};
use crate::store;
use crate::volume::{NewVolume, Volume};
use envelope::Bytes;
use replicate::{Restore, Selection};
use vfs::{Blocking, Root, VolumeId};

impl Service {
    /// Begins to restore a backup to a new volume. If the job fails or is cancelled, the volume is removed again.
    pub fn restore_volume(
        &self,
        context: &ChangeContext,
        vault: &VaultName,
        backup: &BackupName,
        new: &NewVolume,
    ) -> Result<ChangeResult<Volume>> {
        check_labels(&new.labels)?;
        let backup = self.backup(vault, backup)?;
        let answers = self.look_up(new.rules.iter().flatten());
        let _locked = self.lock_volume(&new.name, Some(&new.pool))?;
        self.finish_named(&new.name)?;
        if self.read(|store| Ok(store::volume::find(store, &new.name)?))?.is_some() {
            let what = format!("the volume {}, which exists", new.name);
            return Err(Error::invalid(what, "the name of a new volume"));
        }
        let needed = Bytes(backup.totals.bytes);
        if new.size < needed {
            let what = format!("a volume of {} for the backup {}", new.size.for_people(), backup.full_name());
            return Err(Error::invalid(what, format!("{} or more", needed.for_people())));
        }
        let mut state = self.state();
        state.hosts.learn(answers);
        let pool = self.find_pool(&new.pool)?;
        // The root comes from the backup, except what the request names.
        let volume = Volume { root_due: new.root.is_some(), ..self.planned(&pool, new)? };
        levels::check_totals(&pool, &state.totals.with(&pool, &volume), context.force)?;
        let detail = format!("{} in the pool {}, from backup {}", volume.size, pool.name, backup.full_name());
        let operation = self.change(|store| {
            let backup = ready_to_read(store, &backup)?;
            store::volume::insert(store, &volume)?;
            super::volume::check_addresses(store)?;
            let spec = BackupJob::RestoreVolume {
                vault: backup.vault_row,
                backup: number(backup.id),
                volume: volume.id.0,
            };
            let thing = (Kind::Volume, volume.name.as_str());
            self.begin_backup_job(store, context, Verb::Create, thing, &detail, spec)
        })?;
        state.totals.set(&volume);
        drop(state);
        self.enqueue(&operation);
        Ok(ChangeResult { value: volume, operation })
    }

    /// Begins to restore files to a volume. Names that exist there are refused, so that nothing is overwritten.
    pub fn restore_backup_files(
        &self,
        context: &ChangeContext,
        vault: &VaultName,
        backup: &BackupName,
        request: &BackupFileRestore,
    ) -> Result<Operation> {
        check_paths(request)?;
        let backup = self.backup(vault, backup)?;
        let name: VolumeName = request.volume.parse()?;
        let _locked = self.lock_snapshots(&name);
        let volume = self.find_volume(&name)?;
        check_settled(&volume)?;
        self.check_writable_volume(&volume, "get restored files")?;
        let operation = self.change(|store| {
            let backup = ready_to_read(store, &backup)?;
            let row = store::backup::insert_restore(store, request)?;
            let spec = BackupJob::RestoreFiles {
                vault: backup.vault_row,
                backup: number(backup.id),
                volume: volume.id.0,
                request: row,
            };
            let count = request.paths.len();
            let detail = format!("{count} path{} to volume {name}", if count == 1 { "" } else { "s" });
            let thing = backup.full_name();
            self.begin_backup_job(store, context, Verb::Restore, (Kind::Backup, &thing), &detail, spec)
        })?;
        self.enqueue(&operation);
        Ok(operation)
    }

    /// Serves a restored volume, or removes what a failed or cancelled restore has left.
    pub(super) fn end_volume_restore(
        &self,
        id: OperationId,
        volume: VolumeId,
        end: VaultJobEnd,
    ) -> Result<()> {
        let Some(volume) = self.read(|store| Ok(store::volume::find_id(store, volume)?))? else {
            return Ok(());
        };
        let _locked = self.lock_volume(&volume.name, None)?;
        let operation = self.operation(id)?;
        if operation.outcome != Outcome::Running {
            return Ok(());
        }
        if let Some(progress) = self.jobs.progress(id) {
            self.change(|store| Ok(store::operation::record(store, id, progress)?))?;
        }
        match end {
            VaultJobEnd::Restored => {
                let pool = self.pool(&volume.pool)?;
                self.finish_create(&pool, volume, operation).map(drop)
            }
            end => self.undo_create(volume, operation, end.outcome()),
        }
    }
}

impl VaultJob<'_> {
    /// Fills new storage. What an earlier run left there is removed first.
    pub(super) fn restore_volume(&self, id: VolumeId) -> Result<VaultJobEnd> {
        let service = self.service;
        let found = service.read(|store| Ok(store::volume::find_id(store, id)?))?;
        let volume = found.ok_or_else(|| Error::not_found(Kind::Volume, format!("{:016x}", id.0)))?;
        let vault = self.open()?;
        let manifest = vault.manifest(self.backup.id).map_err(|error| self.failed(error))?;
        let pool = service.pool(&volume.pool)?;
        let provisioner = &service.dependencies.provisioner;
        let storage = |doing: &str| Error::storage(format!("{doing} the volume {}", volume.name));
        provisioner.remove(id).map_err(storage("remove what was left of"))?;
        provisioner.make(id, &volume.root, levels::capacity(&pool, &volume)).map_err(storage("create"))?;
        let target = provisioner.open(id).map_err(storage("open"))?;
        let mut job = Restore {
            selection: Selection::Whole,
            pace: &mut |bytes| self.pace(bytes),
            progress: &mut |progress| self.step(progress),
        };
        replicate::restore(&vault, &manifest, &*target, &mut job).map_err(|error| self.failed(error))?;
        if !volume.root_due {
            let attrs = target.root().attrs(Blocking::Allowed).map_err(storage("read the root of"))?;
            let root = Root { mode: attrs.mode, uid: attrs.uid, gid: attrs.gid };
            service.change(|store| Ok(store::volume::update(store, &Volume { root, ..volume })?))?;
        } else {
            let volume = Volume { root_due: false, ..volume };
            service.change(|store| Ok(store::volume::update(store, &volume)?))?;
        }
        Ok(VaultJobEnd::Restored)
    }

    pub(super) fn restore_files(&self, id: VolumeId, request: i64) -> Result<VaultJobEnd> {
        let service = self.service;
        let request = service.read(|store| Ok(store::backup::find_restore(store, request)?))?;
        let request = request.ok_or_else(|| Error::not_found(Kind::Operation, self.id))?;
        let closed = || Error::storage("open the volume")(vfs::FsError::NotFound);
        // The volume stays open while the job uses it.
        let _served = service.served_by_id(id).ok_or_else(closed)?;
        let target = service.dependencies.provisioner.open(id).map_err(Error::storage("open the volume"))?;
        let vault = self.open()?;
        let manifest = vault.manifest(self.backup.id).map_err(|error| self.failed(error))?;
        let paths: Vec<&[u8]> = request.paths.iter().map(String::as_bytes).collect();
        let directory = request.directory.as_bytes();
        let mut job = Restore {
            selection: Selection::Into { directory, paths: &paths },
            pace: &mut |bytes| self.pace(bytes),
            progress: &mut |progress| self.count(progress.bytes_done, None),
        };
        replicate::restore(&vault, &manifest, &*target, &mut job).map_err(|error| self.failed(error))?;
        Ok(VaultJobEnd::Restored)
    }
}

fn check_paths(request: &BackupFileRestore) -> Result<()> {
    let count = request.paths.len();
    if !(1..=RESTORE_PATHS_MAX).contains(&count) {
        return Err(Error::invalid(format!("{count} paths to restore"), format!("1 to {RESTORE_PATHS_MAX}")));
    }
    for path in request.paths.iter().chain([&request.directory]) {
        let is_long = path.chars().count() > RESTORE_PATH_CHARS_MAX;
        let is_relative = path.split('/').any(|part| matches!(part, "." | ".."));
        if is_long || is_relative || path.contains('\0') {
            let allowed = format!(
                "a path from the root, as in /projects/plan.txt, without . and .., at most {RESTORE_PATH_CHARS_MAX} characters"
            );
            return Err(Error::invalid(format!("the path {path:?}"), allowed));
        }
    }
    Ok(())
}

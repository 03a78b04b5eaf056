//! Runs the schedules of backups, and deletes the backups beyond the number to keep.

use super::Service;
use crate::backup::{Backup, BackupState, NewBackup, full_name};
use crate::backup_error::BackupError;
use crate::error::{Error, Result};
use crate::kind::Kind;
use crate::operation::{Actor, ChangeContext, Outcome, Verb};
use crate::policy::Policy;
use crate::schedule::Schedules;
use crate::snapshot::SnapshotKind;
use crate::store;
use crate::volume::Volume;

impl Service {
    /// Begins the backup that is due. A volume has one at a time, so those of other schedules stay due until it has ended.
    pub(super) fn run_backup_policy(&self, volume: &Volume, policy: &Policy, now: u64) -> Result<()> {
        let Some(vault) = &policy.vault else { return Ok(()) };
        let context = ChangeContext::by(Actor::new(format!("policy {}", policy.name)));
        for kind in Schedules::KINDS {
            let Some(due) = policy.schedules.last_due(kind, &policy.zone, now) else { continue };
            let last = self.read(|store| Ok(store::backup::last_run(store, volume.id, kind)?))?;
            if due <= last.max(policy.since_ms).max(volume.backup_policy_since_ms) {
                continue;
            }
            let of_volume = self.read(|store| Ok(store::backup::of_volume(store, volume.id)?))?;
            if of_volume.iter().any(|one| one.state == BackupState::Creating) {
                return Ok(());
            }
            self.abandon_failed(&context, &of_volume, kind)?;
            let new =
                NewBackup { volume: volume.name.clone(), name: None, snapshot: None, locked_until_ms: None };
            let begun = self.begin_backup(&context, vault, &new, kind);
            self.change(|store| {
                store::backup::set_run(store, volume.id, kind, due)?;
                let Err(error) = &begun else { return Ok(()) };
                let name = full_name(vault, format_args!("{}.{kind}", volume.name));
                let begun = self.begin(store, &context, Verb::Create, (Kind::Backup, &name), "")?;
                let outcome = Outcome::Failed(error.to_string());
                store::operation::end(store, begun, outcome, self.now_ms())?;
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Deletes the failed backups of a schedule, which the next one replaces.
    fn abandon_failed(&self, context: &ChangeContext, all: &[Backup], kind: SnapshotKind) -> Result<()> {
        let is_failed = |one: &&Backup| one.kind == kind && one.state == BackupState::Error;
        for backup in all.iter().filter(is_failed) {
            match self.delete_backup(context, &backup.vault, &backup.name) {
                Ok(_) | Err(Error::Backup(BackupError::Busy { .. }) | Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Deletes the oldest backups of a schedule beyond the number to keep, after `made` is complete. Never the latest of the
    /// volume, and none that is locked.
    pub(super) fn retire(&self, made: &Backup) -> Result<()> {
        let found = self.read(|store| {
            let Some(volume) = store::volume::find_id(store, made.volume_id)? else { return Ok(None) };
            let Some(name) = volume.backup_policy else { return Ok(None) };
            Ok(store::policy::find(store, &name)?)
        })?;
        let Some(policy) = found.filter(|policy| policy.vault.as_ref() == Some(&made.vault)) else {
            return Ok(());
        };
        let Some(keep) = policy.schedules.keep(made.kind) else { return Ok(()) };
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        let context = ChangeContext::by(Actor::new(format!("policy {}", policy.name)));
        let mut present = self.read(|store| Ok(store::backup::of_volume(store, made.volume_id)?))?;
        present.retain(|one| {
            one.vault_row == made.vault_row && one.kind == made.kind && one.state == BackupState::Ready
        });
        let mut excess = present.len().saturating_sub(keep);
        for backup in present {
            if excess == 0 {
                break;
            }
            match self.delete_backup(&context, &backup.vault, &backup.name) {
                Ok(_) => excess -= 1,
                Err(
                    Error::Backup(BackupError::Locked { .. })
                    | Error::Backup(BackupError::Last { .. })
                    | Error::Backup(BackupError::Busy { .. })
                    | Error::NotFound { .. },
                ) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

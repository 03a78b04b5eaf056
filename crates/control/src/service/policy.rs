//! Creates, changes, removes and lists policies, and runs their schedules.

use super::snapshot::{Scheduled, storage};
use super::{Page, Service, UNCHANGED, check_version, levels};
use crate::backup_error::BackupError;
use crate::error::{Error, Result};
use crate::kind::{Kind, State};
use crate::name::{PolicyName, VolumeName};
use crate::operation::{Actor, ChangeContext, ChangeResult, Operation, Outcome, Verb};
use crate::policy::{DueRun, NewPolicy, Policy, PolicyChange};
use crate::pool::Pool;
use crate::schedule::Schedules;
use crate::snapshot::{NewSnapshot, Snapshot, SnapshotKind, SnapshotState, full_name};
use crate::store;
use crate::volume::Volume;
use std::collections::HashMap;

impl Service {
    /// Creates a policy. Succeeds without a change if an identical policy exists.
    pub fn create_policy(&self, context: &ChangeContext, new: &NewPolicy) -> Result<ChangeResult<Policy>> {
        new.schedules.check()?;
        new.vault.as_ref().map_or(Ok(()), |vault| self.vault(vault).map(drop))?;
        let _state = self.state();
        let thing = (Kind::Policy, new.name.as_str());
        if let Some(policy) = self.read(|store| Ok(store::policy::find(store, &new.name)?))? {
            let differs = new.differs_from(&policy);
            if !differs.is_empty() {
                return Err(Error::Conflict { kind: Kind::Policy, name: new.name.to_string(), differs });
            }
            let operation =
                self.change(|store| self.record(store, context, Verb::Create, thing, UNCHANGED))?;
            return Ok(ChangeResult { value: policy, operation });
        }
        let now = self.now_ms();
        let mut policy = Policy {
            row: 0,
            name: new.name.clone(),
            is_enabled: new.is_enabled,
            vault: new.vault.clone(),
            zone: new.zone.clone(),
            schedules: new.schedules.clone(),
            since_ms: now,
            version: 1,
            created_ms: now,
            changed_ms: now,
        };
        let operation = self.change(|store| {
            store::policy::insert(store, &mut policy)?;
            self.record(store, context, Verb::Create, thing, "")
        })?;
        Ok(ChangeResult { value: policy, operation })
    }

    /// Changes a policy. New schedules hold for due times from now on.
    pub fn update_policy(
        &self,
        context: &ChangeContext,
        name: &PolicyName,
        change: &PolicyChange,
    ) -> Result<ChangeResult<Policy>> {
        // A volume that is changed at the same time relies on the policy.
        let _state = self.state();
        let before = self.policy(name)?;
        check_version(context, Kind::Policy, name.as_str(), before.version)?;
        let (mut after, changes) = before.changed(change);
        let thing = (Kind::Policy, name.as_str());
        if changes.is_empty() {
            let operation =
                self.change(|store| self.record(store, context, Verb::Update, thing, UNCHANGED))?;
            return Ok(ChangeResult { value: before, operation });
        }
        after.schedules.check()?;
        for volume in self.policy_volumes(&before)? {
            let volume = self.find_volume(&volume)?;
            self.check_keep(&self.find_pool(&volume.pool)?, &volume, &after)?;
        }
        let now = self.now_ms();
        (after.version, after.changed_ms, after.since_ms) = (before.version + 1, now, now);
        let operation = self.change(|store| {
            store::policy::update(store, &after)?;
            self.record(store, context, Verb::Update, thing, &changes.join(", "))
        })?;
        Ok(ChangeResult { value: after, operation })
    }

    /// Deletes a policy without volumes. Its snapshots stay.
    pub fn delete_policy(&self, context: &ChangeContext, name: &PolicyName) -> Result<Operation> {
        let _state = self.state();
        let policy = self.policy(name)?;
        check_version(context, Kind::Policy, name.as_str(), policy.version)?;
        let volumes = self.policy_volumes(&policy)?;
        if !volumes.is_empty() {
            return Err(Error::PolicyInUse { policy: name.to_string(), volumes: volumes.len() });
        }
        self.change(|store| {
            store::policy::delete(store, policy.row)?;
            self.record(store, context, Verb::Delete, (Kind::Policy, name.as_str()), "")
        })
    }

    pub fn policy(&self, name: &PolicyName) -> Result<Policy> {
        let found = self.read(|store| Ok(store::policy::find(store, name)?))?;
        found.ok_or_else(|| Error::not_found(Kind::Policy, name))
    }

    /// Lists policies by name after `after`, the [`Page::next`] of the previous page.
    pub fn policies(&self, after: Option<&str>, most: usize) -> Result<Page<Policy>> {
        let after = after.unwrap_or("");
        self.page(most, |store, most| store::policy::list(store, after, most), |one| one.name.to_string())
    }

    /// The volumes of a policy, by name.
    pub fn policy_volumes(&self, policy: &Policy) -> Result<Vec<VolumeName>> {
        self.read(|store| Ok(store::policy::volumes(store, policy.row)?))
    }

    /// Refuses a policy for a volume whose storage has no snapshots, or that could get too many.
    pub(super) fn check_policy(&self, volume: &Volume) -> Result<()> {
        let Some(name) = &volume.policy else { return Ok(()) };
        self.check_policy_use(name, false)?;
        self.check_writable_volume(volume, "have a policy")?;
        let policy = self.policy(name)?;
        self.check_keep(&self.find_pool(&volume.pool)?, volume, &policy)
    }

    /// Refuses a policy of backups as one of snapshots, and the reverse.
    pub(super) fn check_policy_use(&self, name: &PolicyName, wants_vault: bool) -> Result<()> {
        if self.policy(name)?.vault.is_some() == wants_vault {
            return Ok(());
        }
        let (makes, allowed) = match wants_vault {
            true => ("snapshots", "one with a vault as the policy of backups"),
            false => ("backups", "one without a vault as the policy of snapshots"),
        };
        Err(Error::invalid(format!("the policy {name}, which makes {makes}"), allowed))
    }

    /// Refuses a policy by which a volume in `pool` could get too many snapshots.
    pub(super) fn check_keep(&self, pool: &Pool, volume: &Volume, policy: &Policy) -> Result<()> {
        if policy.vault.is_some() {
            return Ok(());
        }
        let all = self.read(|store| Ok(store::snapshot::of_volume(store, volume.id)?))?;
        let others = all.iter().filter(|one| !Schedules::KINDS.contains(&one.kind)).count();
        let keep = usize::try_from(policy.schedules.keep_all()).unwrap_or(usize::MAX);
        levels::check_snapshots(pool, volume, others.saturating_add(keep))
    }

    /// Makes the snapshots and backups that are due, and deletes those beyond the number to keep. After downtime a schedule runs once. The
    /// caller repeats this every few seconds.
    pub fn run_policies(&self) -> Result<()> {
        let now = self.now_ms();
        let policies = self.read(|store| Ok(store::policy::list(store, "", usize::MAX >> 1)?))?;
        if policies.is_empty() {
            return Ok(());
        }
        let policies: HashMap<PolicyName, Policy> =
            policies.into_iter().map(|policy| (policy.name.clone(), policy)).collect();
        for volume in self.read(|store| Ok(store::volume::all(store)?))? {
            if self.jobs.is_closed() {
                return Ok(());
            }
            if volume.state != State::Ready {
                continue;
            }
            let enabled = |name: &Option<PolicyName>| {
                name.as_ref().and_then(|name| policies.get(name)).filter(|policy| policy.is_enabled)
            };
            if let Some(policy) = enabled(&volume.policy) {
                self.run_policy(&volume, policy, now)?;
            }
            if let Some(policy) = enabled(&volume.backup_policy) {
                self.run_backup_policy(&volume, policy, now)?;
            }
        }
        Ok(())
    }

    fn run_policy(&self, volume: &Volume, policy: &Policy, now: u64) -> Result<()> {
        let context = ChangeContext::by(Actor::new(format!("policy {}", policy.name)));
        for kind in Schedules::KINDS {
            if policy.schedules.keep(kind).is_none() {
                continue;
            }
            let last = self.read(|store| Ok(store::policy::last_run(store, volume.id, kind)?))?;
            let Some(DueRun { due_ms: due, keep }) =
                policy.due_run(kind, last.max(volume.policy_since_ms), now)
            else {
                continue;
            };
            let made = self.make_scheduled(&context, volume, kind, keep);
            if made.is_err() {
                self.failed_runs.add(volume.id);
            }
            self.change(|store| {
                store::policy::set_run(store, volume.id, kind, due)?;
                match &made {
                    // What the storage refused is in the record already.
                    Ok(()) | Err(Error::Storage { .. }) => Ok(()),
                    Err(error) => {
                        let name = full_name(&volume.name, kind);
                        let begun = self.begin(store, &context, Verb::Create, (Kind::Snapshot, &name), "")?;
                        store::operation::end(
                            store,
                            begun,
                            Outcome::Failed(error.to_string()),
                            self.now_ms(),
                        )?;
                        Ok(())
                    }
                }
            })?;
        }
        Ok(())
    }

    fn make_scheduled(
        &self,
        context: &ChangeContext,
        volume: &Volume,
        kind: SnapshotKind,
        keep: u32,
    ) -> Result<()> {
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        let scheduled = Scheduled { kind, replaces: self.of_kind(volume, kind)?.len() >= keep };
        self.make_snapshot(context, &volume.name, &NewSnapshot::default(), scheduled)?;
        let mut present = self.of_kind(volume, kind)?;
        let mut excess = present.len().saturating_sub(keep);
        // The new one stays, also if all others are locked.
        present.pop();
        for snapshot in present {
            if excess == 0 {
                break;
            }
            match self.delete_snapshot(context, &volume.name, &snapshot.name) {
                Ok(_) => excess -= 1,
                Err(
                    Error::Locked { .. }
                    | Error::UsedByJob { .. }
                    | Error::NotFound { .. }
                    | Error::Backup(BackupError::SnapshotPinned { .. }),
                ) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The snapshots of a kind, the oldest first.
    fn of_kind(&self, volume: &Volume, kind: SnapshotKind) -> Result<Vec<Snapshot>> {
        let mut all = self.read(|store| Ok(store::snapshot::of_volume(store, volume.id)?))?;
        all.retain(|one| one.kind == kind && one.state == SnapshotState::Ready);
        all.sort_by_key(|one| one.created_ms);
        Ok(all)
    }

    /// Refuses a policy for a volume whose storage has no snapshots.
    pub(super) fn check_snapshot_storage(&self, volume: &VolumeName) -> Result<()> {
        match self.served(volume) {
            Some(served) => storage(&served, volume).map(drop),
            None => Ok(()),
        }
    }
}

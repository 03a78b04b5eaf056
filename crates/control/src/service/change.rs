//! Changes of volumes: a plan, then rows, then the storage if its limits or its root directory change.

use super::volume::{check_addresses, check_root};
use super::{Service, ServiceState, UNCHANGED, check_version, levels};
use crate::endpoint::check_endpoints;
use crate::error::{Error, Result};
use crate::kind::{Kind, State};
use crate::name::{VolumeName, check_labels};
use crate::operation::{ChangeContext, ChangeResult, Operation, Outcome, Verb};
use crate::pool::Pool;
use crate::store;
use crate::volume::{Volume, VolumeChange};
use rusqlite::Connection;
use vfs::FsResult;

/// A volume and its pool at one moment. A Filestore instance is both and changes as both.
#[derive(Clone)]
pub(crate) struct PoolAndVolume {
    pub(crate) pool: Pool,
    pub(crate) volume: Volume,
}

impl Service {
    /// Changes a volume, mounted or not.
    pub fn update_volume(
        &self,
        context: &ChangeContext,
        name: &VolumeName,
        change: &VolumeChange,
    ) -> Result<ChangeResult<Volume>> {
        change.labels.as_ref().map_or(Ok(()), check_labels)?;
        let answers = self.look_up(change.rules.iter().flatten());
        let _locked = self.lock_volume(name, change.pool.as_ref())?;
        self.state().hosts.learn(answers.clone());
        self.finish_named(name)?;
        let volume = self.find_volume(name)?;
        check_version(context, Kind::Volume, name.as_str(), volume.version)?;
        let before = PoolAndVolume { pool: self.find_pool(&volume.pool)?, volume };
        let (mut after, changes) = self.changed(&before, change)?;
        let thing = (Kind::Volume, name.as_str());
        if changes.is_empty() {
            let operation =
                self.change(|store| self.record(store, context, Verb::Update, thing, UNCHANGED))?;
            return Ok(ChangeResult { value: before.volume, operation });
        }
        if let Some(policy) = &after.volume.policy
            && before.volume.policy != after.volume.policy
        {
            self.check_policy_use(policy, false)?;
            self.check_snapshot_storage(name)?;
        }
        if let Some(policy) = &after.volume.backup_policy
            && before.volume.backup_policy != after.volume.backup_policy
        {
            self.check_policy_use(policy, true)?;
            self.check_snapshot_storage(name)?;
        }
        let mut state = self.state();
        state.hosts.learn(answers);
        self.check_change(&state, &before, &after, context.force)?;
        if before.volume.policy != after.volume.policy {
            self.check_policy(&after.volume)?;
            after.volume.policy_since_ms = self.now_ms();
        }
        if before.volume.backup_policy != after.volume.backup_policy {
            after.volume.backup_policy_since_ms = self.now_ms();
        }
        (after.volume.version, after.volume.changed_ms) = (before.volume.version + 1, self.now_ms());
        let capacity = |both: &PoolAndVolume| {
            (levels::capacity(&both.pool, &both.volume), levels::reserve(&both.volume))
        };
        if after.volume.root_due || capacity(&before) != capacity(&after) {
            after.volume.state = State::Updating;
            let operation = self.change(|store| {
                after.write(store)?;
                self.begin(store, context, Verb::Update, thing, &changes.join(", "))
            })?;
            state.totals.begin_change(&before.volume, &after.volume);
            drop(state);
            return self.finish_update(after, operation, Some(before));
        }
        let operation = self.change(|store| {
            after.write(store)?;
            self.record(store, context, Verb::Update, thing, &changes.join(", "))
        })?;
        state.totals.set(&after.volume);
        self.show(&mut state, &after.pool, &after.volume)?;
        Ok(ChangeResult { value: after.volume, operation })
    }

    pub(super) fn changed(
        &self,
        before: &PoolAndVolume,
        change: &VolumeChange,
    ) -> Result<(PoolAndVolume, Vec<String>)> {
        let (mut volume, changes) = before.volume.changed(change);
        let mut pool = match &change.pool {
            Some(name) => self.find_pool(name)?,
            None => before.pool.clone(),
        };
        (volume.pool, volume.pool_row) = (pool.name.clone(), pool.row);
        if levels::is_instance(pool.level) && volume.size != before.volume.size {
            (pool.size, pool.version, pool.changed_ms) = (volume.size, pool.version + 1, self.now_ms());
        }
        Ok((PoolAndVolume { pool, volume }, changes))
    }

    pub(super) fn check_change(
        &self,
        state: &ServiceState,
        before: &PoolAndVolume,
        after: &PoolAndVolume,
        force: bool,
    ) -> Result<()> {
        let (old, new) = (&before.volume, &after.volume);
        check_root(&new.root)?;
        check_endpoints(&new.endpoints)?;
        if old.settings.large != new.settings.large {
            let what = format!("changing whether the volume {} is large", old.name);
            return Err(Error::invalid(what, "what it was made as"));
        }
        if old.pool_row != new.pool_row {
            levels::check_move(before.pool.level, after.pool.level)?;
        }
        if old.size != new.size {
            let used = self.usage(&old.name)?.bytes;
            if new.size.0 < used && !force {
                return Err(Error::BelowUse { volume: old.name.to_string(), used, wanted: new.size.0 });
            }
            let home = if old.pool_row == new.pool_row { &before.pool } else { &after.pool };
            levels::check_volume_size(home, old, new.size, used)?;
        }
        levels::check_volume(&after.pool, new)?;
        self.check_reserve(old, new, force)?;
        self.check_moved_snapshots((&before.pool, old), (&after.pool, new))?;
        if old.protocols != new.protocols {
            levels::check_served(new.protocols, self.protocols())?;
        }
        if (&old.rules, old.protocols) != (&new.rules, new.protocols) {
            self.check_reachable(new)?;
        }
        self.check_share(new)?;
        levels::check_totals(&after.pool, &state.totals.with(&after.pool, new), force)
    }

    /// Changes the storage of a volume and records the volume as ready.
    /// If the storage refuses, the rows return to `before`, if that is known.
    pub(crate) fn finish_update(
        &self,
        after: PoolAndVolume,
        operation: Operation,
        before: Option<PoolAndVolume>,
    ) -> Result<ChangeResult<Volume>> {
        if let Err(error) = self.set_storage(&after) {
            let error = Error::storage(format!("change the volume {}", after.volume.name))(error);
            if let Some(mut before) = before {
                before.volume.version = after.volume.version + 1;
                if before.pool.row == after.pool.row && before.pool.version != after.pool.version {
                    before.pool.version = after.pool.version + 1;
                }
                self.change(|store| {
                    before.write(store)?;
                    Ok(store::operation::end(
                        store,
                        operation,
                        Outcome::Failed(error.to_string()),
                        self.now_ms(),
                    )?)
                })?;
                self.state().totals.set(&before.volume);
                // The storage has already failed once; the next start repeats this.
                _ = self.set_storage(&before);
            }
            return Err(error);
        }
        let PoolAndVolume { pool, volume } = after;
        let volume = Volume { state: State::Ready, root_due: false, ..volume };
        let operation = self.change(|store| {
            store::volume::update(store, &volume)?;
            Ok(store::operation::end(store, operation, Outcome::Succeeded, self.now_ms())?)
        })?;
        let mut state = self.state();
        state.totals.set(&volume);
        self.show(&mut state, &pool, &volume)?;
        Ok(ChangeResult { value: volume, operation })
    }

    fn set_storage(&self, PoolAndVolume { pool, volume }: &PoolAndVolume) -> FsResult<()> {
        self.dependencies.provisioner.set_capacity(volume.id, levels::capacity(pool, volume))?;
        self.apply_reserve(volume)?;
        if volume.root_due { self.dependencies.provisioner.set_root(volume.id, &volume.root) } else { Ok(()) }
    }
}

impl PoolAndVolume {
    pub(super) fn write(&self, store: &Connection) -> Result<()> {
        store::pool::update(store, &self.pool)?;
        store::volume::update(store, &self.volume)?;
        check_addresses(store)
    }
}

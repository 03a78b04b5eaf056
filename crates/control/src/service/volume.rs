//! Creates, removes and lists volumes. The file `change` changes them.

use super::snapshot::storage;
use super::{OpenVolume, Page, Service, UNCHANGED, check_version, levels};
use crate::endpoint::{ADDRESSES_MAX, check_endpoints};
use crate::error::{Error, Result};
use crate::kind::{Kind, State};
use crate::name::{ShareName, VolumeName, check_labels};
use crate::operation::{ChangeContext, ChangeResult, Operation, Outcome, Verb};
use crate::pool::Pool;
use crate::protocol::Protocols;
use crate::rule::{self, ExportRule, check_id};
use crate::store;
use crate::volume::{NewVolume, Volume, VolumeChange};
use envelope::Protocol;
use rusqlite::Connection;
use std::sync::Arc;
use vfs::claims::Grace;
use vfs::qos::Gate;
use vfs::{FsError, FsResult, Root, Usage, VolumeId};

impl Service {
    /// Creates a volume and serves it. Succeeds without a change if an identical volume exists.
    pub fn create_volume(&self, context: &ChangeContext, new: &NewVolume) -> Result<ChangeResult<Volume>> {
        check_labels(&new.labels)?;
        let answers = self.look_up(new.rules.iter().flatten());
        let _locked = self.lock_volume(&new.name, Some(&new.pool))?;
        self.state().hosts.learn(answers.clone());
        self.finish_named(&new.name)?;
        let thing = (Kind::Volume, new.name.as_str());
        if let Some(volume) = self.read(|store| Ok(store::volume::find(store, &new.name)?))? {
            let differs = new.differs_from(&volume);
            if !differs.is_empty() {
                return Err(Error::Conflict { kind: Kind::Volume, name: new.name.to_string(), differs });
            }
            let operation =
                self.change(|store| self.record(store, context, Verb::Create, thing, UNCHANGED))?;
            return Ok(ChangeResult { value: volume, operation });
        }
        let mut state = self.state();
        state.hosts.learn(answers);
        let pool = self.find_pool(&new.pool)?;
        let volume = self.planned(&pool, new)?;
        levels::check_totals(&pool, &state.totals.with(&pool, &volume), context.force)?;
        let detail = format!("{} in the pool {}", volume.size, pool.name);
        let operation = self.change(|store| {
            store::volume::insert(store, &volume)?;
            check_addresses(store)?;
            self.begin(store, context, Verb::Create, thing, &detail)
        })?;
        state.totals.set(&volume);
        drop(state);
        self.finish_create(&pool, volume, operation)
    }

    pub(super) fn planned(&self, pool: &Pool, new: &NewVolume) -> Result<Volume> {
        let now = self.now_ms();
        let volume = Volume {
            id: self.new_id()?,
            name: new.name.clone(),
            share: new.share.clone().unwrap_or_else(|| ShareName::from(&new.name)),
            pool: pool.name.clone(),
            pool_row: pool.row,
            level: new.level,
            size: new.size,
            size_lowest: new.size,
            settings: new.settings.clone(),
            protocols: new
                .protocols
                .unwrap_or_else(|| levels::default_protocols(new.level.unwrap_or(pool.level))),
            smb: new.smb.unwrap_or_default(),
            root: new.root.unwrap_or_else(|| levels::default_root(new.level.unwrap_or(pool.level))),
            root_due: false,
            durability: new.durability.unwrap_or_default(),
            security_style: new.security_style.unwrap_or_default(),
            snapshot_directory: new.snapshot_directory.unwrap_or_default(),
            policy: new.policy.clone(),
            policy_since_ms: if new.policy.is_some() { now } else { 0 },
            snap_reserve: new.snap_reserve.unwrap_or_default(),
            clone_of: None,
            backup_policy: new.backup_policy.clone(),
            backup_policy_since_ms: if new.backup_policy.is_some() { now } else { 0 },
            rules: new.rules.clone().unwrap_or_else(|| levels::default_rules(pool.level)),
            endpoints: new.endpoints.clone().unwrap_or_default(),
            labels: new.labels.clone(),
            state: State::Creating,
            version: 1,
            created_ms: now,
            changed_ms: now,
        };
        check_root(&volume.root)?;
        check_endpoints(&volume.endpoints)?;
        levels::check_volume(pool, &volume)?;
        levels::check_served(volume.protocols, self.protocols())?;
        self.check_reachable(&volume)?;
        self.check_share(&volume)?;
        self.check_policy(&volume)?;
        if let Some(policy) = &volume.backup_policy {
            self.check_policy_use(policy, true)?;
        }
        Ok(volume)
    }

    /// Refuses rules that no client can satisfy, because no connection has their protection.
    pub(super) fn check_reachable(&self, volume: &Volume) -> Result<()> {
        let (protocols, protection) = (volume.protocols.and(self.protocols()), self.dependencies.protection);
        let Some(rule) = volume.rules.iter().find(|rule| !rule.is_reachable(protocols, protection)) else {
            return Ok(());
        };
        let asked = rule::protection_word(rule.protection);
        let protocols = protocols.and(rule.protocols);
        let what = format!(
            "a rule for {} with xprtsec {asked}, which no connection over {protocols} has",
            rule.clients
        );
        let missing = rule::missing_for(rule.protection);
        let allowed = if protocols == Protocols::SMB {
            "any, or tls: SMB connections are encrypted then; clients of SMB show no certificate".to_owned()
        } else {
            format!("{}; for more, start the service with {missing}", rule::protection_word(protection))
        };
        Err(Error::invalid(what, allowed))
    }

    fn new_id(&self) -> Result<VolumeId> {
        loop {
            let mut bytes = [0; 8];
            (self.dependencies.entropy)(&mut bytes);
            let id = VolumeId(u64::from_be_bytes(bytes));
            if !self.read(|store| Ok(store::volume::exists(store, id)?))? {
                return Ok(id);
            }
        }
    }

    /// Refuses a volume whose path, or over SMB whose share name, belongs to another volume.
    pub(super) fn check_share(&self, volume: &Volume) -> Result<()> {
        let found = self.read(|store| Ok(store::volume::find_share(store, &volume.share)?))?;
        let in_use = |other| Error::ShareInUse { share: volume.share.to_string(), volume: other };
        if let Some(other) = found.filter(|other| other.name != volume.name) {
            return Err(in_use(other.name.to_string()));
        }
        if !volume.protocols.contains(Protocol::Smb) {
            return Ok(());
        }
        volume.share.check_smb()?;
        let shares = self.read(|store| Ok(store::volume::shares_over(store, Protocol::Smb)?))?;
        let is_same = |(name, share): &(VolumeName, ShareName)| {
            *name != volume.name && share.folded() == volume.share.folded()
        };
        shares.into_iter().find(is_same).map_or(Ok(()), |(name, _)| Err(in_use(name.to_string())))
    }

    /// Creates the storage of a volume and records the volume as ready. If the storage refuses, nothing remains.
    pub(crate) fn finish_create(
        &self,
        pool: &Pool,
        volume: Volume,
        operation: Operation,
    ) -> Result<ChangeResult<Volume>> {
        let gate = self.state().meters.apply(pool, &volume)?;
        let made =
            self.dependencies.provisioner.make(volume.id, &volume.root, levels::capacity(pool, &volume));
        let opened = made.and_then(|()| self.open_storage(&volume, gate, Grace::default()));
        let opened = opened.and_then(|served| self.apply_reserve(&volume).map(|()| served));
        let opened = opened.map_err(Error::storage(format!("create the volume {}", volume.name)));
        let is_possible =
            |served: &Arc<vfs::Volume>| match volume.policy.is_some() || volume.backup_policy.is_some() {
                true => storage(served, &volume.name).map(drop),
                false => Ok(()),
            };
        let served = match opened.and_then(|served| is_possible(&served).map(|()| served)) {
            Ok(served) => served,
            Err(error) => {
                self.undo_create(volume, operation, Outcome::Failed(error.to_string()))?;
                return Err(error);
            }
        };
        self.serve_created(volume, served, operation)
    }

    /// Records a volume whose storage has been made as ready, and serves it.
    pub(super) fn serve_created(
        &self,
        volume: Volume,
        served: Arc<vfs::Volume>,
        operation: Operation,
    ) -> Result<ChangeResult<Volume>> {
        let volume = Volume { state: State::Ready, ..volume };
        let operation = self.change(|store| {
            store::volume::update(store, &volume)?;
            Ok(store::operation::end(store, operation, Outcome::Succeeded, self.now_ms())?)
        })?;
        let mut state = self.state();
        let open = OpenVolume::new(volume.clone(), served, &state.hosts, self.protocols());
        state.open.insert(volume.name.clone(), open);
        self.publish(&state);
        Ok(ChangeResult { value: volume, operation })
    }

    pub(super) fn undo_create(&self, volume: Volume, operation: Operation, outcome: Outcome) -> Result<()> {
        self.state().meters.forget(volume.id);
        let volume = Volume { state: State::Deleting, ..volume };
        self.change(|store| {
            store::volume::update(store, &volume)?;
            Ok(store::operation::end(store, operation, outcome, self.now_ms())?)
        })?;
        // If this fails too, the volume stays in the state of a removal; a request or the next start repeats it.
        if self.dependencies.provisioner.remove(volume.id).is_ok() {
            self.change(|store| Ok(store::volume::delete(store, volume.id)?))?;
            self.state().totals.remove(volume.id);
        }
        Ok(())
    }

    /// Opens a volume's storage, with the grace period for its claims.
    pub(crate) fn open_storage(
        &self,
        volume: &Volume,
        gate: Arc<Gate>,
        grace: Grace,
    ) -> FsResult<Arc<vfs::Volume>> {
        let backend = self.shown(volume.id, self.dependencies.provisioner.open(volume.id)?)?;
        match self.apply_reserve(volume) {
            // Creation and changes refuse it. It can be mounted otherwise since.
            Ok(()) | Err(FsError::NotSupported) => {}
            Err(error) => return Err(error),
        }
        let name = volume.name.as_str();
        let instance = self.dependencies.instance;
        let served = vfs::Volume::new(volume.id, name, backend, volume.durability, instance);
        let served = served.with_security_style(volume.security_style)?;
        let pacer = Arc::clone(&self.dependencies.pacer);
        Ok(Arc::new(served.with_gate(gate).with_clock(move || pacer.now()).with_grace(grace)))
    }

    /// Removes a volume and all its files. Refuses while clients use it, unless forced.
    pub fn delete_volume(&self, context: &ChangeContext, name: &VolumeName) -> Result<Operation> {
        let locked = self.lock_volume(name, None)?;
        let found = self.find_volume(name)?;
        if found.state != State::Deleting {
            self.finish_named(name)?;
        } else if self.state().removing.contains(&found.id) {
            return Err(Error::Changing { volume: name.to_string(), state: found.state });
        }
        let volume = self.find_volume(name)?;
        check_version(context, Kind::Volume, name.as_str(), volume.version)?;
        self.check_no_job((Kind::Volume, name.as_str()), |spec| {
            spec.volume() != Some(volume.id) && spec.pinned().is_some_and(|(pinned, _)| pinned == volume.id)
        })?;
        if found.state != State::Deleting {
            self.check_no_replication(&volume)?;
            self.check_snapshots_may_go(volume.id, context.force)?;
        }
        let clients = self.dependencies.mounts.clients_of(volume.id);
        if clients > 0 && !context.force {
            return Err(Error::Busy { volume: name.to_string(), clients });
        }
        let now = self.now_ms();
        let version = volume.version + 1;
        let volume = Volume { state: State::Deleting, version, changed_ms: now, ..volume };
        let operation = self.change(|store| {
            store::volume::update(store, &volume)?;
            self.begin(store, context, Verb::Delete, (Kind::Volume, name.as_str()), "")
        })?;
        let mut state = self.state();
        state.open.remove(name);
        state.meters.forget(volume.id);
        self.publish(&state);
        state.removing.insert(volume.id);
        drop(state);
        // From here on other changes of the volume fail instead of waiting: a removal can take long.
        drop(locked);
        self.jobs.withdraw(volume.id);
        let removed = self.dependencies.provisioner.remove(volume.id);
        let deleted = self.finish_delete(&volume, operation, removed);
        let mut state = self.state();
        state.removing.remove(&volume.id);
        if deleted.is_ok() {
            state.totals.remove(volume.id);
        }
        deleted
    }

    pub(crate) fn finish_delete(
        &self,
        volume: &Volume,
        operation: Operation,
        removed: FsResult<()>,
    ) -> Result<Operation> {
        let error = removed.err().map(Error::storage(format!("remove the volume {}", volume.name)));
        let operation = self.change(|store| {
            let outcome = match &error {
                None => {
                    self.end_snapshot_operations(store, volume.id)?;
                    self.end_backup_jobs(store, volume.id)?;
                    store::volume::delete(store, volume.id)?;
                    Outcome::Succeeded
                }
                Some(error) => Outcome::Failed(error.to_string()),
            };
            Ok(store::operation::end(store, operation, outcome, self.now_ms())?)
        })?;
        error.map_or(Ok(operation), Err)
    }

    pub fn volume(&self, name: &VolumeName) -> Result<Volume> {
        self.find_volume(name)
    }

    /// Lists volumes by name after `after`, the [`Page::next`] of the previous page.
    pub fn volumes(&self, after: Option<&str>, most: usize) -> Result<Page<Volume>> {
        let after = after.unwrap_or("");
        self.page(
            most,
            |store, most| store::volume::list(store, after, most),
            |volume| volume.name.to_string(),
        )
    }

    pub fn usage(&self, name: &VolumeName) -> Result<Usage> {
        let id = self.find_volume(name)?.id;
        self.dependencies
            .provisioner
            .usage(id)
            .map_err(Error::storage(format!("report the usage of the volume {name}")))
    }

    pub fn set_rules(
        &self,
        context: &ChangeContext,
        name: &VolumeName,
        rules: Vec<ExportRule>,
    ) -> Result<ChangeResult<Volume>> {
        self.update_volume(context, name, &VolumeChange { rules: Some(rules), ..VolumeChange::default() })
    }

    /// Finishes an earlier, unfinished change of a volume.
    pub(super) fn finish_named(&self, name: &VolumeName) -> Result<()> {
        let Some(volume) = self.read(|store| Ok(store::volume::find(store, name)?))? else { return Ok(()) };
        if self.state().removing.contains(&volume.id) {
            return Err(Error::Changing { volume: name.to_string(), state: volume.state });
        }
        if self.is_restoring(&volume)? {
            return Err(Error::Changing { volume: name.to_string(), state: volume.state });
        }
        if volume.state == State::Ready { Ok(()) } else { self.finish(volume) }
    }
}

/// Refuses a change, already in the rows, that exceeds [`crate::endpoint::ADDRESSES_MAX`].
pub(super) fn check_addresses(store: &Connection) -> Result<()> {
    let count = store::endpoint::count(store)?;
    if count <= ADDRESSES_MAX {
        return Ok(());
    }
    let what = format!("{count} endpoint addresses");
    Err(Error::invalid(what, format!("at most {ADDRESSES_MAX} for all volumes together")))
}

/// Refuses mode bits that a directory does not have, and an owner that is not valid.
pub(super) fn check_root(root: &Root) -> Result<()> {
    if root.mode & !0o7777 != 0 {
        return Err(Error::invalid(format!("the mode {:o} of a root directory", root.mode), "0 to 7777"));
    }
    check_id("the owner", root.uid, "of a root directory")?;
    check_id("the group", root.gid, "of a root directory")
}

//! Reconciles store, storage and data plane at the start, whatever the last run was doing when it ended.
//!
//! Each unfinished creation or removal is finished: its intent is in the store before storage changes,
//! and each step on storage can be repeated. Storage without a row is reported and left alone.
//! A row whose storage does not open is reported and not served. It never gets new, empty storage:
//! its disk may only be missing today.

use crate::error::{Error, Result};
use crate::kind::{Kind, State};
use crate::levels;
use crate::operation::{Actor, Operation, Verb};
use crate::pool_totals::PoolTotals;
use crate::service::{OpenVolume, PoolAndVolume, Service};
use crate::store::{self, operation::NewOperation};
use crate::volume::Volume;
use crate::warning::Warning;
use std::collections::{HashMap, HashSet};
use vfs::{FsError, FsResult, VolumeId};

impl Service {
    pub(crate) fn reconcile(&self) -> Result<()> {
        self.load_accounts()?;
        let volumes = self.read(|store| Ok(store::volume::all(store)?))?;
        let mut state = self.state();
        state.totals = PoolTotals::of(volumes.iter());
        let known: HashSet<VolumeId> = volumes.iter().map(|volume| volume.id).collect();
        let stored =
            self.dependencies.provisioner.list().map_err(Error::storage("list the stored volumes"))?;
        let orphans = stored.into_iter().filter(|id| !known.contains(id));
        state.startup_warnings.extend(orphans.map(|volume| Warning::OrphanedStorage { volume }));
        state.hosts.learn(self.look_up(volumes.iter().flat_map(|volume| &volume.rules)));
        drop(state);
        let pools = self.read(|store| Ok(store::pool::all(store)?))?;
        let pools: HashMap<i64, _> = pools.into_iter().map(|pool| (pool.row, pool)).collect();
        for volume in self.smallest_first(volumes) {
            let name = volume.name.clone();
            let Some(pool) = pools.get(&volume.pool_row) else { continue };
            if volume.state == State::Reverting {
                // Its job opens it.
                let closed = PoolAndVolume { pool: pool.clone(), volume };
                self.serve_placeholder(&mut self.state(), &closed)?;
                continue;
            }
            if matches!(volume.state, State::Ready | State::Updating)
                && let Err(error) =
                    self.open_existing(PoolAndVolume { pool: pool.clone(), volume: volume.clone() })
            {
                self.state().startup_warnings.push(Warning::NotOpened { volume: name.clone(), error });
            }
            // Its job goes on.
            if self.is_restoring(&volume)? {
                continue;
            }
            if volume.state != State::Ready
                && let Err(error) = self.finish(volume)
                && !matches!(error, Error::Changing { .. })
            {
                let warning = Warning::Unfinished { volume: name, reason: error.to_string() };
                self.state().startup_warnings.push(warning);
            }
        }
        self.publish(&self.state());
        self.reconcile_backups()?;
        self.resume_jobs()
    }

    /// Orders volumes for opening: some need a count after a crash, and small ones must not wait for large ones.
    /// Volumes of unknown use come first.
    fn smallest_first(&self, mut volumes: Vec<Volume>) -> Vec<Volume> {
        volumes.sort_by_cached_key(|volume| {
            let usage = self.dependencies.provisioner.usage(volume.id).unwrap_or_default();
            (usage.files, usage.bytes)
        });
        volumes
    }

    fn open_existing(&self, PoolAndVolume { pool, volume }: PoolAndVolume) -> FsResult<()> {
        // A later catalog can refuse these settings. A volume without limits is not served.
        let gate = self.state().meters.apply(&pool, &volume).map_err(|_| FsError::Invalid)?;
        let served = self.open_storage(&volume, gate, self.dependencies.grace.clone())?;
        self.dependencies.provisioner.set_capacity(volume.id, levels::capacity(&pool, &volume))?;
        self.reconcile_snapshots(&volume, &served);
        let mut state = self.state();
        let open = OpenVolume::new(volume, served, &state.hosts, self.protocols());
        state.open.insert(open.row.name.clone(), open);
        Ok(())
    }

    /// [`Error::Changing`] if a job does it.
    pub(crate) fn finish(&self, volume: Volume) -> Result<()> {
        let pool = self.pool(&volume.pool)?;
        let changing = || Error::Changing { volume: volume.name.to_string(), state: volume.state };
        let verb = match volume.state {
            State::Ready => return Ok(()),
            State::Reverting => return Err(changing()),
            State::Creating => Verb::Create,
            State::Updating => Verb::Update,
            State::Deleting => Verb::Delete,
        };
        let operation = self.resume_operation(&volume, verb)?;
        if operation.spec.is_some() {
            // A job, which finishes it.
            return Err(changing());
        }
        match verb {
            Verb::Create => self.finish_create(&pool, volume, operation).map(drop),
            Verb::Update => self.finish_update(PoolAndVolume { pool, volume }, operation, None).map(drop),
            Verb::Revert | Verb::Restore | Verb::Verify => Ok(()),
            Verb::Delete => {
                let removed = self.dependencies.provisioner.remove(volume.id);
                self.finish_delete(&volume, operation, removed)?;
                self.state().totals.remove(volume.id);
                Ok(())
            }
        }
    }

    /// A failed removal ended its record, so it gets a new one.
    fn resume_operation(&self, volume: &Volume, verb: Verb) -> Result<Operation> {
        let name = volume.name.as_str();
        let running = self.read(|store| Ok(store::operation::running(store, Kind::Volume, name)?))?;
        if let Some(operation) = running {
            return Ok(operation);
        }
        let actor = Actor::new("plimsoll");
        let begun = NewOperation {
            actor: &actor,
            verb,
            kind: Kind::Volume,
            name,
            detail: "finishing it",
            spec: None,
        };
        self.change(|store| Ok(store::operation::begin(store, &begun, self.now_ms())?))
    }
}

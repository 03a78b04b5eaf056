//! Creates, changes, removes and lists pools. A pool is a row, so each change is one transaction.

use super::{Page, Service, UNCHANGED, check_version, levels};
use crate::error::{Error, Result};
use crate::kind::Kind;
use crate::name::{PoolName, check_labels};
use crate::operation::{ChangeContext, ChangeResult, Operation, Verb};
use crate::pool::{NewPool, Pool, PoolChange};
use crate::pool_totals::Totals;
use crate::store;
use crate::volume::Volume;
use envelope::Qos;

impl Service {
    /// Creates a pool. Succeeds without a change if an identical pool exists.
    pub fn create_pool(&self, context: &ChangeContext, new: &NewPool) -> Result<ChangeResult<Pool>> {
        check_labels(&new.labels)?;
        let _locked = self.lock_pool(&new.name);
        let thing = (Kind::Pool, new.name.as_str());
        if let Some(pool) = self.read(|store| Ok(store::pool::find(store, &new.name)?))? {
            let differs = new.differs_from(&pool);
            if !differs.is_empty() {
                return Err(Error::Conflict { kind: Kind::Pool, name: new.name.to_string(), differs });
            }
            let operation =
                self.change(|store| self.record(store, context, Verb::Create, thing, UNCHANGED))?;
            return Ok(ChangeResult { value: pool, operation });
        }
        let now = self.now_ms();
        let mut pool = Pool {
            row: 0,
            name: new.name.clone(),
            level: new.level,
            size: new.size,
            settings: new.settings.clone(),
            labels: new.labels.clone(),
            version: 1,
            created_ms: now,
            changed_ms: now,
        };
        levels::check_pool(&pool)?;
        let detail = format!("{} of {}", pool.size, pool.level);
        let operation = self.change(|store| {
            store::pool::insert(store, &mut pool)?;
            self.record(store, context, Verb::Create, thing, &detail)
        })?;
        Ok(ChangeResult { value: pool, operation })
    }

    /// Changes a pool. Its volumes get its new limits immediately.
    pub fn update_pool(
        &self,
        context: &ChangeContext,
        name: &PoolName,
        change: &PoolChange,
    ) -> Result<ChangeResult<Pool>> {
        change.labels.as_ref().map_or(Ok(()), check_labels)?;
        let _locked = self.lock_pool(name);
        // The removal of a volume's storage locks no pool; the state lock keeps its end out.
        let mut state = self.state();
        let before = self.find_pool(name)?;
        let thing = (Kind::Pool, name.as_str());
        check_version(context, Kind::Pool, name.as_str(), before.version)?;
        let (mut pool, changes) = before.changed(change);
        if changes.is_empty() {
            let operation =
                self.change(|store| self.record(store, context, Verb::Update, thing, UNCHANGED))?;
            return Ok(ChangeResult { value: before, operation });
        }
        let volumes = self.volumes_of(&before)?;
        let new_volumes = with_manual_throughput(&before, &pool, &volumes)?;
        check_change(&before, &pool, &new_volumes, context.force)?;
        for (volume, new) in volumes.iter().zip(&new_volumes) {
            self.check_moved_snapshots((&before, volume), (&pool, new))?;
        }
        let now = self.now_ms();
        (pool.version, pool.changed_ms) = (before.version + 1, now);
        let new_volumes: Vec<Volume> = new_volumes
            .into_iter()
            .zip(&volumes)
            .map(|(volume, old)| {
                let step = u64::from(volume != *old);
                Volume {
                    version: old.version + step,
                    changed_ms: if step > 0 { now } else { old.changed_ms },
                    ..volume
                }
            })
            .collect();
        let operation = self.change(|store| {
            store::pool::update(store, &pool)?;
            for (volume, _) in new_volumes.iter().zip(&volumes).filter(|(new, old)| new != old) {
                store::volume::update(store, volume)?;
            }
            self.record(store, context, Verb::Update, thing, &changes.join(", "))
        })?;
        for volume in &new_volumes {
            state.totals.set(volume);
            self.show(&mut state, &pool, volume)?;
        }
        Ok(ChangeResult { value: pool, operation })
    }

    pub fn delete_pool(&self, context: &ChangeContext, name: &PoolName) -> Result<Operation> {
        let _locked = self.lock_pool(name);
        let pool = self.find_pool(name)?;
        check_version(context, Kind::Pool, name.as_str(), pool.version)?;
        let operation = self.change(|store| {
            let volumes = store::pool::usage(store, pool.row)?.volumes;
            if volumes > 0 {
                return Err(Error::InUse { pool: name.to_string(), volumes });
            }
            store::pool::delete(store, &pool)?;
            self.record(store, context, Verb::Delete, (Kind::Pool, name.as_str()), "")
        })?;
        self.state().meters.forget_pool(pool.row);
        Ok(operation)
    }

    pub fn pool(&self, name: &PoolName) -> Result<Pool> {
        self.find_pool(name)
    }

    /// Lists pools by name after `after`, the [`Page::next`] of the previous page.
    pub fn pools(&self, after: Option<&str>, most: usize) -> Result<Page<Pool>> {
        let after = after.unwrap_or("");
        self.page(most, |store, most| store::pool::list(store, after, most), |pool| pool.name.to_string())
    }
}

/// Volumes after the pool's change: under manual QoS each volume keeps its throughput.
fn with_manual_throughput(before: &Pool, pool: &Pool, volumes: &[Volume]) -> Result<Vec<Volume>> {
    let becomes_manual = before.declared().qos() == Qos::Auto && pool.declared().qos() == Qos::Manual;
    let mut new_volumes = volumes.to_vec();
    for volume in new_volumes.iter_mut().filter(|volume| becomes_manual && volume.level.is_none()) {
        let limits = before.declared().volume_limits(&volume.declared())?;
        volume.settings.throughput = limits.total.combined;
    }
    Ok(new_volumes)
}

fn check_change(before: &Pool, pool: &Pool, volumes: &[Volume], force: bool) -> Result<()> {
    levels::check_pool_level(before.level, pool.level)?;
    if before.settings.tiering && !pool.settings.tiering {
        let allowed = "leaving it on: it cannot be undone";
        return Err(Error::invalid(
            format!("{}: cool access or auto-tiering switched off", pool.level),
            allowed,
        ));
    }
    if pool.size != before.size {
        let old = Pool { size: before.size, ..pool.clone() };
        levels::check_pool_size(&old, pool.size, volumes, force)?;
    }
    levels::check_pool(pool)?;
    for volume in volumes {
        levels::check_volume(pool, volume)?;
    }
    levels::check_totals(pool, &Totals::of_all(volumes), force)
}

//! The meters of pools and volumes, which the data plane asks.

use crate::error::Result;
use crate::levels;
use crate::pool::Pool;
use crate::volume::Volume;
use std::collections::HashMap;
use std::sync::Arc;
use vfs::VolumeId;
use vfs::qos::{Arbiter, Gate, Pacer};

/// Pools are known by their row, so that a later pool of the same name gets its own meter.
pub(crate) struct Meters {
    pacer: Arc<Pacer>,
    pools: HashMap<i64, Arc<Arbiter>>,
    gates: HashMap<VolumeId, VolumeGate>,
}

struct VolumeGate {
    gate: Arc<Gate>,
    pool: i64,
}

impl Meters {
    pub(crate) fn new(pacer: Arc<Pacer>) -> Self {
        Self { pacer, pools: HashMap::new(), gates: HashMap::new() }
    }

    /// Sets the meters to the limits of pool and volume, also for waiting calls. Moves the volume if its pool changed.
    pub(crate) fn apply(&mut self, pool: &Pool, volume: &Volume) -> Result<Arc<Gate>> {
        let limits = levels::volume_limits(pool, volume)?;
        let arbiter = self.apply_pool(pool)?;
        let metered = self
            .gates
            .entry(volume.id)
            .or_insert_with(|| VolumeGate { gate: arbiter.gate(limits.clone()), pool: pool.row });
        if metered.pool != pool.row {
            metered.gate.move_to(&arbiter);
            metered.pool = pool.row;
        }
        if metered.gate.limits() != limits {
            metered.gate.set_limits(limits);
        }
        Ok(Arc::clone(&metered.gate))
    }

    /// Sets a pool's own meter to its limits.
    fn apply_pool(&mut self, pool: &Pool) -> Result<Arc<Arbiter>> {
        let limits = levels::pool_limits(pool)?;
        if let Some(arbiter) = self.pools.get(&pool.row) {
            arbiter.set_limits(&limits);
            return Ok(Arc::clone(arbiter));
        }
        let arbiter = Arbiter::new(&limits, &self.pacer);
        self.pools.insert(pool.row, Arc::clone(&arbiter));
        Ok(arbiter)
    }

    /// Forgets a volume; its waiting calls pass.
    pub(crate) fn forget(&mut self, volume: VolumeId) {
        self.gates.remove(&volume);
    }

    #[cfg(test)]
    pub(crate) fn gate_count(&self) -> usize {
        self.gates.len()
    }

    pub(crate) fn forget_pool(&mut self, pool: i64) {
        self.pools.remove(&pool);
    }
}

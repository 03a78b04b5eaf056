//! What the volumes of each pool add up to, so that one more is checked without a look at all the others.

use crate::pool::Pool;
use crate::volume::Volume;
use envelope::{Bytes, BytesPerSecond, Totals};
use std::collections::HashMap;
use vfs::VolumeId;

/// All pools with volumes. It follows the store's rows of volumes: each change of one is told here.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Together {
    pools: HashMap<i64, Sum>,
    volumes: HashMap<VolumeId, Part>,
}

/// Of the volumes of one pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    volumes: u64,
    bytes: u128,
    /// Of those without a level of their own: what their pool's level has to do with.
    of_level: u64,
    level_bytes: u128,
    throughput: u128,
}

/// What a volume adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    pool: i64,
    sum: Sum,
}

impl Together {
    /// These volumes.
    pub(crate) fn of<'v>(volumes: impl Iterator<Item = &'v Volume>) -> Self {
        let mut together = Self::default();
        volumes.for_each(|volume| together.set(volume));
        together
    }

    /// A volume is there, new or changed.
    pub(crate) fn set(&mut self, volume: &Volume) {
        self.remove(volume.id);
        let part = Part { pool: volume.pool_row, sum: Sum::of(volume) };
        self.volumes.insert(volume.id, part);
        self.pools.entry(part.pool).or_default().add(&part.sum);
    }

    /// A volume is there no more.
    pub(crate) fn remove(&mut self, volume: VolumeId) {
        let Some(part) = self.volumes.remove(&volume) else { return };
        if let Some(sum) = self.pools.get_mut(&part.pool) {
            sum.subtract(&part.sum);
            if sum.volumes == 0 {
                self.pools.remove(&part.pool);
            }
        }
    }

    /// The volumes of `pool` as they would be with `volume`, new or changed.
    pub(crate) fn with(&self, pool: &Pool, volume: &Volume) -> Sum {
        let mut sum = self.pools.get(&pool.row).copied().unwrap_or_default();
        if let Some(part) = self.volumes.get(&volume.id).filter(|part| part.pool == pool.row) {
            sum.subtract(&part.sum);
        }
        sum.add(&Sum::of(volume));
        sum
    }
}

impl Sum {
    /// One volume.
    fn of(volume: &Volume) -> Self {
        let bytes = u128::from(volume.size.0);
        let own = Self { volumes: 1, bytes, ..Self::default() };
        if volume.level.is_some() {
            return own;
        }
        let throughput = volume.settings.throughput.map_or(0, |throughput| u128::from(throughput.0));
        Self { of_level: 1, level_bytes: bytes, throughput, ..own }
    }

    /// These volumes.
    pub(crate) fn of_all(volumes: &[Volume]) -> Self {
        let mut sum = Self::default();
        volumes.iter().for_each(|volume| sum.add(&Self::of(volume)));
        sum
    }

    fn add(&mut self, other: &Self) {
        self.volumes += other.volumes;
        self.bytes += other.bytes;
        self.of_level += other.of_level;
        self.level_bytes += other.level_bytes;
        self.throughput += other.throughput;
    }

    fn subtract(&mut self, other: &Self) {
        self.volumes -= other.volumes;
        self.bytes -= other.bytes;
        self.of_level -= other.of_level;
        self.level_bytes -= other.level_bytes;
        self.throughput -= other.throughput;
    }

    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> u64 {
        saturated(self.bytes)
    }

    /// Those that have their pool's level, as the catalog of levels sees them.
    pub(crate) fn totals(&self) -> Totals {
        Totals {
            volumes: self.of_level,
            size: Bytes(saturated(self.level_bytes)),
            throughput: BytesPerSecond(saturated(self.throughput)),
        }
    }
}

fn saturated(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

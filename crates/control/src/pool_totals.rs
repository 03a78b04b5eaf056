//! Running totals of the volumes of each pool, so that checking a new volume is O(1).

use crate::pool::Pool;
use crate::volume::Volume;
use envelope::{Bytes, BytesPerSecond};
use std::collections::HashMap;
use vfs::VolumeId;

/// The totals of all pools with volumes. The caller repeats each change of a volume's row here.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolTotals {
    pools: HashMap<i64, Totals>,
    volumes: HashMap<VolumeId, Share>,
    /// Capacity that unfinished changes would release. It stays reserved, because a failed change needs it again.
    unreleased: HashMap<VolumeId, Share>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    volumes: u64,
    bytes: u128,
    /// Volumes without their own level: they share the limits of the pool's level.
    of_level: u64,
    level_bytes: u128,
    throughput: u128,
}

/// The part of a pool's totals that belongs to one volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    pool: i64,
    totals: Totals,
}

impl PoolTotals {
    pub(crate) fn of<'v>(volumes: impl Iterator<Item = &'v Volume>) -> Self {
        let mut totals = Self::default();
        volumes.for_each(|volume| totals.set(volume));
        totals
    }

    /// Counts a new volume, or one whose change has finished.
    pub(crate) fn set(&mut self, volume: &Volume) {
        self.remove(volume.id);
        let share = Share { pool: volume.pool_row, totals: Totals::of(volume) };
        self.volumes.insert(volume.id, share);
        self.add(&share);
    }

    /// Counts a volume as it will be, and retains the released capacity until [`Self::set`].
    pub(crate) fn begin_change(&mut self, before: &Volume, after: &Volume) {
        self.set(after);
        let (old, new) = (Totals::of(before), Totals::of(after));
        let totals = if before.pool_row == after.pool_row { old.beyond(&new) } else { old };
        if totals != Totals::default() {
            let share = Share { pool: before.pool_row, totals };
            self.unreleased.insert(before.id, share);
            self.add(&share);
        }
    }

    pub(crate) fn remove(&mut self, volume: VolumeId) {
        for share in [self.volumes.remove(&volume), self.unreleased.remove(&volume)].into_iter().flatten() {
            if let Some(totals) = self.pools.get_mut(&share.pool) {
                totals.subtract(&share.totals);
                if *totals == Totals::default() {
                    self.pools.remove(&share.pool);
                }
            }
        }
    }

    /// Totals of `pool` as if `volume`, new or changed, were in it.
    pub(crate) fn with(&self, pool: &Pool, volume: &Volume) -> Totals {
        let mut totals = self.pools.get(&pool.row).copied().unwrap_or_default();
        for share in [self.volumes.get(&volume.id), self.unreleased.get(&volume.id)].into_iter().flatten() {
            if share.pool == pool.row {
                totals.subtract(&share.totals);
            }
        }
        totals.add(&Totals::of(volume));
        totals
    }

    fn add(&mut self, share: &Share) {
        self.pools.entry(share.pool).or_default().add(&share.totals);
    }
}

impl Totals {
    fn of(volume: &Volume) -> Self {
        let bytes = u128::from(volume.size.0);
        let own = Self { volumes: 1, bytes, ..Self::default() };
        if volume.level.is_some() {
            return own;
        }
        let throughput = volume.settings.throughput.map_or(0, |throughput| u128::from(throughput.0));
        Self { of_level: 1, level_bytes: bytes, throughput, ..own }
    }

    pub(crate) fn of_all(volumes: &[Volume]) -> Self {
        let mut totals = Self::default();
        volumes.iter().for_each(|volume| totals.add(&Self::of(volume)));
        totals
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

    /// The part of each figure that exceeds that of `other`.
    fn beyond(&self, other: &Self) -> Self {
        Self {
            volumes: self.volumes.saturating_sub(other.volumes),
            bytes: self.bytes.saturating_sub(other.bytes),
            of_level: self.of_level.saturating_sub(other.of_level),
            level_bytes: self.level_bytes.saturating_sub(other.level_bytes),
            throughput: self.throughput.saturating_sub(other.throughput),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        saturated(self.bytes)
    }

    /// The volumes of their pool's level, as the catalog of levels sees them.
    pub(crate) fn of_level(&self) -> envelope::Totals {
        envelope::Totals {
            volumes: self.of_level,
            size: Bytes(saturated(self.level_bytes)),
            throughput: BytesPerSecond(saturated(self.throughput)),
        }
    }
}

fn saturated(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

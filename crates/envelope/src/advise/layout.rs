//! Arrangements of pools and volumes, and the pool and volume for one size.

use super::constraint::Load;
use super::envelopes::needed;
use super::{Catalog, Workload};
use crate::{
    Bands, Bytes, BytesPerSecond, Ceilings, Declared, Iops, Level, Owner, Pool, Profile, Provider,
    ProvisionedIops, Qos, Range, Target, Volume, filestore,
};

/// An arrangement without sizes yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) level: Level,
    pub(super) large: bool,
    pub(super) pools: u32,
    pub(super) per_pool: u32,
    pub(super) throughput_source: ThroughputSource,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThroughputSource {
    VolumeSize,
    Manual,
    /// The pool's size, which the volumes share, or the instance's size.
    PoolSize,
    Bought,
    Declared,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) pools: u32,
    pub(super) pool: Pool,
    pub(super) per_pool: u32,
    pub(super) volume: Volume,
}

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
const ANY: Range<Bytes> = Range { min: Bytes(MIB), max: Bytes(1 << 60), step: Bytes(MIB) };

impl Candidate {
    pub(super) fn volumes(&self) -> u32 {
        self.pools * self.per_pool
    }

    pub(super) fn capacity(&self) -> Bytes {
        Bytes(self.pool.size.0.saturating_mul(u64::from(self.pools)))
    }
}

impl Layout {
    /// Returns every arrangement of a kind of volume within the maximum number of volumes, the fewest first.
    pub(super) fn all(level: Level, large: bool, workload: &Workload) -> Vec<Self> {
        let info = level.info();
        let mut all = Vec::new();
        let mut add = |pools, per_pool, throughput_source| {
            all.push(Self { level, large, pools, per_pool, throughput_source })
        };
        for volumes in 1..=workload.volumes_max {
            if info.provider == Provider::Plimsoll {
                add(1, volumes, ThroughputSource::Declared);
            } else if info.is_instance {
                add(volumes, 1, ThroughputSource::PoolSize);
                if info.settable.iops {
                    add(volumes, 1, ThroughputSource::Bought);
                }
            } else {
                for pools in (1..=volumes).filter(|&pools| volumes.is_multiple_of(pools)) {
                    let per_pool = volumes / pools;
                    match info.owner {
                        Owner::Pool if info.settable.throughput => {
                            add(pools, per_pool, ThroughputSource::Bought)
                        }
                        Owner::Pool => add(pools, per_pool, ThroughputSource::PoolSize),
                        Owner::Volume => {
                            for qos in info.qos {
                                let by_hand = *qos == Qos::Manual;
                                add(
                                    pools,
                                    per_pool,
                                    if by_hand {
                                        ThroughputSource::Manual
                                    } else {
                                        ThroughputSource::VolumeSize
                                    },
                                );
                            }
                        }
                    }
                }
            }
        }
        all
    }

    /// The ranges of the size to search: the volume's size if throughput follows from it, otherwise the pool's.
    pub(super) fn ranges(&self, catalog: &Catalog) -> Vec<Range<Bytes>> {
        let (pool, volume) = self.unsized_pool(catalog);
        let bands = if self.throughput_source == ThroughputSource::VolumeSize {
            volume.sizes(self.level)
        } else {
            pool.sizes()
        };
        ranges(bands)
    }

    /// `None` if no size holds the needed capacity.
    pub(super) fn min_size(&self, workload: &Workload, catalog: &Catalog) -> Option<Bytes> {
        let each = self.data_per_volume(workload);
        if self.throughput_source == ThroughputSource::VolumeSize || self.level.info().is_instance {
            return Some(each);
        }
        let volume = self.volume_size(&self.unsized_pool(catalog).1, each);
        volume.0.checked_mul(u64::from(self.per_pool)).map(Bytes)
    }

    fn volume_size(&self, volume: &Volume, each: Bytes) -> Bytes {
        let sizes = ranges(volume.sizes(self.level));
        let largest = || sizes.iter().map(|range| range.max).max();
        at_least(&sizes, each).or_else(largest).unwrap_or(each)
    }

    fn data_per_volume(&self, workload: &Workload) -> Bytes {
        Bytes(workload.needed_capacity().0.div_ceil(u64::from(self.pools * self.per_pool)))
    }

    fn unsized_pool(&self, catalog: &Catalog) -> (Pool, Volume) {
        let (mut pool, mut volume) = (Pool::new(self.level, Bytes(0)), Volume::new(Bytes(0)));
        let of_volume = if self.large { Target::LargeVolume } else { Target::Volume };
        let profile = |target: Target| -> Option<Profile> {
            let fits = |profile: &&Profile| profile.check(self.level, target).is_ok();
            catalog.profiles.iter().find(fits).copied()
        };
        pool.settings.profile = profile(Target::Pool);
        volume.settings.profile = profile(of_volume);
        volume.settings.large = self.large;
        (pool, volume)
    }

    /// Pools and volumes of this size, with settings for the load as far as the level allows. `None` if such
    /// pools do not exist.
    pub(super) fn at(&self, size: Bytes, workload: &Workload, catalog: &Catalog) -> Option<Candidate> {
        let (mut pool, mut volume) = self.unsized_pool(catalog);
        let each = self.data_per_volume(workload);
        if self.throughput_source == ThroughputSource::VolumeSize {
            volume.size = size;
            let all = Bytes(size.0.checked_mul(u64::from(self.per_pool))?);
            pool.size = at_least(&ranges(pool.sizes()), all)?;
        } else {
            pool.size = size;
            let instance = self.level.info().is_instance;
            volume.size = if instance { size } else { self.volume_size(&volume, each) };
        }
        let mut candidate = Candidate { pools: self.pools, pool, per_pool: self.per_pool, volume };
        self.apply_settings(&mut candidate, workload);
        let volumes = vec![candidate.volume.clone(); usize::try_from(self.per_pool).ok()?];
        candidate.pool.check_volumes(&volumes).is_ok().then_some(candidate)
    }

    fn apply_settings(&self, candidate: &mut Candidate, workload: &Workload) {
        let needed = needed(workload, self.level, self.large);
        let load = Load { streams: &needed };
        let volumes = u64::from(candidate.volumes());
        let rate = |times: u64| BytesPerSecond(load.rate().0.div_ceil(times).next_multiple_of(MIB));
        match self.throughput_source {
            ThroughputSource::VolumeSize | ThroughputSource::PoolSize => {}
            ThroughputSource::Declared => {
                let share = |value: u64| value.div_ceil(volumes);
                let total = Ceilings {
                    combined: Some(BytesPerSecond(share(load.rate().0).next_multiple_of(MIB))),
                    combined_iops: Some(Iops(share(load.iops().0))),
                    ..Ceilings::default()
                };
                if load.rate().0 > 0 {
                    candidate.volume.settings.declared = Declared { total, ..Declared::default() };
                }
            }
            ThroughputSource::Manual => {
                candidate.pool.settings.qos = Some(Qos::Manual);
                let max =
                    candidate.pool.with_max_settings().limits().ok().and_then(|limits| limits.total.combined);
                let of_pool = max.map_or(u64::MAX, |max| max.0 / u64::from(candidate.per_pool));
                let cap = candidate.pool.volume_ceiling(&candidate.volume).map_or(u64::MAX, |cap| cap.0.0);
                let each = rate(volumes).0.min(cap).min(of_pool).max(MIB);
                candidate.volume.settings.throughput = Some(BytesPerSecond(each));
                if self.level.info().settable.throughput {
                    let all = each.saturating_mul(u64::from(candidate.per_pool));
                    let min = candidate.pool.limits().ok().and_then(|limits| limits.total.combined);
                    let bought = BytesPerSecond(all.max(min.map_or(0, |min| min.0)));
                    candidate.pool.settings.throughput = Some(bought);
                }
            }
            ThroughputSource::Bought => {
                buy_performance(&mut candidate.pool, &load, u64::from(candidate.pools), workload.clients);
            }
        }
    }
}

pub(super) fn buy_performance(pool: &mut Pool, load: &Load<'_>, pools: u64, clients: Option<u32>) {
    if pool.level.info().is_instance {
        pool.settings.iops = Some(ProvisionedIops::Fixed(min_operations(pool, load, pools, clients)));
        return;
    }
    let max = pool.with_max_settings().settings;
    let rate = BytesPerSecond(load.rate().0.div_ceil(pools).next_multiple_of(MIB));
    let min = pool.limits().ok().and_then(|limits| limits.total.combined).unwrap_or(rate);
    pool.settings.throughput = Some(rate.max(min).min(max.throughput.unwrap_or(rate)));
    let included = pool.limits().ok().and_then(|limits| limits.total.combined_iops).unwrap_or_default();
    let operations = Iops(load.iops().0.div_ceil(pools));
    if let Some(ProvisionedIops::Fixed(max)) = max.iops
        && operations > included
        && included < max
    {
        pool.settings.iops = Some(ProvisionedIops::Fixed(operations.min(max)));
    }
}

/// The least operations of an instance that carry the load and its clients, or the maximum.
fn min_operations(pool: &Pool, load: &Load<'_>, pools: u64, clients: Option<u32>) -> Iops {
    let range = filestore::fixed(pool);
    let carries = |iops: Iops| {
        let mut with = pool.clone();
        with.settings.iops = Some(ProvisionedIops::Fixed(iops));
        with.limits().is_ok_and(|limits| {
            let used = load.ceiling_uses(&limits.total, limits.write_cost_thousandths, pools);
            let room = limits.clients_max.zip(clients).is_none_or(|(max, clients)| clients <= max);
            room && used.iter().all(|ceiling_use| ceiling_use.used.fits())
        })
    };
    let steps = (range.max.0.saturating_sub(range.min.0)) / range.step.0;
    let at = |step: u64| Iops(range.min.0 + step * range.step.0);
    at(first_matching(0, steps, |step| carries(at(step))).unwrap_or(steps))
}

/// The first of `from` to `last` for which `holds` is true. `holds` must stay true for all that follow.
pub(super) fn first_matching(from: u64, last: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    if from > last || !holds(last) {
        return None;
    }
    let (mut low, mut high) = (from, last);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    Some(high)
}

/// The documented sizes, in steps of at least a GiB where possible.
pub(super) fn ranges(bands: Option<Bands>) -> Vec<Range<Bytes>> {
    let coarse = |range: &Range<Bytes>| {
        let step = if range.min.0.is_multiple_of(GIB) { range.step.0.max(GIB) } else { range.step.0 };
        Range { step: Bytes(step), ..*range }
    };
    bands.map_or_else(|| vec![ANY], |bands| bands.ranges.iter().map(coarse).collect())
}

fn at_least(ranges: &[Range<Bytes>], size: Bytes) -> Option<Bytes> {
    let in_range = |range: &Range<Bytes>| {
        let steps = size.0.saturating_sub(range.min.0).div_ceil(range.step.0);
        let found = range.min.0.checked_add(steps.checked_mul(range.step.0)?)?.min(range.max.0);
        (found >= size.0).then_some(Bytes(found))
    };
    ranges.iter().filter_map(in_range).min()
}

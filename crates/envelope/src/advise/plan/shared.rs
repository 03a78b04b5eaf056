//! One pool for several volumes.

use super::super::constraint::{Bound, Constraint, Load};
use super::super::envelopes::needed;
use super::super::layout::{Candidate, Layout, ThroughputSource, buy_performance, first_matching, ranges};
use super::super::search::smallest;
use super::super::{Catalog, Choice, Stream};
use super::{Member, PlannedPool, PlannedVolume};
use crate::{Bytes, BytesPerSecond, Level, Owner, Pool, Provider, Qos, Range, Volume};

/// The cheapest or smallest pool with a volume for each of these workloads; `None` if they cannot share one.
pub(super) fn pool(level: Level, members: &[Member<'_>], catalog: &Catalog) -> Option<PlannedPool> {
    if level.info().is_instance || members.len() < 2 {
        return None;
    }
    let shared = sources(level)
        .into_iter()
        .filter_map(|source| Sharing::with_source(level, source, members, catalog)?.smallest());
    cheapest(shared)
}

/// The pool of this size with a volume for each of these workloads, with the kind of QoS of `like` where the level has it.
pub(super) fn of_size(
    level: Level,
    size: Bytes,
    like: &Pool,
    members: &[Member<'_>],
    catalog: &Catalog,
) -> Option<PlannedPool> {
    let is_manual = like.qos() == Qos::Manual && level.info().qos.contains(&Qos::Manual);
    let is_alike = |source: &ThroughputSource| (*source == ThroughputSource::Manual) == is_manual;
    let shared = sources(level)
        .into_iter()
        .filter(is_alike)
        .filter_map(|source| Sharing::with_source(level, source, members, catalog)?.planned(size));
    cheapest(shared)
}

fn cheapest(pools: impl Iterator<Item = PlannedPool>) -> Option<PlannedPool> {
    pools.min_by_key(|pool| (pool.cost.as_ref().map_or(u64::MAX, |cost| cost.millionths), pool.pool.size))
}

fn sources(level: Level) -> Vec<ThroughputSource> {
    let info = level.info();
    match info.owner {
        _ if info.provider == Provider::Plimsoll => vec![ThroughputSource::Declared],
        Owner::Pool if info.settable.throughput => vec![ThroughputSource::Bought],
        Owner::Pool => vec![ThroughputSource::PoolSize],
        Owner::Volume => {
            let of = |qos: &Qos| match qos {
                Qos::Auto => ThroughputSource::VolumeSize,
                Qos::Manual => ThroughputSource::Manual,
            };
            info.qos.iter().map(of).collect()
        }
    }
}

/// Volumes that are to share a pool.
struct Sharing<'a> {
    members: &'a [Member<'a>],
    volumes: Vec<Volume>,
    /// The loads of all workloads with their headroom.
    streams: Vec<Stream>,
    /// The pool without a size.
    empty: Pool,
    throughput_source: ThroughputSource,
    catalog: &'a Catalog,
}

impl<'a> Sharing<'a> {
    fn with_source(
        level: Level,
        throughput_source: ThroughputSource,
        members: &'a [Member<'a>],
        catalog: &'a Catalog,
    ) -> Option<Self> {
        let alone = |member: &Member<'_>| {
            let kinds =
                [false, true].into_iter().filter(|large| catalog.large.is_none_or(|only| only == *large));
            let layout = |large| Layout { level, large, pools: 1, per_pool: 1, throughput_source };
            kinds.filter_map(|large| smallest(&[layout(large)], member.workload, catalog)).next()
        };
        let alone: Vec<Candidate> = members.iter().map(alone).collect::<Option<_>>()?;
        Some(Self {
            streams: members
                .iter()
                .zip(&alone)
                .flat_map(|(member, one)| needed(member.workload, level, one.volume.settings.large))
                .collect(),
            volumes: alone.iter().map(|one| one.volume.clone()).collect(),
            empty: Pool { size: Bytes(0), ..alone.first()?.pool.clone() },
            throughput_source,
            members,
            catalog,
        })
    }

    fn smallest(&self) -> Option<PlannedPool> {
        let room: u64 = self.volumes.iter().map(|volume| volume.size.0).fold(0, u64::saturating_add);
        let in_range = |range: Range<Bytes>| {
            let first = room.saturating_sub(range.min.0).div_ceil(range.step.0);
            let last = (range.max.0 - range.min.0) / range.step.0;
            let at = |step: u64| Bytes(range.min.0 + step * range.step.0);
            let step = first_matching(first, last, |step| self.planned(at(step)).is_some())?;
            self.planned(at(step))
        };
        let pools = ranges(self.empty.sizes()).into_iter().filter_map(in_range);
        pools.min_by_key(|planned| planned.pool.size)
    }

    /// The pool at this size with all volumes; `None` if it does not carry them.
    fn planned(&self, size: Bytes) -> Option<PlannedPool> {
        let pool = self.pool(size)?;
        pool.check_volumes(&self.volumes).ok()?;
        let common = self.common(&pool)?;
        let mut volumes = Vec::new();
        for (member, volume) in self.members.iter().zip(&self.volumes) {
            let own = Candidate { pools: 1, pool: pool.clone(), per_pool: 1, volume: volume.clone() };
            let mut choice = Choice::of(own, member.workload, self.catalog).ok()?;
            if !choice.fits() {
                return None;
            }
            choice.cost = None;
            // A workload without a load takes nothing of the common limits.
            if !member.workload.streams.is_empty() {
                choice.constraints.extend(common.iter().cloned());
            }
            volumes.push(PlannedVolume { workload: member.place, choice });
        }
        let own = Candidate { pools: 1, pool, per_pool: 1, volume: self.volumes.first()?.clone() };
        let cost = self.catalog.prices.as_ref().and_then(|prices| prices.of(&own));
        Some(PlannedPool { count: 1, pool: own.pool, volumes, cost })
    }

    fn pool(&self, size: Bytes) -> Option<Pool> {
        let mut pool = Pool { size, ..self.empty.clone() };
        match self.throughput_source {
            ThroughputSource::Bought => {
                pool.settings.throughput = None;
                pool.settings.iops = None;
                buy_performance(&mut pool, &Load { streams: &self.streams }, 1, None);
            }
            ThroughputSource::Manual if pool.level.info().settable.throughput => {
                let set = self.volumes.iter().filter_map(|volume| volume.settings.throughput);
                let all = set.map(|rate| rate.0).fold(0, u64::saturating_add);
                pool.settings.throughput = None;
                let min = pool.limits().ok()?.total.combined.unwrap_or_default();
                pool.settings.throughput = Some(BytesPerSecond(all.max(min.0)));
            }
            _ => {}
        }
        Some(pool)
    }

    /// The bounds of all loads together; `None` if the pool does not carry them.
    fn common(&self, pool: &Pool) -> Option<Vec<Constraint>> {
        let limits = pool.limits().ok()?;
        if limits.owner != Owner::Pool || pool.level.info().provider == Provider::Plimsoll {
            return Some(Vec::new());
        }
        let load = Load { streams: &self.streams };
        let uses = load.ceiling_uses(&limits.total, limits.write_cost_thousandths, 1);
        if uses.iter().any(|one| !one.used.fits()) {
            return None;
        }
        let source = limits.origin.first().map_or(String::new(), |origin| origin.source.to_string());
        let bound = |one: super::super::constraint::CeilingUse| Constraint {
            kind: Bound::Pool,
            formula: format!("{}, all workloads of the pool together", one.formula),
            used: one.used,
            band: None,
            source: source.clone(),
        };
        Some(uses.into_iter().map(bound).collect())
    }
}

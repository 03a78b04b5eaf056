//! The answer: what to buy, what bounds it, and what would come next.

use super::assess::{Assessment, assess};
use super::constraint::{Constraint, Load, Used};
use super::layout::Candidate;
use super::mount::of_client;
use super::{Bound, Catalog, Cost, Mount, Why, Workload};
use crate::{Bytes, BytesPerSecond, Iops, Level, Origin, Pool, Refusal, Volume};
use serde::Serialize;

/// What to buy for a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// What was asked.
    pub workload: Workload,
    /// What carries it: the cheapest first, by price where all have one and by capacity otherwise.
    pub options: Vec<Choice>,
    /// What does not, the nearest of each kind of volume; the least amiss first.
    pub misses: Vec<Choice>,
    /// What was not looked at.
    pub left_out: Vec<LeftOut>,
}

/// A level that was not looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Which.
    pub level: Level,
    /// Why not.
    pub why: String,
}

/// Pools and volumes with all that bounds them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// Pools, all alike.
    pub pools: u32,
    /// Each of them, as [`Pool::limits`] takes it.
    pub pool: Pool,
    /// Volumes in each, all alike. The load is taken to be spread evenly over them.
    pub volumes_per_pool: u32,
    /// Each of them.
    pub volume: Volume,
    /// Every bound, in the order they were looked at.
    pub constraints: Vec<Constraint>,
    /// What the ceiling stands on.
    pub evidence: Evidence,
    /// What else must be known to believe it.
    pub caveats: Vec<String>,
    /// How the limits of each volume and each pool come about.
    pub origins: Vec<Origin>,
    /// How clients should mount.
    pub mount: Mount,
    /// What clients should be.
    pub clients: Vec<Why>,
    /// What it costs a month, where the user's table says.
    pub cost: Option<Cost>,
}

/// What a ceiling stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// Documented limits and published curves.
    Published,
    /// Documented limits and what the user measured.
    Measured,
    /// Documented limits alone, at least for a part of the load: nobody published a curve.
    Limits,
}

impl Choice {
    /// The candidate with all that is said of it.
    pub(super) fn of(candidate: Candidate, workload: &Workload, catalog: &Catalog) -> Result<Self, Refusal> {
        let Assessment { constraints, evidence, caveats, mount, measured_on } =
            assess(&candidate, workload, catalog)?;
        let mut origins = candidate.pool.limits()?.origin;
        if !candidate.pool.level.info().is_instance {
            origins.extend(candidate.pool.volume_limits(&candidate.volume)?.origin);
        }
        let cost = catalog.prices.as_ref().and_then(|prices| prices.of(&candidate));
        let clients = of_client(workload, measured_on);
        let Candidate { pools, pool, per_pool, volume } = candidate;
        Ok(Self {
            pools,
            pool,
            volumes_per_pool: per_pool,
            volume,
            constraints,
            evidence,
            caveats,
            origins,
            mount,
            clients,
            cost,
        })
    }

    /// The same pools and volumes under another workload.
    pub fn under(&self, workload: &Workload, catalog: &Catalog) -> Result<Self, Refusal> {
        let Self { pools, pool, volumes_per_pool, volume, .. } = self.clone();
        Self::of(Candidate { pools, pool, per_pool: volumes_per_pool, volume }, workload, catalog)
    }

    /// The level.
    pub fn level(&self) -> Level {
        self.pool.level
    }

    /// How many volumes there are in all.
    pub fn volumes(&self) -> u32 {
        self.pools * self.volumes_per_pool
    }

    /// What is paid for.
    pub fn capacity(&self) -> Bytes {
        Bytes(self.pool.size.0.saturating_mul(u64::from(self.pools)))
    }

    /// The bound that is taken most, which is why it is not smaller.
    pub fn binding(&self) -> Option<&Constraint> {
        self.constraints.iter().max_by_key(|one| one.used)
    }

    /// The bound of the load that is taken most: more load would meet it first.
    pub fn bottleneck(&self) -> Option<&Constraint> {
        self.of_load().max_by_key(|one| one.used)
    }

    /// The bound of the load that would come next if the [bottleneck](Self::bottleneck) were lifted.
    pub fn next_bottleneck(&self) -> Option<&Constraint> {
        let first = self.bottleneck()?.kind;
        self.of_load().filter(|one| one.kind != first).max_by_key(|one| one.used)
    }

    /// What of this kind is taken most.
    pub fn of_kind(&self, kind: Bound) -> Option<&Constraint> {
        self.constraints.iter().filter(|one| one.kind == kind).max_by_key(|one| one.used)
    }

    fn of_load(&self) -> impl Iterator<Item = &Constraint> {
        self.constraints.iter().filter(|one| one.kind.is_of_load())
    }

    /// Whether everything fits.
    pub fn fits(&self) -> bool {
        self.constraints.iter().all(|one| one.used.fits())
    }

    /// The most load of this mix: all data and all operations; nothing where there is no load to scale.
    pub fn carries(&self, workload: &Workload) -> Option<(BytesPerSecond, Iops)> {
        let needed = workload.needed();
        let load = Load { streams: &needed };
        let used = self.bottleneck()?.used;
        let scaled = |value: u64| {
            let exact = u128::from(value) * u128::from(Used::ALL.0) / u128::from(used.0.max(1));
            u64::try_from(exact).unwrap_or(u64::MAX)
        };
        Some((BytesPerSecond(scaled(load.rate().0)), Iops(scaled(load.iops().0))))
    }

    /// How much of the ceiling the peak takes, without its headroom.
    pub fn at_peak(&self, workload: &Workload) -> Option<Used> {
        let used = u128::from(self.bottleneck()?.used.0) * 100;
        let peak = used.div_ceil(u128::from(100 + workload.headroom_percent));
        Some(Used(u64::try_from(peak).unwrap_or(u64::MAX)))
    }

    /// How much of the ceiling the average load takes.
    pub fn at_average(&self, workload: &Workload) -> Option<Used> {
        let peak = u128::from(self.at_peak(workload)?.0) * u128::from(workload.average_percent);
        Some(Used(u64::try_from(peak.div_ceil(100)).unwrap_or(u64::MAX)))
    }

    /// The ceiling of the whole load over the share of reads, at so many thousandths of them: the documented limits, and
    /// all bounds together.
    pub fn over_mixes(
        &self,
        workload: &Workload,
        catalog: &Catalog,
        reads: impl Iterator<Item = u32>,
    ) -> Vec<(u32, Option<BytesPerSecond>, Option<BytesPerSecond>)> {
        let at = |read_thousandths: u32| {
            let mut mixed = workload.clone();
            mixed.streams.iter_mut().for_each(|stream| stream.read_thousandths = read_thousandths);
            let all = self.under(&mixed, catalog).ok();
            let documented = all.clone().map(|mut choice| {
                let documented = [Bound::Level, Bound::Pool, Bound::VolumeCap];
                choice.constraints.retain(|one| documented.contains(&one.kind));
                choice
            });
            let carried = |choice: Option<Self>| choice?.carries(&mixed).map(|(rate, _)| rate);
            (read_thousandths, carried(documented), carried(all))
        };
        reads.map(at).collect()
    }
}

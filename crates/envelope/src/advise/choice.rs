//! The advice: options with their bounds.

use super::assess::{Assessment, assess};
use super::constraint::{Constraint, Utilization};
use super::envelopes::needed;
use super::layout::Candidate;
use super::mount::for_clients;
use super::{Band, Bound, Catalog, Cost, Mount, Recommendation, Stream, Workload, mib, mib_within, size};
use crate::{
    Bytes, BytesPerSecond, Iops, Level, Origin, Owner, Pool, Provider, ProvisionedIops, Qos, Refusal, Source,
    Volume, grouped,
};
use serde::Serialize;

/// Advice for a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    pub workload: Workload,
    /// Options that fit: by price, then by capacity; without prices the best of each provider first.
    pub options: Vec<Choice>,
    /// The nearest choice of each kind of volume that does not fit, the smallest excess first.
    pub misses: Vec<Choice>,
    pub left_out: Vec<SkippedLevel>,
}

/// A level without a choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkippedLevel {
    pub level: Level,
    pub why: String,
}

/// Pools and volumes with all their bounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// Number of pools, all alike.
    pub pools: u32,
    /// One of the pools, as [`Pool::limits`] takes it.
    pub pool: Pool,
    /// Number of volumes in each pool, all alike. The load is assumed to be spread evenly over them.
    pub volumes_per_pool: u32,
    pub volume: Volume,
    /// Every bound, in the order of assessment.
    pub constraints: Vec<Constraint>,
    pub evidence: Evidence,
    /// The check of the latency target; `None` without a target.
    pub latency: Option<LatencyCheck>,
    pub caveats: Vec<String>,
    /// Derivation of the limits of each volume and each pool.
    pub origins: Vec<Origin>,
    /// Recommended mount options.
    pub mount: Mount,
    pub clients: Vec<Recommendation>,
    /// Cost per month, if the price table has the level.
    pub cost: Option<Cost>,
}

/// Ceilings of a choice at one share of reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MixCeilings {
    /// Thousandths of the data that are read.
    pub read_thousandths: u32,
    /// The basis of `all` and `exact` here. It may differ between mixes.
    pub evidence: Evidence,
    /// Ceiling by the documented limits alone; `None` without any.
    pub documented: Option<BytesPerSecond>,
    /// Ceiling by all bounds together; `None` if no curve covers the mix.
    pub all: Option<BytesPerSecond>,
    /// The range of `all`, if it is estimated.
    pub between: Option<(BytesPerSecond, BytesPerSecond)>,
    /// Ceiling by the envelope alone, if exactly this mix was published or measured.
    pub exact: Option<BytesPerSecond>,
}

/// The basis of a ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// Documented limits and published curves.
    Published,
    /// Documented limits and the user's measurements.
    Measured,
    /// Documented limits alone, at least for a part of the load: no curve is published.
    Limits,
}

/// The check of a latency target, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LatencyCheck {
    /// The user's own measurement has points within the target.
    Measured,
    /// The rates were published at a latency within the target.
    Published,
    /// No page and no measurement has a latency at such a rate.
    Unchecked,
}

const LIMITS_APART: &str =
    "The level limits reads and writes apart: no page says whether it reaches both limits at the same time.";
const FILESTORE_VARIES: &str = "An instance may differ from the page's figures: caching on clients and server, the clients' machine type and the load matter.";

impl Choice {
    pub(super) fn of(candidate: Candidate, workload: &Workload, catalog: &Catalog) -> Result<Self, Refusal> {
        let Assessment { constraints, evidence, latency, mut caveats, mount, measured_on } =
            assess(&candidate, workload, catalog)?;
        if candidate.pool.level.info().provider == Provider::Filestore {
            caveats.push(FILESTORE_VARIES.to_owned());
        }
        let mut origins = candidate.pool.limits()?.origin;
        if !candidate.pool.level.info().is_instance {
            origins.extend(candidate.pool.volume_limits(&candidate.volume)?.origin);
        }
        let cost = catalog.prices.as_ref().and_then(|prices| prices.of(&candidate));
        caveats.extend(catalog.prices.as_ref().and_then(|prices| prices.of_several_pools(&candidate)));
        let large = candidate.volume.settings.large;
        let clients = for_clients(candidate.pool.level, large, workload, measured_on);
        let Candidate { pools, pool, per_pool, volume } = candidate;
        let mut choice = Self {
            pools,
            pool,
            volumes_per_pool: per_pool,
            volume,
            constraints,
            evidence,
            latency,
            caveats,
            origins,
            mount,
            clients,
            cost,
        };
        if choice.maximum_apart(workload).is_some() {
            choice.caveats.push(LIMITS_APART.to_owned());
        }
        choice.caveats.extend(choice.of_several_volumes(workload));
        choice.caveats.extend(choice.of_data_per_operation(workload));
        Ok(choice)
    }

    /// A caveat that bounds count the load with other data per operation than the question shows.
    fn of_data_per_operation(&self, workload: &Workload) -> Option<String> {
        let (asked, needed) = (workload.needed(), self.needed(workload));
        let (asked, counted) =
            asked.iter().zip(&needed).find(|(asked, counted)| asked.block != counted.block)?;
        Some(format!(
            "The EDA mix has {} of data an operation by SPECstorage, and {} as measured on such volumes: bounds count the \
             latter, so {} with headroom are {} here.",
            size(asked.block),
            size(counted.block),
            mib(asked.rate),
            mib(counted.rate)
        ))
    }

    /// A caveat about data and load in several volumes.
    fn of_several_volumes(&self, workload: &Workload) -> Option<String> {
        let volumes = self.volumes();
        let data = size(Bytes(workload.planned().0.div_ceil(volumes.into())));
        let own_limits = self.level().info().owner == Owner::Volume || self.level().info().is_instance;
        let load = self.maximum_load(workload).filter(|_| own_limits).map_or_else(String::new, |(rate, iops)| {
            let each = |all: u64| all / u64::from(volumes);
            let (rate, iops) = (mib_within(BytesPerSecond(each(rate.0))), grouped(each(iops.0)));
            format!(" Each carries at most {rate} of this mix, {iops} IOPS: its limit does not rise when others are idle.")
        });
        (volumes > 1).then(|| {
            format!(
                "Data and load must be spread evenly over {volumes} volumes, with {data} of data in each: no volume takes \
                 part of another's.{load} --volumes 1 asks for one volume."
            )
        })
    }

    pub fn reassess(&self, workload: &Workload, catalog: &Catalog) -> Result<Self, Refusal> {
        let Self { pools, pool, volumes_per_pool, volume, .. } = self.clone();
        Self::of(Candidate { pools, pool, per_pool: volumes_per_pool, volume }, workload, catalog)
    }

    pub fn level(&self) -> Level {
        self.pool.level
    }

    pub fn volumes(&self) -> u32 {
        self.pools * self.volumes_per_pool
    }

    /// Capacity that is paid for.
    pub fn capacity(&self) -> Bytes {
        Bytes(self.pool.size.0.saturating_mul(u64::from(self.pools)))
    }

    /// Settings besides sizes, exact to the byte and in a form that commands accept; `None` without any.
    pub fn settings(&self) -> Option<String> {
        let owner = if self.level().info().is_instance { "instance" } else { "pool" };
        let of_pool = self.pool_settings().map(|words| format!("{owner} {words}"));
        let of_volume = self.volume_settings().map(|words| format!("volume {words}"));
        joined([of_pool, of_volume], "; ")
    }

    /// The part of [`settings`](Self::settings) that each pool or instance has.
    pub fn pool_settings(&self) -> Option<String> {
        let settings = &self.pool.settings;
        let iops = settings.iops.map(|iops| match iops {
            ProvisionedIops::Fixed(iops) => iops.to_string(),
            ProvisionedIops::PerTib(iops) => format!("{iops} per TiB"),
        });
        let manual = (self.pool.qos() == Qos::Manual).then(|| "manual QoS".to_owned());
        let throughput = settings.throughput.map(|rate| rate.to_string());
        let profile = settings.profile.map(|profile| format!("profile {profile}"));
        joined([manual, throughput, iops, profile], ", ")
    }

    /// The part of [`settings`](Self::settings) that each volume has.
    pub fn volume_settings(&self) -> Option<String> {
        let settings = &self.volume.settings;
        let declared = &settings.declared.total;
        let throughput = settings.throughput.or(declared.combined).map(|rate| rate.to_string());
        let iops = declared.combined_iops.map(|iops| iops.to_string());
        let profile = settings.profile.map(|profile| format!("profile {profile}"));
        joined([throughput, iops, profile], ", ")
    }

    /// The bound with the highest use, which is why the choice is not smaller. Excludes settings, which follow from the
    /// load.
    pub fn binding(&self) -> Option<&Constraint> {
        self.constraints.iter().filter(|one| one.kind != Bound::Setting).max_by_key(|one| one.used)
    }

    pub fn bottleneck(&self) -> Option<&Constraint> {
        self.of_load().max_by_key(|one| one.used)
    }

    /// The next bound of the load if the [bottleneck](Self::bottleneck) were removed.
    pub fn next_bottleneck(&self) -> Option<&Constraint> {
        let first = self.bottleneck()?.kind;
        self.of_load().filter(|one| one.kind != first).max_by_key(|one| one.used)
    }

    pub fn of_kind(&self, kind: Bound) -> Option<&Constraint> {
        self.constraints.iter().filter(|one| one.kind == kind).max_by_key(|one| one.used)
    }

    /// The next bound after [`binding`](Self::binding) as the load grows.
    pub fn next_binding(&self) -> Option<&Constraint> {
        let (binding, first) = (self.binding()?, self.bottleneck()?);
        if binding.kind == first.kind { self.next_bottleneck() } else { Some(first) }
    }

    pub fn sources(&self) -> Vec<Source> {
        let advised = self.mount.why.iter().chain(&self.clients).map(|why| why.source);
        let explained = self.mount.meanings().into_iter().map(|why| why.source);
        let figures = self.origins.iter().map(|origin| origin.source);
        let cited = figures.chain(advised).chain(explained).filter(|source| !source.page.is_empty());
        let mut all: Vec<Source> = cited.collect();
        all.sort_unstable_by_key(|source| (source.name, source.date));
        all.dedup();
        all
    }

    fn of_load(&self) -> impl Iterator<Item = &Constraint> {
        self.constraints.iter().filter(|one| one.kind.is_of_load())
    }

    pub fn fits(&self) -> bool {
        self.constraints.iter().all(|one| one.used.fits())
    }

    /// The load that the ceilings must carry. An EDA load has as much data per operation as the page of such volumes.
    pub fn needed(&self, workload: &Workload) -> Vec<Stream> {
        needed(workload, self.level(), self.volume.settings.large)
    }

    pub fn maximum_load(&self, workload: &Workload) -> Option<(BytesPerSecond, Iops)> {
        Some(scaled_load(&self.needed(workload), self.bottleneck()?.used))
    }

    /// The reads and the writes of the [maximum load](Self::maximum_load), if the level limits them apart: their sum is
    /// no limit then, but that of this mix. `None` if a limit is for both, or if the load has only one of them.
    pub fn maximum_apart(&self, workload: &Workload) -> Option<[(BytesPerSecond, Iops); 2]> {
        let limits = self.pool.limits().ok()?.total;
        let is_apart = limits.combined.is_none() && limits.combined_iops.is_none();
        let needed = self.needed(workload);
        let is_mixed = needed.iter().any(|stream| stream.reads().0 > 0)
            && needed.iter().any(|stream| stream.writes().0 > 0);
        if !is_apart || !is_mixed || self.level().info().provider == Provider::Plimsoll {
            return None;
        }
        let used = self.bottleneck()?.used;
        let part = |of: fn(&Stream) -> BytesPerSecond| {
            let only: Vec<Stream> =
                needed.iter().map(|stream| Stream { rate: of(stream), ..*stream }).collect();
            scaled_load(&only, used)
        };
        Some([part(Stream::reads), part(Stream::writes)])
    }

    pub fn at_peak(&self, workload: &Workload) -> Option<Utilization> {
        Some(self.bottleneck()?.used.over_percent(100 + workload.headroom_percent))
    }

    pub fn at_average(&self, workload: &Workload) -> Option<Utilization> {
        Some(self.at_peak(workload)?.percent_of(workload.average_percent))
    }

    /// Ceilings at each of these shares of reads, in thousandths of the data. Every stream gets that share,
    /// except at the load's own share.
    pub fn over_mixes(
        &self,
        workload: &Workload,
        catalog: &Catalog,
        reads: impl Iterator<Item = u32>,
    ) -> Vec<MixCeilings> {
        reads
            .map(|reads| {
                self.at_mix(workload, catalog, reads).unwrap_or(MixCeilings::without_ceilings(reads))
            })
            .collect()
    }

    fn at_mix(&self, workload: &Workload, catalog: &Catalog, read_thousandths: u32) -> Option<MixCeilings> {
        let mixed = workload.with_mix(read_thousandths)?;
        let choice = self.reassess(&mixed, catalog).ok()?;
        let lowest =
            |used: &mut dyn Iterator<Item = Utilization>| Some(scaled_load(&mixed.needed(), used.max()?).0);
        let documented = [Bound::Level, Bound::Setting, Bound::Pool, Bound::VolumeCap];
        // Our own levels have declared limits and no documents.
        let own = self.level().info().provider == Provider::Plimsoll;
        let of_documents = choice.constraints.iter().filter(|one| !own && documented.contains(&one.kind));
        let documented = lowest(&mut of_documents.map(|one| one.used));
        if choice.evidence == Evidence::Limits {
            return Some(MixCeilings { documented, ..MixCeilings::without_ceilings(read_thousandths) });
        }
        let with = |thousandths: fn(&Band) -> u32| {
            let scaled = |one: &Constraint| match &one.band {
                Some(band) => one.used.over_thousandths(thousandths(band)),
                None => one.used,
            };
            lowest(&mut choice.of_load().map(scaled))
        };
        let estimated = choice.of_load().any(|one| one.band.is_some());
        let between = with(|band| band.low_thousandths).zip(with(|band| band.high_thousandths));
        let exact = choice.of_kind(Bound::Envelope).filter(|one| one.band.is_none());
        Some(MixCeilings {
            read_thousandths,
            evidence: choice.evidence,
            documented,
            all: lowest(&mut choice.of_load().map(|one| one.used)),
            between: between.filter(|_| estimated),
            exact: exact.map(|one| scaled_load(&mixed.needed(), one.used).0),
        })
    }
}

impl MixCeilings {
    fn without_ceilings(read_thousandths: u32) -> Self {
        let evidence = Evidence::Limits;
        Self { read_thousandths, evidence, documented: None, all: None, between: None, exact: None }
    }
}

impl LatencyCheck {
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Published => "published",
            Self::Unchecked => "not checked",
        }
    }

    pub fn why(self) -> &'static str {
        match self {
            Self::Measured => "your measurement has points within it",
            Self::Published => "the rates were published at a latency within it",
            Self::Unchecked => "no page or measurement has a latency at this rate; measure it",
        }
    }
}

impl Evidence {
    pub fn name(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Measured => "measured",
            Self::Limits => "documented limits",
        }
    }
}

/// The words that there are; `None` without any.
fn joined<const N: usize>(words: [Option<String>; N], between: &str) -> Option<String> {
    let words: Vec<String> = words.into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join(between))
}

/// The load that uses the whole ceiling, if `needed` uses `used` of it; rounded down.
pub(super) fn scaled_load(needed: &[Stream], used: Utilization) -> (BytesPerSecond, Iops) {
    let rate = used.ceiling_of(Stream::total(needed).0.0);
    let iops = |stream: &Stream| used.ceiling_of(stream.rate.0) / stream.block.0.max(1);
    (BytesPerSecond(rate), Iops(needed.iter().map(iops).fold(0, u64::saturating_add)))
}

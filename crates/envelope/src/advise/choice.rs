//! The answer: what to buy, what bounds it, and what would come next.

use super::assess::{Assessment, assess};
use super::constraint::{Constraint, Used};
use super::envelopes::needed;
use super::layout::Candidate;
use super::mount::of_client;
use super::{Band, Bound, Catalog, Cost, Mount, Stream, Why, Workload};
use crate::{
    Bytes, BytesPerSecond, Iops, Level, Origin, Pool, Profile, Provider, ProvisionedIops, Qos, Refusal,
    Source, Volume,
};
use serde::Serialize;

/// What to buy for a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// What was asked.
    pub workload: Workload,
    /// What carries it: by price, then by capacity; without prices the best of each provider first.
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

/// What a choice carries of a load at one share of reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AtMix {
    /// Thousandths of the data that are read.
    pub read_thousandths: u32,
    /// What `all` and `exact` stand on here: it need not be the same at all mixes.
    pub evidence: Evidence,
    /// By the documented limits alone; nothing where there are none.
    pub documented: Option<BytesPerSecond>,
    /// By all bounds together; nothing where no curve covers the mix.
    pub all: Option<BytesPerSecond>,
    /// Between what that may lie, where it is estimated.
    pub between: Option<(BytesPerSecond, BytesPerSecond)>,
    /// By the envelope alone, where just this mix was published or measured.
    pub exact: Option<BytesPerSecond>,
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

/// What the page says of all its figures.
const FILESTORE_VARIES: &str = "An instance may differ from the page's figures: caching on clients and server, the clients' machine type and the load matter.";

impl Choice {
    /// The candidate with all that is said of it.
    pub(super) fn of(candidate: Candidate, workload: &Workload, catalog: &Catalog) -> Result<Self, Refusal> {
        let Assessment { constraints, evidence, mut caveats, mount, measured_on } =
            assess(&candidate, workload, catalog)?;
        if candidate.pool.level.info().provider == Provider::Filestore {
            caveats.push(FILESTORE_VARIES.to_owned());
        }
        let mut origins = candidate.pool.limits()?.origin;
        if !candidate.pool.level.info().is_instance {
            origins.extend(candidate.pool.volume_limits(&candidate.volume)?.origin);
        }
        let cost = catalog.prices.as_ref().and_then(|prices| prices.of(&candidate));
        let large = candidate.volume.settings.large;
        let clients = of_client(candidate.pool.level, large, workload, measured_on);
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

    /// Settings besides sizes, to the byte and as a command takes them; nothing if there are none.
    pub fn settings(&self) -> Option<String> {
        let (pool, volume) = (&self.pool.settings, &self.volume.settings);
        let iops = pool.iops.map(|iops| match iops {
            ProvisionedIops::Fixed(iops) => iops.to_string(),
            ProvisionedIops::PerTib(iops) => format!("{iops} per TiB"),
        });
        let manual = (self.pool.qos() == Qos::Manual).then(|| "manual QoS".to_owned());
        let profile = |profile: Option<Profile>| profile.map(|profile| format!("profile {profile}"));
        let declared = &volume.declared.total;
        let exact = |rate: BytesPerSecond| rate.to_string();
        let of_pool = [manual, pool.throughput.map(exact), iops, profile(pool.profile)];
        let of_volume = [
            volume.throughput.or(declared.combined).map(exact),
            declared.combined_iops.map(|iops| iops.to_string()),
            profile(volume.profile),
            None,
        ];
        let owner = if self.level().info().is_instance { "instance" } else { "pool" };
        let each = |(what, words): (&str, [Option<String>; 4])| {
            let words = words.into_iter().flatten().collect::<Vec<_>>().join(", ");
            (!words.is_empty()).then(|| format!("{what} {words}"))
        };
        let all: Vec<String> =
            [(owner, of_pool), ("volume", of_volume)].into_iter().filter_map(each).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// The bound that is taken most, which is why it is not smaller; what is set follows from the load.
    pub fn binding(&self) -> Option<&Constraint> {
        self.constraints.iter().filter(|one| one.kind != Bound::Setting).max_by_key(|one| one.used)
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

    /// What comes after the [binding](Self::binding) bound if there is more load.
    pub fn next(&self) -> Option<&Constraint> {
        let (binding, first) = (self.binding()?, self.bottleneck()?);
        if binding.kind == first.kind { self.next_bottleneck() } else { Some(first) }
    }

    /// The pages that are cited, each once, by name.
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

    /// Whether everything fits.
    pub fn fits(&self) -> bool {
        self.constraints.iter().all(|one| one.used.fits())
    }

    /// The load that its ceilings must carry, with as much data in each operation of an EDA load as a page has for such
    /// volumes.
    pub fn needed(&self, workload: &Workload) -> Vec<Stream> {
        needed(workload, self.level(), self.volume.settings.large)
    }

    /// The most load of this mix: all data and all operations; nothing where there is no load to scale.
    pub fn carries(&self, workload: &Workload) -> Option<(BytesPerSecond, Iops)> {
        Some(carried(&self.needed(workload), self.bottleneck()?.used))
    }

    /// How much of the ceiling the peak takes, without its headroom.
    pub fn at_peak(&self, workload: &Workload) -> Option<Used> {
        Some(self.bottleneck()?.used.over_percent(100 + workload.headroom_percent))
    }

    /// How much of the ceiling the average load takes.
    pub fn at_average(&self, workload: &Workload) -> Option<Used> {
        Some(self.at_peak(workload)?.percent_of(workload.average_percent))
    }

    /// What it carries at each of these shares of reads, in thousandths of the data: all streams have the same share but
    /// at the load's own.
    pub fn over_mixes(
        &self,
        workload: &Workload,
        catalog: &Catalog,
        reads: impl Iterator<Item = u32>,
    ) -> Vec<AtMix> {
        reads.map(|reads| self.at_mix(workload, catalog, reads).unwrap_or(AtMix::unknown(reads))).collect()
    }

    fn at_mix(&self, workload: &Workload, catalog: &Catalog, read_thousandths: u32) -> Option<AtMix> {
        let mixed = workload.mixed(read_thousandths)?;
        let choice = self.under(&mixed, catalog).ok()?;
        let least = |used: &mut dyn Iterator<Item = Used>| Some(carried(&mixed.needed(), used.max()?).0);
        let documented = [Bound::Level, Bound::Setting, Bound::Pool, Bound::VolumeCap];
        // Our own levels have what is declared, and no documents.
        let own = self.level().info().provider == Provider::Plimsoll;
        let of_documents = choice.constraints.iter().filter(|one| !own && documented.contains(&one.kind));
        let documented = least(&mut of_documents.map(|one| one.used));
        if choice.evidence == Evidence::Limits {
            return Some(AtMix { documented, ..AtMix::unknown(read_thousandths) });
        }
        let with = |thousandths: fn(&Band) -> u32| {
            let scaled = |one: &Constraint| match &one.band {
                Some(band) => one.used.over_thousandths(thousandths(band)),
                None => one.used,
            };
            least(&mut choice.of_load().map(scaled))
        };
        let estimated = choice.of_load().any(|one| one.band.is_some());
        let between = with(|band| band.low_thousandths).zip(with(|band| band.high_thousandths));
        let exact = choice.of_kind(Bound::Envelope).filter(|one| one.band.is_none());
        Some(AtMix {
            read_thousandths,
            evidence: choice.evidence,
            documented,
            all: least(&mut choice.of_load().map(|one| one.used)),
            between: between.filter(|_| estimated),
            exact: exact.map(|one| carried(&mixed.needed(), one.used).0),
        })
    }
}

impl AtMix {
    /// Nothing is known of this mix.
    fn unknown(read_thousandths: u32) -> Self {
        let evidence = Evidence::Limits;
        Self { read_thousandths, evidence, documented: None, all: None, between: None, exact: None }
    }
}

impl Evidence {
    /// As it is said.
    pub fn name(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Measured => "measured",
            Self::Limits => "documented limits",
        }
    }
}

/// The load that would take all of what these streams take so much of, rounded down.
fn carried(needed: &[Stream], used: Used) -> (BytesPerSecond, Iops) {
    let rate = used.whole(Stream::together(needed).0.0);
    let iops = |stream: &Stream| used.whole(stream.rate.0) / stream.block.0.max(1);
    (BytesPerSecond(rate), Iops(needed.iter().map(iops).fold(0, u64::saturating_add)))
}

//! The question: reads flags and measurements as a workload and a catalog.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use api_client::model::{LevelName, ProfileName};
use bench::workload::{Observed, Pick};
use clap::Args;
use envelope::{
    Access, Bytes, BytesPerSecond, Catalog, Iops, Level, Machine, Protocol, Stream, Workload, WorkloadKind,
    size,
};

use super::{prices, watch, words};
use crate::exit::usage;
use crate::manage::{self, ServiceArgs};

/// A workload, and the choice of levels for it.
#[derive(Debug, Args)]
pub(crate) struct Question {
    #[command(flatten)]
    load: LoadFlags,
    #[command(flatten)]
    clients: ClientFlags,
    #[command(flatten)]
    from: FromFlags,
    #[command(flatten)]
    choice: ChoiceFlags,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "The workload, at its peak")]
struct LoadFlags {
    /// Data stored now, like 40TiB
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Bytes>,
    /// Expected growth of the data, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    growth: u32,
    /// Operations a second, like 120k; with --throughput as well, the block follows
    #[arg(long, value_parser = words::iops)]
    iops: Option<Iops>,
    /// Data a second, like 900MiB/s
    #[arg(long, value_name = "RATE")]
    throughput: Option<BytesPerSecond>,
    /// Kind of workload that sets the mix; --block, --read and --pattern override it
    #[arg(long, value_name = "KIND", value_parser = WorkloadKind::named, conflicts_with = "from")]
    like: Option<&'static WorkloadKind>,
    /// Bytes of an operation, like 8k [default: 8k with --iops, 64k with --throughput or sequential]
    #[arg(long, value_name = "SIZE")]
    block: Option<Bytes>,
    /// Reads among the operations, in percent, like 70 [default: 100]
    #[arg(long, value_name = "PERCENT", value_parser = words::reads)]
    read: Option<u32>,
    /// Order of operations: random or sequential [default: random below 64k, sequential from there]
    #[arg(long, value_parser = words::access)]
    pattern: Option<Access>,
    /// Another load at the same time, repeatable: PATTERN,BLOCK,READ,RATE like sequential,256k,100,2GiB/s
    #[arg(long = "load", value_name = "LOAD", value_parser = words::load)]
    loads: Vec<Stream>,
    /// Operations a second of an EDA design flow at the same time, more than half of them for attributes
    #[arg(long, value_name = "OPS", value_parser = words::iops)]
    eda: Option<Iops>,
    /// Operations a second on names and attributes at the same time: create, remove, rename, stat
    #[arg(long, value_name = "OPS", value_parser = words::iops)]
    metadata: Option<Iops>,
    /// The average load, in percent of the peak [default: 100]
    #[arg(long, value_name = "PERCENT")]
    average: Option<u32>,
    /// Headroom to add to the peak before comparing it with a ceiling, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 30)]
    headroom: u32,
    /// The data in use at a time
    #[arg(long, value_name = "SIZE")]
    working_set: Option<Bytes>,
    /// Use figures measured with a cache: reads repeat the same places
    #[arg(long)]
    cached: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "The clients")]
struct ClientFlags {
    /// Number of clients; without it, the limits of each client do not count
    #[arg(long, value_name = "N")]
    clients: Option<u32>,
    /// Connections of each client (nconnect) [default: as the service recommends]
    #[arg(long, value_name = "N")]
    connections: Option<u32>,
    /// Machine type of the clients, like E32s_v5: its published network limits count
    #[arg(long, value_name = "NAME", value_parser = Machine::named)]
    machine: Option<&'static Machine>,
    /// Rate at which each client can send, like 2000MiB/s or 16Gbit/s: limits writes only
    #[arg(long, value_name = "RATE")]
    egress: Option<BytesPerSecond>,
    /// Rate at which each client can receive, like 16Gbit/s: limits reads only
    #[arg(long, value_name = "RATE")]
    ingress: Option<BytesPerSecond>,
    /// Rate of each client's network interface in each direction: sets --egress and --ingress
    #[arg(long, value_name = "RATE", conflicts_with_all = ["egress", "ingress"])]
    nic: Option<BytesPerSecond>,
    /// Greatest average latency of an operation, like 2ms
    #[arg(long, value_name = "TIME", value_parser = words::latency)]
    latency: Option<u64>,
    /// Protocol of the mounts [default: nfsv3]
    #[arg(long, value_parser = manage::words::protocol())]
    protocol: Option<api_client::model::Protocol>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Or a measured load")]
struct FromFlags {
    /// Measured load: a run of "plimsoll bench run", fio's JSON, /proc/self/mountstats, or the output of nfsiostat (`-`: the standard input)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["iops", "throughput", "block", "read"])]
    from: Option<PathBuf>,
    /// Cell of the run, or group of fio, by its number
    #[arg(long, value_name = "N", requires = "from")]
    cell: Option<usize>,
    /// Mount of mountstats or nfsiostat
    #[arg(long, value_name = "DIR", requires = "from")]
    mount: Option<String>,
    /// Earlier mountstats of the same mount: the load is the difference
    #[arg(long, value_name = "FILE", requires = "from")]
    since: Option<PathBuf>,
    #[command(flatten)]
    watch: watch::WatchFlags,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "The choice")]
struct ChoiceFlags {
    /// Provider of the levels: anf, gcnv, filestore, plimsoll (as measured with --measured), all
    #[arg(long, value_parser = words::providers, default_value = "all")]
    provider: words::Providers,
    /// Level to choose from, repeatable: "plimsoll level list" shows them
    #[arg(long, value_parser = manage::words::level(), hide_possible_values = true)]
    level: Vec<LevelName>,
    /// Greatest number of volumes to spread the data over; 1 for a single volume
    #[arg(long, value_name = "N", default_value_t = 6)]
    volumes: u32,
    /// Greatest capacity to buy
    #[arg(long, value_name = "SIZE")]
    capacity_max: Option<Bytes>,
    /// Choose large volumes only
    #[arg(long, conflicts_with = "regular")]
    large: bool,
    /// Choose regular volumes only
    #[arg(long)]
    regular: bool,
    /// Alternative figures of the levels where sources disagree, repeatable
    #[arg(long, value_parser = manage::words::profile())]
    profile: Vec<ProfileName>,
    /// A run of "plimsoll bench run" that replaces the published figures of a level, repeatable [default level: plimsoll/custom]
    #[arg(long, value_name = "[LEVEL=]RUN.json")]
    measured: Vec<String>,
    /// Table of prices in TOML; none is included
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

/// The workload and the catalog that the question describes.
pub(super) struct SizingRequest {
    pub(super) workload: Workload,
    pub(super) catalog: Catalog,
    /// Notes for the user about assumptions, sources and ignored flags.
    pub(super) notes: Vec<String>,
}

const RANDOM_BLOCK: Bytes = Bytes(8 << 10);
/// The default block of sequential operations, and the least block that counts as sequential.
const SEQUENTIAL_BLOCK: Bytes = Bytes(64 << 10);

impl Question {
    /// Builds the workload and the catalog. Reads files, and watches a running volume, if the flags say so.
    pub(super) fn ask(&self) -> anyhow::Result<SizingRequest> {
        let mut notes = Vec::new();
        let (observed, stored) = self.observed()?;
        let mut streams: Vec<Stream> = self.load.stream()?.into_iter().collect();
        notes.extend(self.load.like.map(assumed));
        if let Some(observed) = &observed {
            notes.push(format!("the load is that of {}", observed.source));
            notes.extend(observed.latency_us.map(|us| format!("an operation took {us} µs of it on average")));
            notes.extend(observed.notes.iter().cloned());
            streams.extend(&observed.streams);
        }
        streams.extend(&self.load.loads);
        streams.extend(self.load.eda.map(Stream::eda));
        streams.extend(self.load.metadata.map(Stream::metadata));
        let workload = self.workload(streams, observed.as_ref(), stored, &mut notes)?;
        workload.check().map_err(|refusal| usage(refusal.to_string()))?;
        notes.extend(self.clients.without_number(&workload));
        let catalog = self.choice.catalog()?;
        Ok(SizingRequest { workload, catalog, notes })
    }

    /// The service that `watch` and `apply` use.
    pub(super) fn service(&self) -> &ServiceArgs {
        &self.from.watch.service
    }

    /// The measured load, and the bytes stored if known.
    fn observed(&self) -> anyhow::Result<(Option<Observed>, Option<Bytes>)> {
        if let Some((observed, stored)) = self.from.watch.observe(self.load.pattern)? {
            return Ok((Some(observed), Some(stored).filter(|stored| stored.0 > 0)));
        }
        let Some(file) = &self.from.from else { return Ok((None, None)) };
        let pick = Pick {
            cell: self.from.cell,
            mount: self.from.mount.clone(),
            since: self.from.since.as_deref().map(read).transpose()?,
            pattern: self.load.pattern,
        };
        Ok((Some(bench::workload::read(&file.display().to_string(), &read(file)?, &pick)?), None))
    }

    fn workload(
        &self,
        streams: Vec<Stream>,
        observed: Option<&Observed>,
        stored: Option<Bytes>,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Workload> {
        let (load, clients) = (&self.load, &self.clients);
        let found = |part: fn(&Observed) -> Option<u32>| observed.and_then(part);
        let working_set = load.working_set.or_else(|| observed.and_then(|observed| observed.working_set));
        let Some(capacity) = load.capacity.or(stored).or(working_set) else {
            return Err(usage("the capacity is missing: give --capacity SIZE, like --capacity 40TiB"));
        };
        if load.capacity.is_none() {
            let what = if stored.is_some() { "the data stored there" } else { "the data in use" };
            let shown = size(capacity);
            notes.push(format!("the capacity is {what}, {shown}: --capacity overrides it"));
        }
        Ok(Workload {
            growth_percent: load.growth,
            streams,
            average_percent: load.average.or(found(|observed| observed.average_percent)).unwrap_or(100),
            headroom_percent: load.headroom,
            cached: load.cached,
            working_set,
            clients: clients.clients.or(found(|observed| observed.clients)),
            connections: clients.connections.or(found(|observed| observed.connections)),
            machine: clients.machine,
            egress: clients.egress.or(clients.nic),
            ingress: clients.ingress.or(clients.nic),
            latency_us: clients.latency,
            protocol: self.protocol(observed),
            volumes_max: self.choice.volumes,
            capacity_max: self.choice.capacity_max,
            ..Workload::new(capacity)
        })
    }

    fn protocol(&self, observed: Option<&Observed>) -> Protocol {
        let asked = self.clients.protocol.map(Protocol::from);
        asked.or(observed.and_then(|observed| observed.protocol)).unwrap_or(Protocol::NfsV3)
    }
}

/// A note about the mix that a kind of workload assumes.
fn assumed(like: &WorkloadKind) -> String {
    let WorkloadKind { name, about, source, .. } = like;
    let mix = match like.access {
        Access::Eda => "its mix is fixed".to_owned(),
        access => format!(
            "{} operations of {}, {} % reads are assumed; --pattern, --block and --read override that",
            access.name(),
            size(like.block),
            like.read_thousandths / 10
        ),
    };
    format!("like {name}: {mix}; {about} [{source}]")
}

impl ClientFlags {
    /// A note that limits of each client do not count without the number of clients.
    fn without_number(&self, workload: &Workload) -> Option<String> {
        let is_said =
            [self.egress, self.ingress, self.nic].iter().any(Option::is_some) || self.machine.is_some();
        (is_said && workload.clients.is_none())
            .then(|| "network limits of each client do not count without --clients".to_owned())
    }
}

impl LoadFlags {
    /// The load that the plain flags describe; `None` without one.
    fn stream(&self) -> anyhow::Result<Option<Stream>> {
        if self.like.is_some_and(|like| like.access == Access::Eda) {
            return self.eda_stream().map(Some);
        }
        if self.iops.is_none() && self.throughput.is_none() {
            if self.block.is_some() || self.read.is_some() || self.like.is_some() {
                return Err(usage(
                    "the rate of the load is missing: give --iops or --throughput, like --iops 20k",
                ));
            }
            return Ok(None);
        }
        let read_thousandths = self.read.or(self.like.map(|like| like.read_thousandths)).unwrap_or(1000);
        if let (Some(iops), Some(rate)) = (self.iops, self.throughput) {
            let block = Bytes(rate.0 / iops.0);
            if self.block.is_some_and(|given| given != block) {
                return Err(usage(format!(
                    "--iops {} and --throughput {rate} are operations of {block}, not of --block {}: leave one out, or give \
                     two loads with --load",
                    iops.0,
                    self.block.unwrap_or(block)
                )));
            }
            let access = self.access(block);
            return Ok(Some(Stream { access, block, read_thousandths, rate }));
        }
        // A rate in operations suggests small random ones, a rate in bytes suggests streams.
        let sequential = self.pattern.map_or(self.iops.is_none(), |pattern| pattern == Access::Sequential);
        let usual = if sequential { SEQUENTIAL_BLOCK } else { RANDOM_BLOCK };
        let block = self.block.or(self.like.map(|like| like.block)).unwrap_or(usual);
        let access = self.access(block);
        Ok(Some(match (self.iops, self.throughput) {
            (Some(iops), _) => Stream::from_iops(access, block, read_thousandths, iops),
            (None, rate) => Stream { access, block, read_thousandths, rate: rate.unwrap_or_default() },
        }))
    }

    /// The load of an EDA design flow. Its mix is fixed, only the rate can be chosen.
    fn eda_stream(&self) -> anyhow::Result<Stream> {
        let fixed = self.block.is_some() || self.read.is_some() || self.pattern.is_some();
        if fixed || self.throughput.is_some() {
            return Err(usage("the mix of an EDA load is fixed; allowed with --like eda: --iops alone"));
        }
        let Some(iops) = self.iops else {
            return Err(usage("the rate of the load is missing: give --iops, like --iops 30k"));
        };
        Ok(Stream::eda(iops))
    }

    fn access(&self, block: Bytes) -> Access {
        let guess = if block < SEQUENTIAL_BLOCK { Access::Random } else { Access::Sequential };
        self.pattern.or(self.like.map(|like| like.access)).unwrap_or(guess)
    }
}

impl ChoiceFlags {
    fn catalog(&self) -> anyhow::Result<Catalog> {
        let mut catalog = if self.level.is_empty() {
            Catalog::of_providers(&self.provider.0)
        } else {
            Catalog::of(self.level.iter().map(|level| level.0).collect::<Vec<_>>())
        };
        catalog.large = self.large.then_some(true).or(self.regular.then_some(false));
        catalog.profiles = self.profile.iter().map(|profile| profile.0).collect();
        for measured in &self.measured {
            let (level, file) = match measured.split_once('=') {
                Some((level, file)) => {
                    (level.parse().map_err(|refusal: envelope::Refusal| usage(refusal.to_string()))?, file)
                }
                None => (Level::Custom, measured.as_str()),
            };
            let text = read(Path::new(file))?;
            let run = serde_json::from_str(&text)
                .with_context(|| format!("{file} is not a run of \"plimsoll bench run\""))?;
            catalog.measured.push(bench::workload::measured(&run, file, level, self.large)?);
        }
        if let Some(file) = &self.prices {
            catalog.prices =
                Some(prices::parse(&read(file)?).with_context(|| format!("{}", file.display()))?);
        }
        Ok(catalog)
    }
}

/// The text of a file; `-` is the standard input.
fn read(file: &Path) -> anyhow::Result<String> {
    let text = if file == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        fs::read_to_string(file)
    };
    text.with_context(|| format!("cannot read {}", file.display()))
}

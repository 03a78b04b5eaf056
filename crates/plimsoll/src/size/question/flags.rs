//! The flags of a question. Short help shows the common ones, and the long help shows all.

use std::path::PathBuf;

use api_client::model::{LevelName, ProfileName};
use clap::Args;
use envelope::{Access, Bytes, BytesPerSecond, Iops, Machine, Stream, WorkloadKind};

use super::super::{watch, words};
use crate::manage;
use crate::number::whole;

/// The flags of a workload, which stand in the plan's file.
const PLAN_CONFLICTS: [&str; 13] = [
    "capacity",
    "growth",
    "iops",
    "throughput",
    "like",
    "users",
    "streams",
    "machines",
    "gpus",
    "jobs",
    "loads",
    "from",
    "from_volume",
];

#[derive(Debug, Args)]
#[command(next_help_heading = "The workload, at its peak")]
pub(super) struct LoadFlags {
    /// Data stored now, like 40TiB
    #[arg(long, value_name = "SIZE")]
    pub(crate) capacity: Option<Bytes>,
    /// Expected growth of the data, in percent [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = whole::<u32>(0..=u32::MAX))]
    pub(crate) growth: Option<u32>,
    /// Size for the end of year N, where --growth is that of a year, and show each year; with --plan, the growth of each workload
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = whole::<u32>(0..=u32::MAX))]
    pub(crate) years: Option<u32>,
    /// Operations a second, like 120k
    ///
    /// With --throughput as well, the block follows from both.
    #[arg(long, value_parser = words::iops)]
    pub(crate) iops: Option<Iops>,
    /// Data a second, like 900MiB/s
    #[arg(long, value_name = "RATE")]
    pub(crate) throughput: Option<BytesPerSecond>,
    /// home, media, vm, ai, database, eda, hpc: sets the mix
    ///
    /// The mix is --block, --read and --pattern, which override it.
    #[arg(long, value_name = "KIND", value_parser = WorkloadKind::named, conflicts_with = "from")]
    pub(crate) like: Option<&'static WorkloadKind>,
    /// Users, 4 IOPS and 10 GiB each, 25 % active: sets --like home
    ///
    /// Only active users count for the load of the peak: 500 users have 5,000 GiB and 500 IOPS.
    #[arg(long, value_name = "N", value_parser = words::count(), conflicts_with_all = ["streams", "machines", "gpus", "jobs", "from", "from_volume"])]
    pub(crate) users: Option<u32>,
    /// Video streams, 700 Mbit/s and 3 TiB each
    #[arg(long, value_name = "N", value_parser = words::count(), conflicts_with_all = ["machines", "gpus", "jobs", "from", "from_volume"])]
    pub(crate) streams: Option<u32>,
    /// Virtual machines, 50 IOPS and 60 GiB each, 50 % active
    ///
    /// Only active machines count for the load of the peak: 10 machines have 600 GiB and 250 IOPS.
    #[arg(long, value_name = "N", value_parser = words::count(), conflicts_with_all = ["gpus", "jobs", "from", "from_volume"])]
    pub(crate) machines: Option<u32>,
    /// GPUs in training, 500 MiB/s and 2 TiB each
    #[arg(long, value_name = "N", value_parser = words::count(), conflicts_with_all = ["jobs", "from", "from_volume"])]
    pub(crate) gpus: Option<u32>,
    /// EDA jobs, 450 IOPS and 11 GiB each: sets --like eda
    #[arg(long, value_name = "N", value_parser = words::count(), conflicts_with_all = ["from", "from_volume"])]
    pub(crate) jobs: Option<u32>,
    /// Bytes of an operation, like 8k
    ///
    /// Default: 8k with --iops, 64k with --throughput or sequential operations.
    #[arg(long, value_name = "SIZE", value_parser = words::block)]
    pub(crate) block: Option<Bytes>,
    /// Reads in percent, like 70 [default: 100]
    #[arg(long, value_name = "PERCENT", value_parser = words::reads)]
    pub(crate) read: Option<u32>,
    /// Order of operations: random or sequential [default: random below 64k, sequential from there]
    #[arg(long, value_parser = words::access, hide_short_help = true)]
    pub(crate) pattern: Option<Access>,
    /// Another load at the same time, repeatable: PATTERN,BLOCK,READ,RATE like sequential,256k,100,2GiB/s
    #[arg(long = "load", value_name = "LOAD", value_parser = words::load, hide_short_help = true)]
    pub(crate) loads: Vec<Stream>,
    /// Operations a second of an EDA design flow at the same time, more than half of them for attributes
    #[arg(long, value_name = "OPS", value_parser = words::iops, hide_short_help = true)]
    pub(crate) eda: Option<Iops>,
    /// Operations a second on names and attributes at the same time: create, remove, rename, stat
    #[arg(long, value_name = "OPS", value_parser = words::iops, hide_short_help = true)]
    pub(crate) metadata: Option<Iops>,
    /// The average load, in percent of the peak [default: 100]
    #[arg(long, value_name = "PERCENT", hide_short_help = true, value_parser = whole::<u32>(0..=u32::MAX))]
    pub(crate) average: Option<u32>,
    /// Headroom to add to the peak before comparing it with a ceiling, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 30, hide_short_help = true, value_parser = whole::<u32>(0..=u32::MAX))]
    pub(crate) headroom: u32,
    /// Headroom to add to the data with their growth, for snapshots, in percent
    ///
    /// Google's page on snapshots asks for 20 % with 1 to 2 % of change a day. Without snapshots, 0 buys what is asked for.
    #[arg(long, value_name = "PERCENT", default_value_t = 20, hide_short_help = true, value_parser = whole::<u32>(0..=u32::MAX))]
    pub(crate) capacity_headroom: u32,
    /// The data in use at a time
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub(crate) working_set: Option<Bytes>,
    /// Use figures measured with a cache: reads repeat the same places
    #[arg(long, hide_short_help = true)]
    pub(crate) cached: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "The clients")]
pub(super) struct ClientFlags {
    /// Number of clients; without it, the limits of each client do not count
    #[arg(long, value_name = "N", value_parser = whole::<u32>(0..=u32::MAX))]
    pub(crate) clients: Option<u32>,
    /// Connections of each client (nconnect) [default: as the service recommends]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(0..=u32::MAX))]
    pub(crate) connections: Option<u32>,
    /// Machine type of the clients, like E32s_v5: its published network limits count
    #[arg(long, value_name = "NAME", value_parser = Machine::named)]
    pub(crate) machine: Option<&'static Machine>,
    /// Rate at which each client can send, like 2000MiB/s or 16Gbit/s: limits writes only
    #[arg(long, value_name = "RATE")]
    pub(crate) egress: Option<BytesPerSecond>,
    /// Rate at which each client can receive, like 16Gbit/s: limits reads only
    #[arg(long, value_name = "RATE")]
    pub(crate) ingress: Option<BytesPerSecond>,
    /// Rate of each client's network interface in each direction: sets --egress and --ingress
    #[arg(long, value_name = "RATE", conflicts_with_all = ["egress", "ingress"])]
    pub(crate) nic: Option<BytesPerSecond>,
    /// Greatest average latency of an operation, like 2ms
    #[arg(long, value_name = "TIME", value_parser = words::latency)]
    pub(crate) latency: Option<u64>,
    /// Protocol of the mounts [default: nfsv3]
    #[arg(long, value_parser = manage::words::protocol())]
    pub(crate) protocol: Option<api_client::model::Protocol>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Or a measured load")]
pub(super) struct FromFlags {
    /// Measured load: a run of "plimsoll bench run", fio's JSON, /proc/self/mountstats, or the output of nfsiostat (`-`: the standard input)
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["iops", "throughput", "block", "read"]
    )]
    pub(crate) from: Option<PathBuf>,
    /// Cell of the run, or group of fio, by its number
    #[arg(long, value_name = "N", requires = "from", value_parser = whole::<usize>(0..))]
    pub(crate) cell: Option<usize>,
    /// Mount of mountstats or nfsiostat
    #[arg(long, value_name = "DIR", requires = "from")]
    pub(crate) mount: Option<String>,
    /// Earlier mountstats of the same mount: the load is the difference
    #[arg(long, value_name = "FILE", requires = "from")]
    pub(crate) since: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) watch: watch::WatchFlags,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "The choice")]
pub(super) struct ChoiceFlags {
    /// Provider of the levels: anf, gcnv, filestore, plimsoll (as measured with --measured), all
    #[arg(long, value_parser = words::providers, default_value = "all", help = "anf, gcnv, filestore, plimsoll, all")]
    pub(crate) provider: words::Providers,
    /// Level, repeatable: see "plimsoll level list"
    #[arg(long, value_parser = manage::words::level(), hide_possible_values = true)]
    pub(crate) level: Vec<LevelName>,
    /// Greatest number of volumes to spread the data over; 1 for a single volume
    #[arg(long, value_name = "N", default_value_t = 6, hide_short_help = true, value_parser = whole::<u32>(0..=u32::MAX))]
    pub(crate) volumes: u32,
    /// Greatest capacity to buy
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub(crate) capacity_max: Option<Bytes>,
    /// Choose large volumes only
    #[arg(long, conflicts_with = "regular", hide_short_help = true)]
    pub(crate) large: bool,
    /// Choose regular volumes only
    #[arg(long, hide_short_help = true)]
    pub(crate) regular: bool,
    /// Alternative figures where sources disagree, repeatable: "plimsoll level profiles" lists them
    #[arg(long, value_parser = manage::words::profile(), hide_possible_values = true, hide_short_help = true)]
    pub(crate) profile: Vec<ProfileName>,
    /// A run of "plimsoll bench run" that replaces the published figures of a level, repeatable [default level: plimsoll/custom]
    #[arg(long, value_name = "[LEVEL=]RUN.json", hide_short_help = true)]
    pub(crate) measured: Vec<String>,
    /// Plan the [[workload]] tables of a TOML file
    ///
    /// Each table has a name and the keys of a workload's flags, like capacity = "4TiB".
    #[arg(long, value_name = "FILE", conflicts_with_all = PLAN_CONFLICTS)]
    pub(crate) plan: Option<PathBuf>,
    /// Table of prices in TOML: see "plimsoll size prices"
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
}

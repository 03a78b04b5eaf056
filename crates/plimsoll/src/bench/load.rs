//! `plimsoll bench load`: one kind of call, many in flight.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bench::Target;
use bench::load::{self, BlockOrder, Kind, Op, Plan, Progress, Report};
use bench::observer::{Observer, Sample};
use clap::{Args, ValueEnum};
use envelope::{parse_count, parse_duration, parse_size};
use indicatif::ProgressBar;
use report::document::table::separated;
use report::document::{self, CountedBy, Used};
use report::result::Limits;
use report::scenario::Stability;
use report::scenario::limits::{CLIENTS_MAX, CONNECTIONS_MAX, DEPTH_MAX, DIRECTORIES_MAX, FILES_MAX};

use super::measure::interrupted;
use super::password::PasswordArgs;
use super::progress::{self, clock, filling, live_line};
use super::server::{self, ServiceObserver};
use crate::exit::usage;
use crate::form::json;
use crate::manage::ServiceArgs;
use crate::number::{ID_MAX, whole};
use crate::output;
use crate::terminal::{self, Tone, print, unpainted};

/// The arguments of `bench load`.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// Target: HOST:/EXPORT, nfs://… or smb://USER@HOST/SHARE
    ///
    /// HOST:/EXPORT, nfs://HOST[:PORT]/EXPORT[?version=3|4.1|4.2], or
    /// smb://USER@HOST[:PORT]/SHARE[?sign=gmac|cmac|hmac|none or ?seal=gcm|ccm|gcm256|ccm256][&channels=N].
    target: Target,
    /// Kind of call
    #[arg(long, value_enum)]
    op: OpArg,
    /// Bytes of a read or write: a multiple of 512 up to 1m
    #[arg(long, default_value = "8k", value_parser = parse_size)]
    block: u64,
    /// The order of the blocks
    #[arg(long, value_enum, default_value = "random")]
    pattern: PatternArg,
    /// Reads of a mix; the rest are writes [default: 75]
    #[arg(long, value_name = "PERCENT", value_parser = whole::<u8>(0..=100))]
    read: Option<u8>,
    /// Stability of answered writes (RFC 1813 §3.3.7)
    #[arg(long, hide_short_help = true, value_enum, default_value = "unstable")]
    stable: StableArg,
    /// Connections of each client
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = whole::<usize>(1..=CONNECTIONS_MAX))]
    connections: usize,
    /// Calls in flight on each connection
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = whole::<usize>(1..=DEPTH_MAX))]
    depth: usize,
    /// Calls a second, like 1.2k [default: as many as possible]
    ///
    /// The rate of all clients together, on a schedule; --depth bounds the calls in flight.
    #[arg(long, value_name = "OPS", value_parser = parse_count)]
    rate: Option<u64>,
    /// Clients, each with its own connections
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = whole::<usize>(1..=CLIENTS_MAX))]
    clients: usize,
    /// Local addresses of the clients, which use them in turn; separated by commas
    #[arg(long, hide_short_help = true, value_name = "ADDRESS", value_delimiter = ',', value_parser = crate::listen_address::ip)]
    source: Vec<IpAddr>,
    /// Number of data files
    #[arg(long, hide_short_help = true, default_value_t = 8, value_name = "N", value_parser = whole::<usize>(1..=FILES_MAX))]
    files: usize,
    /// Bytes of each data file: a multiple of --block
    #[arg(long, default_value = "64m", value_parser = parse_size)]
    size: u64,
    /// Names in the directories that lookup and readdirplus work on
    #[arg(long, hide_short_help = true, default_value_t = 10_000, value_name = "N", value_parser = whole::<usize>(1..))]
    entries: usize,
    /// Directories that lookup, create and rename are spread over
    #[arg(long, hide_short_help = true, default_value_t = 1, value_name = "N", value_parser = whole::<usize>(1..=DIRECTORIES_MAX))]
    directories: usize,
    /// Time to measure
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    time: Duration,
    /// Time to run before the measurement
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    warm_up: Duration,
    /// Check every byte; after writing, read everything back
    #[arg(long)]
    verify: bool,
    /// Seed of the pseudo-random sequences
    #[arg(long, hide_short_help = true, default_value_t = 1, value_name = "N", value_parser = whole::<u64>(0..))]
    seed: u64,
    /// User id of the caller
    #[arg(long, hide_short_help = true, default_value_t = 0, value_name = "N", value_parser = whole::<u32>(0..=ID_MAX))]
    uid: u32,
    /// Group id of the caller
    #[arg(long, hide_short_help = true, default_value_t = 0, value_name = "N", value_parser = whole::<u32>(0..=ID_MAX))]
    gid: u32,
    #[command(flatten)]
    password: PasswordArgs,
    /// Call from ports below 1024, which many Linux servers require
    #[arg(long, hide_short_help = true)]
    privileged_port: bool,
    /// Port of MOUNT [default: that of NFS]
    #[arg(long, hide_short_help = true, value_name = "PORT", value_parser = whole::<u16>(0..=u16::MAX))]
    mount_port: Option<u16>,
    /// Threads of the generator, at most one a connection [default: one a core]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole::<usize>(1..))]
    threads: Option<usize>,
    /// Process id of a server on this machine, whose CPU time per call is reported, with that of its children
    #[arg(long, hide_short_help = true, value_name = "PID", value_parser = whole::<u32>(1..=u32::MAX))]
    pid: Option<u32>,
    /// Remove the files afterwards
    ///
    /// The next run uses files that remain.
    #[arg(long)]
    cleanup: bool,
    /// Print JSON instead of a table, or write it to FILE
    ///
    /// With a FILE, the table is printed too.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// File to write instead of the standard output (-)
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    service: ServiceArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OpArg {
    /// READ.
    Read,
    /// WRITE.
    Write,
    /// READ and WRITE, by --read.
    Mix,
    /// GETATTR of the data files; over SMB QUERY_INFO.
    Getattr,
    /// LOOKUP of random names, as stat does; over SMB CREATE, QUERY_INFO and CLOSE in one message.
    #[value(alias = "stat")]
    Lookup,
    /// ACCESS to the data files.
    Access,
    /// OPEN of the data files, then CLOSE, of NFSv4 alone; over SMB CREATE and CLOSE.
    Open,
    /// CREATE of a new name, then REMOVE of it; over NFSv4 OPEN, CLOSE and REMOVE.
    #[value(alias = "unlink")]
    Create,
    /// RENAME of empty files, from directory to directory.
    Rename,
    /// READDIRPLUS through a large directory; over NFSv4 READDIR, over SMB QUERY_DIRECTORY.
    #[value(alias = "readdir")]
    Readdirplus,
    /// COMMIT of the data files; over SMB FLUSH.
    Commit,
    /// NULL: what the transport alone costs; over SMB ECHO.
    Null,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PatternArg {
    /// Every block equally likely.
    Random,
    /// Every connection through its own share, again and again.
    Sequential,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StableArg {
    /// Not at all; a COMMIT ends the load.
    Unstable,
    /// The data is on disk.
    DataSync,
    /// Data and attributes are on disk.
    FileSync,
}

/// The percentage of reads of a mix without --read.
const READS: u8 = 75;

/// Runs a load; one with failed calls ends with a failure.
pub(super) fn run(arguments: LoadArgs) -> anyhow::Result<ExitCode> {
    let (json, text) = (arguments.json.clone(), arguments.output.clone());
    json.iter().chain(&text).filter(|path| !is_standard(path)).try_for_each(|path| output::check(path))?;
    let bar = live_line();
    let (service, target) = (arguments.service.clone(), arguments.target.clone());
    let is_mix = matches!(arguments.op, OpArg::Mix);
    if arguments.read.is_some() && !is_mix {
        return Err(usage(
            "--read is the share of reads of --op mix, and has no effect on other calls: leave it out",
        ));
    }
    let nt_hash = arguments.password.nt_hash(&arguments.target)?;
    let plan = Plan { nt_hash, ..plan(arguments) };
    plan.check().map_err(|refused| usage(refused.to_string()))?;
    let mut limits = server::observe(&service, &target)?.map(LimitsInTime::new);
    let stop = interrupted()?;
    let report = load::run(&plan, &mut |progress| {
        if let (Some(limits), Progress::Running { warming_up: false, .. }) = (&mut limits, progress) {
            limits.sample();
        }
        show(&bar, progress, plan.warm_up + plan.time);
        if stop.load(Ordering::Relaxed) { Err(bench::Error::Stopped) } else { Ok(()) }
    });
    bar.finish_and_clear();
    let mut report = report.map_err(|wrong| wrong.at(&plan.target.to_string()))?;
    report.limit = limits.and_then(|limits| limits.used(&report));
    write_report(&report, json.as_deref(), text.as_deref())?;
    Ok(if report.errors_total() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The limits of a volume, and the service's counters, in the course of a load.
struct LimitsInTime {
    observer: ServiceObserver,
    /// Each differs from the one before it.
    limits: Vec<Limits>,
    /// The first and the last sample of the measurement.
    samples: Option<[(Instant, Sample); 2]>,
}

/// Between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

impl LimitsInTime {
    fn new(observer: ServiceObserver) -> Self {
        Self { observer, limits: Vec::new(), samples: None }
    }

    fn sample(&mut self) {
        if self.samples.is_some_and(|[_, (last, _)]| last.elapsed() < SAMPLE_EVERY) {
            return;
        }
        // The question at the end reports the error.
        let Ok(sample) = self.observer.sample() else { return };
        self.add(sample.limits);
        let now = (Instant::now(), sample);
        self.samples = Some([self.samples.map_or(now, |[first, _]| first), now]);
    }

    fn add(&mut self, limits: Limits) {
        if self.limits.last() != Some(&limits) {
            self.limits.push(limits);
        }
    }

    /// The limit that the load reached.
    fn used(mut self, report: &Report) -> Option<String> {
        let volume = self.observer.facts();
        let volume =
            volume.map_err(|error| terminal::warn(&format!("the limits are not known: {error}"))).ok()?;
        self.add(volume.limits);
        if self.limits.len() > 1 {
            return Some(format!("Limit: {}.", document::limits_changed(&self.limits)));
        }
        let rates = |kind| report.kind(kind).map_or((0.0, 0.0), |of| (of.ops_per_s, of.mib_per_s));
        let ((read_iops, read_mib_per_s), (write_iops, write_mib_per_s)) =
            (rates(Kind::Read), rates(Kind::Write));
        let iops = report.ops_per_s;
        let used = Used { read_mib_per_s, write_mib_per_s, read_iops, write_iops, iops };
        Some(match self.samples.and_then(|samples| as_counted(used, samples)) {
            Some(used) => document::limit_reached(&volume, used, CountedBy::Service),
            None => document::limit_reached(&volume, used, CountedBy::Generator),
        })
    }
}

/// The rates by the service's counters, which count operations of all kinds together. `None` for too short a time.
fn as_counted(used: Used, [(began, first), (ended, last)]: [(Instant, Sample); 2]) -> Option<Used> {
    let seconds = ended.duration_since(began).as_secs_f64();
    let rate = |first: u64, last: u64| last.saturating_sub(first) as f64 / seconds;
    let mib = f64::from(1 << 20);
    (seconds >= SAMPLE_EVERY.as_secs_f64()).then(|| Used {
        read_mib_per_s: rate(first.read_bytes, last.read_bytes) / mib,
        write_mib_per_s: rate(first.write_bytes, last.write_bytes) / mib,
        iops: rate(first.ops, last.ops),
        ..used
    })
}

fn plan(arguments: LoadArgs) -> Plan {
    let mut target = arguments.target;
    target.mount_port = arguments.mount_port.unwrap_or(target.mount_port);
    let op = match arguments.op {
        OpArg::Read => Op::Read,
        OpArg::Write => Op::Write,
        OpArg::Mix => Op::Mix,
        OpArg::Getattr => Op::Getattr,
        OpArg::Lookup => Op::Lookup,
        OpArg::Access => Op::Access,
        OpArg::Open => Op::Open,
        OpArg::Create => Op::Create,
        OpArg::Rename => Op::Rename,
        OpArg::Readdirplus => Op::Readdirplus,
        OpArg::Commit => Op::Commit,
        OpArg::Null => Op::Null,
    };
    Plan {
        block: arguments.block,
        order: match arguments.pattern {
            PatternArg::Random => BlockOrder::Random,
            PatternArg::Sequential => BlockOrder::Sequential,
        },
        read_percent: arguments.read.unwrap_or(READS),
        stability: match arguments.stable {
            StableArg::Unstable => Stability::Unstable,
            StableArg::DataSync => Stability::DataSync,
            StableArg::FileSync => Stability::FileSync,
        },
        connections: arguments.connections,
        depth: arguments.depth,
        rate: arguments.rate.map(|rate| rate as f64),
        clients: arguments.clients,
        sources: arguments.source,
        files: arguments.files,
        size: arguments.size,
        entries: arguments.entries,
        directories: arguments.directories,
        time: arguments.time,
        warm_up: arguments.warm_up,
        verify: arguments.verify,
        seed: arguments.seed,
        uid: arguments.uid,
        gid: arguments.gid,
        privileged_port: arguments.privileged_port,
        threads: arguments.threads,
        server_pid: arguments.pid,
        cleanup: arguments.cleanup,
        ..Plan::new(target, op)
    }
}

fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// Writes the result to where it is wanted: JSON, text, or both.
fn write_report(report: &Report, to_json: Option<&Path>, to_text: Option<&Path>) -> anyhow::Result<()> {
    let put = |path: Option<&Path>, text: &str| match path.filter(|path| !is_standard(path)) {
        Some(path) => output::write(path, unpainted(text)),
        None => print(text),
    };
    match to_json {
        Some(path) if is_standard(path) => put(to_text, &json(report)?),
        Some(path) => put(Some(path), &json(report)?).and_then(|()| put(to_text, &text(report))),
        None => put(to_text, &text(report)),
    }
}

/// The table, its warnings painted.
fn text(report: &Report) -> String {
    let lines = report.to_string();
    let painted = lines.lines().map(|line| match line.starts_with("warning: ") {
        true => Tone::Warning.paint(line) + "\n",
        false => format!("{line}\n"),
    });
    let limit = report.limit.as_ref().map_or_else(String::new, |limit| format!("{limit}\n"));
    painted.collect::<String>() + &limit
}

/// `time` is that of warm-up and measurement.
fn show(bar: &ProgressBar, progress: Progress, time: Duration) {
    let text = match progress {
        Progress::Layout(layout) => filling(layout),
        Progress::Running { warming_up, done, ops_per_s, mib_per_s } => {
            let phase = if warming_up { "warming up" } else { "measuring" };
            let done = done.clamp(0.0, 1.0);
            let (percent, left) = (done * 100.0, clock(time.mul_f64(1.0 - done)));
            let (ops, mib) = (separated(ops_per_s, 0), separated(mib_per_s, 0));
            format!("{percent:.0} % · {left} left · {ops} ops/s, {mib} MiB/s · {phase}")
        }
        Progress::Verifying => "reading everything back".to_owned(),
    };
    progress::show(bar, &text);
}

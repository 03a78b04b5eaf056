//! The results of a run: every table and plot can be derived from them. `docs/formats/run.md` describes the file
//! format.
//!
//! A [`Run`] has a [`Cell`] for each point of its scenario; a cell has a [`Measurement`] for each repetition. A
//! [`Part`] is one generator's share of a measurement.

mod distribution;
mod verdict;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::scenario::{Point, Preset, Scenario};

pub use distribution::{Distribution, Latency};
pub use verdict::{Check, CheckedFigure, Outcome, PointVerdict, Verdict};

pub const FORMAT: &str = "plimsoll-run/1";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`FORMAT`].
    pub format: String,
    /// The version of the measuring program.
    pub version: String,
    /// Seconds since 1970.
    pub started: f64,
    /// Seconds since 1970.
    pub finished: f64,
    /// The reason why not every point was measured.
    pub ended_early: Option<String>,
    /// The complete scenario, so that this file is self-contained.
    pub scenario: Scenario,
    pub preset: Preset,
    /// Seed of the pseudo-random sequences.
    pub seed: u64,
    pub target: TargetFacts,
    /// The machines that generated the load.
    pub machines: Vec<Machine>,
    /// For each series, bytes of each job's file; 0 without such files.
    #[serde(default)]
    pub file_sizes: Vec<u64>,
    /// For each series, bytes of all files together, as actually used; 0 if unknown.
    #[serde(default)]
    pub working_sets: Vec<u64>,
    /// Parameters that were reduced from those of the scenario, with the reasons.
    pub scaled: Vec<String>,
    /// The points, in the scenario's order.
    pub cells: Vec<Cell>,
    /// Whether the points meet the targets of the scenario, if it has any and the run was complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Caveats about the whole run. Those of one cell are in the cell.
    #[serde(rename = "doubts")]
    pub caveats: Vec<Caveat>,
}

/// Known facts about the target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetFacts {
    /// The target as given on the command line.
    pub target: String,
    /// `NFSv3` or `mounted path`.
    pub protocol: String,
    /// The load generator: `built-in NFSv3 client`, `fio-3.33`.
    pub generator: String,
    /// Maximum READ in bytes, if the server reports it (FSINFO).
    pub read_max: Option<u64>,
    /// Maximum WRITE.
    pub write_max: Option<u64>,
    /// Bytes that were free when the run began, or used by files of earlier runs.
    pub free_bytes: Option<u64>,
    /// Name of the mount among compared ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// Set for SMB shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smb: Option<SmbFacts>,
    /// Set for a mounted path.
    pub mount: Option<MountFacts>,
    /// Client and server are on one host.
    pub co_located: bool,
    /// The effect of client caches.
    pub client_cache: String,
    /// The volume, if the server is our own.
    pub volume: Option<VolumeFacts>,
}

/// Negotiated parameters of an SMB share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SmbFacts {
    /// Dialect: `3.1.1`.
    pub dialect: String,
    /// Signing algorithm: `AES-128-GMAC`; absent if messages are encrypted or not protected.
    pub signing: Option<String>,
    /// Encryption algorithm: `AES-128-GCM`.
    pub encryption: Option<String>,
    /// Whether sessions have several connections (channels); otherwise each connection is a session.
    pub multichannel: bool,
}

/// The mount of a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MountFacts {
    /// `nfs4`, `ext4`, …
    pub kind: String,
    pub source: String,
    /// Mount point.
    pub at: String,
    /// Options as the kernel lists them.
    pub options: String,
}

/// A volume as our own service describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VolumeFacts {
    /// The service's version.
    pub version: String,
    pub name: String,
    pub pool: String,
    pub level: String,
    /// Capacity in bytes.
    #[serde(default)]
    pub size_bytes: Option<u64>,
    #[serde(default)]
    pub large: Option<bool>,
    /// Alternative figures of its level, if it has them.
    #[serde(default)]
    pub profile: Option<String>,
    /// The published curve that it follows.
    pub shape: Option<String>,
    /// Scale of `shape` in thousandths.
    pub shape_scale_thousandths: Option<u32>,
    pub limits: Limits,
    /// The weight of a WRITE in the limit on all operations, if it is not that of a READ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_cost_thousandths: Option<u32>,
    /// The limits of each client.
    #[serde(default)]
    pub client_limits: Limits,
    #[serde(default)]
    pub durability: Option<Durability>,
    /// Export rules: the first one that matches a client applies.
    #[serde(default)]
    pub export: Option<Vec<ExportRule>>,
}

/// The guarantee of acknowledgements of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Data acknowledged as stable survives a power cut.
    Sync,
    /// A power cut may lose the last seconds: stable writes are acknowledged before they are on disk.
    Relaxed,
}

/// A rule of a volume's export, in the words of the service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportRule {
    /// Addresses, ranges and names.
    pub clients: Vec<String>,
    /// `read-write` or `read-only`.
    pub access: String,
    /// The replaced identities: `none`, `root`, `all`.
    pub squash: String,
}

/// Rate limits of a volume; absent if unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    pub bytes_per_s: Option<u64>,
    pub read_bytes_per_s: Option<u64>,
    pub write_bytes_per_s: Option<u64>,
    pub iops: Option<u64>,
    pub read_iops: Option<u64>,
    pub write_iops: Option<u64>,
}

/// A machine that generates load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// `local`, or the agent's address.
    pub name: String,
    /// Host name.
    pub host: String,
    pub kernel: String,
    /// Number of processors.
    pub cpus: usize,
    /// The program's version.
    pub version: String,
    /// Offset of its clock from the coordinator's, in microseconds; 0 on the coordinator itself.
    pub clock_offset_us: f64,
    /// Uncertainty of the offset: half of the shortest round trip.
    pub clock_bound_us: f64,
}

/// One point, measured several times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Index of its series in the scenario.
    pub series: usize,
    pub point: Point,
    /// The probes of the search for the number of calls in flight.
    pub search: Vec<Probe>,
    /// Each repetition.
    pub measurements: Vec<Measurement>,
    /// Figures over the repetitions.
    pub summary: Summary,
    #[serde(rename = "doubts")]
    pub caveats: Vec<Caveat>,
}

/// A short measurement of the search for the number of calls in flight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Calls in flight of each job.
    pub depth: usize,
    /// Application operations a second.
    pub ops_per_s: f64,
    /// 2^20 bytes a second.
    pub mib_per_s: f64,
    /// Latency of all operations.
    pub latency: Latency,
}

/// Figures of a cell over its repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Read operations a second.
    pub read_iops: Spread,
    /// Write operations a second.
    pub write_iops: Spread,
    /// All operations a second, including those that are neither.
    pub iops: Spread,
    /// 2^20 bytes a second.
    pub read_mib_per_s: Spread,
    /// 2^20 bytes a second.
    pub write_mib_per_s: Spread,
    /// 2^20 bytes a second.
    pub mib_per_s: Spread,
    /// Latency of reads, all repetitions merged.
    pub read_latency: Latency,
    pub write_latency: Latency,
    pub latency: Latency,
}

/// A figure over repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// The 95 % interval of the mean, by Student's t. Equal ends with one repetition.
    pub ci95: [f64; 2],
    /// Standard deviation over mean.
    pub variation: f64,
}

/// One repetition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Begin of the window, in seconds since 1970.
    pub started: f64,
    /// Duration of the warm-up before the window.
    pub warm_up_s: f64,
    /// Length of the window.
    pub seconds: f64,
    /// Whether the rate was steady when the window began; absent if not checked.
    pub steady: Option<bool>,
    /// The application's operations, by name: `read`, `write`, `stat`, …
    pub operations: Vec<Operation>,
    /// Calls on the wire in the window by procedure, if known.
    pub wire: BTreeMap<String, u64>,
    /// Adherence to the schedule, if there is one.
    #[serde(default)]
    pub pace: Option<Pace>,
    pub clients: Vec<ClientResult>,
    /// The cost on each load-generating machine, in the order of [`Run::machines`].
    pub machines: Vec<MachineUse>,
    /// The server's counters, if it is our own.
    pub server: Option<ServerSide>,
    /// Bad replies in the whole repetition, by operation and status.
    pub errors: BTreeMap<String, u64>,
    /// The first of them in words.
    pub error_details: Vec<String>,
    #[serde(rename = "doubts")]
    pub caveats: Vec<Caveat>,
}

/// The data direction of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Neither.
    Other,
}

/// One kind of operation of the application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    pub name: String,
    pub direction: Direction,
    /// Good operations in the window.
    pub ops: u64,
    /// Bytes of their data.
    pub bytes: u64,
    /// From sending the first call to the last reply.
    pub service: Distribution,
    /// From the scheduled begin to the last reply; only with a schedule.
    pub response: Option<Distribution>,
}

/// Adherence of the processes to their schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// The achieved share of its rate of each process in the window, in thousandths.
    pub processes: Vec<u32>,
    /// Good operations in the window without a call: the client's cache answered.
    pub absorbed: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientResult {
    /// The client's name towards the server.
    pub name: String,
    /// Index of its machine in [`Run::machines`].
    pub machine: usize,
    /// The target address that it used, if there were several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Each second of the window.
    pub seconds: Vec<Second>,
    /// Good operations in the window on each of its connections.
    pub connections: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Second {
    /// Good reads.
    pub reads: u64,
    pub read_bytes: u64,
    /// Good writes.
    pub writes: u64,
    pub write_bytes: u64,
    /// Other good operations.
    pub others: u64,
}

/// The cost of generating the load on a machine, in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineUse {
    /// Processor time of the generator, of all its threads, in seconds.
    pub cpu_s: f64,
    /// The busiest thread's share of the time.
    pub busiest_thread: f64,
    /// Busy share of the whole machine's processors, for any purpose.
    pub cpu_share: f64,
    /// Scheduled operations that were sent more than a millisecond late because the generator was late.
    pub late: u64,
    /// Bytes through the interfaces to the target, both ways, over their capacity; absent for loopback and if the speed
    /// is unknown.
    pub network_share: Option<f64>,
}

/// Our own server's counters of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerSide {
    /// Seconds between the two reads of its counters, which enclose the window except for the duration of a read; 0 if
    /// unknown, in which case the window's length applies.
    #[serde(default)]
    pub seconds: f64,
    /// Connections of clients, the minimum in the window.
    pub connections: u64,
    /// Operations on the volume in these seconds.
    pub ops: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    /// Operations that waited for a limit.
    pub throttled_ops: u64,
    /// Total wait in seconds.
    pub throttle_s: f64,
    /// The share of READs answered from memory; absent without reads.
    pub cache_hit_ratio: Option<f64>,
    /// The limits in force at the window's end.
    pub limits: Limits,
    /// The limits at the window's start, if they were others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits_before: Option<Limits>,
}

/// A reason to doubt figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caveat {
    pub kind: CaveatKind,
    /// A sentence with figures.
    pub text: String,
}

/// Kinds of caveats; `Void` discards the result, the others qualify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CaveatKind {
    /// No result: errors, short transfers, wrong data, lost connections, or a wrong mix.
    Void,
    /// The clients were the limit, not the server.
    ClientLimited,
    /// The rate was not steady when measuring began.
    NotSteady,
    /// Repetitions differ by more than 5 %.
    Variation,
    /// Data that should be cached, or uncached, was so only in part.
    CacheMixed,
    /// Shorter or fewer repetitions than the method requires.
    Short,
    /// Client and server share a host.
    CoLocated,
    /// The load differs from that of the page beside it.
    UnlikePage,
    /// Anything else, including kinds of later versions.
    #[serde(other)]
    Other,
}

/// One generator's share of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Begin of the window, in seconds since 1970 by this machine's clock.
    pub started: f64,
    /// Length of the window.
    pub seconds: f64,
    /// See [`Measurement::operations`].
    pub operations: Vec<Operation>,
    /// See [`Measurement::wire`].
    pub wire: BTreeMap<String, u64>,
    /// See [`Measurement::pace`].
    #[serde(default)]
    pub pace: Option<Pace>,
    /// The clients of this generator.
    pub clients: Vec<ClientResult>,
    pub usage: MachineUse,
    /// See [`Measurement::errors`].
    pub errors: BTreeMap<String, u64>,
    /// See [`Measurement::error_details`].
    pub error_details: Vec<String>,
    /// Caveats of the generator itself.
    #[serde(rename = "doubts")]
    pub caveats: Vec<Caveat>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRun(String);

impl fmt::Display for InvalidRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidRun {}

impl FromStr for Run {
    type Err = InvalidRun;

    fn from_str(text: &str) -> Result<Self, InvalidRun> {
        let error = |error: serde_json::Error| {
            InvalidRun(format!("not a result of \"plimsoll bench run\": {}", in_words(&error)))
        };
        let value: serde_json::Value = serde_json::from_str(text).map_err(error)?;
        let format = value.get("format").and_then(serde_json::Value::as_str).unwrap_or("none");
        if format != FORMAT {
            let error = format!(
                "not a result of \"plimsoll bench run\": the format is \"{format}\", not \"{FORMAT}\""
            );
            return Err(InvalidRun(error));
        }
        serde_json::from_value(value).map_err(error)
    }
}

/// The fault of a JSON text without the words of Rust.
fn in_words(error: &serde_json::Error) -> String {
    use serde_json::error::Category;
    let (line, text) = (error.line(), error.to_string());
    let text = text.split(" at line ").next().unwrap_or_default().replace('`', "\"");
    match error.classify() {
        Category::Eof => format!("the file ends too early, at line {line}"),
        Category::Syntax => format!("line {line} is not valid JSON"),
        Category::Io | Category::Data => match text.strip_prefix("missing field ") {
            Some(field) => format!("the property {field} is missing"),
            None => text.split(", expected").next().unwrap_or(&text).to_owned(),
        },
    }
}

impl AddAssign for Second {
    fn add_assign(&mut self, other: Self) {
        self.reads += other.reads;
        self.read_bytes += other.read_bytes;
        self.writes += other.writes;
        self.write_bytes += other.write_bytes;
        self.others += other.others;
    }
}

impl Second {
    pub fn ops(&self) -> u64 {
        self.reads + self.writes + self.others
    }

    pub fn bytes(&self) -> u64 {
        self.read_bytes + self.write_bytes
    }
}

impl Extend<Pace> for Pace {
    fn extend<I: IntoIterator<Item = Self>>(&mut self, others: I) {
        for other in others {
            self.processes.extend(other.processes);
            self.absorbed += other.absorbed;
        }
    }
}

impl Caveat {
    pub fn new(kind: CaveatKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }
}

impl Spread {
    /// All zero without values.
    pub fn of(values: &[f64]) -> Self {
        let count = values.len();
        if count == 0 {
            return Self::default();
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0;
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let deviation = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
        let half = student_t95(count) * deviation / (count as f64).sqrt();
        let variation = if mean > 0.0 { deviation / mean } else { 0.0 };
        Self { median, min: sorted[0], max: sorted[count - 1], ci95: [mean - half, mean + half], variation }
    }
}

/// The two-sided 95 % point of Student's t for this number of values. 0 for a single value, whose error is
/// unknown.
pub(crate) fn student_t95(values: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    match values {
        0 | 1 => 0.0,
        _ => TABLE.get(values - 2).copied().unwrap_or(1.96),
    }
}

impl Operation {
    pub fn add(&mut self, other: &Self) {
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.service = [&self.service, &other.service].into_iter().collect();
        let responses = [self.response.take(), other.response.clone()].into_iter().flatten();
        self.response = responses.reduce(|ours, theirs| [ours, theirs].into_iter().collect());
    }
}

impl Measurement {
    /// Good operations; `None` means all directions.
    pub fn ops(&self, direction: Option<Direction>) -> u64 {
        self.of(direction).map(|operation| operation.ops).sum()
    }

    pub fn bytes(&self, direction: Option<Direction>) -> u64 {
        self.of(direction).map(|operation| operation.bytes).sum()
    }

    /// `None` means all directions.
    pub fn service(&self, direction: Option<Direction>) -> Distribution {
        self.of(direction).map(|operation| &operation.service).collect()
    }

    /// Uses service times where no schedule exists.
    pub fn response(&self) -> Distribution {
        let operations = self.operations.iter();
        operations.map(|operation| operation.response.as_ref().unwrap_or(&operation.service)).collect()
    }

    pub fn is_scheduled(&self) -> bool {
        self.operations.iter().any(|operation| operation.response.is_some())
    }

    pub fn is_valid(&self) -> bool {
        self.caveats.iter().all(|caveat| caveat.kind != CaveatKind::Void)
    }

    fn of(&self, direction: Option<Direction>) -> impl Iterator<Item = &Operation> {
        let wanted = move |operation: &&Operation| direction.is_none_or(|one| operation.direction == one);
        self.operations.iter().filter(wanted)
    }
}

impl Summary {
    pub fn of(measurements: &[Measurement]) -> Self {
        let valid: Vec<&Measurement> = measurements.iter().filter(|one| one.is_valid()).collect();
        let spread = |figure: &dyn Fn(&Measurement) -> u64, unit: f64| {
            let rate = |one: &&Measurement| figure(one) as f64 / one.seconds / unit;
            Spread::of(&valid.iter().map(rate).collect::<Vec<_>>())
        };
        let ops = |direction| spread(&|one| one.ops(direction), 1.0);
        let mib = |direction| spread(&|one| one.bytes(direction), f64::from(1 << 20));
        let latency =
            |direction| valid.iter().map(|one| one.service(direction)).collect::<Distribution>().latency();
        let (read, write) = (Some(Direction::Read), Some(Direction::Write));
        Self {
            read_iops: ops(read),
            write_iops: ops(write),
            iops: ops(None),
            read_mib_per_s: mib(read),
            write_mib_per_s: mib(write),
            mib_per_s: mib(None),
            read_latency: latency(read),
            write_latency: latency(write),
            latency: latency(None),
        }
    }
}

impl Cell {
    pub fn has_result(&self) -> bool {
        let voided = self.caveats.iter().any(|caveat| caveat.kind == CaveatKind::Void);
        !voided && self.measurements.iter().any(Measurement::is_valid)
    }
}

impl Run {
    pub(crate) fn cells_of(&self, series: usize) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |cell| cell.series == series)
    }
}

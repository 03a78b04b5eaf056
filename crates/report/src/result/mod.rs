//! What a run found: everything from which every table and plot can be made again. The file's format is
//! described in `docs/formats/run.md`.
//!
//! A [`Run`] has a [`Cell`] for each point of its scenario; a cell has a [`Measurement`] for each repetition;
//! what one generator brings to a measurement is a [`Part`].

mod distribution;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::scenario::{Point, Preset, Scenario};

pub use distribution::{Distribution, Latency};

/// What a run's file says it is.
pub const FORMAT: &str = "plimsoll-run/1";

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`FORMAT`].
    pub format: String,
    /// The version of the program that measured.
    pub version: String,
    /// Seconds since 1970.
    pub started: f64,
    /// Seconds since 1970.
    pub finished: f64,
    /// Why it ended before every point was measured, if it did.
    pub ended_early: Option<String>,
    /// What was to be measured: the whole of it, so that nothing but this file is needed.
    pub scenario: Scenario,
    /// How thoroughly.
    pub preset: Preset,
    /// Where the pseudo-random sequences began.
    pub seed: u64,
    /// What was measured.
    pub target: TargetFacts,
    /// The machines that made the load.
    pub machines: Vec<Machine>,
    /// Of each series, bytes of each job's file; 0 where there are no such files.
    #[serde(default)]
    pub file_sizes: Vec<u64>,
    /// Of each series, bytes of all files together, as they were used; 0 where that is not known.
    #[serde(default)]
    pub working_sets: Vec<u64>,
    /// What was made smaller or shorter than the scenario says, and why.
    pub scaled: Vec<String>,
    /// The points, in the scenario's order.
    pub cells: Vec<Cell>,
    /// What makes the whole doubtful. What makes one cell doubtful is there.
    #[serde(rename = "doubts")]
    pub caveats: Vec<Caveat>,
}

/// What is known of the target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetFacts {
    /// As it was given.
    pub target: String,
    /// `NFSv3` or `mounted path`.
    pub protocol: String,
    /// Who generates the load: `built-in NFSv3 client`, `fio-3.33`.
    pub generator: String,
    /// Largest READ and WRITE, in bytes, where the server says (FSINFO).
    pub read_max: Option<u64>,
    /// Largest WRITE.
    pub write_max: Option<u64>,
    /// Bytes free when the run began, or held by files of earlier runs.
    pub free_bytes: Option<u64>,
    /// What the mount is called among those that are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// Of a share: how it is spoken to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smb: Option<SmbFacts>,
    /// Of a mounted path: type, source and options of the mount.
    pub mount: Option<MountFacts>,
    /// Client and server are on one host.
    pub co_located: bool,
    /// How caches of the client are in the way, or that they are not.
    pub client_cache: String,
    /// What our own server says of the volume.
    pub volume: Option<VolumeFacts>,
}

/// How a share is spoken to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SmbFacts {
    /// Of SMB: `3.1.1`.
    pub dialect: String,
    /// How messages are signed: `AES-128-GMAC`; nothing where they are encrypted, or not protected at all.
    pub signing: Option<String>,
    /// How they are encrypted: `AES-128-GCM`.
    pub encryption: Option<String>,
    /// Whether sessions have several connections (channels); else each connection is a session.
    pub multichannel: bool,
}

/// The mount of a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MountFacts {
    /// `nfs4`, `ext4`, …
    pub kind: String,
    /// What is mounted.
    pub source: String,
    /// Where.
    pub at: String,
    /// Its options as the kernel tells them.
    pub options: String,
}

/// A volume as our own service describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VolumeFacts {
    /// The service's version.
    pub version: String,
    /// The volume.
    pub name: String,
    /// Its pool.
    pub pool: String,
    /// Its service level.
    pub level: String,
    /// What it may hold, in bytes.
    #[serde(default)]
    pub size_bytes: Option<u64>,
    /// Whether it is a large volume.
    #[serde(default)]
    pub large: Option<bool>,
    /// The variant of its level's figures, where it has one.
    #[serde(default)]
    pub profile: Option<String>,
    /// The published curve that it follows, and at which scale in thousandths.
    pub shape: Option<String>,
    /// See `shape`.
    pub shape_scale_thousandths: Option<u32>,
    /// Its limits.
    pub limits: Limits,
    /// The limits of each client.
    #[serde(default)]
    pub client_limits: Limits,
    /// What its acknowledgements promise.
    #[serde(default)]
    pub durability: Option<Durability>,
    /// Who may mount it, and how: the first rule that matches a client decides.
    #[serde(default)]
    pub export: Option<Vec<ExportRule>>,
}

/// What acknowledgements of a volume promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// What was acknowledged as stable survives a power cut.
    Sync,
    /// A power cut may take back the last seconds: stable writes are acknowledged before they are on disk.
    Relaxed,
}

/// A rule of a volume's export, in the words of the service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportRule {
    /// Addresses, ranges and names.
    pub clients: Vec<String>,
    /// `read-write` or `read-only`.
    pub access: String,
    /// Whose identity is replaced: `none`, `root`, `all`.
    pub squash: String,
}

/// Rates that a volume is held to; absent where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    pub bytes_per_s: Option<u64>,
    pub read_bytes_per_s: Option<u64>,
    pub write_bytes_per_s: Option<u64>,
    pub iops: Option<u64>,
    pub read_iops: Option<u64>,
    pub write_iops: Option<u64>,
}

/// A machine that makes load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// `local`, or the agent's address.
    pub name: String,
    /// Its host name.
    pub host: String,
    /// Its kernel.
    pub kernel: String,
    /// Processors.
    pub cpus: usize,
    /// Its program's version.
    pub version: String,
    /// How far its clock may be from the coordinator's, in microseconds; 0 on the coordinator itself.
    pub clock_offset_us: f64,
    /// How wrong that may be: half of the least round trip.
    pub clock_bound_us: f64,
}

/// One point, measured several times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Which of the scenario's series it belongs to.
    pub series: usize,
    /// Where in it.
    pub point: Point,
    /// How the number of calls in flight was found, if it was searched for.
    pub search: Vec<Probe>,
    /// Each repetition.
    pub measurements: Vec<Measurement>,
    /// Means over the repetitions.
    pub summary: Summary,
    /// What makes it doubtful.
    #[serde(rename = "doubts")]
    pub caveats: Vec<Caveat>,
}

/// A short measurement on the way to the right number of calls in flight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Calls in flight of each job.
    pub depth: usize,
    /// Application operations a second.
    pub ops_per_s: f64,
    /// 2^20 bytes a second.
    pub mib_per_s: f64,
    /// Of all operations together.
    pub latency: Latency,
}

/// Figures of a cell over its repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Read operations a second.
    pub read_iops: Spread,
    /// Write operations a second.
    pub write_iops: Spread,
    /// All operations a second, also those that are neither.
    pub iops: Spread,
    /// 2^20 bytes a second.
    pub read_mib_per_s: Spread,
    /// 2^20 bytes a second.
    pub write_mib_per_s: Spread,
    /// 2^20 bytes a second.
    pub mib_per_s: Spread,
    /// Of reads, all repetitions merged.
    pub read_latency: Latency,
    /// Of writes.
    pub write_latency: Latency,
    /// Of all.
    pub latency: Latency,
}

/// A figure over repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Of the mean, by Student's t: the interval it lies in with a probability of 95 %. Equal ends with one
    /// repetition.
    pub ci95: [f64; 2],
    /// Standard deviation over mean.
    pub variation: f64,
}

/// One repetition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Where the window begins, in seconds since 1970.
    pub started: f64,
    /// What ran before the window.
    pub warm_up_s: f64,
    /// The window's length.
    pub seconds: f64,
    /// Whether the rate was steady when the window began; absent where nobody looked.
    pub steady: Option<bool>,
    /// What the application's operations brought, by name: `read`, `write`, `stat`, …
    pub operations: Vec<Operation>,
    /// Calls on the wire in the window by procedure, where they are known.
    pub wire: BTreeMap<String, u64>,
    /// Where processes follow a schedule: how they kept to it.
    #[serde(default)]
    pub pace: Option<Pace>,
    /// Each client.
    pub clients: Vec<ClientResult>,
    /// What it cost the machines that made the load, in the order of [`Run::machines`].
    pub machines: Vec<MachineUse>,
    /// The server's side of it, where it is our own.
    pub server: Option<ServerSide>,
    /// Bad replies in the whole repetition, by operation and status.
    pub errors: BTreeMap<String, u64>,
    /// The first of them in words.
    pub error_details: Vec<String>,
    /// What makes it doubtful.
    #[serde(rename = "doubts")]
    pub caveats: Vec<Caveat>,
}

/// What kind of operation it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Brings data.
    Read,
    /// Takes data.
    Write,
    /// Neither.
    Other,
}

/// One kind of operation of the application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub direction: Direction,
    /// Good ones in the window.
    pub ops: u64,
    /// Their data.
    pub bytes: u64,
    /// From the first call's sending to the last reply.
    pub service: Distribution,
    /// From when it should have begun to the last reply; only where a schedule says when.
    pub response: Option<Distribution>,
}

/// How the processes of a schedule kept to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// Which share of its rate each process reached in the window, in thousandths.
    pub processes: Vec<u32>,
    /// Good operations in the window that took no call: the client knew the answer.
    pub absorbed: u64,
}

/// One client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientResult {
    /// As it names itself to the server.
    pub name: String,
    /// Which of [`Run::machines`] it is on.
    pub machine: usize,
    /// The address of the target that it had, where there were several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Each second of the window.
    pub seconds: Vec<Second>,
    /// Good operations in the window on each of its connections.
    pub connections: Vec<u64>,
}

/// One second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Second {
    /// Good reads.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Good writes.
    pub writes: u64,
    /// Their bytes.
    pub write_bytes: u64,
    /// Other good operations.
    pub others: u64,
}

/// What making the load cost a machine, in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineUse {
    /// Processor time of the generator, of all its threads, in seconds.
    pub cpu_s: f64,
    /// The busiest thread's share of the time.
    pub busiest_thread: f64,
    /// Share of the whole machine's processors that was busy with anything.
    pub cpu_share: f64,
    /// Of operations with a schedule: those that were sent more than a millisecond late because the generator
    /// was.
    pub late: u64,
    /// Bytes through the interfaces to the target, both ways, over what they can carry; absent for loopback
    /// and where the speed is unknown.
    pub network_share: Option<f64>,
}

/// What our own server saw of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerSide {
    /// Seconds between the two looks at its counters, which enclose the window but for the time that looking
    /// takes; 0 where that is not known and the window's length must do.
    #[serde(default)]
    pub seconds: f64,
    /// Connections of clients, the least that was seen in the window.
    pub connections: u64,
    /// Operations on the volume in these seconds.
    pub ops: u64,
    /// Bytes read from it.
    pub read_bytes: u64,
    /// Bytes written to it.
    pub write_bytes: u64,
    /// Operations that waited for a limit.
    pub throttled_ops: u64,
    /// How long they waited, together, in seconds.
    pub throttle_s: f64,
    /// Of the READs, the share that memory answered; absent where nothing was read.
    pub cache_hit_ratio: Option<f64>,
    /// The limits in force at the window's end.
    pub limits: Limits,
}

/// What makes figures doubtful.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caveat {
    /// What kind.
    pub kind: CaveatKind,
    /// In words, with figures.
    pub text: String,
}

/// Kinds of doubts; `Void` takes away the result, the others qualify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CaveatKind {
    /// No result: errors, short transfers, wrong data, lost connections, a mix that was not realized.
    Void,
    /// The clients were the limit, not the server.
    ClientLimited,
    /// The rate was not steady when measuring began.
    NotSteady,
    /// Repetitions differ by more than 5 %.
    Variation,
    /// What was meant to be in a cache, or not to be, was partly.
    CacheMixed,
    /// Shorter or fewer than the method asks for.
    Short,
    /// Client and server share a host.
    CoLocated,
    /// What was run is not what the page beside it ran.
    UnlikePage,
    /// Anything else, also of kinds that later versions have.
    #[serde(other)]
    Other,
}

/// What one generator brings to a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Where the window began, in seconds since 1970 by this machine's clock.
    pub started: f64,
    /// The window's length.
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
    /// What it cost.
    pub usage: MachineUse,
    /// See [`Measurement::errors`].
    pub errors: BTreeMap<String, u64>,
    /// See [`Measurement::error_details`].
    pub error_details: Vec<String>,
    /// What the generator itself noticed.
    #[serde(rename = "doubts")]
    pub caveats: Vec<Caveat>,
}

/// Why a text is not the file of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoRun(String);

impl fmt::Display for NoRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoRun {}

impl FromStr for Run {
    type Err = NoRun;

    /// Reads the file of a run.
    fn from_str(text: &str) -> Result<Self, NoRun> {
        let wrong = |wrong: serde_json::Error| NoRun(format!("it is no run: {wrong}"));
        let value: serde_json::Value = serde_json::from_str(text).map_err(wrong)?;
        let format = value.get("format").and_then(serde_json::Value::as_str).unwrap_or("none");
        if format != FORMAT {
            let wrong = format!("its format is \"{format}\", not \"{FORMAT}\" of `plimsoll bench run`");
            return Err(NoRun(wrong));
        }
        serde_json::from_value(value).map_err(wrong)
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
    /// All of its operations.
    pub fn ops(&self) -> u64 {
        self.reads + self.writes + self.others
    }

    /// All of its bytes.
    pub fn bytes(&self) -> u64 {
        self.read_bytes + self.write_bytes
    }
}

impl Extend<Pace> for Pace {
    /// Adds the processes of other generators.
    fn extend<I: IntoIterator<Item = Self>>(&mut self, others: I) {
        for other in others {
            self.processes.extend(other.processes);
            self.absorbed += other.absorbed;
        }
    }
}

impl Caveat {
    /// A doubt of this kind.
    pub fn new(kind: CaveatKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }
}

impl Spread {
    /// The spread of these values; zeros if there is none.
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

/// The two-sided 95 % point of Student's t for so many values; 0 for one, since one says nothing of its own
/// error.
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
    /// Adds what others did of the same.
    pub fn add(&mut self, other: &Self) {
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.service = [&self.service, &other.service].into_iter().collect();
        let responses = [self.response.take(), other.response.clone()].into_iter().flatten();
        self.response = responses.reduce(|ours, theirs| [ours, theirs].into_iter().collect());
    }
}

impl Measurement {
    /// Good operations of a kind, all of them without one.
    pub fn ops(&self, direction: Option<Direction>) -> u64 {
        self.of(direction).map(|operation| operation.ops).sum()
    }

    /// Bytes of a kind.
    pub fn bytes(&self, direction: Option<Direction>) -> u64 {
        self.of(direction).map(|operation| operation.bytes).sum()
    }

    /// Service times of a kind, merged.
    pub fn service(&self, direction: Option<Direction>) -> Distribution {
        self.of(direction).map(|operation| &operation.service).collect()
    }

    /// Response times of everything, merged; service times where no schedule said when an operation should
    /// begin.
    pub fn response(&self) -> Distribution {
        let operations = self.operations.iter();
        operations.map(|operation| operation.response.as_ref().unwrap_or(&operation.service)).collect()
    }

    /// Whether a schedule said when its operations should begin.
    pub fn is_scheduled(&self) -> bool {
        self.operations.iter().any(|operation| operation.response.is_some())
    }

    /// Whether it counts: nothing takes its result away.
    pub fn is_valid(&self) -> bool {
        self.caveats.iter().all(|doubt| doubt.kind != CaveatKind::Void)
    }

    fn of(&self, direction: Option<Direction>) -> impl Iterator<Item = &Operation> {
        let wanted = move |operation: &&Operation| direction.is_none_or(|one| operation.direction == one);
        self.operations.iter().filter(wanted)
    }
}

impl Summary {
    /// Over these repetitions; those without a result are left out.
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

impl Run {
    /// The cells of a series.
    pub(crate) fn cells_of(&self, series: usize) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |cell| cell.series == series)
    }
}

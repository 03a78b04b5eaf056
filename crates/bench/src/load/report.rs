//! The result of a load.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use report::curve::WHOLE_MIN;
use report::result::{self, Distribution, Latency};
use report::units::show_size;
use serde::Serialize;

use super::plan::{Kind, Op, Plan, stable_how};
use crate::driver::counters::OpCounters;

/// A generator that is busy for a larger share of its threads' time is the bottleneck.
const BUSY_MAX: f64 = 0.8;
/// With a larger share of late calls, the generator does not keep its schedule.
pub(crate) const LATE_MAX: f64 = 0.01;
/// A shorter measurement causes a warning.
const SHORT: Duration = Duration::from_secs(5);

/// The whole result of a load.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub plan: Plan,
    /// The measurement's start, in seconds since 1970.
    pub started: f64,
    /// The length of the interval.
    pub seconds: f64,
    /// Operations that succeeded.
    pub ops: u64,
    pub ops_per_s: f64,
    /// Bytes read and written.
    pub bytes: u64,
    /// MiB (2^20 bytes) a second.
    pub mib_per_s: f64,
    /// Calls that the generator sent more than a millisecond after they were due, with a requested rate.
    pub late: u64,
    pub kinds: Vec<KindReport>,
    /// The limit of the volume that was reached, if its service was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    pub series: Vec<Second>,
    /// Errors in the whole run, by kind and status.
    pub errors: BTreeMap<String, u64>,
    /// The first of them in words.
    pub error_details: Vec<String>,
    /// Changes of the server's write verifier.
    pub server_restarts: u64,
    /// The COMMIT of all files after the measurement, where WRITEs were unstable.
    pub final_commit_ms: Option<f64>,
    /// Whether every file was read back without a difference.
    pub read_back: bool,
    /// Whether the kernel dropped the data of READs.
    pub payload_discarded: bool,
    pub threads: usize,
    /// Processor time of the generator for each operation.
    pub own_cpu_us_per_op: f64,
    /// The busy share of the generator's threads.
    pub own_cpu_share: f64,
    /// Processor time of the server for each operation, if its process is known.
    pub server_cpu_us_per_op: Option<f64>,
    /// Whether client and server run on one host: then the figures describe the host, not a volume.
    pub co_located: bool,
    /// Reasons to doubt the figures.
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct KindReport {
    /// The procedure.
    pub kind: String,
    /// Operations that succeeded.
    pub ops: u64,
    pub ops_per_s: f64,
    pub mib_per_s: f64,
    pub entries_per_s: f64,
    /// Times from the send to the end of the reply.
    pub latency: Latency,
    /// Times from the due time to the end of the reply; with a requested rate only.
    pub response: Option<Latency>,
    /// The whole distribution of `latency`: nanoseconds up to which, and how many replies, three significant
    /// digits.
    pub latency_histogram: Vec<(u64, u64)>,
    /// The histogram of `response`.
    pub response_histogram: Option<Vec<(u64, u64)>>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Second {
    /// Operations that succeeded.
    pub ops: u64,
    /// Bytes read and written.
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    pub(super) started: f64,
    pub(super) threads: usize,
    pub(super) server_cpu: Option<Duration>,
    pub(super) restarts: u64,
    pub(super) final_commit: Option<Duration>,
    pub(super) read_back: bool,
    pub(super) co_located: bool,
}

impl Report {
    pub(super) fn new(plan: &Plan, counters: &OpCounters, facts: Facts) -> Self {
        let seconds = plan.time.as_secs_f64();
        let counted =
            Kind::ALL.into_iter().filter_map(|kind| Some((kind, counters.operation(kind as usize)?)));
        let kinds = counted.clone().map(|(kind, counts)| {
            let distribution = Distribution::from(&counts.service);
            let ops = distribution.count();
            let response = counts.response.as_ref().map(Distribution::from);
            KindReport {
                kind: kind.name(plan.target.version),
                ops,
                ops_per_s: ops as f64 / seconds,
                mib_per_s: mib(counts.bytes) / seconds,
                entries_per_s: counts.entries as f64 / seconds,
                latency: distribution.latency(),
                response: response.as_ref().map(Distribution::latency),
                latency_histogram: distribution.steps,
                response_histogram: response.map(|response| response.steps),
            }
        });
        let kinds = kinds.filter(|kind| kind.ops > 0).collect::<Vec<_>>();
        let ops = kinds.iter().map(|kind| kind.ops).sum::<u64>();
        let bytes = counted.map(|(_, counts)| counts.bytes).sum();
        let per_op = |cpu: Duration| cpu.as_secs_f64() * 1e6 / (ops.max(1) as f64);
        Self {
            plan: plan.clone(),
            started: facts.started,
            seconds,
            ops,
            ops_per_s: ops as f64 / seconds,
            bytes,
            mib_per_s: mib(bytes) / seconds,
            late: counters.late,
            kinds,
            limit: None,
            series: series(plan, counters),
            errors: counters.errors.clone(),
            error_details: counters.described.clone(),
            server_restarts: facts.restarts,
            final_commit_ms: facts.final_commit.map(|time| time.as_secs_f64() * 1e3),
            read_back: facts.read_back,
            payload_discarded: plan.discards(),
            threads: facts.threads,
            own_cpu_us_per_op: per_op(counters.cpu),
            own_cpu_share: counters.cpu.as_secs_f64() / (seconds * facts.threads as f64),
            server_cpu_us_per_op: facts.server_cpu.map(per_op),
            co_located: facts.co_located,
            warnings: [warnings(plan, counters, facts), schedule_warnings(plan, ops, counters.late)].concat(),
        }
    }

    pub fn errors_total(&self) -> u64 {
        self.errors.values().sum()
    }

    pub fn kind(&self, kind: Kind) -> Option<&KindReport> {
        self.kinds.iter().find(|report| report.kind == kind.name(self.plan.target.version))
    }
}

fn series(plan: &Plan, counters: &OpCounters) -> Vec<Second> {
    let mut all: Vec<result::Second> = Vec::new();
    for client in 0..plan.clients {
        let seconds = counters.window(client);
        all.resize_with(seconds.len(), Default::default);
        all.iter_mut().zip(seconds).for_each(|(all, second)| *all += second);
    }
    all.iter().map(|second| Second { ops: second.ops(), bytes: second.bytes() }).collect()
}

fn warnings(plan: &Plan, counters: &OpCounters, facts: Facts) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |applies: bool, text: String| {
        if applies {
            warnings.push(text)
        }
    };
    let busy = counters.busiest.as_secs_f64() / plan.time.as_secs_f64();
    let share = busy * 100.0;
    warn(
        busy > BUSY_MAX,
        format!("client-limited: a thread of the generator was busy {share:.0} % of the time"),
    );
    let errors: u64 = counters.errors.values().sum();
    warn(errors > 0, format!("void: {errors} calls failed"));
    warn(counters.done.0 == 0, "void: no call was answered".to_owned());
    warn(
        facts.restarts > 0,
        format!("the server restarted {} times: unstable data may be lost", facts.restarts),
    );
    warn(plan.time < SHORT, format!("short: {:?} of measurement give no reliable figures", plan.time));
    warn(facts.co_located, "co-located: client and server share this host".to_owned());
    let seconds = series(plan, counters);
    let idle = seconds.iter().filter(|second| second.ops == 0).count();
    warn(
        idle > 0 && counters.done.0 > 0,
        format!("in {idle} of {} seconds nothing was answered", seconds.len()),
    );
    warnings
}

/// Warns if the requested rate was not reached, or operations were late.
fn schedule_warnings(plan: &Plan, ops: u64, late: u64) -> Vec<String> {
    let Some(asked) = plan.rate else { return Vec::new() };
    let (delivered, late) = (ops as f64 / plan.time.as_secs_f64(), late as f64 / ops.max(1) as f64);
    let missed = (delivered < WHOLE_MIN * asked)
        .then(|| format!("delivered {delivered:.1} of {asked} operations a second asked"));
    let behind = (late > LATE_MAX)
        .then(|| format!("client-limited: {:.1} % of the calls were sent late", late * 100.0));
    missed.into_iter().chain(behind).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &self.plan;
        let what = format!("{:?}", plan.op).to_lowercase();
        write!(f, "{}  {what}", plan.target)?;
        if plan.op.transfers() {
            let order = format!("{:?}", plan.order).to_lowercase();
            write!(f, " {} {order}, {} × {}", show_size(plan.block), plan.files, show_size(plan.size))?;
        }
        if plan.op.writes() {
            write!(f, ", {:?}", stable_how(plan.stability))?;
        }
        if plan.op == Op::Mix {
            write!(f, ", {} % reads", plan.read_percent)?;
        }
        let most = match plan.rate {
            Some(rate) => format!("{rate} ops/s, at most "),
            None => String::new(),
        };
        writeln!(
            f,
            "; {most}{} × {} × {} in flight; {} s",
            plan.clients, plan.connections, plan.depth, self.seconds
        )?;
        writeln!(
            f,
            "{:<12}{:>11}{:>10}{:>10}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}",
            "", "ops/s", "MiB/s", "mean ms", "p50", "p90", "p95", "p99", "p99.9", "max"
        )?;
        self.kinds.iter().try_for_each(|kind| write!(f, "{kind}"))?;
        writeln!(f, "{:<12}{:>11.0}{:>10.1}", "all", self.ops_per_s, self.mib_per_s)?;
        if let Some(asked) = plan.rate {
            let share = 100.0 * self.ops_per_s / asked;
            writeln!(f, "asked {asked} ops/s, delivered {:.1} ({share:.1} %)", self.ops_per_s)?;
        }
        let own = self.own_cpu_share * 100.0;
        write!(
            f,
            "CPU µs/op: generator {:.2} ({own:.0} % of {} threads)",
            self.own_cpu_us_per_op, self.threads
        )?;
        if let Some(server) = self.server_cpu_us_per_op {
            write!(f, ", server {server:.2}")?;
        }
        writeln!(f)?;
        if let Some(ms) = self.final_commit_ms {
            writeln!(f, "final COMMIT {ms:.1} ms")?;
        }
        if self.read_back {
            writeln!(f, "every file read back and right")?;
        }
        self.errors.iter().try_for_each(|(what, count)| writeln!(f, "error: {count} × {what}"))?;
        self.error_details.iter().try_for_each(|detail| writeln!(f, "  {detail}"))?;
        self.warnings.iter().try_for_each(|warning| writeln!(f, "warning: {warning}"))
    }
}

impl fmt::Display for KindReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<12}{:>11.0}{:>10.1}", self.kind, self.ops_per_s, self.mib_per_s)?;
        times(f, self.latency)?;
        if let Some(response) = self.response {
            write!(f, "{:<33}", "  from when it was due")?;
            times(f, response)?;
        }
        if self.entries_per_s > 0.0 {
            writeln!(f, "{:<12}{:>11.0} names/s", "", self.entries_per_s)?;
        }
        Ok(())
    }
}

/// The rest of a line, under the heads from the mean on.
fn times(f: &mut fmt::Formatter<'_>, l: Latency) -> fmt::Result {
    write!(f, "{:>10.3}", l.mean_ms)?;
    let others = [l.p50_ms, l.p90_ms, l.p95_ms, l.p99_ms, l.p99_9_ms, l.max_ms];
    others.iter().try_for_each(|ms| write!(f, "{ms:>9.3}"))?;
    writeln!(f)
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

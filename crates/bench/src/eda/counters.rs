//! What a thread counts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use report::result::{Distribution, Operation as Counted};

use super::mix::Operation;
use super::process::Completed;
use crate::engine::control::{Control, moment};
use crate::error::Error;
use crate::load::cpu;

/// Longest time told apart.
const TIME_MAX_NS: u64 = 120_000_000_000;
/// How many errors are described in words.
const DESCRIBED_MAX: usize = 8;
/// Procedures of NFSv3.
pub(super) const PROCEDURES: usize = 22;

/// Nanoseconds since the load began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    /// For a load that begins at `begin`, in nanoseconds since 1970.
    pub(super) fn new(begin: u64) -> Self {
        Self(moment(begin))
    }

    /// Zero before the beginning.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        let passed = self.0.elapsed();
        passed.as_secs() * 1_000_000_000 + u64::from(passed.subsec_nanos())
    }

    /// How long until it begins.
    pub(super) fn ahead(&self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}

/// What became of an operation in the window.
#[derive(Debug)]
struct OperationCounters {
    bytes: u64,
    service: Histogram<u64>,
    response: Histogram<u64>,
}

/// The counts of a thread, inside the window but for the errors.
#[derive(Debug)]
pub(super) struct OpCounters {
    operations: Vec<OperationCounters>,
    /// Replies by procedure.
    pub(super) wire: [u64; PROCEDURES],
    /// Operations that took no call.
    pub(super) absorbed: u64,
    /// Operations that this program began late although their process was free.
    pub(super) late: u64,
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) described: Vec<String>,
    cpu_start: Option<Duration>,
    /// Processor time of the thread.
    pub(super) cpu: Option<Duration>,
}

impl OpCounters {
    pub(super) fn new() -> Result<Self, Error> {
        let histogram = || {
            Histogram::new_with_bounds(1, TIME_MAX_NS, 3)
                .map_err(|wrong| Error::Plan(format!("cannot make a histogram: {wrong}")))
        };
        let operation = |_| Ok(OperationCounters { bytes: 0, service: histogram()?, response: histogram()? });
        Ok(Self {
            operations: Operation::ALL.iter().map(operation).collect::<Result<_, Error>>()?,
            wire: [0; PROCEDURES],
            absorbed: 0,
            late: 0,
            errors: BTreeMap::new(),
            described: Vec::new(),
            cpu_start: None,
            cpu: None,
        })
    }

    /// Counts an operation that was done inside the window.
    #[inline]
    pub(super) fn count(&mut self, done: &Completed) {
        let counters = &mut self.operations[done.operation as usize];
        counters.bytes += u64::from(done.bytes);
        counters.service.saturating_record(done.service);
        counters.response.saturating_record(done.response);
        self.absorbed += u64::from(done.calls == 0);
    }

    #[cold]
    pub(super) fn error(&mut self, operation: &str, what: &str, detail: String) {
        *self.errors.entry(format!("{operation} {what}")).or_default() += 1;
        if self.described.len() < DESCRIBED_MAX {
            self.described.push(format!("{operation}: {what}, {detail}"));
        }
    }

    /// Looks at the thread's processor time where the window begins and ends.
    #[inline]
    pub(super) fn look(&mut self, now: u64, control: &Control) {
        let (start, end) = control.window();
        if self.cpu_start.is_none() && now >= start {
            self.cpu_start = Some(cpu::of_this_thread());
        }
        if self.cpu.is_none() && now >= end {
            let start = self.cpu_start.unwrap_or_default();
            self.cpu = Some(cpu::of_this_thread().saturating_sub(start));
        }
    }

    /// Adds another thread's counts.
    pub(super) fn merge(&mut self, other: Self) -> Result<(), Error> {
        let merged = |wrong| Error::Plan(format!("cannot merge histograms: {wrong}"));
        for (ours, theirs) in self.operations.iter_mut().zip(&other.operations) {
            ours.bytes += theirs.bytes;
            ours.service.add(&theirs.service).map_err(merged)?;
            ours.response.add(&theirs.response).map_err(merged)?;
        }
        self.wire.iter_mut().zip(other.wire).for_each(|(ours, theirs)| *ours += theirs);
        self.absorbed += other.absorbed;
        self.late += other.late;
        other.errors.into_iter().for_each(|(what, count)| *self.errors.entry(what).or_default() += count);
        self.described.extend(other.described);
        self.described.truncate(DESCRIBED_MAX);
        Ok(())
    }

    /// The operations as a result has them.
    pub(super) fn operations(&self) -> Vec<Counted> {
        let counted = |(operation, counters): (&Operation, &OperationCounters)| Counted {
            name: operation.name().to_owned(),
            direction: operation.direction(),
            ops: counters.service.len(),
            bytes: counters.bytes,
            service: Distribution::from(&counters.service),
            response: Some(Distribution::from(&counters.response)),
        };
        Operation::ALL.iter().zip(&self.operations).map(counted).collect()
    }
}

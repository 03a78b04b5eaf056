//! What one thread counts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::plan::Kind;
use crate::Error;

/// Longest latency told apart.
const LATENCY_MAX_NS: u64 = 120_000_000_000;
/// How many times an error is described in words.
const DESCRIBED_MAX: usize = 8;
const SECOND_NS: u64 = 1_000_000_000;

/// Nanoseconds since the run began, for all threads alike, and the window that is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    epoch: Instant,
    /// Where the warm-up ends.
    pub(super) start: u64,
    /// Where the measurement ends.
    pub(super) end: u64,
}

impl Clock {
    pub(super) fn new(warm_up: Duration, time: Duration) -> Self {
        let start = nanoseconds(warm_up);
        Self { epoch: Instant::now(), start, end: start + nanoseconds(time) }
    }

    #[inline]
    pub(super) fn now(&self) -> u64 {
        nanoseconds(self.epoch.elapsed())
    }
}

/// One second of the measurement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Second {
    pub(super) ops: u64,
    pub(super) bytes: u64,
}

/// One kind of call in the measurement.
#[derive(Debug)]
pub(super) struct KindTally {
    pub(super) latency: Histogram<u64>,
    pub(super) bytes: u64,
    pub(super) entries: u64,
}

/// Counts of one thread; merged at the end.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) clock: Clock,
    kinds: [Option<KindTally>; Kind::ALL.len()],
    pub(super) seconds: Vec<Second>,
    /// Errors by kind and status, in the whole run and not in the window alone.
    pub(super) errors: BTreeMap<String, u64>,
    /// The first errors in words.
    pub(super) described: Vec<String>,
    /// Replies of the whole run, for showing progress.
    pub(super) replies: u64,
    pub(super) bytes: u64,
    /// Processor time of the thread inside the window.
    pub(super) cpu: Duration,
}

impl Tally {
    pub(super) fn new(clock: Clock) -> Self {
        let seconds = (clock.end - clock.start).div_ceil(SECOND_NS);
        Self {
            clock,
            kinds: [const { None }; Kind::ALL.len()],
            seconds: (0..seconds).map(|_| Second::default()).collect(),
            errors: BTreeMap::new(),
            described: Vec::new(),
            replies: 0,
            bytes: 0,
            cpu: Duration::ZERO,
        }
    }

    /// Makes room for a kind before the run, so that nothing is allocated in it.
    pub(super) fn expect(&mut self, kind: Kind) -> Result<(), Error> {
        if self.kinds[kind as usize].is_none() {
            let latency = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3)
                .map_err(|wrong| Error::Plan(format!("cannot make a histogram: {wrong}")))?;
            self.kinds[kind as usize] = Some(KindTally { latency, bytes: 0, entries: 0 });
        }
        Ok(())
    }

    /// Counts a good reply at `now` to a call of `issued`.
    #[inline]
    pub(super) fn count(&mut self, kind: Kind, issued: u64, now: u64, bytes: u64, entries: u64) {
        self.replies += 1;
        self.bytes += bytes;
        if !(self.clock.start..self.clock.end).contains(&now) {
            return;
        }
        let index = usize::try_from((now - self.clock.start) / SECOND_NS).unwrap_or(usize::MAX);
        if let Some(second) = self.seconds.get_mut(index) {
            second.ops += 1;
            second.bytes += bytes;
        }
        if let Some(tally) = &mut self.kinds[kind as usize] {
            tally.latency.saturating_record(now - issued);
            tally.bytes += bytes;
            tally.entries += entries;
        }
    }

    /// Counts a bad reply under `what`.
    #[cold]
    pub(super) fn error(&mut self, kind: Kind, what: &str, detail: impl FnOnce() -> String) {
        self.replies += 1;
        *self.errors.entry(format!("{kind} {what}")).or_default() += 1;
        if self.described.len() < DESCRIBED_MAX {
            self.described.push(format!("{kind}: {}", detail()));
        }
    }

    /// The kinds that occurred.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (Kind, &KindTally)> {
        Kind::ALL
            .into_iter()
            .zip(&self.kinds)
            .filter_map(|(kind, tally)| tally.as_ref().map(|tally| (kind, tally)))
    }

    /// Adds another thread's counts to this one's.
    pub(super) fn merge(&mut self, other: Self) -> Result<(), Error> {
        for (kind, theirs) in other.kinds() {
            self.expect(kind)?;
            if let Some(ours) = &mut self.kinds[kind as usize] {
                ours.latency
                    .add(&theirs.latency)
                    .map_err(|wrong| Error::Plan(format!("cannot merge: {wrong}")))?;
                ours.bytes += theirs.bytes;
                ours.entries += theirs.entries;
            }
        }
        for (ours, theirs) in self.seconds.iter_mut().zip(&other.seconds) {
            ours.ops += theirs.ops;
            ours.bytes += theirs.bytes;
        }
        other.errors.into_iter().for_each(|(what, count)| *self.errors.entry(what).or_default() += count);
        self.described.extend(other.described);
        self.described.truncate(DESCRIBED_MAX);
        self.replies += other.replies;
        self.bytes += other.bytes;
        self.cpu += other.cpu;
        Ok(())
    }
}

#[inline]
fn nanoseconds(time: Duration) -> u64 {
    time.as_secs() * SECOND_NS + u64::from(time.subsec_nanos())
}

//! What one thread counts.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use report::result::Second;

use super::plan::Kind;
use crate::engine::control::Control;
use crate::error::Error;

/// Longest latency told apart.
const LATENCY_MAX_NS: u64 = 120_000_000_000;
/// How many times an error is described in words.
const DESCRIBED_MAX: usize = 8;
const SECOND_NS: u64 = 1_000_000_000;

/// Nanoseconds since the run began, for all threads alike, and the window that is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    epoch: Instant,
    /// Where the warm-up ends.
    pub(crate) start: u64,
    /// Where the measurement ends.
    pub(crate) end: u64,
    /// What is missing to a whole second where the window begins, so that it begins with one.
    shift: u64,
}

impl Clock {
    /// Begins at `epoch`, with the window known so far. One that is set later begins with a whole second.
    pub(crate) fn new(epoch: Instant, control: &Control) -> Self {
        let (start, end) = control.window();
        let shift = if start == u64::MAX { 0 } else { start.next_multiple_of(SECOND_NS) - start };
        Self { epoch, start, end, shift }
    }

    /// Each thread waits by itself, so that none begins later because another had to be started first.
    pub(crate) fn wait_for_beginning(&self) {
        thread::sleep(self.epoch.saturating_duration_since(Instant::now()));
    }

    /// Which second since the beginning.
    fn second(&self, now: u64) -> usize {
        usize::try_from((now + self.shift) / SECOND_NS).unwrap_or(usize::MAX)
    }

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        nanoseconds(self.epoch.elapsed())
    }

    /// Whether the window has this moment.
    pub(crate) fn has(&self, now: u64) -> bool {
        (self.start..self.end).contains(&now)
    }
}

/// One kind of operation in the window.
#[derive(Debug)]
pub(crate) struct KindCounters {
    /// From sending to the end of the reply.
    pub(crate) service: Histogram<u64>,
    /// From when it should have been sent; only where a schedule says when.
    pub(crate) response: Option<Histogram<u64>>,
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

/// An operation that is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completed {
    pub(crate) kind: Kind,
    /// Which of this generator's clients did it.
    pub(crate) client: usize,
    /// When it should have been sent.
    pub(crate) due: u64,
    /// When it was.
    pub(crate) issued: u64,
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

/// Counts of one thread; merged at the end.
#[derive(Debug)]
pub(crate) struct OpCounters {
    pub(crate) clock: Clock,
    kinds: [Option<KindCounters>; Kind::ALL.len()],
    /// Calls on the wire in the window.
    pub(crate) wire: [u64; Kind::ALL.len()],
    /// Of each client each second since the beginning.
    pub(crate) clients: Vec<Vec<Second>>,
    /// Errors by kind and status, in the whole run and not in the window alone.
    pub(crate) errors: BTreeMap<String, u64>,
    /// The first errors in words.
    pub(crate) described: Vec<String>,
    /// Good operations and bytes of the whole run, for showing progress.
    pub(crate) done: (u64, u64),
    /// Operations in the window, sent more than a millisecond late because the generator was.
    pub(crate) late: u64,
    /// Processor time of the thread inside the window.
    pub(crate) cpu: Duration,
    /// That of the busiest thread, where several are merged.
    pub(crate) busiest: Duration,
}

impl OpCounters {
    pub(crate) fn new(clock: Clock, clients: usize) -> Self {
        Self {
            clock,
            kinds: [const { None }; Kind::ALL.len()],
            wire: [0; Kind::ALL.len()],
            clients: vec![Vec::new(); clients],
            errors: BTreeMap::new(),
            described: Vec::new(),
            done: (0, 0),
            late: 0,
            cpu: Duration::ZERO,
            busiest: Duration::ZERO,
        }
    }

    /// Makes room for a kind before the run, so that nothing is allocated in it.
    pub(crate) fn expect(&mut self, kind: Kind, scheduled: bool) -> Result<(), Error> {
        let histogram = || {
            Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3)
                .map_err(|wrong| Error::Plan(format!("cannot make a histogram: {wrong}")))
        };
        if self.kinds[kind as usize].is_none() {
            let response = scheduled.then(histogram).transpose()?;
            self.kinds[kind as usize] =
                Some(KindCounters { service: histogram()?, response, bytes: 0, entries: 0 });
        }
        Ok(())
    }

    /// Counts a good reply on the wire.
    #[inline]
    pub(crate) fn count_call(&mut self, kind: Kind, now: u64) {
        self.wire[kind as usize] += u64::from(self.clock.has(now));
    }

    /// Counts a good operation that ended at `now`; says whether it is in the window.
    #[inline]
    pub(crate) fn count(&mut self, done: Completed, now: u64) -> bool {
        self.done.0 += 1;
        self.done.1 += done.bytes;
        self.count_second(done, now);
        if !self.clock.has(now) {
            return false;
        }
        if let Some(counters) = &mut self.kinds[done.kind as usize] {
            counters.service.saturating_record(now - done.issued);
            if let Some(response) = &mut counters.response {
                response.saturating_record(now - done.due.min(now));
            }
            counters.bytes += done.bytes;
            counters.entries += done.entries;
        }
        true
    }

    fn count_second(&mut self, done: Completed, now: u64) {
        if now >= self.clock.end {
            return;
        }
        let index = self.clock.second(now);
        let Some(seconds) = self.clients.get_mut(done.client) else { return };
        if seconds.len() <= index {
            seconds.resize_with(index + 1, Second::default);
        }
        let second = &mut seconds[index];
        match done.kind {
            Kind::Read => {
                second.reads += 1;
                second.read_bytes += done.bytes;
            }
            Kind::Write => {
                second.writes += 1;
                second.write_bytes += done.bytes;
            }
            Kind::Null
            | Kind::Getattr
            | Kind::Lookup
            | Kind::Access
            | Kind::Create
            | Kind::Remove
            | Kind::Readdirplus
            | Kind::Commit => second.others += 1,
        }
    }

    /// Counts a bad reply under `what`.
    #[cold]
    pub(crate) fn error(&mut self, kind: Kind, what: &str, detail: impl FnOnce() -> String) {
        *self.errors.entry(format!("{kind} {what}")).or_default() += 1;
        if self.described.len() < DESCRIBED_MAX {
            self.described.push(format!("{kind}: {}", detail()));
        }
    }

    /// The kinds that occurred.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (Kind, &KindCounters)> {
        let all = Kind::ALL.into_iter().zip(&self.kinds);
        all.filter_map(|(kind, counters)| counters.as_ref().map(|counters| (kind, counters)))
    }

    /// The seconds of the window, of one client.
    pub(crate) fn window(&self, client: usize) -> Vec<Second> {
        let (start, last) = (self.clock.second(self.clock.start), self.clock.second(self.clock.end - 1));
        let seconds = &self.clients[client];
        (start..=last).map(|second| seconds.get(second).copied().unwrap_or_default()).collect()
    }

    /// Adds another thread's counts to this one's.
    pub(crate) fn merge(&mut self, other: Self) -> Result<(), Error> {
        let wrong = |wrong: hdrhistogram::AdditionError| Error::Plan(format!("cannot merge: {wrong}"));
        for (kind, theirs) in other.kinds() {
            self.expect(kind, theirs.response.is_some())?;
            if let Some(ours) = &mut self.kinds[kind as usize] {
                ours.service.add(&theirs.service).map_err(wrong)?;
                if let Some((ours, theirs)) = ours.response.as_mut().zip(theirs.response.as_ref()) {
                    ours.add(theirs).map_err(wrong)?;
                }
                ours.bytes += theirs.bytes;
                ours.entries += theirs.entries;
            }
        }
        self.wire.iter_mut().zip(other.wire).for_each(|(ours, theirs)| *ours += theirs);
        for (ours, theirs) in self.clients.iter_mut().zip(other.clients) {
            if ours.len() < theirs.len() {
                ours.resize_with(theirs.len(), Second::default);
            }
            ours.iter_mut().zip(theirs).for_each(|(ours, theirs)| *ours += theirs);
        }
        other.errors.into_iter().for_each(|(what, count)| *self.errors.entry(what).or_default() += count);
        self.described.extend(other.described);
        self.described.truncate(DESCRIBED_MAX);
        self.done = (self.done.0 + other.done.0, self.done.1 + other.done.1);
        self.late += other.late;
        self.cpu += other.cpu;
        self.busiest = self.busiest.max(other.cpu);
        Ok(())
    }
}

#[inline]
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    time.as_secs() * SECOND_NS + u64::from(time.subsec_nanos())
}

//! The counters of one thread.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nfs_wire::v3::Procedure;
use nfs_wire::v4::Op;
use report::result::{Direction, Second};
use smb_wire::header::Command;

use crate::error::Error;
use crate::job::{Control, moment};
use wire_client::Version;

pub(crate) const SECOND_NS: u64 = 1_000_000_000;
/// Longer times count as this one.
const TIME_MAX_NS: u64 = 120 * SECOND_NS;
/// Further errors are only counted.
const DESCRIBED_MAX: usize = 8;
/// Exceeds every NFSv3 procedure, NFSv4 operation and SMB command.
const CALLS: usize = 80;

/// Nanoseconds since the load began, equal for all threads, and the measured window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    epoch: Instant,
    /// The end of the warm-up.
    pub(crate) start: u64,
    /// The end of the measurement.
    pub(crate) end: u64,
    /// Shifts the window's start to a whole second, in nanoseconds.
    shift: u64,
}

impl Clock {
    /// Uses the window known so far. A window that is set later starts at a whole second.
    pub(crate) fn new(control: &Control) -> Self {
        let (start, end) = control.window();
        let shift = if start == u64::MAX { 0 } else { start.next_multiple_of(SECOND_NS) - start };
        Self { epoch: moment(control.begin), start, end, shift }
    }

    /// Each thread waits by itself, so that none starts late because of another.
    pub(super) fn wait_for_beginning(&self) {
        thread::sleep(self.epoch.saturating_duration_since(Instant::now()));
    }

    fn second(&self, now: u64) -> usize {
        usize::try_from((now + self.shift) / SECOND_NS).unwrap_or(usize::MAX)
    }

    /// In nanoseconds; zero before the beginning.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        nanoseconds(self.epoch.elapsed())
    }

    #[inline]
    pub(crate) fn has(&self, now: u64) -> bool {
        (self.start..self.end).contains(&now)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Counts {
    /// From the send to the end of the reply.
    pub(crate) service: Histogram<u64>,
    /// From the due time; only with a schedule.
    pub(crate) response: Option<Histogram<u64>>,
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Completed {
    pub(crate) operation: usize,
    pub(crate) direction: Direction,
    pub(crate) client: usize,
    /// From the send to the end of the reply.
    pub(crate) service: u64,
    /// From the due time.
    pub(crate) response: u64,
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct OpCounters {
    pub(crate) clock: Clock,
    operations: Vec<Option<Counts>>,
    version: Version,
    /// In the window, by procedure, operation or command.
    wire: [u64; CALLS],
    /// By client, then by second since the beginning.
    clients: Vec<Vec<Second>>,
    /// By operation and status; of the whole load, not only of the window.
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) described: Vec<String>,
    /// Operations and bytes of the whole load, for the progress.
    pub(crate) done: (u64, u64),
    /// Operations in the window that the generator sent more than a millisecond late.
    pub(crate) late: u64,
    pub(crate) cpu: Duration,
    /// Processor time of the busiest thread, after a merge.
    pub(crate) busiest: Duration,
}

impl OpCounters {
    pub(crate) fn new(clock: Clock, clients: usize, version: Version) -> Self {
        Self {
            clock,
            operations: Vec::new(),
            version,
            wire: [0; CALLS],
            clients: vec![Vec::new(); clients],
            errors: BTreeMap::new(),
            described: Vec::new(),
            done: (0, 0),
            late: 0,
            cpu: Duration::ZERO,
            busiest: Duration::ZERO,
        }
    }

    /// Allocates an operation's counters, so that a running load allocates nothing.
    pub(crate) fn expect(&mut self, operation: usize, scheduled: bool) -> Result<(), Error> {
        let histogram = || {
            Histogram::new_with_bounds(1, TIME_MAX_NS, 3)
                .map_err(|wrong| Error::Plan(format!("cannot make a histogram: {wrong}")))
        };
        if self.operations.len() <= operation {
            self.operations.resize_with(operation + 1, || None);
        }
        let response = scheduled.then(histogram).transpose()?;
        self.operations[operation] = Some(Counts { service: histogram()?, response, bytes: 0, entries: 0 });
        Ok(())
    }

    #[inline]
    pub(crate) fn count_call(&mut self, number: u32, now: u64) {
        if let Some(counter) = self.wire.get_mut(number as usize) {
            *counter += u64::from(self.clock.has(now));
        }
    }

    /// Returns whether `now` is in the window.
    #[inline]
    pub(crate) fn count(&mut self, completed: &Completed, now: u64) -> bool {
        self.done.0 += 1;
        self.done.1 += completed.bytes;
        self.count_second(completed, now);
        if !self.clock.has(now) {
            return false;
        }
        if let Some(Some(counts)) = self.operations.get_mut(completed.operation) {
            counts.service.saturating_record(completed.service);
            if let Some(response) = &mut counts.response {
                response.saturating_record(completed.response);
            }
            counts.bytes += completed.bytes;
            counts.entries += completed.entries;
        }
        true
    }

    #[inline]
    fn count_second(&mut self, completed: &Completed, now: u64) {
        if now >= self.clock.end {
            return;
        }
        let index = self.clock.second(now);
        let Some(seconds) = self.clients.get_mut(completed.client) else { return };
        if seconds.len() <= index {
            seconds.resize_with(index + 1, Second::default);
        }
        let second = &mut seconds[index];
        match completed.direction {
            Direction::Read => {
                second.reads += 1;
                second.read_bytes += completed.bytes;
            }
            Direction::Write => {
                second.writes += 1;
                second.write_bytes += completed.bytes;
            }
            Direction::Other => second.others += 1,
        }
    }

    #[cold]
    pub(crate) fn error(&mut self, operation: &str, what: &str, detail: &str) {
        *self.errors.entry(format!("{operation} {what}")).or_default() += 1;
        if self.described.len() < DESCRIBED_MAX {
            self.described.push(format!("{operation}: {detail}"));
        }
    }

    /// `None` unless [`expect`](Self::expect) was called.
    pub(crate) fn operation(&self, operation: usize) -> Option<&Counts> {
        self.operations.get(operation)?.as_ref()
    }

    /// By the name of the procedure, operation or command; in the window.
    pub(crate) fn wire(&self) -> BTreeMap<String, u64> {
        let name = |number| match self.version {
            Version::V41 | Version::V42 if number > 0 => format!("{:?}", Op(number)).replace("OP_", ""),
            Version::Smb(_) => format!("{:?}", Command(u16::try_from(number).unwrap_or(u16::MAX))),
            _ => format!("{:?}", Procedure(number)).replace("NFSPROC3_", ""),
        };
        let called = (0..).zip(self.wire).filter(|(_, calls)| *calls > 0);
        called.map(|(procedure, calls)| (name(procedure), calls)).collect()
    }

    pub(crate) fn window(&self, client: usize) -> Vec<Second> {
        let (start, last) = (self.clock.second(self.clock.start), self.clock.second(self.clock.end - 1));
        let seconds = &self.clients[client];
        (start..=last).map(|second| seconds.get(second).copied().unwrap_or_default()).collect()
    }

    pub(crate) fn merge(&mut self, other: Self) -> Result<(), Error> {
        let wrong = |wrong: hdrhistogram::AdditionError| Error::Plan(format!("cannot merge: {wrong}"));
        let both = self.operations.iter_mut().flatten().zip(other.operations.iter().flatten());
        for (ours, theirs) in both {
            ours.service.add(&theirs.service).map_err(wrong)?;
            if let Some((ours, theirs)) = ours.response.as_mut().zip(theirs.response.as_ref()) {
                ours.add(theirs).map_err(wrong)?;
            }
            ours.bytes += theirs.bytes;
            ours.entries += theirs.entries;
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

//! A connection and the processes that share it.

use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::OwnedFd;

use nfs_wire::rpc::{RecordMark, ReplyHeader};
use nfs_wire::v3::{PROGRAM, VERSION};
use report::result::{Direction, Second};
use xdr::{Decode, Reader};

use super::counters::{Clock, OpCounters, PROCEDURES};
use super::mix::TRANSFER_MAX;
use super::process::{Event, Process, UNIT};
use crate::client::{self, Identity};
use crate::engine::control::Control;
use crate::error::Error;
use crate::load::reply::{Fault, accepted};
use crate::load::socket::Socket;
use crate::load::wire::{Inbox, Outbox, Record};
use crate::pattern::Payload;

/// A reply finds its process by as many low bits of the xid.
const WORKER_BITS: u32 = 14;
/// Most processes on a connection.
pub(super) const WORKERS_MAX: usize = 1 << WORKER_BITS;
/// An operation that begins so much later than it could is late.
const LATE_NS: u64 = 1_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// Room in a reply for everything but data.
const REPLY_OVERHEAD: usize = 1024;

/// A process at its connection.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) process: Process,
    /// The number of the process among those of all job sets.
    pub(super) number: u64,
    /// Good operations in the window.
    pub(super) good: u64,
    xid: u32,
    in_flight: bool,
    /// The buffer of the WRITE in flight.
    payload: Option<usize>,
    /// When it had nothing to do any more.
    idle_since: u64,
}

/// Who has to begin an operation, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timer {
    pub(super) due: u64,
    pub(super) connection: usize,
    pub(super) worker: usize,
}

/// The load's time, what is asked of it, and where it is counted.
#[derive(Debug)]
pub(super) struct RunContext<'a> {
    pub(super) control: &'a Control,
    pub(super) clock: Clock,
    pub(super) counters: OpCounters,
    /// When it was looked at the clock last.
    pub(super) now: u64,
    /// No operation begins any more.
    pub(super) ending: bool,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: Socket,
    pub(super) workers: Vec<Worker>,
    pub(super) in_flight: usize,
    /// Good operations in each second of the load.
    pub(super) seconds: Vec<Second>,
    inbox: Inbox,
    outbox: Outbox,
    /// Beginnings of calls by procedure: record mark, header, credentials.
    headers: Vec<Vec<u8>>,
    payloads: Vec<Payload>,
    free: Vec<usize>,
    seed: u64,
}

impl Worker {
    /// Which share of its rate it reached in a window of so many nanoseconds, in thousandths.
    pub(super) fn share(&self, window: u64) -> u32 {
        let wanted = u128::from(self.process.population().role.rate) * u128::from(window);
        let share = u128::from(self.good) * 1000 * u128::from(SECOND_NS) / wanted.max(1);
        u32::try_from(share).unwrap_or(u32::MAX)
    }
}

impl RunContext<'_> {
    /// Whether this moment is measured.
    #[inline]
    fn measures(&self) -> bool {
        let (start, end) = self.control.window();
        (start..end).contains(&self.now)
    }
}

impl Connection {
    pub(super) fn new(stream: TcpStream, identity: &Identity, seed: u64) -> Result<Self, Error> {
        let header = |procedure| {
            [[0; RecordMark::SIZE].to_vec(), identity.header(PROGRAM, VERSION, procedure)].concat()
        };
        Ok(Self {
            socket: Socket::new(stream)?,
            workers: Vec::new(),
            in_flight: 0,
            seconds: Vec::new(),
            inbox: Inbox::new(TRANSFER_MAX as usize + REPLY_OVERHEAD, false),
            outbox: Outbox::new(16),
            headers: (0..).take(PROCEDURES).map(header).collect(),
            payloads: Vec::new(),
            free: Vec::new(),
            seed,
        })
    }

    /// Gives a process a place here.
    pub(super) fn add(&mut self, process: Process, number: u64) -> Result<(), Error> {
        if self.workers.len() == WORKERS_MAX {
            return Err(Error::Plan(format!(
                "more than {WORKERS_MAX} processes for a connection; use more connections or clients"
            )));
        }
        // The xid's low bits name the worker; the high ones begin anywhere.
        let low = u32::try_from(self.workers.len()).unwrap_or(0);
        let xid = client::first_xid() >> WORKER_BITS << WORKER_BITS | low;
        self.workers.push(Worker {
            process,
            number,
            good: 0,
            xid,
            in_flight: false,
            payload: None,
            idle_since: 0,
        });
        Ok(())
    }

    /// Forgets what was counted; gives the workers.
    pub(super) fn restart(&mut self) -> &mut [Worker] {
        self.seconds.clear();
        for worker in &mut self.workers {
            (worker.good, worker.idle_since) = (0, 0);
        }
        &mut self.workers
    }

    /// Begins the operation that is due; gives the next timer if it is done already.
    pub(super) fn begin(&mut self, at: Timer, context: &mut RunContext<'_>) -> Option<Timer> {
        context.now = context.clock.now();
        let worker = &mut self.workers[at.worker];
        let could = at.due.max(worker.idle_since);
        context.counters.late += u64::from(context.now > could + LATE_NS && context.measures());
        let event = worker.process.begin(context.now);
        self.follow(at.connection, at.worker, event, context)
    }

    /// Does what follows from an event; gives the worker's next timer if it has nothing to do until then.
    fn follow(
        &mut self,
        connection: usize,
        index: usize,
        event: Event,
        context: &mut RunContext<'_>,
    ) -> Option<Timer> {
        let mut tidies = false;
        match event {
            Event::Call => {
                self.send(index);
                return None;
            }
            Event::Completed(done) => {
                let bytes = u64::from(done.bytes);
                context.control.count(context.now, 1, bytes);
                self.count_second(context.now, done.operation.direction(), bytes);
                if context.measures() {
                    context.counters.count(&done);
                    self.workers[index].good += 1;
                }
                tidies = true;
            }
            Event::Failed { operation, what, detail } => context.counters.error(operation, &what, detail),
            Event::Tidied => {}
        }
        let worker = &mut self.workers[index];
        worker.idle_since = context.now;
        let due = worker.process.due();
        // Where it does not keep the next operation waiting.
        if tidies && !context.ending && due > context.now && worker.process.tidy() {
            self.send(index);
            return None;
        }
        (!context.ending).then_some(Timer { due, connection, worker: index })
    }

    /// Puts the process's call into the outbox.
    fn send(&mut self, index: usize) {
        let worker = &mut self.workers[index];
        let call = worker.process.call();
        let payload = worker.process.payload().map(|(position, count)| {
            let free = self.free.pop().unwrap_or_else(|| {
                let seed = self.seed ^ (self.payloads.len() as u64 + 1) << 40;
                self.payloads.push(Payload::new(TRANSFER_MAX as usize, UNIT, seed));
                self.payloads.len() - 1
            });
            self.payloads[free].stamp(position, worker.xid);
            (free, count)
        });
        let procedure = usize::try_from(call.procedure().0).unwrap_or(0);
        let start = self.outbox.begin(&self.headers[procedure]);
        self.outbox.encode(&call);
        worker.xid = worker.xid.wrapping_add(1 << WORKER_BITS);
        self.outbox.finish(start, worker.xid, payload);
        worker.payload = payload.map(|(buffer, _)| buffer);
        worker.in_flight = true;
        self.in_flight += 1;
    }

    /// One receive and everything that follows from it; new timers go to `arm`.
    pub(super) fn pump(
        &mut self,
        connection: usize,
        context: &mut RunContext<'_>,
        arm: &mut impl FnMut(Timer),
    ) -> Result<(), Error> {
        if !self.socket.receive(&mut self.inbox, self.in_flight)? {
            return Ok(());
        }
        context.now = context.clock.now();
        while let Some(record) = self.inbox.next()? {
            // Nothing is cut: this inbox keeps everything.
            if let Record::Whole(range) = record
                && let Some(timer) = self.take(connection, range, context)?
            {
                arm(timer);
            }
        }
        Ok(())
    }

    /// Takes a reply.
    fn take(
        &mut self,
        connection: usize,
        range: Range<usize>,
        context: &mut RunContext<'_>,
    ) -> Result<Option<Timer>, Error> {
        let mut results = Reader::new(self.inbox.bytes(range));
        let header = ReplyHeader::decode(&mut results)?;
        let index = header.xid as usize % WORKERS_MAX;
        let worker = match self.workers.get_mut(index) {
            Some(worker) if worker.in_flight && worker.xid == header.xid => worker,
            Some(_) | None => {
                return Err(Error::Protocol(format!(
                    "a reply to call {:#010x}, which is not in flight",
                    header.xid
                )));
            }
        };
        worker.in_flight = false;
        self.in_flight -= 1;
        self.free.extend(worker.payload.take());
        if context.measures() {
            let procedure = usize::try_from(worker.process.call().procedure().0).unwrap_or(0);
            context.counters.wire[procedure] += 1;
        }
        let event = match accepted(&header) {
            Ok(()) => worker.process.answer(results, context.now)?,
            Err(Fault::Counted { what, detail }) => worker.process.failed(what, detail),
            Err(Fault::Fatal(wrong)) => return Err(wrong),
        };
        Ok(self.follow(connection, index, event, context))
    }

    /// Sends what the socket takes.
    pub(super) fn flush(&mut self, epoll: &OwnedFd, number: u64) -> Result<(), Error> {
        self.socket.flush(&mut self.outbox, &self.payloads, epoll, number, self.in_flight)
    }

    fn count_second(&mut self, now: u64, direction: Direction, bytes: u64) {
        let second = usize::try_from(now / SECOND_NS).unwrap_or(0);
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, Second::default());
        }
        let second = &mut self.seconds[second];
        match direction {
            Direction::Read => {
                (second.reads, second.read_bytes) = (second.reads + 1, second.read_bytes + bytes)
            }
            Direction::Write => {
                (second.writes, second.write_bytes) = (second.writes + 1, second.write_bytes + bytes);
            }
            Direction::Other => second.others += 1,
        }
    }
}

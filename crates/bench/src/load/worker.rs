//! A thread that drives some of the connections.

use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::calls::Calls;
use super::cpu;
use super::tally::{Clock, Tally};
use super::wire::{Inbox, Record};
use crate::Error;

/// How often a thread looks up although nothing arrives.
const TICK: Duration = Duration::from_millis(100);
/// A server that answers nothing for so long is given up.
const PATIENCE_NS: u64 = 30_000_000_000;
/// How long calls in flight may take after the end.
const DRAIN_NS: u64 = 30_000_000_000;
const EVENTS: usize = 64;

/// One connection with its calls.
#[derive(Debug)]
pub(super) struct Lane<'p> {
    pub(super) stream: TcpStream,
    pub(super) calls: Calls<'p>,
    pub(super) inbox: Inbox,
    /// The socket took not all of the outbox.
    blocked: bool,
}

impl<'p> Lane<'p> {
    pub(super) fn new(stream: TcpStream, calls: Calls<'p>, inbox: Inbox) -> Result<Self, Error> {
        stream.set_read_timeout(Some(TICK)).map_err(Error::io("set a timeout"))?;
        Ok(Self { stream, calls, inbox, blocked: false })
    }

    /// One receive, waiting a tick for it or not at all, and everything that follows from it.
    fn pump(&mut self, tally: &mut Tally, wait: bool) -> Result<bool, Error> {
        match self.inbox.receive(&self.stream, wait) {
            Ok(0) => return Err(self.closed()),
            Ok(_) => {}
            Err(wrong) => match wrong.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => return Ok(false),
                io::ErrorKind::ConnectionReset => return Err(self.closed()),
                _ => return Err(Error::io("receive replies")(wrong)),
            },
        }
        let now = tally.clock.now();
        while let Some(record) = self.inbox.next()? {
            let (range, missing) = match record {
                Record::Whole(range) => (range, 0),
                Record::Cut(range, missing) => (range, missing),
            };
            self.calls.complete(self.inbox.bytes(range), missing, now, tally)?;
        }
        Ok(true)
    }

    fn flush(&mut self) -> Result<(), Error> {
        match self.calls.outbox.flush(&self.stream, &self.calls.payloads) {
            Ok(sent) => self.blocked = !sent,
            Err(wrong)
                if matches!(wrong.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) =>
            {
                return Err(self.closed());
            }
            Err(wrong) => return Err(Error::io("send calls")(wrong)),
        }
        Ok(())
    }

    /// What epoll is to tell of.
    fn wanted(&self) -> EventFlags {
        if self.blocked { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN }
    }

    #[cold]
    fn closed(&self) -> Error {
        let lost = self.calls.in_flight;
        Error::Protocol(format!("the server closed a connection with {lost} calls in flight"))
    }
}

/// What threads tell each other.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Somebody failed: stop.
    pub(super) failed: AtomicBool,
    /// Replies and bytes, for showing progress.
    pub(super) replies: AtomicU64,
    pub(super) bytes: AtomicU64,
}

/// Drives `lanes` until the clock's end and until every call is answered.
pub(super) fn drive(
    lanes: &mut [Lane<'_>],
    clock: Clock,
    tally: &mut Tally,
    shared: &Shared,
) -> Result<(), Error> {
    for lane in &mut *lanes {
        lane.calls.issue_all(clock.now());
        lane.flush()?;
    }
    let mut ears = Ears::new(lanes)?;
    let (mut heard, mut cpu) = (clock.now(), Meter::default());
    while lanes.iter().any(|lane| lane.calls.in_flight > 0) && !shared.failed.load(Ordering::Relaxed) {
        let before = (tally.replies, tally.bytes);
        let something = ears.listen(lanes, tally)?;
        let now = clock.now();
        cpu.look(now, clock);
        if something {
            heard = now;
        }
        shared.replies.fetch_add(tally.replies - before.0, Ordering::Relaxed);
        shared.bytes.fetch_add(tally.bytes - before.1, Ordering::Relaxed);
        if now - heard > PATIENCE_NS || now > clock.end + DRAIN_NS {
            let waiting: usize = lanes.iter().map(|lane| lane.calls.in_flight).sum();
            return Err(Error::Protocol(format!("{waiting} calls were not answered within 30 s")));
        }
    }
    tally.cpu = cpu.used();
    Ok(())
}

/// Waits for whichever connection has something.
struct Ears {
    epoll: OwnedFd,
    events: [epoll::Event; EVENTS],
}

impl Ears {
    fn new(lanes: &[Lane<'_>]) -> Result<Self, Error> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(unwatched)?;
        for (index, lane) in lanes.iter().enumerate() {
            epoll::add(&epoll, &lane.stream, EventData::new_u64(index as u64), lane.wanted())
                .map_err(unwatched)?;
        }
        let event = epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        Ok(Self { epoll, events: [event; EVENTS] })
    }

    /// Waits at most a tick, receives, and sends what follows; `false` where nothing happened.
    fn listen(&mut self, lanes: &mut [Lane<'_>], tally: &mut Tally) -> Result<bool, Error> {
        // A single connection can wait in its receive: a system call less.
        if let [lane] = lanes
            && !lane.blocked
        {
            return self.serve(lane, 0, EventFlags::IN, true, tally);
        }
        let tick = Timespec { tv_sec: 0, tv_nsec: TICK.subsec_nanos().into() };
        let ready = match epoll::wait(&self.epoll, &mut self.events, Some(&tick)) {
            Ok(ready) => ready,
            Err(Errno::INTR) => 0,
            Err(errno) => return Err(unwatched(errno)),
        };
        for event in 0..ready {
            let epoll::Event { flags, data } = self.events[event];
            let lane = usize::try_from(data.u64()).ok().and_then(|index| lanes.get_mut(index));
            if let Some(lane) = lane {
                self.serve(lane, data.u64(), flags, false, tally)?;
            }
        }
        Ok(ready > 0)
    }

    fn serve(
        &self,
        lane: &mut Lane<'_>,
        index: u64,
        flags: EventFlags,
        wait: bool,
        tally: &mut Tally,
    ) -> Result<bool, Error> {
        let was_blocked = lane.blocked;
        let readable = flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR);
        let received = readable && lane.pump(tally, wait)?;
        lane.flush()?;
        if lane.blocked != was_blocked {
            let data = EventData::new_u64(index);
            epoll::modify(&self.epoll, &lane.stream, data, lane.wanted()).map_err(unwatched)?;
        }
        Ok(received)
    }
}

fn unwatched(errno: Errno) -> Error {
    Error::io("wait for replies")(errno.into())
}

/// The thread's processor time from the window's start to its end.
#[derive(Debug, Default)]
struct Meter {
    start: Option<Duration>,
    end: Option<Duration>,
}

impl Meter {
    #[inline]
    fn look(&mut self, now: u64, clock: Clock) {
        if self.end.is_some() || now < clock.start {
            return;
        }
        if self.start.is_none() {
            self.start = Some(cpu::of_this_thread());
        }
        if now >= clock.end {
            self.end = Some(cpu::of_this_thread());
        }
    }

    fn used(&self) -> Duration {
        let end = self.end.unwrap_or_else(cpu::of_this_thread);
        self.start.map_or(Duration::ZERO, |start| end.saturating_sub(start))
    }
}

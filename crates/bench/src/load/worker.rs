//! A thread that drives some of the connections.

use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::time::Timespec;

use super::calls::Calls;
use super::cpu;
use super::tally::{Clock, Tally};
use super::wire::{Inbox, Record};
use crate::Error;

/// How often a thread looks up although nothing arrives.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
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
        stream.set_nonblocking(true).map_err(Error::io("make a socket non-blocking"))?;
        Ok(Self { stream, calls, inbox, blocked: false })
    }

    /// One receive and everything that follows from it.
    fn pump(&mut self, tally: &mut Tally) -> Result<(), Error> {
        match self.inbox.receive(&self.stream) {
            Ok(0) => return Err(self.closed()),
            Ok(_) => {}
            Err(wrong) => match wrong.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => return Ok(()),
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
        Ok(())
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
    let epoll = watch(lanes)?;
    let mut buffer = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; EVENTS];
    let (mut heard, mut cpu) = (clock.now(), Meter::default());
    while lanes.iter().any(|lane| lane.calls.in_flight > 0) && !shared.failed.load(Ordering::Relaxed) {
        let ready = match epoll::wait(&epoll, &mut buffer, Some(&TICK)) {
            Ok(ready) => ready,
            Err(rustix::io::Errno::INTR) => 0,
            Err(errno) => return Err(Error::io("wait for replies")(errno.into())),
        };
        let before = (tally.replies, tally.bytes);
        for event in &buffer[..ready] {
            serve(&epoll, lanes, event, tally)?;
        }
        let now = clock.now();
        cpu.look(now, clock);
        if ready > 0 {
            heard = now;
        }
        shared.replies.fetch_add(tally.replies - before.0, Ordering::Relaxed);
        shared.bytes.fetch_add(tally.bytes - before.1, Ordering::Relaxed);
        let waiting = || lanes.iter().map(|lane| lane.calls.in_flight).sum::<usize>();
        if now - heard > PATIENCE_NS || now > clock.end + DRAIN_NS {
            return Err(Error::Protocol(format!("{} calls were not answered within 30 s", waiting())));
        }
    }
    tally.cpu = cpu.used();
    Ok(())
}

fn serve(
    epoll: &OwnedFd,
    lanes: &mut [Lane<'_>],
    event: &epoll::Event,
    tally: &mut Tally,
) -> Result<(), Error> {
    let (data, flags) = (event.data, event.flags);
    let Some(lane) = usize::try_from(data.u64()).ok().and_then(|index| lanes.get_mut(index)) else {
        return Ok(());
    };
    let was_blocked = lane.blocked;
    if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
        lane.pump(tally)?;
    }
    lane.flush()?;
    if lane.blocked != was_blocked {
        let wanted = if lane.blocked { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        epoll::modify(epoll, &lane.stream, data, wanted)
            .map_err(|errno| Error::io("watch a socket")(errno.into()))?;
    }
    Ok(())
}

fn watch(lanes: &[Lane<'_>]) -> Result<OwnedFd, Error> {
    let made = || {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        for (index, lane) in lanes.iter().enumerate() {
            let wanted = if lane.blocked { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
            epoll::add(&epoll, &lane.stream, EventData::new_u64(index as u64), wanted)?;
        }
        Ok(epoll)
    };
    made().map_err(|errno: rustix::io::Errno| Error::io("watch sockets")(errno.into()))
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

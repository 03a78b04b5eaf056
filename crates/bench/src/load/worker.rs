//! A thread that drives some of the connections.

use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::epoll::{self, EventData, EventFlags};

use super::alarm::Alarm;
use super::calls::Calls;
use super::counters::{Clock, OpCounters};
use super::cpu;
use super::socket::Socket;
use super::wire::{Inbox, Record};
use crate::engine::control::Control;
use crate::error::Error;

/// A server that answers nothing for so long is given up.
const PATIENCE_NS: u64 = 30_000_000_000;
/// How long calls in flight may take after the end.
const DRAIN_NS: u64 = 30_000_000_000;
const EVENTS: usize = 64;

/// One connection with its calls.
#[derive(Debug)]
pub(super) struct Connection {
    socket: Socket,
    pub(super) calls: Calls,
    inbox: Inbox,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, calls: Calls, inbox: Inbox) -> Result<Self, Error> {
        Ok(Self { socket: Socket::new(stream)?, calls, inbox })
    }

    /// One receive and everything that follows from it.
    fn pump(&mut self, counters: &mut OpCounters) -> Result<(), Error> {
        if !self.socket.receive(&mut self.inbox, self.calls.in_flight)? {
            return Ok(());
        }
        let now = counters.clock.now();
        while let Some(record) = self.inbox.next()? {
            let (range, missing) = match record {
                Record::Whole(range) => (range, 0),
                Record::Cut(range, missing) => (range, missing),
            };
            self.calls.complete(self.inbox.bytes(range), missing, now, counters)?;
        }
        Ok(())
    }

    fn flush(&mut self, epoll: &OwnedFd, number: u64) -> Result<(), Error> {
        let Calls { outbox, payloads, in_flight, .. } = &mut self.calls;
        self.socket.flush(outbox, payloads, epoll, number, *in_flight)
    }
}

/// Drives `connections` from the clock's beginning until the window's end and until every call is answered.
pub(super) fn drive(
    connections: &mut [Connection],
    counters: &mut OpCounters,
    control: &Control,
) -> Result<(), Error> {
    let epoll = Socket::watch(connections.iter().map(|connection| &connection.socket))?;
    let mut alarm = Alarm::new(&epoll)?;
    counters.clock.wait_for_beginning();
    let begin = counters.clock.now();
    for (number, connection) in (0..).zip(&mut *connections) {
        connection.calls.begin_all(begin);
        connection.flush(&epoll, number)?;
    }
    control.tell_began(begin);
    let mut buffer = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; EVENTS];
    let (mut heard, mut cpu) = (begin, Meter::default());
    let is_scheduled = connections.iter().any(|connection| connection.calls.next_due().is_some());
    while connections
        .iter()
        .any(|connection| connection.calls.in_flight > 0 || connection.calls.next_due().is_some())
        && !control.is_stopped()
    {
        let due = if is_scheduled {
            connections.iter().filter_map(|connection| connection.calls.next_due()).min()
        } else {
            None
        };
        let ready = alarm.wait(&epoll, &mut buffer, due, counters.clock.now())?;
        (counters.clock.start, counters.clock.end) = control.window();
        let before = counters.done;
        for event in &buffer[..ready] {
            serve(&epoll, connections, event, counters)?;
        }
        if is_scheduled {
            begin_due(&epoll, connections, counters)?;
        }
        let now = counters.clock.now();
        cpu.look(now, &counters.clock);
        if ready > 0 {
            heard = now;
        }
        control.count(now, counters.done.0 - before.0, counters.done.1 - before.1);
        if now - heard > PATIENCE_NS || now > counters.clock.end.saturating_add(DRAIN_NS) {
            let waiting = connections.iter().map(|connection| connection.calls.in_flight).sum::<usize>();
            if waiting > 0 {
                return Err(Error::Protocol(format!("{waiting} calls were not answered within 30 s")));
            }
        }
    }
    control.tell_ended(counters.clock.now().min(counters.clock.end));
    counters.cpu = cpu.used();
    Ok(())
}

/// Begins on every connection what is due.
fn begin_due(
    epoll: &OwnedFd,
    connections: &mut [Connection],
    counters: &mut OpCounters,
) -> Result<(), Error> {
    let now = counters.clock.now();
    for (index, connection) in connections.iter_mut().enumerate() {
        if connection.calls.next_due().is_some_and(|due| due <= now) || now >= counters.clock.end {
            connection.calls.begin_due(now, counters);
            connection.flush(epoll, index as u64)?;
        }
    }
    Ok(())
}

fn serve(
    epoll: &OwnedFd,
    connections: &mut [Connection],
    event: &epoll::Event,
    counters: &mut OpCounters,
) -> Result<(), Error> {
    let (data, flags) = (event.data, event.flags);
    let Some(connection) = usize::try_from(data.u64()).ok().and_then(|index| connections.get_mut(index))
    else {
        return Ok(());
    };
    if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
        connection.pump(counters)?;
    }
    connection.flush(epoll, data.u64())
}

/// The thread's processor time from the window's start to its end.
#[derive(Debug, Default)]
struct Meter {
    start: Option<Duration>,
    end: Option<Duration>,
}

impl Meter {
    #[inline]
    fn look(&mut self, now: u64, clock: &Clock) {
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

//! A thread that drives some of the connections: operations begin when they are due, replies are taken as they come.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::epoll::{self, EventData, EventFlags};

use super::connection::{Connection, RunContext, Timer};
use super::counters::{Clock, OpCounters};
use crate::engine::control::{Control, SECONDS_MAX};
use crate::error::Error;
use crate::load::alarm::Alarm;
use crate::load::socket::Socket;

/// A server that answers nothing for so long is given up.
const PATIENCE_NS: u64 = 30_000_000_000;
const EVENTS: usize = 64;
const SECOND_NS: u64 = 1_000_000_000;

/// The sockets and the timer of a thread.
#[derive(Debug)]
struct Watch {
    epoll: OwnedFd,
    alarm: Alarm,
}

/// Drives `connections` until the window's end and until every call is answered.
pub(super) fn drive(
    connections: &mut [Connection],
    clock: Clock,
    control: &Control,
    failed: &AtomicBool,
) -> Result<OpCounters, Error> {
    let mut context = RunContext { control, clock, counters: OpCounters::new()?, now: 0, ending: false };
    let mut watch = Watch::new(connections)?;
    let mut buffer = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; EVENTS];
    let mut due: BinaryHeap<_> = timers(connections).map(Reverse).collect();
    std::thread::sleep(clock.ahead());
    let mut heard = clock.now();
    loop {
        context.now = clock.now();
        context.counters.look(context.now, control);
        context.ending = ends(context.now, control, failed)?;
        if context.ending && connections.iter().all(|connection| connection.in_flight == 0) {
            return Ok(context.counters);
        }
        begin_due(connections, &mut due, &mut context);
        watch.flush(connections)?;
        let next = due.peek().filter(|_| !context.ending).map(|Reverse(first)| first.due);
        let ready = watch.alarm.wait(&watch.epoll, &mut buffer, next, clock.now())?;
        for event in &buffer[..ready] {
            let Ok(index) = usize::try_from(event.data.u64()) else { continue };
            let Some(connection) = connections.get_mut(index) else { continue };
            heard = context.now;
            let flags = event.flags;
            if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                connection.pump(index, &mut context, &mut |timer| due.push(Reverse(timer)))?;
            }
        }
        let waiting = connections.iter().map(|connection| connection.in_flight).sum::<usize>();
        if waiting == 0 {
            heard = clock.now();
        }
        if clock.now() > heard + PATIENCE_NS {
            return Err(Error::Protocol(format!("{waiting} calls were not answered within 30 s")));
        }
    }
}

/// Begins what is due.
fn begin_due(
    connections: &mut [Connection],
    due: &mut BinaryHeap<Reverse<Timer>>,
    context: &mut RunContext<'_>,
) {
    if context.ending {
        due.clear();
    }
    let limit = context.now;
    while let Some(&Reverse(first)) = due.peek()
        && first.due <= limit
    {
        due.pop();
        if let Some(next) = connections[first.connection].begin(first, context) {
            due.push(Reverse(next));
        }
    }
}

/// Whether nothing begins any more.
fn ends(now: u64, control: &Control, failed: &AtomicBool) -> Result<bool, Error> {
    if now > SECONDS_MAX as u64 * SECOND_NS {
        return Err(Error::Plan(format!("a load runs for at most {SECONDS_MAX} s")));
    }
    Ok(now >= control.window().1 || control.is_stopped() || failed.load(Ordering::Relaxed))
}

/// The first operation of every process.
fn timers(connections: &[Connection]) -> impl Iterator<Item = Timer> {
    connections.iter().enumerate().flat_map(|(index, connection)| {
        let first = move |(worker, one): (usize, &super::connection::Worker)| Timer {
            due: one.process.due(),
            connection: index,
            worker,
        };
        connection.workers.iter().enumerate().map(first)
    })
}

impl Watch {
    fn new(connections: &[Connection]) -> Result<Self, Error> {
        let epoll = Socket::watch(connections.iter().map(|connection| &connection.socket))?;
        Ok(Self { alarm: Alarm::new(&epoll)?, epoll })
    }

    /// Sends what there is to send, and asks to be told when a socket that is full takes more.
    fn flush(&self, connections: &mut [Connection]) -> Result<(), Error> {
        for (number, connection) in (0..).zip(connections) {
            connection.flush(&self.epoll, number)?;
        }
        Ok(())
    }
}

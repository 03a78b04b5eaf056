//! Drives connections: sends the calls that their generators make, takes the replies, and begins what is due.
//!
//! - [`generator`]: the interface that decides which call is next, and when.
//! - [`connection`], [`calls`]: a connection, its calls in flight, and the data that goes with them.
//! - [`buffers`], [`socket`], [`poller`]: bytes, system calls, waiting.
//! - [`counters`]: the counters of a thread.
//!
//! Calls are encoded once and patched. The calls that follow from one receive leave in one send. A reply finds its call
//! by the xid, and over SMB by the message id. Over NFS a call allocates nothing.

pub(crate) mod buffers;
pub(crate) mod calls;
pub(crate) mod connection;
pub(crate) mod counters;
pub(crate) mod cpu;
pub(crate) mod fault;
pub(crate) mod generator;
mod poller;
mod socket;

use std::os::fd::OwnedFd;
use std::thread;

use rustix::event::epoll::{self, EventData, EventFlags};

use crate::error::Error;
use crate::job::{Control, SECONDS_MAX};

use connection::Connection;
use counters::{OpCounters, SECOND_NS};
use cpu::WindowCpu;
use generator::{Generator, RunContext};
use poller::Poller;
use socket::Socket;

const SILENCE_MAX_NS: u64 = 30 * SECOND_NS;
const DRAIN_NS: u64 = 30 * SECOND_NS;
const EVENTS: usize = 64;

/// Defaults to one thread for each processor.
pub(crate) fn threads(connections: usize, wanted: Option<usize>) -> usize {
    let available = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = connections.div_ceil(wanted.unwrap_or(available).min(connections));
    connections.div_ceil(share)
}

/// Drives the connections from the beginning to the end of `control`'s window, and until every call is
/// answered; gives what all threads counted, each with a copy of `counters`. A load that is stopped leaves
/// calls unanswered: its connections are of no further use.
///
/// # Errors
/// A lost connection, wrong data, a server that is silent for 30 s. Refused calls are counted instead.
pub(crate) fn run<G: Generator>(
    connections: &mut [Connection<G>],
    threads: usize,
    control: &Control,
    counters: OpCounters,
) -> Result<OpCounters, Error> {
    let share = connections.len().div_ceil(threads);
    let mut all = counters.clone();
    let drive = |connections| {
        let mut context = RunContext::new(counters.clone());
        let result = drive(connections, &mut context, control);
        // Ends the other threads too.
        if result.is_err() {
            control.stop();
        }
        result.map(|()| context.counters)
    };
    let drive = &drive;
    thread::scope(|scope| {
        let running: Vec<_> =
            connections.chunks_mut(share).map(|share| scope.spawn(move || drive(share))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<OpCounters, Error>>| {
            thread.join().map_err(|_| Error::Plan("a thread of the generator panicked".to_owned()))?
        };
        // Joins all threads before it returns the first error.
        let counted: Vec<_> = running.into_iter().map(join).collect();
        counted.into_iter().try_for_each(|counted| all.merge(counted?))
    })?;
    (all.clock.start, all.clock.end) = control.window();
    Ok(all)
}

fn drive<G: Generator>(
    connections: &mut [Connection<G>],
    context: &mut RunContext,
    control: &Control,
) -> Result<(), Error> {
    let epoll = Socket::watch(connections.iter().map(|connection| &connection.socket))?;
    let mut poller = Poller::new(&epoll)?;
    let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; EVENTS];
    let (mut cpu, mut begun) = (WindowCpu::default(), Vec::new());
    context.counters.clock.wait_for_beginning();
    context.now = context.counters.clock.now();
    with_each(&epoll, connections, context, Connection::start)?;
    control.note_began(context.now);
    let (mut heard, mut has_ended) = (context.now, false);
    while !control.is_stopped() {
        context.now = context.counters.clock.now();
        let window = control.window();
        (context.counters.clock.start, context.counters.clock.end) = window;
        cpu.update(context.now, window);
        if context.is_ending() {
            context.cancel_timers();
            if !std::mem::replace(&mut has_ended, true) {
                with_each(&epoll, connections, context, Connection::end)?;
            }
            if connections.iter().all(|connection| connection.calls.in_flight == 0) {
                break;
            }
        }
        check_timeouts(connections, context, &mut heard)?;
        let before = context.counters.done;
        if begin_due(&epoll, connections, context, &mut begun)? {
            heard = context.now;
        }
        let ready = poller.wait(&epoll, &mut events, context.next_due(), &context.counters.clock)?;
        for event in &events[..ready] {
            if serve(&epoll, connections, event, context)? {
                heard = context.now;
            }
        }
        let done = context.counters.done;
        control.count(context.now, done.0 - before.0, done.1 - before.1);
    }
    control.note_ended(context.now.min(context.counters.clock.end));
    context.counters.cpu = cpu.used();
    Ok(())
}

fn with_each<G: Generator>(
    epoll: &OwnedFd,
    connections: &mut [Connection<G>],
    context: &mut RunContext,
    act: fn(&mut Connection<G>, &mut RunContext),
) -> Result<(), Error> {
    for (number, connection) in connections.iter_mut().enumerate() {
        context.connection = number;
        act(connection, context);
        connection.flush(epoll, number as u64)?;
    }
    Ok(())
}

/// Returns whether any operation was due.
fn begin_due<G: Generator>(
    epoll: &OwnedFd,
    connections: &mut [Connection<G>],
    context: &mut RunContext,
    begun: &mut Vec<usize>,
) -> Result<bool, Error> {
    // Timers that become due meanwhile wait for the next round, so that replies get their turn.
    let limit = context.now;
    while let Some(timer) = context.take_due(limit) {
        context.now = context.counters.clock.now();
        context.connection = timer.connection;
        if connections[timer.connection].begin(timer.worker, timer.due, context) {
            begun.push(timer.connection);
        }
    }
    let any = !begun.is_empty();
    begun.drain(..).try_for_each(|number| connections[number].flush(epoll, number as u64))?;
    Ok(any)
}

/// Returns whether anything arrived.
fn serve<G: Generator>(
    epoll: &OwnedFd,
    connections: &mut [Connection<G>],
    event: &epoll::Event,
    context: &mut RunContext,
) -> Result<bool, Error> {
    let (data, flags) = (event.data, event.flags);
    let number = usize::try_from(data.u64()).unwrap_or(usize::MAX);
    let Some(connection) = connections.get_mut(number) else { return Ok(false) };
    context.connection = number;
    if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
        connection.receive(context)?;
    }
    connection.flush(epoll, data.u64())?;
    Ok(true)
}

/// Fails if the server is silent or does not finish, or if the coordinator sets no window.
fn check_timeouts<G>(
    connections: &[Connection<G>],
    context: &RunContext,
    heard: &mut u64,
) -> Result<(), Error> {
    let (now, end) = (context.now, context.counters.clock.end);
    if end == u64::MAX && now > SECONDS_MAX as u64 * SECOND_NS {
        return Err(Error::Plan(format!("a load runs for at most {SECONDS_MAX} s")));
    }
    if now <= heard.saturating_add(SILENCE_MAX_NS) && now <= end.saturating_add(DRAIN_NS) {
        return Ok(());
    }
    let waiting = connections.iter().map(|connection| connection.calls.in_flight).sum::<usize>();
    if waiting > 0 {
        return Err(Error::Protocol(format!("{waiting} calls were not answered within 30 s")));
    }
    // Without a call in flight, silence is no fault of the server.
    *heard = now;
    Ok(())
}

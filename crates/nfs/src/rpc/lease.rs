//! A connection that changes files is leased by the storage thread that does its calls, as long as more of
//! them come.
//!
//! Handing a batch of calls to another thread costs two context switches, more than writing a few pages does. So the
//! thread that got one batch goes on receiving from the same socket, and does what it finds there, until nothing comes for
//! a moment, or something comes that the event loop does better, or other work waits for a thread. What may take long
//! is still handed on, as by the event loop, so one call does not hold up the next.

mod stream;

use super::admission::admit;
use super::buffer::Buffer;
use super::connection::Connection;
use super::dispatch::{Dispatch, Routed, route};
use super::event_loop::{Shared, up_to_a_boundary};
use super::job::{Batch, Job};
use super::pacing::ReplyPacing;
use super::record::{Frame, parse_frame};
use super::stream::{Stream, is_long};
use crate::cache::HandleCache;
use crate::limits::{LEASE_CACHE_ENTRIES, LEASE_IDLE_MS, LEASE_IDLE_TURNS, TURN_BYTES_MAX};
use crate::service::Service;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::Read;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use vfs::Namespace;
use vfs::traffic::ReadFrom;

/// The receiving half of a connection, away from its event loop.
pub struct ConnectionLease {
    connection: Arc<Connection>,
    shared: Arc<Shared>,
    buffer: Buffer,
    /// A long WRITE that the event loop goes on with.
    stream: Option<Stream>,
    /// The long call at the front of the buffer is not one for a leased connection.
    is_refused: bool,
    /// The length of the call that was incomplete last.
    expected: usize,
    /// Receives in a row that brought no call for a storage thread.
    idle_turns: u32,
    _counted: Counted,
}

/// What a storage thread received and left.
pub struct Rest {
    /// Bytes that it has not dealt with.
    pub buffer: Option<Buffer>,
    /// A long WRITE that is being received.
    pub stream: Option<Stream>,
    /// Whether the long call at the front of the buffer is for the event loop.
    pub is_refused: bool,
}

/// Counts a leased connection until it is released.
struct Counted(Arc<Shared>);

impl Counted {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.leases.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(shared))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.leases.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ConnectionLease {
    /// Takes a connection with what it has received; its event loop must not receive until it is released.
    pub fn new(connection: &Arc<Connection>, shared: &Arc<Shared>, buffer: Buffer) -> Self {
        connection.lease();
        // Counts as a call that waits, so that the end of the service waits for it.
        connection.count_queued(1);
        Self {
            connection: Arc::clone(connection),
            shared: Arc::clone(shared),
            buffer,
            stream: None,
            is_refused: false,
            expected: 0,
            idle_turns: 0,
            _counted: Counted::new(shared),
        }
    }

    /// Whose calls these are.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Does the calls of `batch`, then those that come, and releases the connection.
    pub fn run(mut self, batch: &[Range<usize>]) {
        let service = Arc::clone(&self.shared.service);
        let mut cache = HandleCache::new(LEASE_CACHE_ENTRIES, LEASE_CACHE_ENTRIES);
        let mut namespace = service.namespace.load_full();
        self.do_batch(&service, &namespace, &mut cache, batch);
        while self.do_received(&service, &namespace, &mut cache) && self.may_go_on() && self.receive() {
            let current = service.namespace.load();
            if !Arc::ptr_eq(&current, &namespace) {
                cache.change(&namespace, &current);
                namespace = Arc::clone(&current);
            }
        }
        let buffer = (!self.buffer.is_done()).then_some(self.buffer);
        let rest = Rest { buffer, stream: self.stream, is_refused: self.is_refused };
        self.connection.release(rest);
        self.connection.answered(1);
    }

    fn do_batch(
        &self,
        service: &Service,
        namespace: &Namespace,
        cache: &mut HandleCache,
        calls: &[Range<usize>],
    ) {
        let mut batch = Batch::new(service, namespace, &self.connection, Some(cache), Instant::now());
        for range in calls {
            batch.take(&self.buffer.all()[range.clone()]);
        }
        let answered = batch.finish(calls.len());
        self.connection.answered(answered);
    }

    /// Does every complete call in the buffer. False: what comes next is for the event loop.
    fn do_received(&mut self, service: &Service, namespace: &Namespace, cache: &mut HandleCache) -> bool {
        let mut batch = Batch::new(service, namespace, &self.connection, Some(cache), Instant::now());
        let (mut at, mut calls, mut goes_on, mut streams) = (self.buffer.start, 0, true, false);
        let mut pacing = ReplyPacing::new(self.buffer.filled - at, self.is_alone());
        while goes_on && self.connection.may_take_calls(0) {
            match parse_frame(&self.buffer.all()[at..self.buffer.filled], false) {
                Ok(Frame::Record(range)) => {
                    let record = &self.buffer.all()[at + range.start..at + range.end];
                    match route(self.connection.programs, record, batch.ready()) {
                        Ok(Some(routed)) => calls += self.do_call(namespace, &mut batch, routed, record),
                        Ok(None) => {}
                        // No call at all: the event loop will find that out as well, and end the connection.
                        Err(_) => {
                            goes_on = false;
                            break;
                        }
                    }
                    at += range.end;
                    if pacing.end_with(range.len()) {
                        batch.send_ready();
                    }
                }
                Ok(Frame::Incomplete(length)) => {
                    self.expected = length;
                    streams = is_long(length, self.buffer.filled - at);
                    break;
                }
                Ok(Frame::Fragment(..)) | Err(_) => goes_on = false,
            }
            if batch.ready().pending() >= TURN_BYTES_MAX {
                batch.send_ready();
            }
        }
        let answered = batch.finish(calls);
        self.connection.answered(answered);
        self.buffer.start = at;
        if streams {
            self.idle_turns = 0;
            return self.stream(service, namespace, cache) && self.connection.may_take_calls(0);
        }
        // Calls that need no storage thread are answered better by the event loop, which remembers more.
        self.idle_turns = if calls == 0 { self.idle_turns + 1 } else { 0 };
        goes_on && self.idle_turns < LEASE_IDLE_TURNS && self.connection.may_take_calls(0)
    }

    /// Does a call, or hands it on if it may take long. How many calls of the batch that makes.
    fn do_call<'j>(
        &self,
        namespace: &Namespace,
        batch: &mut Batch<'j>,
        routed: Routed<'j>,
        record: &'j [u8],
    ) -> usize {
        if !admit(&routed, record, &self.connection, &self.shared, namespace, batch.ready()) {
            return 0;
        }
        match routed.dispatch() {
            Dispatch::Inline => {
                if let Err(read_from) = batch.try_now(&routed) {
                    self.offload(&routed, record, read_from);
                }
                0
            }
            Dispatch::Offload => {
                self.offload(&routed, record, None);
                0
            }
            Dispatch::Batched | Dispatch::NonIdempotent => {
                self.connection.count_queued(1);
                batch.take_routed(routed, record);
                1
            }
        }
    }

    fn offload(&self, routed: &Routed<'_>, record: &[u8], read_from: Option<ReadFrom>) {
        let job = Job::alone(&self.connection, record, routed.reply_bytes_max(), read_from);
        self.shared.pool.submit(job);
    }

    /// Whether no other connection is leased.
    fn is_alone(&self) -> bool {
        self.shared.leases.load(Ordering::Relaxed) == 1
    }

    fn may_go_on(&self) -> bool {
        self.may_stay() && self.connection.may_take_calls(0)
    }

    /// Whether nothing else needs this thread.
    fn may_stay(&self) -> bool {
        !self.shared.stopping.load(Ordering::SeqCst) && !self.shared.pool.is_pressed()
    }

    /// Waits a moment for something to receive.
    fn is_readable(&self) -> bool {
        let patience = Timespec { tv_sec: 0, tv_nsec: LEASE_IDLE_MS * 1_000_000 };
        let mut socket = [PollFd::new(&self.connection.socket, PollFlags::IN)];
        poll(&mut socket, Some(&patience)).is_ok_and(|ready| ready > 0)
    }

    /// Receives what comes in a moment. False: nothing came, or the stream ended, which the event loop will see.
    fn receive(&mut self) -> bool {
        if !self.is_readable() {
            return false;
        }
        self.buffer.compact();
        let have = self.buffer.bytes().len();
        let most = up_to_a_boundary(self.buffer.room().len(), have, self.expected);
        match (&self.connection.socket).read(&mut self.buffer.room()[..most]) {
            Ok(count) if count > 0 => {
                self.buffer.filled += count;
                true
            }
            Ok(_) | Err(_) => false,
        }
    }
}

//! Calls that may wait for storage: done together, flushed together, answered together.

use super::admission::refund;
use super::buffer::Buffer;
use super::connection::Connection;
use super::dispatch::{Dispatch, Routed, Target, route};
use super::lease::ConnectionLease;
use super::limit_queue::QueuedCall;
use super::pipe::Pipe;
use super::replay::{CallKey, Verdict, Waiter};
use super::reply::{Replies, Start};
use super::stream;
use crate::cache::HandleCache;
use crate::call::{Call, CallStats};
use crate::clock;
use crate::counters::OpCounters;
use crate::limits::STORAGE_CALL_REPLY_BYTES;
use crate::service::Service;
use crate::v3::large::{LargeWrite, PartData};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;
use vfs::qos::Kind;
use vfs::traffic::ReadFrom;
use vfs::{Blocking, Caller, FsError, Namespace, PendingSync, panics};

/// Work for a storage thread.
pub enum Job {
    /// Calls of one connection.
    Calls(Calls),
    /// A part of a long WRITE.
    Part(Part),
    /// Calls of a connection that the thread leases.
    Leased(ConnectionLease, Vec<Range<usize>>),
}

/// Calls of one connection, in the order they came.
pub struct Calls {
    connection: Arc<Connection>,
    bytes: Bytes,
    records: Vec<Range<usize>>,
    /// What they count as besides one each while they wait, because their replies are long.
    weight: usize,
    /// When they were received.
    received: Instant,
    /// Where the data of the one READ that they are is, if that is known.
    read_from: Option<ReadFrom>,
}

/// Where the records lie.
pub enum Bytes {
    /// In the buffer they were received into.
    Received(Buffer),
    /// Copied, because they are few.
    Copied(Vec<u8>),
}

impl Bytes {
    fn all(&self) -> &[u8] {
        match self {
            Self::Received(buffer) => buffer.all(),
            Self::Copied(bytes) => bytes,
        }
    }
}

/// A part of a long WRITE.
pub struct Part {
    connection: Arc<Connection>,
    write: Arc<LargeWrite>,
    part: stream::Part<Source>,
}

/// Where the data of a part is.
pub enum Source {
    /// In a range of a receive buffer.
    Received(Buffer, Range<usize>),
    /// In a pipe.
    Piped(Pipe),
}

/// Calls that are done, and their replies on their way.
pub struct Batch<'j> {
    service: &'j Service,
    namespace: &'j Namespace,
    connection: &'j Arc<Connection>,
    cache: Option<&'j mut HandleCache>,
    /// Replies that may leave at once.
    ready: Replies,
    /// Replies that may leave once the flushes in `pending` are done.
    held: Replies,
    held_calls: Vec<Held<'j>>,
    /// The call being done, if repetitions of it wait.
    doing: Option<CallKey>,
    pending: PendingSync,
    /// Calls that somebody else answers: they came before, and are still being done.
    handed_over: usize,
    /// When the calls were received, what those have done whose replies may leave at once, and the others.
    received: Instant,
    counters: OpCounters,
    held_counters: OpCounters,
    /// See [`Calls::read_from`].
    read_from: Option<ReadFrom>,
}

struct Held<'j> {
    routed: Routed<'j>,
    key: Option<CallKey>,
    start: Start,
}

impl Job {
    /// Calls of `connection`, each a range of `bytes`.
    pub fn calls(connection: &Arc<Connection>, bytes: Bytes, records: Vec<Range<usize>>) -> Self {
        connection.count_queued(records.len());
        Self::Calls(Calls {
            connection: Arc::clone(connection),
            bytes,
            records,
            weight: 0,
            received: Instant::now(),
            read_from: None,
        })
    }

    /// One call of `connection`, whose reply takes at most so many bytes if it may be long. For a READ, where its data is, if
    /// that is known.
    pub fn alone(
        connection: &Arc<Connection>,
        record: &[u8],
        reply_bytes_max: u32,
        read_from: Option<ReadFrom>,
    ) -> Self {
        Self::one(connection, record.to_vec(), reply_bytes_max, Instant::now(), read_from)
    }

    fn one(
        connection: &Arc<Connection>,
        record: Vec<u8>,
        reply_bytes_max: u32,
        received: Instant,
        read_from: Option<ReadFrom>,
    ) -> Self {
        let weight = (reply_bytes_max / STORAGE_CALL_REPLY_BYTES) as usize;
        connection.count_queued(1 + weight);
        let records = std::iter::once(0..record.len()).collect();
        let (connection, bytes) = (Arc::clone(connection), Bytes::Copied(record));
        Self::Calls(Calls { connection, bytes, records, weight, received, read_from })
    }

    /// A call that has waited for its volume's limits.
    pub fn queued(connection: &Arc<Connection>, queued: QueuedCall, reply_bytes_max: u32) -> Self {
        let QueuedCall { record, since } = queued;
        Self::one(connection, record, reply_bytes_max, since, None)
    }

    /// Calls in the buffer of a leased connection.
    pub fn leased(lease: ConnectionLease, connection: &Connection, batch: Vec<Range<usize>>) -> Self {
        connection.count_queued(batch.len());
        Self::Leased(lease, batch)
    }

    /// A part of `write`.
    pub fn part(connection: &Arc<Connection>, write: &Arc<LargeWrite>, part: stream::Part<Source>) -> Self {
        Self::Part(Part { connection: Arc::clone(connection), write: Arc::clone(write), part })
    }

    /// Does the work and sends the replies.
    pub fn run(self, service: &Service) {
        let namespace = service.namespace.load_full();
        let connection = match &self {
            Self::Calls(Calls { connection, .. }) | Self::Part(Part { connection, .. }) => {
                Arc::clone(connection)
            }
            Self::Leased(lease, _) => Arc::clone(lease.connection()),
        };
        let run = || match self {
            Self::Calls(calls) => calls.run(service, &namespace),
            Self::Part(part) => part.run(service, &namespace),
            Self::Leased(lease, batch) => lease.run(&batch),
        };
        if panics::catch(run).is_err() {
            tracing::error!(peer = %connection.peer, "a call panicked; its connection is closed");
            connection.close();
        }
    }
}

impl Calls {
    fn run(self, service: &Service, namespace: &Namespace) {
        let mut batch = Batch::new(service, namespace, &self.connection, None, self.received);
        batch.read_from = self.read_from;
        for range in &self.records {
            batch.take(&self.bytes.all()[range.clone()]);
        }
        let answered = batch.finish(self.records.len());
        self.connection.answered(answered + self.weight);
    }
}

impl Part {
    fn run(self, service: &Service, namespace: &Namespace) {
        let mut pending = PendingSync::default();
        let mut call = call(service, namespace, &self.connection, self.write.claim(), &mut pending);
        let at = self.part.at;
        let was_last = match self.part.source {
            Source::Received(buffer, range) => {
                self.write.write_part(&mut call, at, PartData::Bytes(&buffer.all()[range]))
            }
            Source::Piped(pipe) => self.write.write_part(&mut call, at, PartData::Pipe(pipe)),
        };
        if was_last {
            finish_write(&self.connection, &self.write, call);
        }
        self.connection.resume_if_paused();
    }
}

/// Answers a long WRITE whose parts are all written.
pub fn finish_write(connection: &Connection, write: &LargeWrite, mut call: Call<'_>) {
    let mut replies = Replies::default();
    write.finish(&mut call, &mut replies);
    if let Err(error) = call.pending.sync_all() {
        flush_failed(connection, error);
        replies.clear();
        write.fail(error, &mut replies);
    }
    connection.send(&mut replies);
    if let Some(completed) = call.completed(Kind::Write) {
        let mut counters = OpCounters::default();
        counters.add(completed);
        counters.count(write.began().elapsed(), |volume| connection.note_volume(volume));
    }
    connection.answered(1);
}

/// A call that may wait.
pub fn call<'c>(
    service: &'c Service,
    namespace: &'c Namespace,
    connection: &Connection,
    claim: Option<Caller>,
    pending: &'c mut PendingSync,
) -> Call<'c> {
    let Connection { peer, local, .. } = *connection;
    Call {
        service,
        namespace,
        peer,
        local,
        claim,
        now: clock::now(),
        blocking: Blocking::Allowed,
        cache: None,
        pending,
        stats: CallStats::default(),
    }
}

/// Nothing that waited for this flush may be acknowledged; that unstable writes may be lost as well, the volume's write
/// verifier tells from now on.
fn flush_failed(connection: &Connection, error: FsError) {
    tracing::error!(peer = %connection.peer, %error, "a flush failed; its calls are answered with an error");
}

impl<'j> Batch<'j> {
    /// No calls yet.
    pub fn new(
        service: &'j Service,
        namespace: &'j Namespace,
        connection: &'j Arc<Connection>,
        cache: Option<&'j mut HandleCache>,
        received: Instant,
    ) -> Self {
        Self {
            service,
            namespace,
            connection,
            cache,
            ready: Replies::default(),
            held: Replies::default(),
            held_calls: Vec::new(),
            doing: None,
            pending: PendingSync::default(),
            handed_over: 0,
            received,
            counters: OpCounters::default(),
            held_counters: OpCounters::default(),
            read_from: None,
        }
    }

    /// Replies that may leave at once.
    pub fn ready(&mut self) -> &mut Replies {
        &mut self.ready
    }

    /// Sends the replies that may leave at once.
    pub fn send_ready(&mut self) {
        self.connection.send(&mut self.ready);
        self.counters.count(self.received.elapsed(), |volume| self.connection.note_volume(volume));
    }

    /// Does a call if it need not wait. If it must, for data: where that is.
    pub fn try_now(&mut self, routed: &Routed<'_>) -> Result<(), Option<ReadFrom>> {
        let mut call = call(self.service, self.namespace, self.connection, routed.claim, &mut self.pending);
        call.blocking = Blocking::Never;
        call.cache = self.cache.as_deref_mut();
        if !routed.perform(&mut call, &mut self.ready) {
            return Err(call.stats.read_from);
        }
        refund(routed, call.peer.ip(), call.service, call.namespace, call.stats.used());
        if let Some(completed) = call.completed(routed.kind()) {
            self.counters.add(completed);
        }
        Ok(())
    }

    /// Does one call, unless it was done before.
    pub fn take(&mut self, record: &'j [u8]) {
        // The event loop has routed this record already, so it is a call and was not refused.
        let Ok(Some(routed)) = route(self.connection.programs, record, &mut self.ready) else { return };
        self.take_routed(routed, record);
    }

    /// As [`Batch::take`], for a record that has been routed.
    pub fn take_routed(&mut self, routed: Routed<'j>, record: &[u8]) {
        let key = self.replay_key(&routed, record);
        if let (Some(key), Some(cache)) = (&key, &self.service.replay) {
            let connection = self.connection;
            match cache.begin(key, || Arc::clone(connection) as Arc<dyn Waiter>) {
                Verdict::New => {}
                Verdict::Waits => {
                    self.handed_over += 1;
                    return self.refund_all(&routed);
                }
                Verdict::Replay(reply) => {
                    self.ready.push_record(&reply);
                    return self.refund_all(&routed);
                }
            }
        }
        self.perform(routed, key);
    }

    fn replay_key(&self, routed: &Routed<'_>, record: &[u8]) -> Option<CallKey> {
        match routed.target {
            Target::Nfs(procedure) if routed.dispatch() == Dispatch::NonIdempotent => {
                let cache = self.service.replay.as_ref()?;
                Some(cache.key(self.connection.peer, routed.xid, procedure.0, record))
            }
            _ => None,
        }
    }

    fn perform(&mut self, routed: Routed<'j>, key: Option<CallKey>) {
        if routed.reply_bytes_max() > 0 && self.connection.is_flooded() {
            self.refund_all(&routed);
            return routed.fail(FsError::Delay, &mut self.ready);
        }
        self.doing = key;
        let start = self.held.start();
        let added = self.pending.added();
        let mut call = call(self.service, self.namespace, self.connection, routed.claim, &mut self.pending);
        call.cache = self.cache.as_deref_mut();
        call.stats.read_from = self.read_from;
        if !routed.perform(&mut call, &mut self.held) {
            // A backend that will not wait where it may: the client asks again (NFS3ERR_JUKEBOX is for this).
            routed.fail(FsError::Delay, &mut self.held);
        }
        refund(&routed, call.peer.ip(), call.service, call.namespace, call.stats.used());
        let completed = call.completed(routed.kind());
        self.doing = None;
        let is_held = self.pending.added() > added;
        if let Some(completed) = completed {
            if is_held { &mut self.held_counters } else { &mut self.counters }.add(completed);
        }
        if is_held {
            self.held_calls.push(Held { routed, key, start });
        } else {
            self.complete(key.as_ref(), start);
            self.ready.append_from(&mut self.held, start);
        }
    }

    /// Pays back everything: the call is not done.
    fn refund_all(&self, routed: &Routed<'_>) {
        refund(routed, self.connection.peer.ip(), self.service, self.namespace, 0);
    }

    /// Sends what may leave, performs the pending flushes, sends the rest. How many of `calls` have been
    /// answered; others answer the rest.
    pub fn finish(mut self, calls: usize) -> usize {
        if !self.ready.is_empty() {
            self.send_ready();
        }
        if !self.held_calls.is_empty() {
            self.sync_pending();
        }
        calls - self.handed_over
    }

    fn sync_pending(&mut self) {
        match self.pending.sync_all() {
            Ok(()) => {
                for held in std::mem::take(&mut self.held_calls) {
                    self.complete(held.key.as_ref(), held.start);
                }
            }
            Err(error) => self.fail_held(error),
        }
        self.connection.send(&mut self.held);
        self.held_counters.count(self.received.elapsed(), |volume| self.connection.note_volume(volume));
    }

    /// Answers all calls that waited for a failed flush with its error.
    fn fail_held(&mut self, error: FsError) {
        flush_failed(self.connection, error);
        let mut failed = Replies::default();
        for held in std::mem::take(&mut self.held_calls) {
            let start = failed.start();
            held.routed.fail(error, &mut failed);
            if let (Some(key), Some(cache), Some(reply)) =
                (&held.key, &self.service.replay, failed.record(start))
            {
                cache.complete(key, reply);
            }
        }
        self.held = failed;
    }

    /// Answers nothing: a panic is on its way. What was begun may be asked again.
    fn give_up(&mut self) {
        let Some(cache) = &self.service.replay else { return };
        let held = self.held_calls.iter().filter_map(|held| held.key);
        self.doing.into_iter().chain(held).for_each(|key| cache.abandon(&key));
    }

    fn complete(&self, key: Option<&CallKey>, start: Start) {
        let (Some(key), Some(cache)) = (key, &self.service.replay) else { return };
        match self.held.record(start) {
            Some(reply) => cache.complete(key, reply),
            None => cache.abandon(key),
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.give_up();
        }
    }
}

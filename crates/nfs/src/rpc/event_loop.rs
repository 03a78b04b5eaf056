//! One event loop for each core: receives calls, answers at once what can be answered at once, hands on the rest.

mod mailbox;
mod ready;
mod spill;
mod stream;

pub use mailbox::{Mailbox, Message};

use super::admission::{admit, refund};
use super::buffer::{Buffer, BufferPool};
use super::clients::{Clients, Counted};
use super::connection::Connection;
use super::dispatch::{Dispatch, Programs, Routed, route};
use super::job::{Bytes, Job};
use super::lease::{ConnectionLease, Rest};
use super::limit_queue::{LimitQueue, Totals};
use super::pacing::ReplyPacing;
use super::pool::Pool;
use super::record::{Assembly, Frame, parse_frame};
use super::registry::Registry;
use super::reply::Replies;
use super::server::Settings;
use super::stream::{HEAD_BYTES, Stream, is_long};
use crate::cache::HandleCache;
use crate::call::{Call, CallStats};
use crate::clock;
use crate::counters::OpCounters;
use crate::limits::{
    BUFFER_BYTES, CACHED_NAMES, COPIED_BYTES_MAX, SCARCE_RECEIVE_BYTES, TURN_BYTES_MAX, TURN_CALLS_MAX,
};
use crate::service::Service;
use mailbox::WAKE;
use nfs_wire::rpc::RecordMark;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use vfs::traffic::ReadFrom;
use vfs::{Blocking, Namespace, PendingSync, Time, panics};
use xdr::Malformed;

/// What all event loops of a server share.
pub struct Shared {
    /// The service.
    pub service: Arc<Service>,
    /// Where queued calls go.
    pub pool: Arc<Pool<Job>>,
    /// Where receive buffers come from.
    pub buffers: Arc<BufferPool>,
    /// Connections of all loops.
    pub connections: AtomicUsize,
    /// What each client takes.
    pub clients: Clients,
    /// No new calls are taken.
    pub stopping: AtomicBool,
    /// Bytes of replies that clients have not read.
    pub unread: Arc<AtomicUsize>,
    /// What is queued for the limits of volumes.
    pub limit_queues: Arc<Totals>,
    /// Bytes of unfinished calls outside of receive buffers.
    pub spilled: AtomicUsize,
    /// Who is connected.
    pub registry: Registry,
    /// Handles that were remembered, and those that were not.
    pub hits: AtomicU64,
    /// See `hits`.
    pub misses: AtomicU64,
    /// Connections that storage threads have leased.
    pub leases: AtomicUsize,
    /// How the server runs.
    pub settings: Settings,
    /// All event loops.
    pub loops: Vec<Arc<Mailbox>>,
}

const EVENTS_MAX: usize = 256;
/// The loop looks around at least this often.
const TICK: Duration = Duration::from_secs(1);
/// Ticks between two sweeps of what the thread remembers.
const SWEEP_TICKS: u32 = 2;
/// Calls shorter than this are cheaper moved than guessed.
const BOUNDARY_BYTES_MIN: usize = 16 << 10;

/// The half of a connection that only its event loop touches.
struct Inbound {
    connection: Arc<Connection>,
    /// Received and not dealt with.
    buffer: Option<Buffer>,
    /// A WRITE longer than a buffer, being received.
    stream: Option<Stream>,
    /// The long call at the front of the buffer is not one for a leased connection.
    is_for_loop: bool,
    assembly: Assembly,
    /// Queued calls that may go on.
    ready: VecDeque<u64>,
    /// The length of the call, mark included, that was incomplete last: the next ones are probably as long.
    expected: usize,
    /// What of `buffer` was spilled when buffers were scarce.
    spilled: spill::Spilled,
    /// The client sends no more, and waits for what it has asked.
    is_ending: bool,
    /// The tick at which bytes last came or went.
    moved: u32,
    /// The tick at which the call that is coming in began.
    began: u32,
}

/// An event loop.
pub struct EventLoop {
    mailbox: Arc<Mailbox>,
    shared: Arc<Shared>,
    connections: HashMap<u64, Inbound>,
    next_token: u64,
    cache: HandleCache,
    namespace: Arc<Namespace>,
    replies: Replies,
    /// What the calls have done whose replies are in `replies`.
    counters: OpCounters,
    pending: PendingSync,
    /// Connections that wait for a receive buffer.
    paused_for_buffer: Vec<u64>,
    /// Connections with queued calls that may go on.
    with_ready: Vec<u64>,
    /// Connections that have more calls than fitted into their turn.
    again: Vec<u64>,
    /// Only one connection has something to say in this round.
    is_alone: bool,
    ticks: u32,
    stop: Option<Instant>,
}

/// Why a connection ends.
enum End {
    /// The client closed it.
    Closed,
    /// It cannot be understood or it broke.
    Error(String),
}

impl Inbound {
    /// Receives the rest of a long WRITE no more: it will not be answered.
    fn give_up_stream(&mut self) {
        if self.stream.take().is_some_and(|stream| !stream.is_whole()) {
            self.connection.answered(1);
        }
    }
}

impl EventLoop {
    /// A loop that is reached through `mailbox`.
    pub fn new(mailbox: Arc<Mailbox>, shared: Arc<Shared>) -> Self {
        let namespace = shared.service.namespace.load_full();
        let cache = HandleCache::new(shared.settings.handles, CACHED_NAMES);
        Self {
            mailbox,
            shared,
            connections: HashMap::new(),
            next_token: 0,
            cache,
            namespace,
            replies: Replies::default(),
            counters: OpCounters::default(),
            pending: PendingSync::default(),
            paused_for_buffer: Vec::new(),
            with_ready: Vec::new(),
            again: Vec::new(),
            is_alone: false,
            ticks: 0,
            stop: None,
        }
    }

    /// Runs until it is stopped.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut last_tick = Instant::now();
        let tick = Timespec { tv_sec: 1, tv_nsec: 0 };
        while !self.is_finished() {
            let patience = if self.again.is_empty() { &tick } else { &Timespec::default() };
            match epoll::wait(
                &self.mailbox.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(patience),
            ) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.is_alone = events.len() + self.again.len() == 1;
            for event in events.drain(..) {
                let token = event.data.u64();
                if token == WAKE {
                    self.read_all();
                } else {
                    self.guard(token, |own| own.handle(token, event.flags));
                }
            }
            for token in std::mem::take(&mut self.again) {
                self.guard(token, |own| own.go_on(token));
            }
            if self.is_crowded() {
                self.shed();
            }
            if last_tick.elapsed() >= TICK {
                last_tick = Instant::now();
                self.tick();
            }
        }
        // What is on its way still arrives; closing alone could cut it off where calls lie unread.
        for inbound in self.connections.values() {
            let _ = inbound.connection.socket.shutdown(Shutdown::Write);
        }
        Ok(())
    }

    fn is_finished(&self) -> bool {
        self.stop.is_some_and(|deadline| {
            Instant::now() >= deadline
                || !self.connections.values().any(|inbound| inbound.connection.is_busy())
        })
    }

    /// Does something for a connection. Should that panic, the connection ends, and no other one.
    fn guard(&mut self, token: u64, work: impl FnOnce(&mut Self)) {
        if panics::catch(|| work(self)).is_ok() {
            return;
        }
        // What the work has left half done is not used.
        (self.replies, self.counters, self.pending) = Default::default();
        self.cache = HandleCache::new(self.shared.settings.handles, CACHED_NAMES);
        if let Some(inbound) = self.connections.get(&token) {
            tracing::error!(peer = %inbound.connection.peer, "a call panicked; its connection is closed");
            inbound.connection.close();
        }
        self.end(token, &End::Closed);
    }

    /// Reads what other threads have to say.
    fn read_all(&mut self) {
        for message in self.mailbox.collect() {
            let token = message.token();
            self.guard(token, |own| own.read(message));
        }
        for token in std::mem::take(&mut self.with_ready) {
            self.guard(token, |own| own.do_ready(token));
        }
    }

    fn handle(&mut self, token: u64, flags: EventFlags) {
        let Some(inbound) = self.connections.get_mut(&token) else { return };
        if flags.contains(EventFlags::OUT) {
            inbound.moved = self.ticks;
            let connection = Arc::clone(&inbound.connection);
            connection.send_queued();
            let goes_on = connection.is_paused() && connection.may_take_calls(0) || inbound.is_ending;
            self.do_ready(token);
            if goes_on {
                self.resume(token);
            }
        }
        if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            // Closed in both directions: nobody would hear the answers.
            self.end(token, &End::Closed);
        } else if flags.contains(EventFlags::IN) {
            let result = self.receive(token);
            self.end_on_error(token, result);
        }
    }

    fn read(&mut self, message: Message) {
        match message {
            Message::Accepted(socket, peer, programs, client) => {
                if let Err(error) = self.adopt(socket, peer, programs, client) {
                    self.shared.connections.fetch_sub(1, Ordering::Relaxed);
                    tracing::warn!(%peer, %error, "cannot watch a connection");
                }
            }
            Message::Resume(token) => self.resume(token),
            Message::Released(token, rest) => self.reclaim(token, rest),
            Message::Ready(token, number) => self.note_ready(token, number),
            Message::BuffersScarce => self.spill(),
            Message::BuffersFree => {
                for token in std::mem::take(&mut self.paused_for_buffer) {
                    self.guard(token, |own| own.resume(token));
                }
            }
            Message::Stop(deadline) => {
                self.stop = Some(deadline);
                self.shared.stopping.store(true, Ordering::SeqCst);
                self.again.clear();
                for inbound in self.connections.values_mut() {
                    inbound.connection.set_paused(true);
                    inbound.connection.limit_queue.forget();
                    inbound.ready.clear();
                    inbound.give_up_stream();
                }
            }
        }
    }

    fn adopt(
        &mut self,
        socket: TcpStream,
        peer: SocketAddr,
        programs: Programs,
        client: Counted,
    ) -> io::Result<()> {
        let token = self.next_token;
        self.next_token += 1;
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        rustix::net::sockopt::set_socket_keepalive(&socket, true)?;
        epoll::add(&self.mailbox.epoll, &socket, EventData::new_u64(token), EventFlags::IN)?;
        let local = socket.local_addr()?.ip();
        let connection = Connection::new(
            socket,
            (peer, local),
            programs,
            token,
            Arc::clone(&self.mailbox),
            Arc::clone(&self.shared.unread),
            LimitQueue::new(&self.shared.limit_queues, client),
        );
        let connection = Arc::new(connection);
        self.shared.registry.add(&connection);
        let inbound = Inbound {
            connection,
            buffer: None,
            stream: None,
            is_for_loop: false,
            assembly: Assembly::default(),
            ready: VecDeque::new(),
            expected: 0,
            spilled: spill::Spilled::default(),
            is_ending: false,
            moved: self.ticks,
            began: self.ticks,
        };
        self.connections.insert(token, inbound);
        Ok(())
    }

    /// Goes on with a connection that stopped taking calls: first with what it has received already.
    fn resume(&mut self, token: u64) {
        let Some(inbound) = self.connections.get_mut(&token) else { return };
        if self.stop.is_some() || inbound.connection.is_leased() || !inbound.connection.is_paused() {
            return;
        }
        if !inbound.is_ending {
            inbound.connection.set_paused(false);
            inbound.began = self.ticks;
        }
        self.go_on(token);
    }

    /// Receives again what a storage thread received for a while.
    fn reclaim(&mut self, token: u64, rest: Rest) {
        let Some(inbound) = self.connections.get_mut(&token) else { return };
        inbound.connection.reclaim();
        (inbound.buffer, inbound.stream, inbound.is_for_loop) = (rest.buffer, rest.stream, rest.is_refused);
        inbound.moved = self.ticks;
        if self.stop.is_some() {
            inbound.give_up_stream();
        }
        if inbound.connection.may_take_calls(0) || inbound.is_ending {
            self.resume(token);
        }
    }

    /// Deals with what a connection has received already.
    fn go_on(&mut self, token: u64) {
        let Some(inbound) = self.connections.get_mut(&token) else { return };
        if inbound.buffer.is_some() || inbound.has_spilled() {
            match inbound.take_buffer(&self.shared) {
                Some(buffer) => {
                    let result = self.serve(token, buffer);
                    self.end_on_error(token, result);
                }
                None => return self.pause_for_buffer(token),
            }
        }
        self.end_if_answered(token);
    }

    fn receive(&mut self, token: u64) -> Result<(), End> {
        let Some(inbound) = self.connections.get_mut(&token) else { return Ok(()) };
        if inbound.connection.is_leased() {
            return Ok(());
        }
        inbound.moved = self.ticks;
        if inbound.stream.as_ref().is_some_and(Stream::wants_pipe)
            && let Some(result) = self.receive_piped(token)
        {
            return result;
        }
        let Some(inbound) = self.connections.get_mut(&token) else { return Ok(()) };
        if !inbound.is_partial() {
            inbound.began = self.ticks;
        }
        let Some(mut buffer) = inbound.take_buffer(&self.shared) else {
            self.pause_for_buffer(token);
            return Ok(());
        };
        if buffer.room().len() < BUFFER_BYTES / 2 {
            buffer.compact();
        }
        if buffer.room().is_empty() {
            return self.serve(token, buffer);
        }
        let mut most = up_to_a_boundary(buffer.room().len(), buffer.bytes().len(), inbound.expected);
        if self.shared.limit_queues.is_crowded() {
            most = most.min(SCARCE_RECEIVE_BYTES);
        }
        match (&inbound.connection.socket).read(&mut buffer.room()[..most]) {
            Ok(0) => {
                inbound.buffer = (!buffer.is_done()).then_some(buffer);
                inbound.give_up_stream();
                inbound.is_ending = true;
                inbound.connection.set_paused(true);
                self.go_on(token);
                Ok(())
            }
            Ok(count) => {
                buffer.filled += count;
                self.serve(token, buffer)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                inbound.buffer = (!buffer.is_done()).then_some(buffer);
                Ok(())
            }
            Err(error) => Err(End::Error(error.to_string())),
        }
    }

    /// Lets a connection go whose client sends no more and has all its answers.
    fn end_if_answered(&mut self, token: u64) {
        let Some(inbound) = self.connections.get(&token) else { return };
        let is_answered = !inbound.connection.is_busy() && inbound.connection.limit_queue.is_empty();
        if inbound.is_ending && is_answered && !self.again.contains(&token) {
            self.end(token, &End::Closed);
        }
    }

    /// Takes every complete call in `buffer`, and keeps the rest.
    fn serve(&mut self, token: u64, mut buffer: Buffer) -> Result<(), End> {
        if self.connections.get(&token).is_some_and(|inbound| inbound.stream.is_some()) {
            match self.stream(token, buffer) {
                Some(rest) => buffer = rest,
                None => return Ok(()),
            }
        }
        let Some(inbound) = self.connections.get_mut(&token) else { return Ok(()) };
        let connection = Arc::clone(&inbound.connection);
        let mut assembly = std::mem::take(&mut inbound.assembly);
        self.refresh_namespace();
        let (now, received) = (clock::now(), Instant::now());
        let mut batch: Vec<Range<usize>> = Vec::new();
        let (mut streams, mut progress, mut expected) = (false, false, 0);
        let mut pacing = ReplyPacing::new(buffer.bytes().len(), self.is_alone);
        for turn in 0.. {
            if self.turn_ends(turn, token) || !self.may_go_on(&connection, batch.len()) {
                break;
            }
            if assembly.is_inside() {
                self.assemble(&connection, &mut assembly, &mut buffer)?;
                progress |= !assembly.is_partial();
                if assembly.is_inside() {
                    break;
                }
            }
            match parse_frame(buffer.bytes(), assembly.is_partial()).map_err(malformed)? {
                Frame::Record(range) => {
                    let record = buffer.start + range.start..buffer.start + range.end;
                    buffer.start = record.end;
                    progress = true;
                    if self.answer_now(&connection, &buffer.all()[record.clone()], now)? {
                        batch.push(record.clone());
                    }
                    if pacing.end_with(record.len()) && !self.replies.is_empty() {
                        self.send(&connection, received);
                    }
                }
                Frame::Fragment(length, last) => {
                    buffer.start += RecordMark::SIZE;
                    assembly.begin(length, last).map_err(malformed)?;
                    self.assemble(&connection, &mut assembly, &mut buffer)?;
                    progress |= !assembly.is_partial();
                }
                Frame::Incomplete(length) => {
                    streams = is_long(length, buffer.bytes().len());
                    expected = length;
                    break;
                }
            }
        }
        self.send(&connection, received);
        let leased = streams && !self.connections.get(&token).is_some_and(|inbound| inbound.is_for_loop);
        let rest = self.hand_over(&connection, buffer, batch, leased, assembly.is_partial());
        let Some(inbound) = self.connections.get_mut(&token) else { return Ok(()) };
        inbound.assembly = assembly;
        inbound.expected = expected;
        inbound.count_spilled(&self.shared.spilled);
        if progress {
            inbound.began = self.ticks;
        }
        match rest {
            Some(rest) if streams => self.begin_long(token, rest),
            rest => {
                inbound.buffer = rest;
                Ok(())
            }
        }
    }

    /// Takes the bytes of a fragment, and the call that it may complete.
    fn assemble(
        &mut self,
        connection: &Arc<Connection>,
        assembly: &mut Assembly,
        buffer: &mut Buffer,
    ) -> Result<(), End> {
        let (taken, whole) = assembly.take(buffer.bytes());
        buffer.start += taken;
        let Some(record) = whole else { return Ok(()) };
        connection.limit_queue.unreserve();
        self.take_record(connection, &record)
    }

    /// Whether it is the next connection's turn; this one has another one later.
    fn turn_ends(&mut self, calls: u32, token: u64) -> bool {
        let ends = calls == TURN_CALLS_MAX || self.replies.pending() >= TURN_BYTES_MAX;
        if ends {
            self.again.push(token);
        }
        ends
    }

    /// Whether another call may be taken now; if not, the connection is paused until it may.
    fn may_go_on(&self, connection: &Connection, batched: usize) -> bool {
        if connection.may_take_calls(batched) {
            return true;
        }
        connection.set_paused(true);
        // What the pause waits for may have happened before it began.
        if connection.may_take_calls(batched) {
            connection.set_paused(false);
        }
        !connection.is_paused()
    }

    /// Tries a call on this thread. True: it is one of those that go on together.
    fn answer_now(&mut self, connection: &Arc<Connection>, record: &[u8], now: Time) -> Result<bool, End> {
        let Some(routed) = route(connection.programs, record, &mut self.replies).map_err(malformed)? else {
            return Ok(false);
        };
        let (shared, namespace) = (&self.shared, &self.namespace);
        if !admit(&routed, record, connection, shared, namespace, &mut self.replies) {
            return Ok(false);
        }
        match routed.dispatch() {
            Dispatch::Inline => {
                if let Err(read_from) = self.perform(connection, &routed, now) {
                    self.offload(connection, record, routed.reply_bytes_max(), read_from);
                }
            }
            Dispatch::Offload => self.offload(connection, record, routed.reply_bytes_max(), None),
            Dispatch::Batched | Dispatch::NonIdempotent => return Ok(true),
        }
        Ok(false)
    }

    /// Takes a call that does not lie in a receive buffer.
    fn take_record(&mut self, connection: &Arc<Connection>, record: &[u8]) -> Result<(), End> {
        if self.answer_now(connection, record, clock::now())? {
            self.offload(connection, record, 0, None);
        }
        Ok(())
    }

    /// Does a call if it need not wait. If it must, for data: where that is.
    #[inline(always)]
    fn perform(
        &mut self,
        connection: &Connection,
        routed: &Routed<'_>,
        now: Time,
    ) -> Result<(), Option<ReadFrom>> {
        let mut call = Call {
            service: &self.shared.service,
            namespace: &self.namespace,
            peer: connection.peer,
            local: connection.local,
            claim: routed.claim,
            now,
            blocking: Blocking::Never,
            cache: Some(&mut self.cache),
            pending: &mut self.pending,
            stats: CallStats::default(),
        };
        if !routed.perform(&mut call, &mut self.replies) {
            return Err(call.stats.read_from);
        }
        refund(routed, call.peer.ip(), call.service, call.namespace, call.stats.used());
        if let Some(completed) = call.completed(routed.kind()) {
            self.counters.add(completed);
        }
        Ok(())
    }

    /// Sends what has been answered of what was received at one time.
    fn send(&mut self, connection: &Connection, received: Instant) {
        if !self.replies.is_empty() {
            connection.send(&mut self.replies);
            self.counters.count(received.elapsed(), |volume| connection.note_volume(volume));
        }
    }

    fn offload(
        &self,
        connection: &Arc<Connection>,
        record: &[u8],
        reply_bytes_max: u32,
        read_from: Option<ReadFrom>,
    ) {
        self.shared.pool.submit(Job::alone(connection, record, reply_bytes_max, read_from));
    }

    /// Hands on the calls of one receive. Where the storage thread may lease the connection, it gets all that
    /// was received; elsewhere what is left to deal with comes back.
    fn hand_over(
        &self,
        connection: &Arc<Connection>,
        buffer: Buffer,
        batch: Vec<Range<usize>>,
        streams: bool,
        partial: bool,
    ) -> Option<Buffer> {
        let is_calm = !self.shared.pool.is_pressed() && self.shared.buffers.is_plentiful();
        let may_keep = is_calm && !partial && self.stop.is_none();
        match (batch.is_empty(), streams) {
            (false, _) | (true, true) if may_keep => {}
            (false, _) => return self.submit_batch(connection, buffer, batch),
            (true, _) => return (!buffer.is_done()).then_some(buffer),
        }
        let lease = ConnectionLease::new(connection, &self.shared, buffer);
        self.shared.pool.submit(Job::leased(lease, connection, batch));
        None
    }

    /// Hands on the calls of one receive, with the buffer they lie in unless they are few; what is left to deal with
    /// comes back.
    fn submit_batch(
        &self,
        connection: &Arc<Connection>,
        buffer: Buffer,
        batch: Vec<Range<usize>>,
    ) -> Option<Buffer> {
        let rest = |buffer: Buffer| (!buffer.is_done()).then_some(buffer);
        let bytes: usize = batch.iter().map(Range::len).sum();
        let fresh = if buffer.is_done() { None } else { self.shared.buffers.take() };
        if bytes <= COPIED_BYTES_MAX || (fresh.is_none() && !buffer.is_done()) {
            let mut copied = Vec::with_capacity(bytes);
            let place = |range: Range<usize>| {
                let start = copied.len();
                copied.extend_from_slice(&buffer.all()[range]);
                start..copied.len()
            };
            let records = batch.into_iter().map(place).collect();
            self.shared.pool.submit(Job::calls(connection, Bytes::Copied(copied), records));
            return rest(buffer);
        }
        let fresh = fresh.map(|mut fresh| {
            fresh.put(buffer.bytes());
            fresh
        });
        self.shared.pool.submit(Job::calls(connection, Bytes::Received(buffer), batch));
        fresh
    }

    /// Takes up a new namespace, forgetting what was remembered of exports that changed.
    fn refresh_namespace(&mut self) {
        let current = self.shared.service.namespace.load();
        if !Arc::ptr_eq(&current, &self.namespace) {
            self.cache.change(&self.namespace, &current);
            self.namespace = Arc::clone(&current);
        }
    }

    fn tick(&mut self) {
        self.ticks += 1;
        self.shed();
        let (hits, misses) = self.cache.take_counts();
        self.shared.hits.fetch_add(hits, Ordering::Relaxed);
        self.shared.misses.fetch_add(misses, Ordering::Relaxed);
        if self.ticks.is_multiple_of(SWEEP_TICKS) {
            self.cache.sweep();
        }
        let (ticks, stalled_s) = (self.ticks, self.shared.settings.stalled_s);
        let stalled = |inbound: &Inbound| {
            let half = inbound.is_partial() && !inbound.connection.is_paused();
            let rests = inbound.stream.is_some() || inbound.connection.has_unread();
            half && ticks - inbound.began > stalled_s || rests && ticks - inbound.moved > stalled_s
        };
        self.end_all("neither half a call nor unread replies have moved for too long", stalled);
        let idle_s = self.shared.settings.idle_s;
        let idle = |inbound: &Inbound| {
            let waits = inbound.connection.is_busy() || !inbound.connection.limit_queue.is_empty();
            ticks - inbound.moved > idle_s && !waits && !inbound.connection.is_leased()
        };
        self.end_all("no call has come for too long", idle);
    }

    /// Ends all connections of this kind.
    fn end_all(&mut self, why: &'static str, are: impl Fn(&Inbound) -> bool) {
        let ending: Vec<u64> =
            self.connections.iter().filter(|(_, inbound)| are(inbound)).map(|(&token, _)| token).collect();
        ending.into_iter().for_each(|token| self.end(token, &End::Error(why.into())));
    }

    fn end_on_error(&mut self, token: u64, result: Result<(), End>) {
        if let Err(end) = result {
            self.replies.clear();
            self.counters = OpCounters::default();
            self.end(token, &end);
        }
    }

    /// Lets a connection go. The socket closes when the last call that waits is done.
    fn end(&mut self, token: u64, end: &End) {
        let Some(inbound) = self.connections.remove(&token) else { return };
        if let End::Error(why) = end {
            tracing::debug!(peer = %inbound.connection.peer, why, "connection ended");
        }
        inbound.uncount_spilled(&self.shared.spilled);
        let _ = epoll::delete(&self.mailbox.epoll, &inbound.connection.socket);
        self.shared.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How much to receive so that, if calls go on being `expected` bytes long, the last one is received whole: then nothing
/// is left behind to be moved when the buffer goes to a storage thread. `have` bytes of the first are there. Of a call
/// that is longer than a buffer, only the head: the rest goes another way.
pub(super) fn up_to_a_boundary(room: usize, have: usize, expected: usize) -> usize {
    if expected > BUFFER_BYTES && have < HEAD_BYTES {
        return room.min(HEAD_BYTES - have);
    }
    match expected.checked_sub(have) {
        Some(first) if expected >= BOUNDARY_BYTES_MIN && first <= room => {
            first + (room - first) / expected * expected
        }
        _ => room,
    }
}

fn malformed(error: Malformed) -> End {
    End::Error(error.to_string())
}

//! The sending half of a connection, shared by all threads: every thread sends its own replies.

use crate::clients::{ConnectionGuard, Evictable};
use crate::clock;
use crate::congestion;
use crate::context::DeferredReply;
use crate::limits::{
    CALLS_IN_PROGRESS_MAX, CONNECTION_VOLUMES_MAX, TURN_BYTES_MAX, UNREAD_REPLY_BYTES_MAX,
    UNREAD_TOTAL_BYTES_FULL, UNREAD_TOTAL_BYTES_MAX,
};
use crate::message::{ConnectionEnds, Endpoints, Malformed};
use crate::outbox::Outbox;
use crate::protocol::Protocol;
use crate::queue::{Queue, Queued};
use crate::resources::Resources;
use crate::stall::Stall;
use crate::tls::handshake::Handshake;
use crate::tls::transform::{KernelOffload, Plaintext, Transform};
use rustix::event::epoll::{self, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::connect_unspec;
use rustix::net::sockopt::{set_socket_linger, set_tcp_user_timeout};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, Weak};
use std::time::{Duration, Instant};
use vfs::bounds::Network;
use vfs::qos::Permit;
use vfs::sync::Mutex;
use vfs::{Protection, VolumeId};

pub(crate) trait LoopHandle<P: Protocol>: Send + Sync {
    fn resume(&self, token: u64);
    fn admit(&self, token: u64, number: u64, permit: Permit);
    fn submit(&self, connection: &Arc<Connection<P>>, work: Work<P>);
}

pub(crate) enum Work<P: Protocol> {
    Call {
        call: P::Call,
        message: Vec<u8>,
        permit: Option<Permit>,
        received: Instant,
    },
    /// A call that needs storage, or the tokens that it now has.
    Resume {
        at: P::Continuation,
        permit: Option<Permit>,
        received: Instant,
    },
}

pub(crate) struct Watch<P: Protocol> {
    pub(crate) event_loop: Box<dyn LoopHandle<P>>,
    pub(crate) token: u64,
    /// The epoll instance of the loop. Any thread may change the events that it waits for.
    pub(crate) epoll: Arc<OwnedFd>,
}

pub struct Connection<P: Protocol> {
    pub session: P::Session,
    pub endpoints: Endpoints,
    /// The socket, in non-blocking mode.
    pub(crate) socket: TcpStream,
    pub(crate) protocol: Arc<P>,
    pub(crate) resources: Arc<Resources>,
    watch: Watch<P>,
    outgoing: Mutex<Outgoing>,
    coalesces: bool,
    /// Calls in progress on storage threads.
    in_progress: AtomicU32,
    /// Bytes of replies that the client has not read: a copy of the value in `outgoing`, to be read without the lock.
    unread: AtomicUsize,
    pub(crate) long_reply_bytes: AtomicUsize,
    /// Whether the event loop has stopped taking calls and waits for `resume`.
    paused: AtomicBool,
    /// Whether a storage thread receives in place of the event loop, which must wait for the connection's return.
    leased: AtomicBool,
    /// Whether bytes pass through a transform, and its [`Protection`]: copies of the values in `outgoing`.
    transformed: AtomicBool,
    protection: AtomicU8,
    is_handshaking: AtomicBool,
    pub(crate) queue: Queue<Queued<P::Call, P::Continuation>>,
    /// The volumes of past calls, each with the time of its last reply ([`clock::coarse_ms`]).
    volumes: Mutex<Vec<(VolumeId, u64)>>,
    /// The most recent volume and its time. They are separate so that calls to the same volume need no lock.
    last_volume: AtomicU64,
    last_used: AtomicU64,
    /// The end of the short TCP user timeout ([`clock::coarse_ms`]); 0 if none is set.
    user_timeout_until: AtomicU64,
    standing: AtomicU8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Standing {
    /// The connection ends at the deadline.
    New,
    /// The connection has no deadline, but may be evicted.
    Tolerated,
    /// The connection is never evicted.
    Proven,
}

struct Outgoing {
    queue: Outbox,
    /// Memory of the queue, as counted in the total of unread replies.
    counted_bytes: usize,
    transform: Option<Box<dyn Transform>>,
    /// The bytes that the kernel may still send with its TLS keys.
    kernel_bytes_left: Option<u64>,
    handshake: Option<Handshake>,
    /// The events that the loop shall wait for, and those that it waits for.
    reads: bool,
    writes: bool,
    watched: EventFlags,
    is_broken: bool,
    user_timeout: Option<Duration>,
    /// An unanswered retransmission from before the timeout was set: the kernel may check the timeout too late.
    stall: Option<Stall>,
}

impl<P: Protocol> Connection<P> {
    pub(crate) fn new(
        protocol: &Arc<P>,
        session: P::Session,
        socket: TcpStream,
        endpoints: Endpoints,
        watch: Watch<P>,
        client: ConnectionGuard,
        resources: &Arc<Resources>,
    ) -> Self {
        let outgoing = Outgoing {
            queue: Outbox::default(),
            counted_bytes: 0,
            transform: None,
            kernel_bytes_left: None,
            handshake: None,
            reads: true,
            writes: false,
            watched: EventFlags::IN,
            is_broken: false,
            user_timeout: None,
            stall: None,
        };
        Self {
            session,
            endpoints,
            coalesces: congestion::coalesces_replies(&socket),
            socket,
            queue: Queue::new(&resources.queued, client),
            protocol: Arc::clone(protocol),
            resources: Arc::clone(resources),
            watch,
            outgoing: Mutex::new(outgoing),
            in_progress: AtomicU32::new(0),
            unread: AtomicUsize::new(0),
            long_reply_bytes: AtomicUsize::new(0),
            paused: AtomicBool::new(false),
            leased: AtomicBool::new(false),
            transformed: AtomicBool::new(false),
            protection: AtomicU8::new(Protection::Plain as u8),
            is_handshaking: AtomicBool::new(false),
            volumes: Mutex::default(),
            last_volume: AtomicU64::new(0),
            last_used: AtomicU64::new(0),
            user_timeout_until: AtomicU64::new(0),
            standing: AtomicU8::new(Standing::New as u8),
        }
    }

    /// The client's address for limits and fairness: its own, unless its IPv6 network has more than
    /// [`crate::limits::ADDRESSES_OF_NETWORK_MAX`].
    pub fn client(&self) -> IpAddr {
        self.queue.counted().client()
    }

    pub fn network(&self) -> Network {
        self.queue.counted().network()
    }

    #[inline]
    pub fn is_proven(&self) -> bool {
        self.standing.load(Ordering::Relaxed) == Standing::Proven as u8
    }

    /// Marks the connection as proven, so that it is never evicted. Ends the connection if the client's network has
    /// reached its share of proven ones.
    #[cold]
    pub fn prove(&self) {
        if self.standing.swap(Standing::Proven as u8, Ordering::SeqCst) == Standing::Proven as u8 {
            return;
        }
        if !self.queue.counted().prove() {
            tracing::info!(peer = %self.endpoints.peer, "connection ended: its network has its share of proven ones");
            self.close();
        }
    }

    /// Lifts the deadline, without a proof. The connection may still be evicted.
    pub fn tolerate(&self) {
        let (new, tolerated) = (Standing::New as u8, Standing::Tolerated as u8);
        _ = self.standing.compare_exchange(new, tolerated, Ordering::SeqCst, Ordering::SeqCst);
    }

    pub(crate) fn is_new(&self) -> bool {
        self.standing.load(Ordering::Relaxed) == Standing::New as u8
    }

    /// Sends the messages in `out`, which is empty afterwards. Messages that the socket does not accept now are queued.
    /// Any thread may call this at any time.
    pub fn send(&self, out: &mut Outbox) {
        self.send_locked(&mut self.lock(), out);
    }

    /// Sends messages and ends the connection if the client's machine does not acknowledge them within `patience`. A
    /// machine that lost its power or its cable never does. The timeout is lifted some time afterwards.
    pub fn send_within(&self, out: &mut Outbox, patience: Duration) {
        let mut outgoing = self.lock();
        // The shorter timeout applies to all messages in flight.
        let sooner = outgoing.user_timeout.map_or(patience, |other| patience.min(other));
        if outgoing.user_timeout != Some(sooner) && set_tcp_user_timeout(&self.socket, millis(sooner)).is_ok()
        {
            outgoing.user_timeout = Some(sooner);
        }
        // The kernel checks the timeout only at its next retransmission.
        let before = outgoing.stall.and_then(|stall| stall.current(&self.socket));
        outgoing.stall = Stall::start(&self.socket, patience).map(|stall| stall.until_earlier_of(before));
        let until = clock::coarse_ms() + 2 * u64::from(millis(patience));
        self.user_timeout_until.fetch_max(until, Ordering::SeqCst);
        self.send_locked(&mut outgoing, out);
    }

    /// Lifts the short user timeout once the messages have arrived. Ends the connection if they are overdue.
    pub(crate) fn relax_user_timeout(&self) {
        let until = self.user_timeout_until.load(Ordering::SeqCst);
        if until == 0 {
            return;
        }
        let mut outgoing = self.lock();
        outgoing.stall = outgoing.stall.and_then(|stall| stall.current(&self.socket));
        if outgoing.stall.as_ref().is_some_and(Stall::is_overdue) {
            return self.abort(&mut outgoing, &io::ErrorKind::TimedOut.into());
        }
        if clock::coarse_ms() < until {
            return;
        }
        // No thread has set a new timeout meanwhile.
        if self.user_timeout_until.compare_exchange(until, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            outgoing.user_timeout = None;
            _ = set_tcp_user_timeout(&self.socket, 0);
        }
    }

    /// Sends `out` in clear and passes all later bytes, in both directions, through `transform`.
    pub(crate) fn switch(&self, out: &mut Outbox, transform: Box<dyn Transform>) {
        let mut outgoing = self.lock();
        self.send_locked(&mut outgoing, out);
        outgoing.transform = Some(transform);
        self.transformed.store(true, Ordering::SeqCst);
    }

    fn send_locked(&self, outgoing: &mut Outgoing, out: &mut Outbox) {
        if outgoing.is_broken {
            return out.clear();
        }
        if let Err(error) = outgoing.count(out).and_then(|()| outgoing.seal(out)) {
            out.clear();
            return self.abort(outgoing, &error);
        }
        self.send_sealed(outgoing, out);
    }

    fn send_sealed(&self, outgoing: &mut Outgoing, out: &mut Outbox) {
        if outgoing.is_broken {
            return out.clear();
        }
        if !outgoing.queue.is_empty() {
            outgoing.queue.append(out);
            return self.count_unread(outgoing);
        }
        match out.send(self.socket.as_fd(), self.coalesces, self.resources.deadline) {
            Ok(true) => {}
            Ok(false) => {
                outgoing.queue.append(out);
                self.count_unread(outgoing);
                outgoing.writes = true;
                self.watch_for(outgoing);
            }
            Err(error) => {
                out.clear();
                self.abort(outgoing, &error);
            }
        }
    }

    pub(crate) fn send_queued(&self) {
        let mut outgoing = self.lock();
        match outgoing.queue.send(self.socket.as_fd(), self.coalesces, self.resources.deadline) {
            Ok(done) => {
                if done {
                    // A burst is over: release its memory.
                    outgoing.queue = Outbox::default();
                }
                outgoing.writes = !done;
                self.count_unread(&mut outgoing);
                self.watch_for(&mut outgoing);
            }
            Err(error) => self.abort(&mut outgoing, &error),
        }
    }

    pub(crate) fn is_transformed(&self) -> bool {
        self.transformed.load(Ordering::SeqCst)
    }

    /// The protection of the connection. While it is being negotiated, no messages are accepted.
    #[inline]
    pub fn protection(&self) -> Protection {
        match self.protection.load(Ordering::SeqCst) {
            encrypted if encrypted == Protection::Encrypted as u8 => Protection::Encrypted,
            verified if verified == Protection::Verified as u8 => Protection::Verified,
            _ => Protection::Plain,
        }
    }

    /// Begins a handshake. Returns `false` if a call is in progress, whose reply would be interleaved; if a transform
    /// exists already; or if there are too many handshakes.
    pub fn begin_handshake(self: &Arc<Self>) -> bool {
        let has_begun = self.is_transformed() || self.protection() != Protection::Plain;
        if self.is_busy() || !self.queue.is_empty() || has_begun {
            return false;
        }
        let itself: Weak<Self> = Arc::downgrade(self);
        let Some(handshake) = self.resources.handshakes.begin(self.network(), itself, Instant::now()) else {
            return false;
        };
        self.is_handshaking.store(true, Ordering::SeqCst);
        self.lock().handshake = Some(handshake);
        true
    }

    pub(crate) fn is_handshake_overdue(&self) -> bool {
        self.is_handshaking.load(Ordering::SeqCst)
            && self.lock().handshake.as_ref().is_some_and(Handshake::is_overdue)
    }

    /// Opens the front of `wire` into `plain`, and sends the transform's own answer, if there is one.
    pub(crate) fn open(&self, wire: &mut [u8], plain: &mut [u8]) -> Result<Plaintext, Malformed> {
        let mut outgoing = self.lock();
        let Some(transform) = &mut outgoing.transform else { return Ok(Plaintext::default()) };
        let mut answer = Outbox::default();
        let opened = transform.open(wire, plain, answer.bytes());
        if let Some(protection) = transform.protection() {
            self.protection.store(protection as u8, Ordering::SeqCst);
            self.is_handshaking.store(false, Ordering::SeqCst);
            outgoing.handshake = None;
        }
        if !answer.is_empty() {
            self.send_sealed(&mut outgoing, &mut answer);
        }
        let has_all = opened.as_ref().is_ok_and(|opened| opened.used == wire.len() && !opened.is_closed);
        if has_all && !wire.is_empty() && outgoing.handshake.is_none() && outgoing.queue.is_empty() {
            self.hand_over(&mut outgoing);
        }
        opened
    }

    fn hand_over(&self, outgoing: &mut Outgoing) {
        match outgoing.transform.take().map(|transform| transform.offload_to_kernel(self.socket.as_fd())) {
            Some(KernelOffload::Declined(transform)) => outgoing.transform = Some(transform),
            Some(KernelOffload::Done(most)) => {
                outgoing.kernel_bytes_left = Some(most);
                self.transformed.store(false, Ordering::SeqCst);
            }
            Some(KernelOffload::Failed) => {
                self.abort(
                    outgoing,
                    &io::Error::other("the transform failed to pass its keys to the kernel"),
                );
            }
            None => {}
        }
    }

    /// Sends the transform's closing message, if it has one and all earlier bytes were sent.
    pub(crate) fn send_close(&self) {
        let mut outgoing = self.lock();
        let mut last = Outbox::default();
        if let Some(transform) = &mut outgoing.transform {
            transform.close(last.bytes());
        }
        if !last.is_empty() && outgoing.queue.is_empty() && !outgoing.is_broken {
            // A courtesy: closing does not depend on it.
            _ = last.send(self.socket.as_fd(), false, self.resources.deadline);
        }
    }

    /// Both ends; `None` after the connection has ended.
    pub(crate) fn ends(&self) -> Option<ConnectionEnds> {
        let local = self.socket.local_addr().ok().filter(|local| local.port() != 0)?;
        Some(ConnectionEnds { local, peer: self.endpoints.peer })
    }

    /// Whether more calls may be taken: few enough are in progress, and the client reads its replies. When many clients
    /// leave replies unread, a client must read all of its own first.
    #[inline]
    pub(crate) fn may_take_calls(&self) -> bool {
        let unread = self.unread.load(Ordering::SeqCst);
        let is_scarce = self.resources.unread.load(Ordering::SeqCst) >= UNREAD_TOTAL_BYTES_MAX;
        let unread_max = if is_scarce { 1 } else { UNREAD_REPLY_BYTES_MAX };
        self.in_progress.load(Ordering::SeqCst) < CALLS_IN_PROGRESS_MAX
            && unread < unread_max
            && self.queue.has_room()
    }

    /// Whether the client reads its replies, so that it may get more of them.
    pub(crate) fn reads_replies(&self) -> bool {
        let unread = self.unread.load(Ordering::SeqCst);
        let is_full = self.resources.unread.load(Ordering::SeqCst) >= UNREAD_TOTAL_BYTES_FULL;
        unread < if is_full { 1 } else { UNREAD_REPLY_BYTES_MAX }
    }

    #[inline]
    pub(crate) fn note_volume(&self, volume: VolumeId) {
        let now = clock::coarse_ms();
        if self.last_volume.load(Ordering::Relaxed) == volume.0 && volume.0 != 0 {
            return self.last_used.store(now, Ordering::Relaxed);
        }
        let mut volumes = self.volumes.lock();
        let last = VolumeId(self.last_volume.swap(volume.0, Ordering::Relaxed));
        let used = self.last_used.swap(now, Ordering::Relaxed);
        if let Some((_, at)) = volumes.iter_mut().find(|(known, _)| *known == last) {
            *at = used;
        }
        match volumes.iter_mut().find(|(known, _)| *known == volume) {
            Some((_, at)) => *at = now,
            None => {
                if volumes.len() >= CONNECTION_VOLUMES_MAX {
                    volumes.sort_unstable_by_key(|(_, at)| Reverse(*at));
                    volumes.truncate(CONNECTION_VOLUMES_MAX / 2);
                }
                volumes.push((volume, now));
            }
        }
    }

    /// The volumes with a reply at or after this time ([`clock::coarse_ms`]).
    pub(crate) fn volumes_since(&self, since_ms: u64) -> Vec<VolumeId> {
        let volumes = self.volumes.lock();
        let last = VolumeId(self.last_volume.load(Ordering::Relaxed));
        let last_used = self.last_used.load(Ordering::Relaxed);
        let used = |(volume, at): &(VolumeId, u64)| if *volume == last { last_used } else { *at };
        volumes.iter().filter(|of| used(of) >= since_ms).map(|(volume, _)| *volume).collect()
    }

    /// Calls in progress on storage threads. A long reply counts as several.
    pub(crate) fn in_progress(&self) -> u32 {
        self.in_progress.load(Ordering::Relaxed)
    }

    pub(crate) fn token(&self) -> u64 {
        self.watch.token
    }

    pub(crate) fn admit(&self, number: u64, permit: Permit) {
        self.watch.event_loop.admit(self.watch.token, number, permit);
    }

    pub(crate) fn submit(self: &Arc<Self>, work: Work<P>) {
        self.watch.event_loop.submit(self, work);
    }

    /// Pauses or resumes the event loop's watch for calls. A paused connection is resumed when its calls are done.
    pub(crate) fn set_paused(&self, paused: bool) {
        self.paused.store(paused, Ordering::SeqCst);
        let mut outgoing = self.lock();
        outgoing.reads = !paused;
        self.watch_for(&mut outgoing);
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::SeqCst)
    }

    pub(crate) fn begin_calls(&self, calls: u32) {
        self.in_progress.fetch_add(calls, Ordering::SeqCst);
    }

    /// Ends calls in progress. Resumes the event loop if it paused because of them.
    pub(crate) fn end_calls(&self, calls: u32) {
        let before = self.in_progress.fetch_sub(calls, Ordering::SeqCst);
        if before - calls <= CALLS_IN_PROGRESS_MAX / 2 {
            self.resume_if_paused();
        }
    }

    /// Takes the receiving half away from the event loop, until it is returned.
    pub(crate) fn lease(&self) {
        self.leased.store(true, Ordering::SeqCst);
        self.set_paused(true);
    }

    /// Returns the receiving half to the event loop.
    pub(crate) fn reclaim(&self) {
        self.leased.store(false, Ordering::SeqCst);
    }

    pub(crate) fn resume_if_paused(&self) {
        if self.is_paused() && !self.leased.load(Ordering::SeqCst) {
            self.watch.event_loop.resume(self.watch.token);
        }
    }

    /// Returns the handle for a reply that comes later, for example after an interim response. The call counts as in
    /// progress from now on.
    pub fn defer_reply(self: &Arc<Self>) -> DeferredReply<P> {
        DeferredReply::new(self)
    }

    /// Whether the peer has closed the connection, or the connection has failed. Earlier bytes may not have been
    /// received yet.
    pub fn is_ended(&self) -> bool {
        let mut socket = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let end_flags = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        poll(&mut socket, Some(&Timespec::default())).is_ok() && socket[0].revents().intersects(end_flags)
    }

    /// Ends the connection, which its event loop will notice. The client gets no reply here: it reconnects and repeats
    /// its calls.
    pub fn close(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    pub(crate) fn has_unread(&self) -> bool {
        self.unread.load(Ordering::SeqCst) > 0
    }

    /// Drops all unsent replies and sends nothing more.
    pub(crate) fn discard_unread(&self) {
        let mut outgoing = self.lock();
        outgoing.is_broken = true;
        outgoing.queue = Outbox::default();
        self.count_unread(&mut outgoing);
        self.close();
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.lock().is_broken
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.in_progress.load(Ordering::SeqCst) > 0 || self.has_unread()
    }

    fn count_unread(&self, outgoing: &mut Outgoing) {
        self.unread.store(outgoing.queue.pending(), Ordering::SeqCst);
        let now = if outgoing.queue.is_empty() { 0 } else { outgoing.queue.memory_bytes() };
        let before = std::mem::replace(&mut outgoing.counted_bytes, now);
        self.resources.unread.fetch_add(now, Ordering::SeqCst);
        self.resources.unread.fetch_sub(before, Ordering::SeqCst);
    }

    fn abort(&self, outgoing: &mut Outgoing, error: &io::Error) {
        tracing::debug!(peer = %self.endpoints.peer, %error, "cannot send");
        outgoing.is_broken = true;
        outgoing.queue.clear();
        self.count_unread(outgoing);
        if self.resources.deadline.is_over() {
            self.reset(outgoing.kernel_bytes_left.is_some());
        }
        self.close();
        (outgoing.reads, outgoing.writes) = (true, false);
        self.watch_for(outgoing);
    }

    /// Ends the connection with a reset. The kernel drops the bytes that it has not sent yet.
    fn reset(&self, is_tls_in_kernel: bool) {
        // Linux does not disconnect a socket with TLS. Then closing it resets the connection.
        if is_tls_in_kernel || connect_unspec(&self.socket).is_err() {
            _ = set_socket_linger(&self.socket, Some(Duration::ZERO));
        }
    }

    fn watch_for(&self, outgoing: &mut Outgoing) {
        let mut events = EventFlags::empty();
        events.set(EventFlags::IN, outgoing.reads);
        events.set(EventFlags::OUT, outgoing.writes);
        if events == outgoing.watched {
            return;
        }
        outgoing.watched = events;
        let data = epoll::EventData::new_u64(self.watch.token);
        // An error means that the loop has removed the connection already.
        let _ = epoll::modify(&*self.watch.epoll, &self.socket, data, events);
    }

    fn lock(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock()
    }
}

impl Outgoing {
    /// Counts bytes that the kernel encrypts. An error means that the keys are used up.
    fn count(&mut self, out: &Outbox) -> io::Result<()> {
        if let Some(left) = &mut self.kernel_bytes_left {
            let more = left.checked_sub(out.pending() as u64);
            *left = more.ok_or_else(|| io::Error::other("the TLS keys are used up"))?;
        }
        Ok(())
    }

    /// Replaces the messages in `out` by their sealed bytes.
    fn seal(&mut self, out: &mut Outbox) -> io::Result<()> {
        let Some(transform) = &mut self.transform else { return Ok(()) };
        if out.is_empty() {
            return Ok(());
        }
        SEALED.with_borrow_mut(|wire| {
            let sealed = transform.seal(out.load_pipes()?, wire);
            sealed.map_err(|error| io::Error::other(error.0))?;
            out.replace(wire);
            // The buffer that held the plain bytes serves the next call.
            wire.truncate(SEALED_BYTES_KEPT);
            wire.shrink_to(SEALED_BYTES_KEPT);
            Ok(())
        })
    }
}

/// The memory that a thread keeps for sealing: as much as a turn collects.
const SEALED_BYTES_KEPT: usize = TURN_BYTES_MAX + (256 << 10);

thread_local! {
    static SEALED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl<P: Protocol> Evictable for Connection<P> {
    fn evict(&self) {
        tracing::debug!(peer = %self.endpoints.peer, "connection evicted");
        self.close();
    }
}

impl<P: Protocol> Drop for Connection<P> {
    fn drop(&mut self) {
        let outgoing = self.outgoing.get_mut();
        self.resources.unread.fetch_sub(outgoing.counted_bytes, Ordering::SeqCst);
    }
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

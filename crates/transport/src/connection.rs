//! The half of a connection that all threads share: whoever has replies sends them.

use crate::clients::{Counted, GivesWay};
use crate::clock;
use crate::congestion;
use crate::context::Late;
use crate::handshake::Handshake;
use crate::limits::{
    CALLS_IN_PROGRESS_MAX, CONNECTION_VOLUMES_MAX, TURN_BYTES_MAX, UNREAD_REPLY_BYTES_MAX,
    UNREAD_TOTAL_BYTES_FULL, UNREAD_TOTAL_BYTES_MAX,
};
use crate::message::{Endpoints, Malformed};
use crate::outbox::Outbox;
use crate::protocol::Protocol;
use crate::queue::{Queue, Queued};
use crate::resources::Resources;
use crate::stall::Stall;
use crate::transform::{HandOver, Opened, Transform};
use rustix::event::epoll::{self, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_tcp_user_timeout;
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

/// Who looks after a connection: an event loop, and the storage threads behind it.
pub(crate) trait Home<P: Protocol>: Send + Sync {
    /// Tells the loop that a paused connection may go on.
    fn resume(&self, token: u64);
    /// Tells the loop that a queued call may go on, and what it has paid.
    fn admit(&self, token: u64, number: u64, charge: Permit);
    /// Has a storage thread do a call.
    fn submit(&self, connection: &Arc<Connection<P>>, work: Work<P>);
}

/// A call for a storage thread.
pub(crate) enum Work<P: Protocol> {
    /// Do it.
    Call { call: P::Call, message: Vec<u8>, charge: Option<Permit>, received: Instant },
    /// Go on with it: it would have blocked.
    Resume { at: P::Continuation, charge: Option<Permit>, received: Instant },
}

/// How an event loop watches a connection.
pub(crate) struct Watch {
    /// The connection's name in its event loop.
    pub(crate) token: u64,
    /// What the loop waits on; any thread may change what a socket is watched for.
    pub(crate) epoll: Arc<OwnedFd>,
}

/// A client's connection.
pub struct Connection<P: Protocol> {
    /// What the protocol knows of it.
    pub session: P::Session,
    /// Its two ends.
    pub ends: Endpoints,
    /// The socket; does not block.
    pub(crate) socket: TcpStream,
    pub(crate) protocol: Arc<P>,
    pub(crate) resources: Arc<Resources>,
    home: Box<dyn Home<P>>,
    watch: Watch,
    outgoing: Mutex<Outgoing>,
    /// Replies may share packets.
    gathers: bool,
    /// Calls in progress on storage threads.
    in_progress: AtomicU32,
    /// Bytes of replies that the client has not read: a copy of what `outgoing` knows, for a look without the lock.
    unread: AtomicUsize,
    /// Bytes of long replies being made.
    pub(crate) making: AtomicUsize,
    /// The event loop has stopped taking calls and wants to be told when it may go on.
    paused: AtomicBool,
    /// A storage thread receives in the event loop's place: the loop cannot go on before it is released.
    leased: AtomicBool,
    /// Bytes pass through a transform, and what it protects them by ([`Protection`]): copies of what `outgoing` knows.
    transformed: AtomicBool,
    protection: AtomicU8,
    /// The transform is not agreed on yet.
    shakes_hands: AtomicBool,
    /// Calls that wait for the limits of volumes.
    pub(crate) queue: Queue<Queued<P::Call, P::Continuation>>,
    /// The volumes that calls were for, each with when the last of them was answered ([`clock::coarse_ms`]).
    volumes: Mutex<Vec<(VolumeId, u64)>>,
    /// The one that the last call was for, and when, kept beside them so that others in a row need no lock.
    last_volume: AtomicU64,
    last_used: AtomicU64,
    /// Until when the client's machine must confirm soon what it is sent ([`clock::coarse_ms`]); 0 if it need not.
    impatient_until: AtomicU64,
    standing: AtomicU8,
}

/// How far a client has come on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Standing {
    /// The connection ends unless more follows in time.
    New,
    /// There is no deadline, but where connections run out it gives way.
    Tolerated,
    /// It stays.
    Proven,
}

struct Outgoing {
    queue: Outbox,
    /// What the queue counts as among what all clients have left unread: the memory that it takes.
    counted: usize,
    transform: Option<Box<dyn Transform>>,
    /// How many bytes the socket may still send where it does the transform's work.
    left: Option<u64>,
    handshake: Option<Handshake>,
    /// What the event loop is to wait for, and what it does wait for.
    reads: bool,
    writes: bool,
    watched: EventFlags,
    is_broken: bool,
    /// In which time the client's machine must confirm what it is sent, where that is short.
    patience: Option<Duration>,
    /// That the machine had confirmed nothing for a while already then: the kernel may not look at that time soon enough.
    stall: Option<Stall>,
}

impl<P: Protocol> Connection<P> {
    /// A connection that its event loop watches for calls.
    pub(crate) fn new(
        protocol: &Arc<P>,
        session: P::Session,
        (socket, ends): (TcpStream, Endpoints),
        watch: Watch,
        home: Box<dyn Home<P>>,
        client: Counted,
        resources: &Arc<Resources>,
    ) -> Self {
        let outgoing = Outgoing {
            queue: Outbox::default(),
            counted: 0,
            transform: None,
            left: None,
            handshake: None,
            reads: true,
            writes: false,
            watched: EventFlags::IN,
            is_broken: false,
            patience: None,
            stall: None,
        };
        Self {
            session,
            ends,
            gathers: congestion::gathers(&socket),
            socket,
            queue: Queue::new(&resources.queued, client),
            protocol: Arc::clone(protocol),
            resources: Arc::clone(resources),
            home,
            watch,
            outgoing: Mutex::new(outgoing),
            in_progress: AtomicU32::new(0),
            unread: AtomicUsize::new(0),
            making: AtomicUsize::new(0),
            paused: AtomicBool::new(false),
            leased: AtomicBool::new(false),
            transformed: AtomicBool::new(false),
            protection: AtomicU8::new(Protection::Plain as u8),
            shakes_hands: AtomicBool::new(false),
            volumes: Mutex::default(),
            last_volume: AtomicU64::new(0),
            last_used: AtomicU64::new(0),
            impatient_until: AtomicU64::new(0),
            standing: AtomicU8::new(Standing::New as u8),
        }
    }

    /// The address that stands for its client in limits and in what is shared equally: the client's own, unless its IPv6 network has more
    /// than [`crate::limits::ADDRESSES_OF_NETWORK_MAX`].
    pub fn client(&self) -> IpAddr {
        self.queue.counted().client()
    }

    /// The network of its client.
    pub fn network(&self) -> Network {
        self.queue.counted().network()
    }

    /// Whether the client has proven something.
    #[inline]
    pub fn is_proven(&self) -> bool {
        self.standing.load(Ordering::Relaxed) == Standing::Proven as u8
    }

    /// Notes that the client has proven something that others may not have, by which the connection stays where connections run out.
    /// Ends it if the client's network has as many of these as it may.
    #[cold]
    pub fn prove(&self) {
        if self.standing.swap(Standing::Proven as u8, Ordering::SeqCst) == Standing::Proven as u8 {
            return;
        }
        if !self.queue.counted().prove() {
            tracing::info!(peer = %self.ends.peer, "a connection is ended: its network has its share");
            self.close();
        }
    }

    /// Lifts the deadline for a client that may stay without a proof for as long as there is room.
    pub fn tolerate(&self) {
        let (new, tolerated) = (Standing::New as u8, Standing::Tolerated as u8);
        _ = self.standing.compare_exchange(new, tolerated, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Whether its client has to prove something yet before the deadline.
    pub(crate) fn is_new(&self) -> bool {
        self.standing.load(Ordering::Relaxed) == Standing::New as u8
    }

    /// Sends what is in `out`, or queues what the socket does not take now. `out` is empty afterwards. Any thread may send
    /// messages of its own at any time.
    pub fn send(&self, out: &mut Outbox) {
        self.send_locked(&mut self.lock(), out);
    }

    /// The same; and has the system end the connection if the client's machine confirms none of it in `patience`, as one that has
    /// lost its power or its cable does not. Some time after that it may take as long as it needs again.
    pub fn send_surely(&self, out: &mut Outbox, patience: Duration) {
        let mut outgoing = self.lock();
        // A shorter patience that somebody else has holds for all.
        let sooner = outgoing.patience.map_or(patience, |other| patience.min(other));
        if outgoing.patience != Some(sooner) && set_tcp_user_timeout(&self.socket, millis(sooner)).is_ok() {
            outgoing.patience = Some(sooner);
        }
        // The kernel looks at that time only when it tries again.
        let before = outgoing.stall.and_then(|stall| stall.lasting(&self.socket));
        outgoing.stall = Stall::of(&self.socket, patience).map(|stall| stall.or_sooner(before));
        let until = clock::coarse_ms() + 2 * u64::from(millis(patience));
        self.impatient_until.fetch_max(until, Ordering::SeqCst);
        self.send_locked(&mut outgoing, out);
    }

    /// Waits for the client's machine as long as the system does again, once what was sent surely has arrived. Ends the connection if
    /// it should have and has not.
    pub(crate) fn be_patient(&self) {
        let until = self.impatient_until.load(Ordering::SeqCst);
        if until == 0 {
            return;
        }
        let mut outgoing = self.lock();
        outgoing.stall = outgoing.stall.and_then(|stall| stall.lasting(&self.socket));
        if outgoing.stall.as_ref().is_some_and(Stall::is_overdue) {
            return self.break_off(&mut outgoing, &io::ErrorKind::TimedOut.into());
        }
        if clock::coarse_ms() < until {
            return;
        }
        // Nobody has sent anything surely meanwhile.
        if self.impatient_until.compare_exchange(until, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            outgoing.patience = None;
            _ = set_tcp_user_timeout(&self.socket, 0);
        }
    }

    /// Sends what is in `out` as it is, and lets all that is sent and received after it pass through `transform`.
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
            return self.break_off(outgoing, &error);
        }
        self.send_sealed(outgoing, out);
    }

    /// Sends what is in `out` as it is.
    fn send_sealed(&self, outgoing: &mut Outgoing, out: &mut Outbox) {
        if outgoing.is_broken {
            return out.clear();
        }
        if !outgoing.queue.is_empty() {
            outgoing.queue.append(out);
            return self.count_unread(outgoing);
        }
        match out.send(self.socket.as_fd(), self.gathers) {
            Ok(true) => {}
            Ok(false) => {
                outgoing.queue.append(out);
                self.count_unread(outgoing);
                outgoing.writes = true;
                self.watch_for(outgoing);
            }
            Err(error) => {
                out.clear();
                self.break_off(outgoing, &error);
            }
        }
    }

    /// Sends more of the queue, because the socket has room again.
    pub(crate) fn send_queued(&self) {
        let mut outgoing = self.lock();
        match outgoing.queue.send(self.socket.as_fd(), self.gathers) {
            Ok(done) => {
                if done {
                    // A burst is over: its memory is for others.
                    outgoing.queue = Outbox::default();
                }
                outgoing.writes = !done;
                self.count_unread(&mut outgoing);
                self.watch_for(&mut outgoing);
            }
            Err(error) => self.break_off(&mut outgoing, &error),
        }
    }

    /// Whether bytes pass through a transform.
    pub(crate) fn is_transformed(&self) -> bool {
        self.transformed.load(Ordering::SeqCst)
    }

    /// How the connection is protected. Messages that come while this is being agreed on are none.
    #[inline]
    pub fn protection(&self) -> Protection {
        match self.protection.load(Ordering::SeqCst) {
            encrypted if encrypted == Protection::Encrypted as u8 => Protection::Encrypted,
            verified if verified == Protection::Verified as u8 => Protection::Verified,
            _ => Protection::Plain,
        }
    }

    /// Counts a handshake that is about to begin with a transform. `false`: none may begin, because a call is in progress whose
    /// reply would come in between, there is a transform already, or there are too many handshakes.
    pub fn begin_handshake(self: &Arc<Self>) -> bool {
        let has_begun = self.is_transformed() || self.protection() != Protection::Plain;
        if self.is_busy() || !self.queue.is_empty() || has_begun {
            return false;
        }
        let itself: Weak<Self> = Arc::downgrade(self);
        let Some(handshake) = self.resources.handshakes.begin(self.network(), itself, Instant::now()) else {
            return false;
        };
        self.shakes_hands.store(true, Ordering::SeqCst);
        self.lock().handshake = Some(handshake);
        true
    }

    /// Whether a handshake takes too long.
    pub(crate) fn is_handshake_overdue(&self) -> bool {
        self.shakes_hands.load(Ordering::SeqCst)
            && self.lock().handshake.as_ref().is_some_and(Handshake::is_overdue)
    }

    /// Opens the front of `wire` into `plain`, and sends what the other side must be told at once.
    pub(crate) fn open(&self, wire: &mut [u8], plain: &mut [u8]) -> Result<Opened, Malformed> {
        let mut outgoing = self.lock();
        let Some(transform) = &mut outgoing.transform else { return Ok(Opened::default()) };
        let mut answer = Outbox::default();
        let opened = transform.open(wire, plain, answer.bytes());
        if let Some(protection) = transform.protection() {
            self.protection.store(protection as u8, Ordering::SeqCst);
            self.shakes_hands.store(false, Ordering::SeqCst);
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

    /// Lets the socket do the transform's work if it can.
    fn hand_over(&self, outgoing: &mut Outgoing) {
        match outgoing.transform.take().map(|transform| transform.hand_over(self.socket.as_fd())) {
            Some(HandOver::Stays(transform)) => outgoing.transform = Some(transform),
            Some(HandOver::Done(most)) => {
                outgoing.left = Some(most);
                self.transformed.store(false, Ordering::SeqCst);
            }
            Some(HandOver::Failed) => {
                self.break_off(outgoing, &io::Error::other("a transform was not handed over"));
            }
            None => {}
        }
    }

    /// Tells the other side that nothing follows, if a transform has a way to say so and all that came before has left.
    pub(crate) fn say_end(&self) {
        let mut outgoing = self.lock();
        let mut last = Outbox::default();
        if let Some(transform) = &mut outgoing.transform {
            transform.close(last.bytes());
        }
        if !last.is_empty() && outgoing.queue.is_empty() && !outgoing.is_broken {
            // It is a courtesy: nobody waits for it.
            _ = last.send(self.socket.as_fd(), false);
        }
    }

    /// Whether more calls may be taken: not too many are in progress, and the client reads its replies. Once many clients do
    /// not, one that has left anything unread must read it first.
    #[inline]
    pub(crate) fn may_take_calls(&self) -> bool {
        let unread = self.unread.load(Ordering::SeqCst);
        let is_scarce = self.resources.unread.load(Ordering::SeqCst) >= UNREAD_TOTAL_BYTES_MAX;
        let unread_max = if is_scarce { 1 } else { UNREAD_REPLY_BYTES_MAX };
        self.in_progress.load(Ordering::SeqCst) < CALLS_IN_PROGRESS_MAX
            && unread < unread_max
            && self.queue.has_room()
    }

    /// Whether the client reads its replies, so that it may have more of them.
    pub(crate) fn takes_replies(&self) -> bool {
        let unread = self.unread.load(Ordering::SeqCst);
        let is_full = self.resources.unread.load(Ordering::SeqCst) >= UNREAD_TOTAL_BYTES_FULL;
        unread < if is_full { 1 } else { UNREAD_REPLY_BYTES_MAX }
    }

    /// Notes that a call was for this volume.
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

    /// The volumes that calls were for which were answered at this time ([`clock::coarse_ms`]) or later.
    pub(crate) fn volumes_since(&self, since_ms: u64) -> Vec<VolumeId> {
        let volumes = self.volumes.lock();
        let last = VolumeId(self.last_volume.load(Ordering::Relaxed));
        let last_used = self.last_used.load(Ordering::Relaxed);
        let used = |(volume, at): &(VolumeId, u64)| if *volume == last { last_used } else { *at };
        volumes.iter().filter(|of| used(of) >= since_ms).map(|(volume, _)| *volume).collect()
    }

    /// Calls in progress on storage threads. Long ones count as several.
    pub(crate) fn in_progress(&self) -> u32 {
        self.in_progress.load(Ordering::Relaxed)
    }

    /// Its name in its event loop.
    pub(crate) fn token(&self) -> u64 {
        self.watch.token
    }

    /// Lets a queued call go on that has paid, on the event loop.
    pub(crate) fn admit(&self, number: u64, charge: Permit) {
        self.home.admit(self.watch.token, number, charge);
    }

    /// Has a storage thread do a call.
    pub(crate) fn submit(self: &Arc<Self>, work: Work<P>) {
        self.home.submit(self, work);
    }

    /// Stops or resumes watching for calls. Of a pause the loop is told when calls that waited are done.
    pub(crate) fn set_paused(&self, paused: bool) {
        self.paused.store(paused, Ordering::SeqCst);
        let mut outgoing = self.lock();
        outgoing.reads = !paused;
        self.watch_for(&mut outgoing);
    }

    /// Whether the event loop has stopped taking calls.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::SeqCst)
    }

    /// Counts calls that begin to be in progress.
    pub(crate) fn begin_calls(&self, calls: u32) {
        self.in_progress.fetch_add(calls, Ordering::SeqCst);
    }

    /// Counts calls that have been answered; lets the event loop go on if it paused because of them.
    pub(crate) fn end_calls(&self, calls: u32) {
        let before = self.in_progress.fetch_sub(calls, Ordering::SeqCst);
        if before - calls <= CALLS_IN_PROGRESS_MAX / 2 {
            self.resume_if_paused();
        }
    }

    /// Takes the receiving half away from the event loop, until it is released.
    pub(crate) fn lease(&self) {
        self.leased.store(true, Ordering::SeqCst);
        self.set_paused(true);
    }

    /// Says that the event loop has the receiving half again.
    pub(crate) fn reclaim(&self) {
        self.leased.store(false, Ordering::SeqCst);
    }

    /// Tells the event loop to go on if it has stopped.
    pub(crate) fn resume_if_paused(&self) {
        if self.is_paused() && !self.leased.load(Ordering::SeqCst) {
            self.home.resume(self.watch.token);
        }
    }

    /// An answer of which the client was told that it comes later: the call counts as one in progress from now on.
    pub fn late(self: &Arc<Self>) -> Late<P> {
        Late::new(self)
    }

    /// Whether the other side sends nothing more, because it has closed the connection or that has failed. What it has sent before may
    /// not have been received yet.
    pub fn is_ended(&self) -> bool {
        let mut socket = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let ends = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        poll(&mut socket, Some(&Timespec::default())).is_ok() && socket[0].revents().intersects(ends)
    }

    /// Ends the connection, which its event loop will notice: the client gets no answer here, comes back on another one
    /// and asks again.
    pub fn close(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Whether the client has left replies unread.
    pub(crate) fn has_unread(&self) -> bool {
        self.unread.load(Ordering::SeqCst) > 0
    }

    /// Forgets what the client has not read, and what it would get: its connection ends.
    pub(crate) fn forget_unread(&self) {
        let mut outgoing = self.lock();
        outgoing.is_broken = true;
        outgoing.queue = Outbox::default();
        self.count_unread(&mut outgoing);
        self.close();
    }

    /// Whether nothing is sent any more.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_broken
    }

    /// Whether calls are in progress or replies wait for the client.
    pub(crate) fn is_busy(&self) -> bool {
        self.in_progress.load(Ordering::SeqCst) > 0 || self.has_unread()
    }

    fn count_unread(&self, outgoing: &mut Outgoing) {
        self.unread.store(outgoing.queue.pending(), Ordering::SeqCst);
        let now = if outgoing.queue.is_empty() { 0 } else { outgoing.queue.held() };
        let before = std::mem::replace(&mut outgoing.counted, now);
        self.resources.unread.fetch_add(now, Ordering::SeqCst);
        self.resources.unread.fetch_sub(before, Ordering::SeqCst);
    }

    fn break_off(&self, outgoing: &mut Outgoing, error: &io::Error) {
        tracing::debug!(peer = %self.ends.peer, %error, "cannot send");
        outgoing.is_broken = true;
        outgoing.queue.clear();
        self.count_unread(outgoing);
        self.close();
        (outgoing.reads, outgoing.writes) = (true, false);
        self.watch_for(outgoing);
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
        // Fails only once the loop has let the connection go.
        let _ = epoll::modify(&*self.watch.epoll, &self.socket, data, events);
    }

    fn lock(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock()
    }
}

impl Outgoing {
    /// Counts what the socket seals; an error means that it may not leave.
    fn count(&mut self, out: &Outbox) -> io::Result<()> {
        if let Some(left) = &mut self.left {
            let more = left.checked_sub(out.pending() as u64);
            *left = more.ok_or_else(|| io::Error::other("the keys of the connection are used up"))?;
        }
        Ok(())
    }

    /// Puts what stands for `out` on the wire in its place.
    fn seal(&mut self, out: &mut Outbox) -> io::Result<()> {
        let Some(transform) = &mut self.transform else { return Ok(()) };
        if out.is_empty() {
            return Ok(());
        }
        SEALED.with_borrow_mut(|wire| {
            let sealed = transform.seal(out.in_memory()?, wire);
            sealed.map_err(|error| io::Error::other(error.0))?;
            out.replace(wire);
            // What is left of the plain bytes is room for the next.
            wire.truncate(SEALED_BYTES_KEPT);
            wire.shrink_to(SEALED_BYTES_KEPT);
            Ok(())
        })
    }
}

/// What a thread keeps of memory to seal into: as much as a turn gathers.
const SEALED_BYTES_KEPT: usize = TURN_BYTES_MAX + (256 << 10);

thread_local! {
    static SEALED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl<P: Protocol> GivesWay for Connection<P> {
    fn give_way(&self) {
        tracing::debug!(peer = %self.ends.peer, "a connection is ended: others need its place");
        self.close();
    }
}

impl<P: Protocol> Drop for Connection<P> {
    fn drop(&mut self) {
        let outgoing = self.outgoing.get_mut();
        self.resources.unread.fetch_sub(outgoing.counted, Ordering::SeqCst);
    }
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

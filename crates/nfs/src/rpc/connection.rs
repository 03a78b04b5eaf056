//! The half of a connection that all threads share: whoever has replies sends them.

use super::congestion;
use super::dispatch::Programs;
use super::event_loop::{Mailbox, Message};
use super::lease::Rest;
use super::limit_queue::LimitQueue;
use super::replay::Waiter;
use super::reply::Replies;
use crate::clock;
use crate::limits::{
    CONNECTION_VOLUMES_MAX, STORAGE_CALLS_MAX, UNREAD_REPLY_BYTES_MAX, UNREAD_TOTAL_BYTES_FULL,
    UNREAD_TOTAL_BYTES_MAX,
};
use rustix::event::epoll::{self, EventFlags};
use std::cmp::Reverse;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vfs::VolumeId;

/// A client's connection.
pub struct Connection {
    /// The socket; does not block.
    pub socket: TcpStream,
    /// The client's address.
    pub peer: SocketAddr,
    /// The address at which the client has reached us.
    pub local: IpAddr,
    /// What is served here.
    pub programs: Programs,
    /// Its name in its event loop.
    pub token: u64,
    mailbox: Arc<Mailbox>,
    outgoing: Mutex<Outgoing>,
    /// Replies may share packets.
    gathers: bool,
    /// Calls that are queued for storage.
    queued: AtomicU32,
    /// Bytes of replies that the client has not read: a copy of what `outgoing` knows, for a look without the lock.
    unread: AtomicUsize,
    /// The same over all connections.
    unread_total: Arc<AtomicUsize>,
    /// The event loop has stopped taking calls and wants to be told when it may go on.
    paused: AtomicBool,
    /// What is queued for the limits of volumes.
    pub limit_queue: LimitQueue,
    /// The volumes that calls were for, each with when the last of them was answered ([`clock::coarse_ms`]).
    volumes: Mutex<Vec<(VolumeId, u64)>>,
    /// The one that the last call was for, and when, kept beside them so that others in a row need no lock.
    last_volume: AtomicU64,
    last_used: AtomicU64,
    /// A storage thread receives in the event loop's place: the loop cannot go on before it is released.
    leased: AtomicBool,
}

#[derive(Default)]
struct Outgoing {
    queue: Replies,
    /// What the event loop waits for.
    reads: bool,
    writes: bool,
    broken: bool,
}

impl Connection {
    /// A connection that its event loop is about to watch for calls.
    pub fn new(
        socket: TcpStream,
        (peer, local): (SocketAddr, IpAddr),
        programs: Programs,
        token: u64,
        mailbox: Arc<Mailbox>,
        unread_total: Arc<AtomicUsize>,
        limit_queue: LimitQueue,
    ) -> Self {
        let outgoing = Mutex::new(Outgoing { reads: true, ..Outgoing::default() });
        let gathers = congestion::gathers(&socket);
        Self {
            socket,
            peer,
            local,
            programs,
            token,
            mailbox,
            outgoing,
            gathers,
            queued: AtomicU32::new(0),
            unread: AtomicUsize::new(0),
            unread_total,
            paused: AtomicBool::new(false),
            volumes: Mutex::default(),
            last_volume: AtomicU64::new(0),
            last_used: AtomicU64::new(0),
            limit_queue,
            leased: AtomicBool::new(false),
        }
    }

    /// Sends `replies`, or queues what the socket does not take now. `replies` is empty afterwards.
    pub fn send(&self, replies: &mut Replies) {
        let mut outgoing = self.lock();
        if outgoing.broken {
            replies.clear();
            return;
        }
        if !outgoing.queue.is_empty() {
            outgoing.queue.append(replies);
            self.count_unread(&outgoing);
            return;
        }
        match replies.send(self.socket.as_fd(), self.gathers) {
            Ok(true) => {}
            Ok(false) => {
                outgoing.queue.append(replies);
                self.count_unread(&outgoing);
                outgoing.writes = true;
                self.watch(&outgoing);
            }
            Err(error) => {
                tracing::debug!(peer = %self.peer, %error, "cannot send");
                replies.clear();
                self.break_off(&mut outgoing);
            }
        }
    }

    /// Sends more of the queue, because the socket has room again.
    pub fn send_queued(&self) {
        let mut outgoing = self.lock();
        match outgoing.queue.send(self.socket.as_fd(), self.gathers) {
            Ok(done) => {
                if done {
                    // A burst is over: its memory is for others.
                    outgoing.queue = Replies::default();
                }
                outgoing.writes = !done;
                self.count_unread(&outgoing);
                self.watch(&outgoing);
            }
            Err(error) => {
                tracing::debug!(peer = %self.peer, %error, "cannot send");
                self.break_off(&mut outgoing);
            }
        }
    }

    /// Whether more calls may be taken, besides `taken` that are about to wait: not too many wait, and the client reads
    /// its replies. Once many clients do not, one that has left anything unread must read it first.
    pub fn may_take_calls(&self, taken: usize) -> bool {
        let unread = self.unread.load(Ordering::SeqCst);
        let is_scarce = self.unread_total.load(Ordering::SeqCst) >= UNREAD_TOTAL_BYTES_MAX;
        let unread_max = if is_scarce { 1 } else { UNREAD_REPLY_BYTES_MAX };
        self.queued.load(Ordering::SeqCst) as usize + taken < STORAGE_CALLS_MAX as usize
            && unread < unread_max
            && self.limit_queue.has_room()
    }

    /// Whether the client reads its replies, so that it may have more of them.
    pub fn takes_replies(&self) -> bool {
        self.unread.load(Ordering::SeqCst) < UNREAD_REPLY_BYTES_MAX && !self.is_flooded()
    }

    /// Notes that a call was for this volume.
    #[inline]
    pub fn note_volume(&self, volume: VolumeId) {
        let now = clock::coarse_ms();
        if self.last_volume.load(Ordering::Relaxed) == volume.0 && volume.0 != 0 {
            return self.last_used.store(now, Ordering::Relaxed);
        }
        let mut volumes = self.volumes.lock().unwrap_or_else(PoisonError::into_inner);
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
    pub fn volumes_since(&self, since_ms: u64) -> Vec<VolumeId> {
        let volumes = self.volumes.lock().unwrap_or_else(PoisonError::into_inner);
        let last = VolumeId(self.last_volume.load(Ordering::Relaxed));
        let last_used = self.last_used.load(Ordering::Relaxed);
        let used = |(volume, at): &(VolumeId, u64)| if *volume == last { last_used } else { *at };
        volumes.iter().filter(|of| used(of) >= since_ms).map(|(volume, _)| *volume).collect()
    }

    /// Calls that are queued for storage, for a flush or for a limit. Long ones count as several.
    pub fn queued(&self) -> u32 {
        self.queued.load(Ordering::Relaxed)
    }

    /// Leaves the event loop a message.
    pub fn tell_loop(&self, message: Message) {
        self.mailbox.post(message);
    }

    /// Whether clients have left so much unread that this one, which is one of them, cannot get a long reply.
    pub fn is_flooded(&self) -> bool {
        self.has_unread() && self.unread_total.load(Ordering::SeqCst) >= UNREAD_TOTAL_BYTES_FULL
    }

    /// Ends the time of a storage thread: the event loop has the receiving half again.
    pub fn reclaim(&self) {
        self.leased.store(false, Ordering::SeqCst);
    }

    /// Stops or resumes watching for calls. Of a pause the loop is told when calls that waited are done.
    pub fn set_paused(&self, paused: bool) {
        self.paused.store(paused, Ordering::SeqCst);
        let mut outgoing = self.lock();
        outgoing.reads = !paused;
        self.watch(&outgoing);
    }

    /// Whether the event loop has stopped taking calls.
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::SeqCst)
    }

    /// Counts calls that are queued for storage.
    pub fn count_queued(&self, calls: usize) {
        self.queued.fetch_add(u32::try_from(calls).unwrap_or(u32::MAX), Ordering::SeqCst);
    }

    /// Counts calls that have been answered; lets the event loop go on if it stopped because of them.
    pub fn answered(&self, calls: usize) {
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        let before = self.queued.fetch_sub(calls, Ordering::SeqCst);
        if before - calls <= STORAGE_CALLS_MAX / 2 {
            self.resume_if_paused();
        }
    }

    /// Takes the receiving half away from the event loop, until it is released.
    pub fn lease(&self) {
        self.leased.store(true, Ordering::SeqCst);
        self.set_paused(true);
    }

    /// Whether a storage thread has the receiving half.
    pub fn is_leased(&self) -> bool {
        self.leased.load(Ordering::SeqCst)
    }

    /// Returns the receiving half to the event loop.
    pub fn release(&self, rest: Rest) {
        self.mailbox.post(Message::Released(self.token, rest));
    }

    /// Tells the event loop to go on if it has stopped.
    pub fn resume_if_paused(&self) {
        if self.is_paused() && !self.leased.load(Ordering::SeqCst) {
            self.mailbox.resume(self.token);
        }
    }

    /// Ends the connection, which its event loop will notice: the client gets no answer here, comes back on another one
    /// and asks again.
    pub fn close(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Whether the client has left replies unread.
    pub fn has_unread(&self) -> bool {
        self.unread.load(Ordering::SeqCst) > 0
    }

    /// Whether calls wait for storage or replies for the client.
    pub fn is_busy(&self) -> bool {
        self.queued.load(Ordering::SeqCst) > 0 || self.has_unread()
    }

    fn count_unread(&self, outgoing: &Outgoing) {
        let now = outgoing.queue.pending();
        let before = self.unread.swap(now, Ordering::SeqCst);
        self.unread_total.fetch_add(now, Ordering::SeqCst);
        self.unread_total.fetch_sub(before, Ordering::SeqCst);
    }

    fn break_off(&self, outgoing: &mut Outgoing) {
        outgoing.broken = true;
        outgoing.queue.clear();
        self.count_unread(outgoing);
        self.close();
        (outgoing.reads, outgoing.writes) = (true, false);
        self.watch(outgoing);
    }

    fn watch(&self, outgoing: &Outgoing) {
        let mut events = EventFlags::empty();
        events.set(EventFlags::IN, outgoing.reads);
        events.set(EventFlags::OUT, outgoing.writes);
        let data = epoll::EventData::new_u64(self.token);
        // Fails only once the loop has let the connection go.
        let _ = epoll::modify(&self.mailbox.epoll, &self.socket, data, events);
    }

    fn lock(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.unread_total.fetch_sub(self.unread.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

impl Waiter for Connection {
    fn answer(&self, reply: &[u8]) {
        let mut replies = Replies::default();
        replies.push_record(reply);
        self.send(&mut replies);
        self.answered(1);
    }

    fn give_up(&self) {
        self.close();
        self.answered(1);
    }
}

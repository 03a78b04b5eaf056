//! The event loops, one for each core: they receive messages, reply immediately where possible, and hand the rest on.

mod admitted;
mod spill;
mod unread;

use crate::clients::{ConnectionGuard, Evictable};
use crate::connection::{Connection, Watch};
use crate::inbound::{Inbound, Received, ReleasedConnection};
use crate::job::Job;
use crate::lease::Lease;
use crate::mailbox::{Mailbox, Message, WAKE};
use crate::message::Endpoints;
use crate::protocol::Protocol;
use crate::runner::{LeasedCall, RunSite, Runner, TurnEnd};
use crate::shared::{EventLoopHandle, Shared};
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use vfs::panics;
use vfs::qos::Permit;

const EVENTS_MAX: usize = 256;
/// The longest wait before the periodic checks.
const TICK: Duration = Duration::from_secs(1);

struct Entry<P: Protocol> {
    connection: Arc<Connection<P>>,
    /// The receiving half; `None` while a storage thread has it.
    inbound: Option<Inbound<P>>,
    /// Admitted calls, by number, with their permits.
    admitted: VecDeque<(u64, Permit)>,
    /// Whether the client has closed its sending half and waits for its last replies.
    is_ending: bool,
    /// The tick at which bytes were last received or sent.
    last_progress: u32,
    /// The tick at which the incomplete message began.
    message_began: u32,
    /// The tick at which the client connected.
    accepted: u32,
}

pub(crate) struct EventLoop<P: Protocol> {
    mailbox: Arc<Mailbox<P>>,
    shared: Arc<Shared<P>>,
    connections: HashMap<u64, Entry<P>>,
    next_token: u64,
    runner: Runner<P>,
    /// Connections that wait for a receive buffer.
    without_buffer: Vec<u64>,
    /// Connections with admitted calls.
    with_admitted: Vec<u64>,
    /// Connections with calls left over from their turn.
    ready_again: Vec<u64>,
    /// Whether only one connection is ready in this round.
    is_alone: bool,
    ticks: u32,
    stop: Option<Instant>,
}

impl<P: Protocol> Entry<P> {
    /// Whether progress on this connection depends on the client alone.
    fn waits_for_client(&self) -> bool {
        !self.connection.is_paused() || self.connection.has_unread()
    }

    /// Discards a long body: the call will not be answered.
    fn abort_upload(&mut self) {
        if self.inbound.as_mut().is_some_and(|inbound| inbound.uploading.take().is_some()) {
            self.connection.end_calls(1);
        }
    }
}

impl<P: Protocol> EventLoop<P> {
    pub(crate) fn new(mailbox: Arc<Mailbox<P>>, shared: Arc<Shared<P>>) -> Self {
        let runner = Runner::new(shared.memory());
        Self {
            mailbox,
            shared,
            connections: HashMap::new(),
            next_token: 0,
            runner,
            without_buffer: Vec::new(),
            with_admitted: Vec::new(),
            ready_again: Vec::new(),
            is_alone: false,
            ticks: 0,
            stop: None,
        }
    }

    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut last_tick = Instant::now();
        let tick = Timespec { tv_sec: 1, tv_nsec: 0 };
        while !self.is_finished() {
            let patience = if self.ready_again.is_empty() { &tick } else { &Timespec::default() };
            match epoll::wait(
                &self.mailbox.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(patience),
            ) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.is_alone = events.len() + self.ready_again.len() == 1;
            for event in events.drain(..) {
                let token = event.data.u64();
                if token == WAKE {
                    self.read_mailbox();
                } else {
                    self.serve_connection(token, |own| own.handle_event(token, event.flags));
                }
            }
            for token in std::mem::take(&mut self.ready_again) {
                self.serve_connection(token, |own| own.process_received(token));
            }
            if last_tick.elapsed() >= TICK {
                last_tick = Instant::now();
                self.tick();
            }
        }
        // Closing alone could reset the connection, and lose replies in flight, if it has unread calls.
        for entry in self.connections.values() {
            if !(self.shared.settings.keeps_connections && keep_open(&entry.connection.socket)) {
                let _ = entry.connection.socket.shutdown(Shutdown::Write);
            }
        }
        Ok(())
    }

    fn is_finished(&self) -> bool {
        self.stop.is_some_and(|deadline| {
            Instant::now() >= deadline || !self.connections.values().any(|entry| entry.connection.is_busy())
        })
    }

    /// Runs `work` for a connection. A panic ends this connection and no other. Memory is bounded after each
    /// connection, because those of a late turn together may bring much more than the bound.
    fn serve_connection(&mut self, token: u64, work: impl FnOnce(&mut Self)) {
        if panics::catch(|| work(self)).is_err() {
            // The panic may have left the runner in an inconsistent state.
            self.runner = Runner::new(self.shared.memory());
            if let Some(entry) = self.connections.get(&token) {
                tracing::error!(peer = %entry.connection.endpoints.peer, "a call panicked; its connection is closed");
                entry.connection.close();
            }
            self.end(token, None);
        }
        self.shed_if_crowded();
    }

    fn read_mailbox(&mut self) {
        for message in self.mailbox.collect() {
            let token = message.token();
            self.serve_connection(token, |own| own.handle_message(message));
        }
        for token in std::mem::take(&mut self.with_admitted) {
            self.serve_connection(token, |own| own.do_admitted(token));
        }
    }

    fn handle_event(&mut self, token: u64, flags: EventFlags) {
        let Some(entry) = self.connections.get_mut(&token) else { return };
        if flags.contains(EventFlags::OUT) {
            entry.last_progress = self.ticks;
            let connection = Arc::clone(&entry.connection);
            connection.send_queued();
            let goes_on = connection.is_paused() && connection.may_take_calls() || entry.is_ending;
            self.do_admitted(token);
            if goes_on {
                self.resume(token);
            }
        }
        if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            // Closed in both directions: no reply would arrive.
            self.end(token, None);
        } else if flags.contains(EventFlags::IN) {
            self.receive(token);
        }
    }

    fn handle_message(&mut self, message: Message<P>) {
        match message {
            Message::Accepted(socket, peer, listener, client) => {
                if let Err(error) = self.add_connection(socket, peer, &listener, client) {
                    self.shared.resources.connections.fetch_sub(1, Ordering::Relaxed);
                    tracing::warn!(%peer, %error, "cannot register a connection");
                }
            }
            Message::Resume(token) => self.resume(token),
            Message::Released(token, released) => self.reclaim(token, *released),
            Message::Admitted(token, number, permit) => self.note_admitted(token, number, permit),
            Message::BuffersScarce => self.spill(),
            Message::BuffersFree => {
                for token in std::mem::take(&mut self.without_buffer) {
                    self.serve_connection(token, |own| own.resume(token));
                }
            }
            Message::Stop(deadline) => {
                self.stop = Some(deadline);
                self.shared.resources.stopping.store(true, Ordering::SeqCst);
                self.ready_again.clear();
                for entry in self.connections.values_mut() {
                    entry.connection.set_paused(true);
                    entry.connection.queue.forget();
                    entry.admitted.clear();
                    entry.abort_upload();
                }
            }
        }
    }

    fn add_connection(
        &mut self,
        socket: TcpStream,
        peer: SocketAddr,
        listener: &P::Listener,
        client: ConnectionGuard,
    ) -> io::Result<()> {
        let token = self.next_token;
        self.next_token += 1;
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        rustix::net::sockopt::set_socket_keepalive(&socket, true)?;
        epoll::add(&self.mailbox.epoll, &socket, EventData::new_u64(token), EventFlags::IN)?;
        let endpoints = Endpoints { peer, local: socket.local_addr()?.ip() };
        let session = self.shared.protocol.session(listener, endpoints);
        let Shared { protocol, pool, resources, .. } = &*self.shared;
        let event_loop = EventLoopHandle { mailbox: Arc::clone(&self.mailbox), pool: Arc::clone(pool) };
        let watch = Watch { event_loop: Box::new(event_loop), token, epoll: Arc::clone(&self.mailbox.epoll) };
        let connection = Connection::new(protocol, session, socket, endpoints, watch, client, resources);
        let connection = Arc::new(connection);
        self.shared.registry.add(&connection);
        let itself: Weak<Connection<P>> = Arc::downgrade(&connection);
        if !connection.queue.counted().attach(itself) {
            connection.evict();
        }
        let entry = Entry {
            connection,
            inbound: Some(Inbound::new(resources)),
            admitted: VecDeque::new(),
            is_ending: false,
            last_progress: self.ticks,
            message_began: self.ticks,
            accepted: self.ticks,
        };
        self.connections.insert(token, entry);
        Ok(())
    }

    /// Resumes a paused connection, beginning with the bytes that it has received already.
    fn resume(&mut self, token: u64) {
        let Some(entry) = self.connections.get_mut(&token) else { return };
        if self.stop.is_some() || entry.inbound.is_none() || !entry.connection.is_paused() {
            return;
        }
        if !entry.is_ending {
            entry.connection.set_paused(false);
            entry.message_began = self.ticks;
        }
        self.process_received(token);
    }

    /// Takes the receiving half back from a storage thread.
    fn reclaim(&mut self, token: u64, released: ReleasedConnection<P>) {
        let Some(entry) = self.connections.get_mut(&token) else { return };
        let connection = Arc::clone(&entry.connection);
        connection.reclaim();
        entry.inbound = Some(released.inbound);
        entry.last_progress = self.ticks;
        if let Some(error) = released.error {
            return self.end(token, Some(error.0));
        }
        if self.stop.is_some() {
            entry.abort_upload();
        }
        if entry.inbound.as_ref().is_some_and(|inbound| inbound.is_closed) {
            return self.stop_receiving(token);
        }
        if connection.may_take_calls() || entry.is_ending {
            self.resume(token);
        }
        // An incomplete message is as old as before the lease.
        if let Some(entry) = self.connections.get_mut(&token)
            && let Some(since) = entry.inbound.as_ref().and_then(Inbound::long_tail_since)
        {
            let age_s = u32::try_from(since.elapsed().as_secs()).unwrap_or(u32::MAX);
            entry.message_began = self.ticks.saturating_sub(age_s);
        }
    }

    /// Finishes the remaining calls of a client that sends nothing more.
    fn stop_receiving(&mut self, token: u64) {
        let Some(entry) = self.connections.get_mut(&token) else { return };
        // A storage thread that has the receiving half returns it later.
        let Some(inbound) = &mut entry.inbound else { return };
        inbound.release_empty_buffer();
        entry.is_ending = true;
        entry.connection.set_paused(true);
        self.process_received(token);
    }

    fn process_received(&mut self, token: u64) {
        let Some(entry) = self.connections.get_mut(&token) else { return };
        let Some(inbound) = &mut entry.inbound else { return };
        if inbound.has_received() {
            if inbound.take_buffer().is_none() {
                return self.wait_for_buffer(token);
            }
            self.serve(token);
        }
        self.end_if_answered(token);
    }

    fn receive(&mut self, token: u64) {
        let Some(entry) = self.connections.get_mut(&token) else { return };
        let Some(inbound) = &mut entry.inbound else { return };
        entry.last_progress = self.ticks;
        if !inbound.is_partial() {
            entry.message_began = self.ticks;
        }
        match inbound.receive(&entry.connection) {
            Received::Bytes => {
                let is_last = inbound.is_closed;
                self.serve(token);
                if is_last {
                    self.stop_receiving(token);
                }
            }
            Received::Nothing => inbound.release_empty_buffer(),
            Received::NoBuffer => self.wait_for_buffer(token),
            Received::Closed => self.stop_receiving(token),
            Received::Broken(error) => self.end(token, Some(&error)),
        }
    }

    /// Ends a connection whose client sends nothing more and has all its replies.
    fn end_if_answered(&mut self, token: u64) {
        let Some(entry) = self.connections.get_mut(&token) else { return };
        if entry.is_ending && !entry.inbound.as_ref().is_some_and(Inbound::has_received) {
            entry.abort_upload();
        }
        let is_answered = !entry.connection.is_busy() && entry.connection.queue.is_empty();
        if entry.is_ending && is_answered && !self.ready_again.contains(&token) {
            self.end(token, None);
        }
    }

    /// Processes the received bytes, and leaves the rest to the connection or to a storage thread.
    fn serve(&mut self, token: u64) {
        self.shed_unread();
        let Some(entry) = self.connections.get_mut(&token) else { return };
        let Some(inbound) = &mut entry.inbound else { return };
        let connection = Arc::clone(&entry.connection);
        let turn = self.runner.turn(&connection, inbound, None, RunSite::EventLoop, self.is_alone);
        // The first call of a lease still lies in the buffer.
        if !matches!(turn.end, Ok(TurnEnd::Lease(_))) {
            inbound.release_empty_buffer();
        }
        inbound.count_spilled(connection.queue.has_reserved());
        if turn.progressed {
            entry.message_began = self.ticks;
        }
        match turn.end {
            Ok(TurnEnd::Receive) => {}
            Ok(TurnEnd::Yield) => self.ready_again.push(token),
            Ok(TurnEnd::Full) => {
                connection.set_paused(true);
                // The event that would end the pause may have come before the pause began.
                if connection.may_take_calls() {
                    connection.set_paused(false);
                    self.ready_again.push(token);
                }
            }
            Ok(TurnEnd::Lease(first)) => self.lease(token, first),
            Err(error) => self.end(token, Some(error.0)),
        }
    }

    /// Hands the connection with all received bytes to a storage thread, without the buffer if buffers are scarce.
    fn lease(&mut self, token: u64, first: Option<LeasedCall<P>>) {
        let Some(entry) = self.connections.get_mut(&token) else { return };
        let Some(mut inbound) = entry.inbound.take() else { return };
        let first = if self.shared.resources.buffers.is_plentiful() {
            first
        } else {
            let first = first.map(|first| first.detach_from(inbound.buffer.as_ref()));
            inbound.spill(entry.connection.queue.has_reserved());
            first
        };
        let lease = Lease::new(&entry.connection, inbound, first, &self.mailbox);
        self.shared.pool.submit(Job::lease(&entry.connection, lease));
    }

    fn tick(&mut self) {
        self.ticks += 1;
        self.shed();
        self.shed_unread();
        self.shared.protocol.tick(self.runner.memory());
        let (ticks, stalled_s) = (self.ticks, self.shared.settings.stalled_s);
        let stalled = |entry: &Entry<P>| {
            let inbound = entry.inbound.as_ref();
            let is_partial = inbound.is_some_and(Inbound::is_partial) && !entry.connection.is_paused();
            let uploads = inbound.is_some_and(|inbound| inbound.uploading.is_some());
            let rests = uploads || entry.connection.has_unread();
            is_partial && ticks - entry.message_began > stalled_s
                || rests && ticks - entry.last_progress > stalled_s
        };
        self.end_all("its TLS handshake takes too long", |entry| entry.connection.is_handshake_overdue());
        self.end_all("an unfinished message or unread replies made no progress", stalled);
        self.connections.values().for_each(|entry| entry.connection.relax_user_timeout());
        let idle_s = self.shared.settings.idle_s;
        let idle = |entry: &Entry<P>| {
            let waits = entry.connection.is_busy() || !entry.connection.queue.is_empty();
            ticks - entry.last_progress > idle_s && !waits && entry.inbound.is_some()
        };
        self.end_all("no call within the idle time", idle);
        let unproven_s = self.shared.settings.unproven_s;
        let unproven = |entry: &Entry<P>| {
            let waits = entry.connection.in_progress() > 0 || !entry.connection.queue.is_empty();
            entry.connection.is_new() && ticks - entry.accepted > unproven_s && !waits
        };
        self.end_all("unproven at the deadline", unproven);
    }

    /// Ends all connections for which `are` is true.
    fn end_all(&mut self, why: &'static str, are: impl Fn(&Entry<P>) -> bool) {
        let ending: Vec<u64> =
            self.connections.iter().filter(|(_, entry)| are(entry)).map(|(&token, _)| token).collect();
        ending.into_iter().for_each(|token| self.end(token, Some(why)));
    }

    /// Ends a connection. `why` is `None` if the client closed it. The socket closes when the last call in progress is
    /// done.
    fn end(&mut self, token: u64, why: Option<&str>) {
        let Some(entry) = self.connections.remove(&token) else { return };
        if let Some(why) = why {
            tracing::debug!(peer = %entry.connection.endpoints.peer, why, "connection ended");
        }
        entry.connection.send_close();
        // Calls in progress would keep the memory of unread replies alive.
        entry.connection.discard_unread();
        let _ = epoll::delete(&self.mailbox.epoll, &entry.connection.socket);
        self.shared.resources.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Keeps a connection open until the process ends. Whether it succeeds.
fn keep_open(socket: &TcpStream) -> bool {
    socket.try_clone().map(std::mem::forget).is_ok()
}

//! One event loop for each core: receives messages, answers at once what can be answered at once, hands on the rest.

mod admitted;
mod spill;
mod unread;

use crate::clients::{Counted, GivesWay};
use crate::connection::{Connection, Watch};
use crate::inbound::{Inbound, Received, Released};
use crate::job::Job;
use crate::lease::Lease;
use crate::mailbox::{Mailbox, Message, WAKE};
use crate::message::Endpoints;
use crate::protocol::Protocol;
use crate::runner::{First, Rest, Runner, Site};
use crate::shared::{LoopHome, Shared};
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
/// The loop looks around at least this often.
const TICK: Duration = Duration::from_secs(1);

/// A connection as its event loop knows it.
struct Entry<P: Protocol> {
    connection: Arc<Connection<P>>,
    /// What was received; `None` while a storage thread has it.
    inbound: Option<Inbound<P>>,
    /// Queued calls that may go on, and what they have paid.
    admitted: VecDeque<(u64, Permit)>,
    /// The client sends no more, and waits for what it has asked.
    is_ending: bool,
    /// The tick at which bytes last came or went.
    moved: u32,
    /// The tick at which the message that is coming in began.
    began: u32,
    /// The tick at which the client connected.
    accepted: u32,
}

/// An event loop.
pub(crate) struct EventLoop<P: Protocol> {
    mailbox: Arc<Mailbox<P>>,
    shared: Arc<Shared<P>>,
    connections: HashMap<u64, Entry<P>>,
    next_token: u64,
    runner: Runner<P>,
    /// Connections that wait for a receive buffer.
    without_buffer: Vec<u64>,
    /// Connections with queued calls that may go on.
    with_admitted: Vec<u64>,
    /// Connections that have more calls than fitted into their turn.
    again: Vec<u64>,
    /// Only one connection has something to say in this round.
    is_alone: bool,
    ticks: u32,
    stop: Option<Instant>,
}

impl<P: Protocol> Entry<P> {
    /// Whether it is the client that keeps this connection from going on.
    fn waits_for_client(&self) -> bool {
        !self.connection.is_paused() || self.connection.has_unread()
    }

    /// Receives the rest of a long body no more: it will not be answered.
    fn give_up_upload(&mut self) {
        if self.inbound.as_mut().is_some_and(|inbound| inbound.uploading.take().is_some()) {
            self.connection.end_calls(1);
        }
    }
}

impl<P: Protocol> EventLoop<P> {
    /// A loop that is reached through `mailbox`.
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
            again: Vec::new(),
            is_alone: false,
            ticks: 0,
            stop: None,
        }
    }

    /// Runs until it is stopped.
    pub(crate) fn run(mut self) -> io::Result<()> {
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
        for entry in self.connections.values() {
            let _ = entry.connection.socket.shutdown(Shutdown::Write);
        }
        Ok(())
    }

    fn is_finished(&self) -> bool {
        self.stop.is_some_and(|deadline| {
            Instant::now() >= deadline || !self.connections.values().any(|entry| entry.connection.is_busy())
        })
    }

    /// Does something for a connection. Should that panic, the connection ends, and no other one.
    fn guard(&mut self, token: u64, work: impl FnOnce(&mut Self)) {
        if panics::catch(|| work(self)).is_ok() {
            return;
        }
        // What the work has left half done is not used.
        self.runner = Runner::new(self.shared.memory());
        if let Some(entry) = self.connections.get(&token) {
            tracing::error!(peer = %entry.connection.ends.peer, "a call panicked; its connection is closed");
            entry.connection.close();
        }
        self.end(token, None);
    }

    /// Reads what other threads have to say.
    fn read_all(&mut self) {
        for message in self.mailbox.collect() {
            let token = message.token();
            self.guard(token, |own| own.read(message));
        }
        for token in std::mem::take(&mut self.with_admitted) {
            self.guard(token, |own| own.do_admitted(token));
        }
    }

    fn handle(&mut self, token: u64, flags: EventFlags) {
        let Some(entry) = self.connections.get_mut(&token) else { return };
        if flags.contains(EventFlags::OUT) {
            entry.moved = self.ticks;
            let connection = Arc::clone(&entry.connection);
            connection.send_queued();
            let goes_on = connection.is_paused() && connection.may_take_calls() || entry.is_ending;
            self.do_admitted(token);
            if goes_on {
                self.resume(token);
            }
        }
        if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            // Closed in both directions: nobody would hear the answers.
            self.end(token, None);
        } else if flags.contains(EventFlags::IN) {
            self.receive(token);
        }
    }

    fn read(&mut self, message: Message<P>) {
        match message {
            Message::Accepted(socket, peer, listener, client) => {
                if let Err(error) = self.adopt(socket, peer, &listener, client) {
                    self.shared.resources.connections.fetch_sub(1, Ordering::Relaxed);
                    tracing::warn!(%peer, %error, "cannot watch a connection");
                }
            }
            Message::Resume(token) => self.resume(token),
            Message::Released(token, released) => self.reclaim(token, *released),
            Message::Admitted(token, number, charge) => self.note_admitted(token, number, charge),
            Message::BuffersScarce => self.spill(),
            Message::BuffersFree => {
                for token in std::mem::take(&mut self.without_buffer) {
                    self.guard(token, |own| own.resume(token));
                }
            }
            Message::Stop(deadline) => {
                self.stop = Some(deadline);
                self.shared.resources.stopping.store(true, Ordering::SeqCst);
                self.again.clear();
                for entry in self.connections.values_mut() {
                    entry.connection.set_paused(true);
                    entry.connection.queue.forget();
                    entry.admitted.clear();
                    entry.give_up_upload();
                }
            }
        }
    }

    fn adopt(
        &mut self,
        socket: TcpStream,
        peer: SocketAddr,
        listener: &P::Listener,
        client: Counted,
    ) -> io::Result<()> {
        let token = self.next_token;
        self.next_token += 1;
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        rustix::net::sockopt::set_socket_keepalive(&socket, true)?;
        epoll::add(&self.mailbox.epoll, &socket, EventData::new_u64(token), EventFlags::IN)?;
        let ends = Endpoints { peer, local: socket.local_addr()?.ip() };
        let session = self.shared.protocol.session(listener, ends);
        let Shared { protocol, pool, resources, .. } = &*self.shared;
        let home = LoopHome { mailbox: Arc::clone(&self.mailbox), pool: Arc::clone(pool) };
        let watch = Watch { token, epoll: Arc::clone(&self.mailbox.epoll) };
        let connection =
            Connection::new(protocol, session, (socket, ends), watch, Box::new(home), client, resources);
        let connection = Arc::new(connection);
        self.shared.registry.add(&connection);
        let itself: Weak<Connection<P>> = Arc::downgrade(&connection);
        if !connection.queue.counted().attach(itself) {
            connection.give_way();
        }
        let entry = Entry {
            connection,
            inbound: Some(Inbound::new(resources)),
            admitted: VecDeque::new(),
            is_ending: false,
            moved: self.ticks,
            began: self.ticks,
            accepted: self.ticks,
        };
        self.connections.insert(token, entry);
        Ok(())
    }

    /// Goes on with a connection that stopped taking calls: first with what it has received already.
    fn resume(&mut self, token: u64) {
        let Some(entry) = self.connections.get_mut(&token) else { return };
        if self.stop.is_some() || entry.inbound.is_none() || !entry.connection.is_paused() {
            return;
        }
        if !entry.is_ending {
            entry.connection.set_paused(false);
            entry.began = self.ticks;
        }
        self.go_on(token);
    }

    /// Receives again what a storage thread received for a while.
    fn reclaim(&mut self, token: u64, released: Released<P>) {
        let Some(entry) = self.connections.get_mut(&token) else { return };
        let connection = Arc::clone(&entry.connection);
        connection.reclaim();
        entry.inbound = Some(released.inbound);
        entry.moved = self.ticks;
        if let Some(error) = released.error {
            return self.end(token, Some(error.0));
        }
        if self.stop.is_some() {
            entry.give_up_upload();
        }
        if entry.inbound.as_ref().is_some_and(|inbound| inbound.is_closed) {
            return self.stop_receiving(token);
        }
        if connection.may_take_calls() || entry.is_ending {
            self.resume(token);
        }
        // What a storage thread has left of a message is as old as before.
        if let Some(entry) = self.connections.get_mut(&token)
            && let Some(since) = entry.inbound.as_ref().and_then(Inbound::kept_since)
        {
            let age_s = u32::try_from(since.elapsed().as_secs()).unwrap_or(u32::MAX);
            entry.began = self.ticks.saturating_sub(age_s);
        }
    }

    /// Does what is left to do for a client that sends no more.
    fn stop_receiving(&mut self, token: u64) {
        let Some(entry) = self.connections.get_mut(&token) else { return };
        // A storage thread that has it brings it back.
        let Some(inbound) = &mut entry.inbound else { return };
        inbound.release_empty_buffer();
        entry.is_ending = true;
        entry.connection.set_paused(true);
        self.go_on(token);
    }

    /// Deals with what a connection has received already.
    fn go_on(&mut self, token: u64) {
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
        entry.moved = self.ticks;
        if !inbound.is_partial() {
            entry.began = self.ticks;
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

    /// Lets a connection go whose client sends no more and has all its answers.
    fn end_if_answered(&mut self, token: u64) {
        let Some(entry) = self.connections.get_mut(&token) else { return };
        if entry.is_ending && !entry.inbound.as_ref().is_some_and(Inbound::has_received) {
            entry.give_up_upload();
        }
        let is_answered = !entry.connection.is_busy() && entry.connection.queue.is_empty();
        if entry.is_ending && is_answered && !self.again.contains(&token) {
            self.end(token, None);
        }
    }

    /// Deals with what was received, and leaves the rest with the connection or with a storage thread.
    fn serve(&mut self, token: u64) {
        self.shed_unread();
        let Some(entry) = self.connections.get_mut(&token) else { return };
        let Some(inbound) = &mut entry.inbound else { return };
        let connection = Arc::clone(&entry.connection);
        let turn = self.runner.turn(&connection, inbound, None, Site::EventLoop, self.is_alone);
        // The call that a lease begins with still lies in the buffer.
        if !matches!(turn.rest, Ok(Rest::Lease(_))) {
            inbound.release_empty_buffer();
        }
        inbound.count_spilled(connection.queue.has_reserved());
        if turn.progressed {
            entry.began = self.ticks;
        }
        match turn.rest {
            Ok(Rest::Receive) => {}
            Ok(Rest::Again) => self.again.push(token),
            Ok(Rest::Full) => {
                connection.set_paused(true);
                // What the pause waits for may have happened before it began.
                if connection.may_take_calls() {
                    connection.set_paused(false);
                    self.again.push(token);
                }
            }
            Ok(Rest::Lease(first)) => self.lease(token, first),
            Err(error) => self.end(token, Some(error.0)),
        }
    }

    /// Hands the connection with all that was received to a storage thread. Where buffers are scarce, it takes none along.
    fn lease(&mut self, token: u64, first: Option<First<P>>) {
        let Some(entry) = self.connections.get_mut(&token) else { return };
        let Some(mut inbound) = entry.inbound.take() else { return };
        let first = if self.shared.resources.buffers.is_plentiful() {
            first
        } else {
            let first = first.map(|first| first.away_from(inbound.buffer.as_ref()));
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
            is_partial && ticks - entry.began > stalled_s || rests && ticks - entry.moved > stalled_s
        };
        self.end_all("its handshake takes too long", |entry| entry.connection.is_handshake_overdue());
        self.end_all("neither half a message nor unread replies have moved for too long", stalled);
        self.connections.values().for_each(|entry| entry.connection.be_patient());
        let idle_s = self.shared.settings.idle_s;
        let idle = |entry: &Entry<P>| {
            let waits = entry.connection.is_busy() || !entry.connection.queue.is_empty();
            ticks - entry.moved > idle_s && !waits && entry.inbound.is_some()
        };
        self.end_all("no call has come for too long", idle);
        let unproven_s = self.shared.settings.unproven_s;
        let unproven = |entry: &Entry<P>| {
            let waits = entry.connection.in_progress() > 0 || !entry.connection.queue.is_empty();
            entry.connection.is_new() && ticks - entry.accepted > unproven_s && !waits
        };
        self.end_all("its client has proven nothing in time", unproven);
    }

    /// Ends all connections of this kind.
    fn end_all(&mut self, why: &'static str, are: impl Fn(&Entry<P>) -> bool) {
        let ending: Vec<u64> =
            self.connections.iter().filter(|(_, entry)| are(entry)).map(|(&token, _)| token).collect();
        ending.into_iter().for_each(|token| self.end(token, Some(why)));
    }

    /// Lets a connection go, for this reason unless its client has closed it. The socket closes when the last call that is in
    /// progress is done.
    fn end(&mut self, token: u64, why: Option<&str>) {
        let Some(entry) = self.connections.remove(&token) else { return };
        if let Some(why) = why {
            tracing::debug!(peer = %entry.connection.ends.peer, why, "connection ended");
        }
        entry.connection.say_end();
        // Calls that are still in progress keep nothing of it.
        entry.connection.forget_unread();
        let _ = epoll::delete(&self.mailbox.epoll, &entry.connection.socket);
        self.shared.resources.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

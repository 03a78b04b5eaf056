//! The server: its acceptor, event loops and storage threads.

use crate::buffer::BufferPool;
use crate::clients::Clients;
use crate::event_loop::EventLoop;
use crate::job::Job;
use crate::limits::{LONG_REPLIES_DEFERRED_BYTES_MAX, LONG_REPLIES_DEFERRED_MAX};
use crate::listeners::{Listener, Listeners};
use crate::mailbox::{Mailbox, Message};
use crate::message::ConnectionEnds;
use crate::parking::Parking;
use crate::pool::Pool;
use crate::protocol::Protocol;
use crate::registry::{Client, Registry, VolumeConnections};
use crate::resources::Resources;
use crate::settings::Settings;
use crate::shared::Shared;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vfs::panics;

pub struct Server<P: Protocol> {
    shared: Arc<Shared<P>>,
    loops: Vec<(Arc<Mailbox<P>>, JoinHandle<()>)>,
    acceptor: Option<JoinHandle<()>>,
    listeners: Listeners<P::Listener>,
    stopping: Arc<AtomicBool>,
}

/// The interval in which the acceptor checks for new listeners and for a stop, in milliseconds.
const ACCEPT_POLL_MS: i64 = 200;
/// The acceptor's pause while many evicted connections are still open.
const EVICTED_PAUSE: Duration = Duration::from_millis(1);

impl<P: Protocol> Server<P> {
    /// Serves `protocol` on these listeners. `name` is the name of the event loop threads.
    pub fn start(
        protocol: Arc<P>,
        name: &'static str,
        listeners: Vec<(TcpListener, P::Listener)>,
        settings: Settings,
    ) -> io::Result<Self> {
        let mailboxes =
            (0..settings.threads.max(1)).map(|_| Mailbox::new()).collect::<io::Result<Vec<_>>>()?;
        let mailboxes_to_wake = mailboxes.clone();
        let buffers = BufferPool::new(move || {
            mailboxes_to_wake.iter().for_each(|mailbox| mailbox.post(Message::BuffersFree))
        });
        let resources = Resources::new(buffers, settings.lease_files(), settings.deadline);
        let put_off = Parking::new("put-off", LONG_REPLIES_DEFERRED_MAX, LONG_REPLIES_DEFERRED_BYTES_MAX);
        let shared = Arc::new(Shared {
            protocol,
            pool: Pool::new(&resources.jobs, move |pool, job: Job<P>| job.run(pool, &put_off)),
            resources,
            clients: Clients::new(&settings),
            registry: Registry::default(),
            settings,
            loops: mailboxes.clone(),
        });
        let start_loop = |mailbox: Arc<Mailbox<P>>| {
            let (own, shared) = (Arc::clone(&mailbox), Arc::clone(&shared));
            let run = move || {
                panics::or_abort(|| {
                    if let Err(error) = EventLoop::new(own, shared).run() {
                        // The loop's clients would wait forever, while those of other loops are served.
                        tracing::error!(%error, "an event loop failed; the process ends");
                        std::process::abort();
                    }
                });
            };
            Ok((mailbox, std::thread::Builder::new().name(name.into()).spawn(run)?))
        };
        let loops = mailboxes.iter().cloned().map(start_loop).collect::<io::Result<Vec<_>>>()?;
        let stopping = Arc::new(AtomicBool::new(false));
        let accepting = Listeners::new();
        listeners.into_iter().try_for_each(|(listener, serves)| accepting.add(listener, serves))?;
        let listeners = accepting;
        let acceptor =
            Acceptor::new(listeners.clone(), mailboxes, Arc::clone(&shared), Arc::clone(&stopping));
        let accept = move || panics::or_abort(|| acceptor.run());
        let acceptor = std::thread::Builder::new().name("accept".into()).spawn(accept)?;
        Ok(Self { shared, loops, acceptor: Some(acceptor), listeners, stopping })
    }

    pub fn view(&self) -> View<P> {
        View { shared: Arc::clone(&self.shared) }
    }

    pub fn listeners(&self) -> Listeners<P::Listener> {
        self.listeners.clone()
    }

    /// Stops accepting and taking calls. Waits at most `patience` for the replies to calls in progress.
    pub fn stop(mut self, patience: Duration) {
        self.stopping.store(true, Ordering::SeqCst);
        self.listeners.close();
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        let deadline = Instant::now() + patience;
        self.loops.iter().for_each(|(mailbox, _)| mailbox.post(Message::Stop(deadline)));
        for (_, thread) in self.loops.drain(..) {
            let _ = thread.join();
        }
        self.shared.pool.close();
    }
}

pub struct View<P: Protocol> {
    shared: Arc<Shared<P>>,
}

impl<P: Protocol> Clone for View<P> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Current and maximum connections.
    pub connections: usize,
    pub connections_max: usize,
    /// Bytes of calls that wait for their volumes' limits.
    pub queued_bytes: usize,
    /// Memory of replies that clients have not read completely.
    pub unread_bytes: usize,
    /// Bytes of unfinished messages outside of receive buffers.
    pub spilled_bytes: usize,
}

impl<P: Protocol> View<P> {
    pub fn connections(&self) -> usize {
        self.shared.resources.connections.load(Ordering::Relaxed)
    }

    pub fn clients(&self) -> Vec<Client> {
        self.shared.registry.clients()
    }

    /// The ends of current connections, at most this many, the newest first.
    pub fn connection_ends(&self, most: usize) -> Vec<ConnectionEnds> {
        self.shared.registry.ends(most)
    }

    /// The connections with a reply for a volume within this time.
    pub fn volume_connections(&self, within: Duration) -> VolumeConnections {
        self.shared.registry.users(within)
    }

    pub fn stats(&self) -> Stats {
        let (resources, settings) = (&self.shared.resources, &self.shared.settings);
        Stats {
            connections: self.connections(),
            connections_max: settings.connections_max,
            queued_bytes: resources.queued.bytes(),
            unread_bytes: resources.unread.load(Ordering::Relaxed),
            spilled_bytes: resources.spilled.load(Ordering::Relaxed) + resources.tails.bytes(),
        }
    }
}

struct Acceptor<P: Protocol> {
    listeners: Listeners<P::Listener>,
    mailboxes: Vec<Arc<Mailbox<P>>>,
    shared: Arc<Shared<P>>,
    stopping: Arc<AtomicBool>,
    refusals: Refusals,
}

/// Refused connections that are not logged yet.
#[derive(Default)]
struct Refusals {
    count: u64,
    last: Option<(SocketAddr, &'static str)>,
    last_logged: Option<Instant>,
}

impl Refusals {
    fn add(&mut self, peer: SocketAddr, why: &'static str) {
        self.count += 1;
        self.last = Some((peer, why));
    }

    /// Logs refusals, at most once a second.
    fn log_if_due(&mut self) {
        if self
            .last_logged
            .is_none_or(|mailboxes_to_wake| mailboxes_to_wake.elapsed() >= Duration::from_secs(1))
            && let Some((peer, why)) = self.last.take()
        {
            let refused = std::mem::take(&mut self.count);
            tracing::warn!(refused, last = %peer, why, "connections refused");
            self.last_logged = Some(Instant::now());
        }
    }
}

impl<P: Protocol> Acceptor<P> {
    fn new(
        listeners: Listeners<P::Listener>,
        mailboxes: Vec<Arc<Mailbox<P>>>,
        shared: Arc<Shared<P>>,
        stopping: Arc<AtomicBool>,
    ) -> Self {
        Self { listeners, mailboxes, shared, stopping, refusals: Refusals::default() }
    }

    fn run(mut self) {
        let mut next = 0;
        let patience = rustix::event::Timespec { tv_sec: 0, tv_nsec: ACCEPT_POLL_MS * 1_000_000 };
        while !self.stopping.load(Ordering::SeqCst) {
            let listeners = self.listeners.open();
            let mut ready: Vec<_> =
                listeners.iter().map(|listener| PollFd::new(&listener.socket, PollFlags::IN)).collect();
            let _ = poll(&mut ready, Some(&patience));
            for (fd, listener) in ready.iter().zip(&listeners) {
                if !fd.revents().is_empty() {
                    self.accept(listener, &mut next);
                }
            }
            self.refusals.log_if_due();
        }
    }

    fn accept(&mut self, listener: &Listener<P::Listener>, next: &mut usize) {
        loop {
            if self.shared.clients.is_crowded() {
                // The event loops close evicted connections meanwhile.
                std::thread::sleep(EVICTED_PAUSE);
                return;
            }
            match listener.socket.accept() {
                Ok((socket, peer)) => {
                    let client = match self.shared.clients.connect(peer.ip(), Instant::now()) {
                        Ok(client) => client,
                        Err(refused) => {
                            self.refusals.add(peer, refused.reason());
                            continue;
                        }
                    };
                    self.shared.resources.connections.fetch_add(1, Ordering::Relaxed);
                    self.mailboxes[*next % self.mailboxes.len()].post(Message::Accepted(
                        socket,
                        peer,
                        listener.context.clone(),
                        client,
                    ));
                    *next += 1;
                }
                // `InvalidInput`: the listener was shut down.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::InvalidInput) => {
                    return;
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(error) => {
                    // Probably out of descriptors: wait until some are released.
                    tracing::warn!(%error, "cannot accept a connection");
                    std::thread::sleep(Duration::from_millis(ACCEPT_POLL_MS.unsigned_abs()));
                    return;
                }
            }
        }
    }
}

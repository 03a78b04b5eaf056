//! Listens for peers. A thread serves each connection, and strangers have few of them, for a short time.

use super::connection::Connection;
use super::key::{Identity, PublicKey};
use super::tls::server_config;
use crate::limits::{
    HANDSHAKES_MAX, NETWORK_HANDSHAKES_MAX, PEER_CONNECTIONS_MAX, PEERS_CONNECTIONS_MAX, THREADS_MAX,
};
use rustls::ServerConfig;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::Duration;
use vfs::bounds::{Network, Networks};
use vfs::sync::{Condvar, Mutex};

/// The bytes of a thread's stack.
const STACK_BYTES: usize = 512 << 10;
/// Waits for descriptors and threads to come back.
const RETRY: Duration = Duration::from_millis(200);

/// The time after which a connection with unread data ends.
const USER_TIMEOUT_MS: u32 = 60_000;

/// The services that may connect, and the answers to them.
pub trait Peers: Send + Sync + 'static {
    /// Called during the handshake, for each client.
    fn is_peer(&self, key: &PublicKey) -> bool;

    /// Serves a peer until it leaves.
    fn serve(&self, connection: Connection);
}

/// A running listener. It ends, with all connections, when it is dropped.
pub struct Listener {
    listener: TcpListener,
    local: SocketAddr,
    site: Arc<Site>,
    thread: Option<JoinHandle<()>>,
}

struct Site {
    config: Arc<ServerConfig>,
    peers: Arc<dyn Peers>,
    open: Mutex<Open>,
    closed: Condvar,
    is_stopping: AtomicBool,
}

#[derive(Default)]
struct Open {
    next: u64,
    each: BTreeMap<u64, OpenConnection>,
}

struct OpenConnection {
    from: Network,
    stream: TcpStream,
    /// `None`: a stranger, whose handshake has not ended.
    peer: Option<PublicKey>,
    is_ending: bool,
}

impl Listener {
    /// Serves peers at this address. Port 0 lets the system choose.
    pub fn start(address: SocketAddr, identity: &Identity, peers: Arc<dyn Peers>) -> io::Result<Self> {
        let known = Arc::clone(&peers);
        let config = Arc::new(server_config(identity, Box::new(move |key| known.is_peer(key)))?);
        let listener = TcpListener::bind(address)?;
        let local = listener.local_addr()?;
        let site = Arc::new(Site {
            config,
            peers,
            open: Mutex::default(),
            closed: Condvar::default(),
            is_stopping: AtomicBool::new(false),
        });
        let (accepting, of) = (listener.try_clone()?, Arc::clone(&site));
        let thread = Builder::new().name("replication".into()).spawn(move || of.accept(&accepting))?;
        Ok(Self { listener, local, site, thread: Some(thread) })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The connections that are open: of strangers, and of peers.
    pub fn connections(&self) -> (usize, usize) {
        let open = self.site.open.lock();
        let peers = open.each.values().filter(|one| one.peer.is_some()).count();
        (open.each.len() - peers, peers)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.site.is_stopping.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
        let mut open = self.site.open.lock();
        open.each.values_mut().for_each(OpenConnection::end);
        while !open.each.is_empty() {
            open = self.site.closed.wait(open);
        }
    }
}

impl Site {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            let accepted = listener.accept();
            if self.is_stopping.load(Ordering::SeqCst) {
                return;
            }
            match accepted {
                Ok((stream, from)) => {
                    let from = Networks::default().of(from.ip().to_canonical());
                    let Some(number) = self.enter(&stream, from) else { continue };
                    let guard = Guard { site: Arc::clone(self), number };
                    let serve = move || guard.serve(stream);
                    if Builder::new().name("replication".into()).stack_size(STACK_BYTES).spawn(serve).is_err()
                    {
                        sleep(RETRY);
                    }
                }
                // Most likely out of descriptors.
                Err(_) => sleep(RETRY),
            }
        }
    }

    fn enter(&self, stream: &TcpStream, from: Network) -> Option<u64> {
        let stream = stream.try_clone().ok()?;
        let mut open = self.open.lock();
        if open.each.len() >= THREADS_MAX {
            return None;
        }
        let counts = open.handshakes();
        if counts.get(&from).is_some_and(|&count| count >= NETWORK_HANDSHAKES_MAX) {
            open.end_oldest_handshake(from);
        } else if counts.values().sum::<usize>() >= HANDSHAKES_MAX
            && let Some((&most, _)) = counts.iter().max_by_key(|(_, count)| **count)
        {
            open.end_oldest_handshake(most);
        }
        let number = open.next;
        open.next += 1;
        open.each.insert(number, OpenConnection { from, stream, peer: None, is_ending: false });
        Some(number)
    }

    /// Whether the peer may have another connection.
    fn admit(&self, number: u64, peer: PublicKey) -> bool {
        let mut open = self.open.lock();
        let peers = open.each.values().filter_map(|one| one.peer);
        let (all, own) = peers.fold((0, 0), |(all, own), one| (all + 1, own + usize::from(one == peer)));
        if all >= PEERS_CONNECTIONS_MAX || own >= PEER_CONNECTIONS_MAX {
            return false;
        }
        open.each.get_mut(&number).is_some_and(|one| {
            one.peer = Some(peer);
            !one.is_ending
        })
    }
}

impl Open {
    /// The handshakes of each network that are not ending.
    fn handshakes(&self) -> HashMap<Network, usize> {
        let mut counts = HashMap::new();
        for one in self.each.values().filter(|one| one.peer.is_none() && !one.is_ending) {
            *counts.entry(one.from).or_default() += 1;
        }
        counts
    }

    fn end_oldest_handshake(&mut self, of: Network) {
        let is_it = |one: &&mut OpenConnection| one.from == of && one.peer.is_none() && !one.is_ending;
        self.each.values_mut().find(is_it).into_iter().for_each(OpenConnection::end);
    }
}

impl OpenConnection {
    fn end(&mut self) {
        self.is_ending = true;
        // Its thread notices.
        _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// A connection in the list; leaves it when dropped.
struct Guard {
    site: Arc<Site>,
    number: u64,
}

impl Guard {
    fn serve(self, stream: TcpStream) {
        _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, USER_TIMEOUT_MS);
        let Ok(connection) = Connection::accept(stream, Arc::clone(&self.site.config)) else { return };
        if self.site.admit(self.number, connection.peer()) {
            self.site.peers.serve(connection);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.site.open.lock().each.remove(&self.number);
        self.site.closed.notify_all();
    }
}

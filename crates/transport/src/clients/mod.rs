//! The connected clients: connections of each, evictions, and memory of queued calls.
//!
//! A connection is unproven until its protocol proves it ([`crate::Connection::prove`]). When connections run out,
//! unproven ones are evicted ([`EvictionQueue`]). Proven connections stay, so a network may have only its share of them
//! ([`Bounds`]).

use crate::eviction_queue::EvictionQueue;
use crate::limits::{ADDRESSES_OF_NETWORK_MAX, EVICTED_MAX, EVICTION_AGE_MIN};
use crate::settings::Settings;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Instant;
use vfs::bounds::{Bounds, Full, Network, Networks, Party, Slot};
use vfs::sync::Mutex;

pub(crate) struct Clients {
    networks: Networks,
    connections_max: usize,
    client_connections_max: usize,
    proven: Arc<Bounds>,
    table: Mutex<ClientTable>,
}

/// The connections that count. Evicted ones do not.
struct ClientTable {
    connections: usize,
    clients: HashMap<IpAddr, Client>,
    /// The client addresses of each IPv6 network. At the limit, the last address stands for all further ones.
    addresses: HashMap<Network, Vec<IpAddr>>,
    unproven: EvictionQueue<UnprovenConnection>,
    /// Evicted connections that are still open.
    evicted: HashSet<u64>,
}

struct Client {
    usage: Arc<ClientUsage>,
    connections: usize,
    unproven: BTreeSet<u64>,
}

struct UnprovenConnection {
    client: IpAddr,
    /// The connection, once an event loop has registered it.
    connection: Option<Weak<dyn Evictable>>,
}

pub(crate) trait Evictable: Send + Sync {
    /// Ends the connection soon. May be called on any thread.
    fn evict(&self);
}

#[derive(Default)]
pub(crate) struct ClientUsage {
    pub(crate) queued_bytes: AtomicUsize,
}

/// A connection of a client. Dropping it ends the count.
pub(crate) struct ConnectionGuard {
    clients: Arc<Clients>,
    network: Network,
    client: IpAddr,
    usage: Arc<ClientUsage>,
    number: u64,
    slot: Mutex<Slot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Client,
    /// The client's network has reached its share.
    Network,
    All,
}

impl Clients {
    pub(crate) fn new(settings: &Settings) -> Arc<Self> {
        let Settings { networks, connections_max, client_connections_max, .. } = *settings;
        let table = ClientTable {
            connections: 0,
            clients: HashMap::new(),
            addresses: HashMap::new(),
            unproven: EvictionQueue::new(EVICTION_AGE_MIN),
            evicted: HashSet::new(),
        };
        let (proven, table) = (Bounds::new(connections_max, 0), Mutex::new(table));
        Arc::new(Self { networks, connections_max, client_connections_max, proven, table })
    }

    /// Whether so many evicted connections are still open that accepting has to pause.
    pub(crate) fn is_crowded(&self) -> bool {
        self.lock().evicted.len() >= EVICTED_MAX
    }

    /// Counts a connection. At the maximum, an unproven one is evicted for it.
    pub(crate) fn connect(
        self: &Arc<Self>,
        address: IpAddr,
        now: Instant,
    ) -> Result<ConnectionGuard, Refusal> {
        let network = self.networks.of(address);
        let mut table = self.lock();
        let client = table.client_of(address.to_canonical(), network);
        // The connection would be refused later if its network could not prove another one.
        let mut slot = self.proven.take(&Party::of(network), 1).map_err(Refusal::from)?;
        slot.set(0);
        let is_full =
            table.clients.get(&client).is_some_and(|of| of.connections >= self.client_connections_max);
        let evicted = if is_full {
            table.evict_first_of(client, now).ok_or(Refusal::Client)?
        } else if table.connections >= self.connections_max {
            table.give_way(network, now).ok_or(Refusal::All)?
        } else {
            None
        };
        let (number, taken) = table.add(client, network, now);
        drop(table);
        if let Some(connection) = evicted.and_then(|connection| connection.upgrade()) {
            connection.evict();
        }
        let (clients, slot) = (Arc::clone(self), Mutex::new(slot));
        Ok(ConnectionGuard { clients, network, client, usage: taken, number, slot })
    }

    fn lock(&self) -> MutexGuard<'_, ClientTable> {
        self.table.lock()
    }
}

type Evicted = Option<Weak<dyn Evictable>>;

impl ClientTable {
    /// The address that stands for a client: `address` itself, unless its network has too many.
    fn client_of(&self, address: IpAddr, network: Network) -> IpAddr {
        if address.is_ipv4() || self.clients.contains_key(&address) {
            return address;
        }
        let addresses = self.addresses.get(&network);
        let shared = addresses
            .filter(|addresses| addresses.len() >= ADDRESSES_OF_NETWORK_MAX)
            .and_then(|addresses| addresses.last());
        shared.copied().unwrap_or(address)
    }

    fn add(&mut self, client: IpAddr, network: Network, now: Instant) -> (u64, Arc<ClientUsage>) {
        let number = self.unproven.add(network, now, UnprovenConnection { client, connection: None });
        if client.is_ipv6() && !self.clients.contains_key(&client) {
            self.addresses.entry(network).or_default().push(client);
        }
        let new = || Client { usage: Arc::default(), connections: 0, unproven: BTreeSet::new() };
        let of = self.clients.entry(client).or_insert_with(new);
        of.connections += 1;
        of.unproven.insert(number);
        self.connections += 1;
        (number, Arc::clone(&of.usage))
    }

    /// Evicts the oldest unproven connection of a client, if it is old enough.
    fn evict_first_of(&mut self, client: IpAddr, now: Instant) -> Option<Evicted> {
        let unproven = &self.clients.get(&client)?.unproven;
        let (number, newcomer) = self.unproven.evict_first(unproven, now)?;
        Some(self.mark_evicted(number, newcomer))
    }

    /// Evicts a connection in favor of a client of this network.
    fn give_way(&mut self, to: Network, now: Instant) -> Option<Evicted> {
        let (number, newcomer) = self.unproven.evict_for(to, now)?;
        Some(self.mark_evicted(number, newcomer))
    }

    fn mark_evicted(&mut self, number: u64, newcomer: UnprovenConnection) -> Evicted {
        self.evicted.insert(number);
        self.uncount(newcomer.client, number);
        newcomer.connection
    }

    fn uncount(&mut self, client: IpAddr, number: u64) {
        self.connections -= 1;
        let Some(of) = self.clients.get_mut(&client) else { return };
        of.connections -= 1;
        of.unproven.remove(&number);
    }

    /// Removes a client that has no connections.
    fn sweep(&mut self, client: IpAddr, network: Network) {
        if self.clients.get(&client).is_none_or(|of| of.connections > 0) {
            return;
        }
        self.clients.remove(&client);
        if let Some(addresses) = self.addresses.get_mut(&network) {
            addresses.retain(|address| *address != client);
            if addresses.is_empty() {
                self.addresses.remove(&network);
            }
        }
    }
}

impl ConnectionGuard {
    pub(crate) fn usage(&self) -> &Arc<ClientUsage> {
        &self.usage
    }

    pub(crate) fn client(&self) -> IpAddr {
        self.client
    }

    pub(crate) fn network(&self) -> Network {
        self.network
    }

    /// Registers the connection that an eviction ends. `false`: it is evicted already.
    pub(crate) fn attach(&self, connection: Weak<dyn Evictable>) -> bool {
        let mut table = self.clients.lock();
        let Some(newcomer) = table.unproven.get_mut(self.number) else { return false };
        newcomer.connection = Some(connection);
        true
    }

    /// Counts the connection as proven. `false`: the client's network has reached its share.
    pub(crate) fn prove(&self) -> bool {
        if self.slot.lock().grow(1).is_err() {
            return false;
        }
        let mut table = self.clients.lock();
        table.unproven.remove(self.number);
        if let Some(of) = table.clients.get_mut(&self.client) {
            of.unproven.remove(&self.number);
        }
        true
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let mut table = self.clients.lock();
        // The eviction itself has already ended the count.
        if !table.evicted.remove(&self.number) {
            table.unproven.remove(self.number);
            table.uncount(self.client, self.number);
        }
        table.sweep(self.client, self.network);
    }
}

impl From<Full> for Refusal {
    fn from(full: Full) -> Self {
        match full {
            Full::All | Full::Strangers => Self::All,
            Full::Network | Full::Principal => Self::Network,
        }
    }
}

impl Refusal {
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Client => "too many from this address",
            Self::Network => "too many from this network",
            Self::All => "too many in all",
        }
    }
}

#[cfg(test)]
mod tests;

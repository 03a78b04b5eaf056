//! The registry of connections.

use crate::clock;
use crate::connection::Connection;
use crate::message::ConnectionEnds;
use crate::protocol::Protocol;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use vfs::sync::Mutex;
use vfs::{Protection, VolumeId};

pub(crate) struct Registry<P: Protocol> {
    connections: Mutex<Connections<P>>,
}

struct Connections<P: Protocol> {
    entries: Vec<(Weak<Connection<P>>, Instant)>,
    /// The length at which closed connections are dropped.
    sweep_at: usize,
}

const SWEEP_MIN: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    pub address: IpAddr,
    /// The number of its connections: the effect of `nconnect` on a mount.
    pub connections: usize,
    /// The age of its oldest connection.
    pub connected: Duration,
    /// Encrypted connections, and those among them with a verified client certificate.
    pub encrypted: usize,
    pub verified: usize,
    /// Calls that wait for storage, for a flush or for a limit. Long replies count as several.
    pub waiting: u64,
    /// The server's addresses to which it is connected, each with a number of connections.
    pub endpoints: BTreeMap<IpAddr, usize>,
    /// The volumes that it has used, each with a number of connections.
    pub volumes: BTreeMap<VolumeId, usize>,
}

/// The number of connections that use a volume, by the server's address.
pub type VolumeConnections = BTreeMap<VolumeId, BTreeMap<IpAddr, usize>>;

impl<P: Protocol> Default for Registry<P> {
    fn default() -> Self {
        Self { connections: Mutex::new(Connections { entries: Vec::new(), sweep_at: 0 }) }
    }
}

impl<P: Protocol> Registry<P> {
    pub(crate) fn add(&self, connection: &Arc<Connection<P>>) {
        let mut connections = self.connections.lock();
        connections.entries.push((Arc::downgrade(connection), Instant::now()));
        if connections.entries.len() >= connections.sweep_at {
            connections.entries.retain(|(connection, _)| connection.strong_count() > 0);
            connections.sweep_at = (2 * connections.entries.len()).max(SWEEP_MIN);
        }
    }

    pub(crate) fn clients(&self) -> Vec<Client> {
        let mut clients: BTreeMap<IpAddr, Client> = BTreeMap::new();
        for (connection, since) in self.connected() {
            let address = connection.endpoints.peer.ip().to_canonical();
            let client = clients.entry(address).or_insert_with(|| Client {
                address,
                connections: 0,
                connected: Duration::ZERO,
                encrypted: 0,
                verified: 0,
                waiting: 0,
                endpoints: BTreeMap::new(),
                volumes: BTreeMap::new(),
            });
            client.connections += 1;
            let protection = connection.protection();
            client.encrypted += usize::from(protection >= Protection::Encrypted);
            client.verified += usize::from(protection >= Protection::Verified);
            *client.endpoints.entry(connection.endpoints.local.to_canonical()).or_default() += 1;
            client.connected = client.connected.max(since.elapsed());
            client.waiting += u64::from(connection.in_progress());
            for volume in connection.volumes_since(0) {
                *client.volumes.entry(volume).or_default() += 1;
            }
        }
        clients.into_values().collect()
    }

    /// The ends of current connections, at most this many, the newest first.
    pub(crate) fn ends(&self, most: usize) -> Vec<ConnectionEnds> {
        let connected = self.connected();
        let newest = connected.iter().rev().filter_map(|(connection, _)| connection.ends());
        newest.take(most).collect()
    }

    /// The connections with a reply for a volume within this time.
    pub(crate) fn users(&self, within: Duration) -> VolumeConnections {
        let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        let since_ms = clock::coarse_ms().saturating_sub(within_ms);
        let mut users = VolumeConnections::new();
        for (connection, _) in self.connected() {
            for volume in connection.volumes_since(since_ms) {
                let at = connection.endpoints.local.to_canonical();
                *users.entry(volume).or_default().entry(at).or_default() += 1;
            }
        }
        users
    }

    fn connected(&self) -> Vec<(Arc<Connection<P>>, Instant)> {
        let connections = self.connections.lock();
        let entries = connections.entries.iter();
        entries.filter_map(|(connection, since)| Some((connection.upgrade()?, *since))).collect()
    }
}

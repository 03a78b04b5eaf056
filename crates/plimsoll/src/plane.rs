//! The reports of a managed service about itself and its clients, over every protocol.

use crate::mounting::{Mounting, smb_target};
use api::{
    ConnectedClient, DataPlane, DataPlaneStats, EndpointPlacement, MountTarget, Nfs4State, NfsCalls,
    NfsService, SmbService, VolumeConnections,
};
use control::VolumeClients;
use envelope::Protocol;
use nfs::call_stats::VersionCounts;
use nfs::server::Client;
use nfs::state::nfs4::client_info::ClientInfo;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use transport::ConnectionEnds;
use vfs::{Protection, VolumeId};

/// The connections of all protocols.
#[derive(Clone)]
pub(crate) struct Connections {
    pub(crate) nfs: nfs::server::View,
    pub(crate) smb: Option<smb::server::View>,
}

/// The servers that know the users of volumes, once they run.
#[derive(Default)]
pub(crate) struct MountedVolumes(OnceLock<Connections>);

/// NFS and SMB, as the API tells of them.
pub(crate) struct Served {
    pub(crate) connections: Connections,
    pub(crate) mounting: Mounting,
    /// The address of SMB, if it is served.
    pub(crate) smb: Option<SocketAddr>,
    pub(crate) is_stopping: Arc<AtomicBool>,
    /// The endpoint and its gateway, if this is one of a cluster.
    pub(crate) placement: Option<EndpointPlacement>,
}

impl Connections {
    pub(crate) fn count(&self) -> usize {
        self.nfs.connections() + self.smb.as_ref().map_or(0, smb::server::View::connections)
    }

    /// The ends of current connections, at most this many over each protocol.
    pub(crate) fn ends(&self, most: usize) -> Vec<ConnectionEnds> {
        let smb = self.smb.iter().flat_map(|smb| smb.connection_ends(most));
        self.nfs.connection_ends(most).into_iter().chain(smb).collect()
    }

    /// The connected clients, each address once.
    fn clients(&self) -> Vec<Client> {
        let mut clients: BTreeMap<IpAddr, Client> = BTreeMap::new();
        let of_smb = self.smb.iter().flat_map(smb::server::View::clients);
        for client in self.nfs.clients().into_iter().chain(of_smb) {
            match clients.get_mut(&client.address.to_canonical()) {
                Some(known) => add(known, client),
                None => _ = clients.insert(client.address.to_canonical(), client),
            }
        }
        clients.into_values().collect()
    }
}

/// Adds what a client has over another protocol.
fn add(client: &mut Client, other: Client) {
    client.connections += other.connections;
    client.connected = client.connected.max(other.connected);
    client.encrypted += other.encrypted;
    client.verified += other.verified;
    client.waiting += other.waiting;
    for (endpoint, connections) in other.endpoints {
        *client.endpoints.entry(endpoint).or_default() += connections;
    }
    for (volume, connections) in other.volumes {
        *client.volumes.entry(volume).or_default() += connections;
    }
}

impl MountedVolumes {
    /// From now on these are asked.
    pub(crate) fn set(&self, connections: Connections) {
        _ = self.0.set(connections);
    }
}

impl VolumeClients for MountedVolumes {
    fn clients_of(&self, volume: VolumeId) -> usize {
        let clients = self.0.get().map(Connections::clients).unwrap_or_default();
        clients.iter().filter(|client| client.volumes.contains_key(&volume)).count()
    }
}

impl DataPlane for Served {
    fn placement(&self) -> Option<EndpointPlacement> {
        self.placement.clone()
    }

    fn clients(&self) -> Vec<ConnectedClient> {
        let mut nfs4: BTreeMap<IpAddr, Vec<Nfs4State>> = BTreeMap::new();
        for client in self.connections.nfs.nfs4_clients() {
            // Where it was last.
            if let Some(&address) = client.addresses.last() {
                nfs4.entry(address.to_canonical()).or_default().push(nfs4_state(client));
            }
        }
        let connected = |client: Client| ConnectedClient {
            nfs4: nfs4.remove(&client.address.to_canonical()).unwrap_or_default(),
            address: client.address,
            connections: client.connections,
            connected: client.connected,
            encrypted: client.encrypted,
            verified: client.verified,
            waiting: client.waiting,
            endpoints: client.endpoints,
            volumes: client.volumes,
        };
        let mut all: Vec<ConnectedClient> = self.connections.clients().into_iter().map(connected).collect();
        all.extend(
            nfs4.into_iter()
                .map(|(address, nfs4)| ConnectedClient { nfs4, ..ConnectedClient::disconnected(address) }),
        );
        all
    }

    fn volume_connections(&self, within: Duration) -> VolumeConnections {
        let mut users = self.connections.nfs.users(within);
        let of_smb = self.connections.smb.iter().flat_map(|smb| smb.users(within));
        for (volume, reached) in of_smb {
            let of_volume = users.entry(volume).or_default();
            for (address, connections) in reached {
                *of_volume.entry(address).or_default() += connections;
            }
        }
        users
    }

    fn stats(&self) -> DataPlaneStats {
        let stats = self.connections.nfs.stats();
        let smb = self.connections.smb.as_ref().map(smb::server::View::stats).unwrap_or_default();
        DataPlaneStats {
            connections: stats.transport.connections + smb.connections,
            connections_max: stats.transport.connections_max + smb.connections_max,
            queued_bytes: stats.transport.queued_bytes + smb.queued_bytes,
            unread_bytes: stats.transport.unread_bytes + smb.unread_bytes,
            spilled_bytes: stats.transport.spilled_bytes + smb.spilled_bytes,
            handle_hits: stats.handle_hits,
            handle_misses: stats.handle_misses,
            panics: vfs::panics::caught(),
        }
    }

    fn nfs_calls(&self) -> Vec<NfsCalls> {
        let calls = |VersionCounts { minor, calls, operations }| NfsCalls {
            protocol: minor.map_or(Protocol::NfsV3, protocol),
            calls,
            operations,
        };
        self.connections.nfs.counts().into_iter().map(calls).collect()
    }

    fn nfs(&self) -> NfsService {
        self.mounting.service()
    }

    fn smb(&self) -> Option<SmbService> {
        let (address, usage) = (self.smb?, self.connections.smb.as_ref()?.usage());
        Some(SmbService {
            address,
            connections: usage.connections,
            sessions: usage.sessions,
            opens: usage.opens,
            refused_logins: usage.refused_logins,
        })
    }

    fn mount_target(
        &self,
        protocol: Protocol,
        endpoint: Option<IpAddr>,
        least: Protection,
    ) -> Option<MountTarget> {
        match protocol {
            // SMB is at the service's own address alone.
            Protocol::Smb if endpoint.is_none() => self.smb.map(smb_target),
            _ => self.mounting.target(protocol, endpoint, least),
        }
    }

    fn is_ready(&self) -> bool {
        !self.is_stopping.load(Ordering::Relaxed)
    }
}

/// A minor version of 4.
fn protocol(minor: u32) -> Protocol {
    match minor {
        0 => Protocol::NfsV40,
        1 => Protocol::NfsV41,
        _ => Protocol::NfsV42,
    }
}

fn nfs4_state(client: ClientInfo) -> Nfs4State {
    Nfs4State {
        owner: String::from_utf8_lossy(&client.owner).into_owned(),
        protocols: client.minors.iter().copied().map(protocol).collect(),
        sessions: client.sessions,
        slots: client.slots,
        opens: client.opens,
        ranges: client.ranges,
        delegations: client.delegations,
        silent: client.silent,
    }
}

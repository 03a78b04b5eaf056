//! The data plane as the interface sees it: clients, protocols, counters.

use control::Protocols;
use envelope::Protocol;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use vfs::VolumeId;

/// The data plane of the running process.
pub trait DataPlane: Send + Sync {
    /// Connected machines, and NFSv4 clients without connection.
    fn clients(&self) -> Vec<ConnectedClient>;

    /// The connections with a reply from a volume within this time.
    fn volume_connections(&self, within: Duration) -> VolumeConnections;

    /// Counters of the protocols.
    fn stats(&self) -> DataPlaneStats;

    /// Calls by version of NFS.
    fn nfs_calls(&self) -> Vec<NfsCalls>;

    fn nfs(&self) -> NfsService;

    /// The state of SMB; `None` if it is not served.
    fn smb(&self) -> Option<SmbService>;

    /// Returns the mount target of a volume at an endpoint, or at the service's own address, with the `least` protection that
    /// its rules need. `None` if the protocol is not served.
    fn mount_target(
        &self,
        protocol: Protocol,
        endpoint: Option<IpAddr>,
        least: vfs::Protection,
    ) -> Option<MountTarget>;

    fn is_ready(&self) -> bool;

    /// The endpoint that this service is, and its gateway; `None` outside a cluster.
    fn placement(&self) -> Option<EndpointPlacement> {
        None
    }
}

/// An endpoint and the gateway that serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointPlacement {
    pub endpoint: String,
    pub gateway: String,
}

/// Connections that use a volume, by the address of the service that they have reached.
pub type VolumeConnections = BTreeMap<VolumeId, BTreeMap<IpAddr, usize>>;

/// A connection uses a volume if it had a reply from the volume within this time.
pub(crate) const RECENT_USE: Duration = Duration::from_secs(10);

/// Calls over a version of NFS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NfsCalls {
    /// The version.
    pub protocol: Protocol,
    /// Calls.
    pub calls: u64,
    /// Operations by name, each that was asked for; of NFSv3 these are its procedures.
    pub operations: Vec<(String, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NfsService {
    /// The service's own address; volumes can have further endpoints.
    pub address: SocketAddr,
    /// The reason why clients of version 3 cannot reach locks.
    pub v3_locks: Result<(), String>,
}

/// SMB, and what clients have over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmbService {
    pub address: SocketAddr,
    /// Connections now.
    pub connections: usize,
    /// Sessions of logged-in users.
    pub sessions: usize,
    /// Files and pipes that are open.
    pub opens: usize,
    /// Logins that were refused since the start.
    pub refused_logins: u64,
}

/// The mount options of a volume over one protocol at one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountTarget {
    /// The protocol.
    pub protocol: Protocol,
    /// The address; unspecified if it is any of this machine.
    pub address: IpAddr,
    /// For `mount -o`, of the type `nfs` or, over SMB, `cifs`.
    pub options: String,
    /// Whether clients that mount so lock files for each other.
    pub has_locks: bool,
}

/// A client machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectedClient {
    pub address: IpAddr,
    pub connections: usize,
    /// The age of the oldest connection.
    pub connected: Duration,
    /// Connections with TLS.
    pub encrypted: usize,
    /// Connections with TLS and a client certificate that the service trusts.
    pub verified: usize,
    /// Waiting calls.
    pub waiting: u64,
    /// Connections by the address of the service that they reached.
    pub endpoints: BTreeMap<IpAddr, usize>,
    /// Connections by the volume that they used.
    pub volumes: BTreeMap<VolumeId, usize>,
    /// NFSv4 clients on the machine, connected or not.
    pub nfs4: Vec<Nfs4State>,
}

/// The state of an NFSv4 client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nfs4State {
    /// The client's name for itself.
    pub owner: String,
    pub protocols: Protocols,
    pub sessions: usize,
    pub slots: usize,
    pub opens: usize,
    /// Locked byte ranges.
    pub ranges: usize,
    pub delegations: usize,
    /// The time since its last call.
    pub silent: Duration,
}

impl ConnectedClient {
    /// A machine without a connection.
    pub fn disconnected(address: IpAddr) -> Self {
        Self {
            address,
            connections: 0,
            connected: Duration::ZERO,
            encrypted: 0,
            verified: 0,
            waiting: 0,
            endpoints: BTreeMap::new(),
            volumes: BTreeMap::new(),
            nfs4: Vec::new(),
        }
    }
}

/// Counters of the protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataPlaneStats {
    /// Connections now.
    pub connections: usize,
    /// Connections at most.
    pub connections_max: usize,
    /// Bytes of calls that wait for their volumes' limits.
    pub queued_bytes: usize,
    /// Bytes of replies that clients have not read.
    pub unread_bytes: usize,
    /// Bytes of calls that have not come whole and lie outside of receive buffers.
    pub spilled_bytes: usize,
    /// File handles that were remembered when they were asked for.
    pub handle_hits: u64,
    /// File handles that were not.
    pub handle_misses: u64,
    /// Panics that were caught, since the start; the thread went on.
    pub panics: u64,
}

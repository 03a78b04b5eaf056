//! What the rest of the process tells: who is connected, and how it does.

use control::Protocols;
use envelope::Protocol;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use vfs::VolumeId;

/// The running service, looked at from outside.
pub trait DataPlane: Send + Sync {
    /// Everybody who is connected.
    fn clients(&self) -> Vec<Connected>;

    /// The connections that a call to a volume was answered on within this time.
    fn users(&self, within: Duration) -> Users;

    /// How the protocols do.
    fn stats(&self) -> PlaneStats;

    /// What clients have asked for, by the version of NFS.
    fn nfs_calls(&self) -> Vec<NfsCalls>;

    /// Where NFS is served.
    fn nfs(&self) -> NfsService;

    /// Where SMB is served, and what clients have over it; `None` if it is not.
    fn smb(&self) -> Option<SmbService>;

    /// How a volume is mounted over a protocol: at an endpoint, or at the service's own address, with the `least` protection
    /// that any of its rules asks for. `None` of a protocol that is not served.
    fn mount_target(
        &self,
        protocol: Protocol,
        endpoint: Option<IpAddr>,
        least: vfs::Protection,
    ) -> Option<MountTarget>;

    /// Whether clients can mount and use what is exported.
    fn is_ready(&self) -> bool;
}

/// Connections that use a volume, by the address of the service that they have reached.
pub type Users = BTreeMap<VolumeId, BTreeMap<IpAddr, usize>>;

/// How long ago a connection may have had an answer from a volume to be counted as one that uses it.
pub(crate) const USED: Duration = Duration::from_secs(10);

/// What clients have asked for over a version of NFS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NfsCalls {
    /// The version.
    pub protocol: Protocol,
    /// Calls.
    pub calls: u64,
    /// Operations by name, each that was asked for; of NFSv3 these are its procedures.
    pub operations: Vec<(String, u64)>,
}

/// Where NFS is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NfsService {
    /// Besides at endpoints of volumes.
    pub address: SocketAddr,
    /// Why clients of version 3 cannot reach locks, if they cannot.
    pub v3_locks: Result<(), String>,
}

/// SMB, and what clients have over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmbService {
    /// Where it is served.
    pub address: SocketAddr,
    /// Connections now.
    pub connections: usize,
    /// Users who are logged in, each as often as they are.
    pub sessions: usize,
    /// Files and pipes that are open.
    pub opens: usize,
    /// Logins that were refused since the start.
    pub refused_logins: u64,
}

/// How a volume is mounted over a protocol at an address.
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

/// A machine that is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connected {
    /// Its address.
    pub address: IpAddr,
    /// How many connections it has.
    pub connections: usize,
    /// Since when the oldest of them is there.
    pub connected: Duration,
    /// How many of its connections are encrypted, and how many of those with a certificate of the client's.
    pub encrypted: usize,
    /// See `encrypted`.
    pub verified: usize,
    /// Calls of it that wait.
    pub waiting: u64,
    /// The addresses of the service that it has reached, each with its connections there.
    pub endpoints: BTreeMap<IpAddr, usize>,
    /// The volumes that it has used, each with the connections that it has done so over.
    pub volumes: BTreeMap<VolumeId, usize>,
    /// The clients of NFSv4 that it is, connected or not.
    pub nfs4: Vec<Nfs4State>,
}

/// What a client of NFSv4 has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nfs4State {
    /// How it calls itself.
    pub owner: String,
    /// The versions that it speaks.
    pub protocols: Protocols,
    /// Its sessions, and their slots.
    pub sessions: usize,
    /// See `sessions`.
    pub slots: usize,
    /// The files that it has open.
    pub opens: usize,
    /// The byte ranges that it has locked.
    pub ranges: usize,
    /// The delegations that it has.
    pub delegations: usize,
    /// Since when it has not been heard.
    pub silent: Duration,
}

impl Connected {
    /// A machine that is known, and has no connection.
    pub fn away(address: IpAddr) -> Self {
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

/// How the protocols do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaneStats {
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

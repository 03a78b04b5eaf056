//! Connected clients.

use super::Protocol;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A connected machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectedClient {
    /// The address of the machine.
    pub address: String,
    /// Connections; a mount with `nconnect` has several.
    pub connections: u64,
    /// The age of the oldest connection.
    pub connected_seconds: u64,
    /// Connections with TLS.
    pub encrypted_connections: u64,
    /// Encrypted connections with a client certificate that the service trusts.
    pub verified_connections: u64,
    /// Calls that wait for storage, for a flush or for a limit.
    pub waiting_calls: u64,
    /// Addresses of the service with connections of the client.
    pub endpoints: Vec<ReachedEndpoint>,
    /// Volumes that it has used.
    pub volumes: Vec<UsedVolume>,
    /// NFSv4 clients on the machine: all mounts of one kernel are one client. They remain for a while after the last connection.
    pub nfs4_clients: Vec<Nfs4Client>,
}

/// An NFSv4 client and its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Nfs4Client {
    /// The client's name for itself. Two machines or containers with one name end each other's sessions.
    pub name: String,
    /// Versions.
    pub protocols: Vec<Protocol>,
    /// Sessions; version 4.0 has none.
    pub sessions: u64,
    /// Slots for simultaneous requests, in all sessions.
    pub slots: u64,
    /// Open files. A file that is open twice counts twice.
    pub open_files: u64,
    /// Locked byte ranges.
    pub locked_ranges: u64,
    /// Delegations.
    pub delegations: u64,
    /// The time since its last call. After a lease time, others can take its files and locks.
    pub silent_seconds: u64,
}

/// An address of the service with connections of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReachedEndpoint {
    /// The address.
    pub address: String,
    /// Connections at it.
    pub connections: u64,
}

/// A volume that a client has used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsedVolume {
    /// The volume.
    pub name: String,
    /// Connections that use it.
    pub connections: u64,
}

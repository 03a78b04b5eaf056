//! Who is connected.

use super::Protocol;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A machine that is connected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Client {
    /// Its address.
    pub address: String,
    /// How many connections it has: what `nconnect` has made of a mount.
    pub connections: u64,
    /// Since when the oldest of them is there.
    pub connected_seconds: u64,
    /// How many of its connections are encrypted by TLS.
    pub encrypted_connections: u64,
    /// How many of those it has shown a certificate on that the service trusts.
    pub verified_connections: u64,
    /// Calls of it that wait for storage, for a flush or for a limit.
    pub waiting_calls: u64,
    /// The addresses of the service that it has reached.
    pub endpoints: Vec<ReachedEndpoint>,
    /// The volumes that it has used.
    pub volumes: Vec<UsedVolume>,
    /// The clients of NFSv4 that it is: mounts of one kernel are one. They stay for a while when no connection is left.
    pub nfs4_clients: Vec<Nfs4Client>,
}

/// A client of NFSv4, and what it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Nfs4Client {
    /// How it calls itself. Two machines or containers with the same name take each other's sessions away.
    pub name: String,
    /// The versions that it speaks.
    pub protocols: Vec<Protocol>,
    /// Its sessions; version 4.0 has none.
    pub sessions: u64,
    /// The requests that it may have under way in all sessions.
    pub slots: u64,
    /// The files that it has open, each as often as it has.
    pub open_files: u64,
    /// The byte ranges that it has locked.
    pub locked_ranges: u64,
    /// The delegations that it has.
    pub delegations: u64,
    /// Since when it has not been heard. After a lease, what it has goes to whoever wants it.
    pub silent_seconds: u64,
}

/// An address of the service that a client has reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReachedEndpoint {
    /// The address.
    pub address: String,
    /// Over how many connections.
    pub connections: u64,
}

/// A volume that a client has used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsedVolume {
    /// The volume.
    pub name: String,
    /// Over how many connections.
    pub connections: u64,
}

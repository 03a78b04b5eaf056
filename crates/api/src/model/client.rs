//! Who is connected.

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

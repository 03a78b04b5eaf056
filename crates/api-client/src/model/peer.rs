//! Peers, and what they may replicate.

use super::{NAME, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A key as text.
const KEY: &str = "^[0-9a-fA-F]{64}$";

/// A peer: another service that replicates volumes of this one, or has sources of its destinations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Peer {
    /// Name.
    pub name: String,
    /// The public key, the only one that is accepted from this peer.
    pub key: String,
    /// Host and port of its listener for replications. Destinations of this service need it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The time of its creation.
    pub created: Timestamp,
    /// The time of its last change.
    pub changed: Timestamp,
    /// The version of this state, as in the `ETag`. Between quotation marks it is a tag for `If-Match`.
    pub version: String,
}

/// A peer to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPeer {
    /// Name.
    #[schemars(length(min = 1, max = 255), regex(pattern = NAME), example = &"site-b")]
    pub name: String,
    /// The public key, which the peer itself shows.
    #[schemars(length(min = 64, max = 64), regex(pattern = KEY))]
    pub key: String,
    /// Host and port of its listener for replications.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 259), example = &"site-b.example.org:2052")]
    pub address: Option<String>,
}

/// Changes of a peer. Omitted properties keep their values; `null` removes the address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PeerPatch {
    /// New key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 64, max = 64), regex(pattern = KEY))]
    pub key: Option<String>,
    /// New address.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub address: Option<Option<String>>,
}

/// The key of this service, for its peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceKey {
    /// The public key.
    pub key: String,
}

/// An authorization: a peer may replicate a volume of this service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Authorization {
    /// The volume.
    pub volume: String,
    /// The peer.
    pub peer: String,
    /// The snapshot of the last point that the peer has asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_point: Option<String>,
    /// The last time at which the peer confirmed a point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transfer_ended: Option<Timestamp>,
    /// The time of its creation.
    pub created: Timestamp,
}

/// A list of authorizations, by volume and peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Authorizations {
    /// All of them.
    pub items: Vec<Authorization>,
}

/// An authorization to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAuthorization {
    /// The volume.
    #[schemars(length(min = 1, max = 255), regex(pattern = NAME), example = &"tools")]
    pub volume: String,
    /// The peer.
    #[schemars(length(min = 1, max = 255), regex(pattern = NAME), example = &"site-b")]
    pub peer: String,
}

//! The state of NFS, and mount targets.

use super::Protocol;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of NFS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Nfs {
    /// The service's own address and port; volumes can have further endpoints.
    pub address: String,
    /// Protocols.
    pub protocols: Vec<Protocol>,
    /// Whether clients of version 3 can reach locks.
    pub v3_locks: V3Locks,
}

/// Whether clients of version 3 can reach locks. They ask the port mapper for the lock manager (NLM), on port 111 of the address
/// that they mount from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct V3Locks {
    /// Whether clients can reach locks.
    pub reachable: bool,
    /// The reason if they cannot. Then mount with `nolock`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Mount targets of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MountTargets {
    /// Each protocol that the volume and any of its export rules allow, at each of its endpoints and at the service's own address.
    pub mount_targets: Vec<MountTarget>,
}

/// The mount options of a volume over one protocol at one address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MountTarget {
    /// The protocol.
    pub protocol: Protocol,
    /// The address; left out if any address of the machine works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The path; of SMB, the name of the share behind a `/`.
    pub path: String,
    /// For `mount -o`, of the type `nfs` or, for SMB, `cifs`.
    pub options: String,
    /// Whether clients with these options share locks. With `nolock`, each client has its own locks.
    pub locks: bool,
}

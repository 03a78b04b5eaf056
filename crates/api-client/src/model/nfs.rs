//! How NFS is reached, and volumes are mounted.

use super::Protocol;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// NFS, as this service serves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Nfs {
    /// Where it is served besides at endpoints of volumes: address and port.
    pub address: String,
    /// Over which protocols.
    pub protocols: Vec<Protocol>,
    /// Whether clients of version 3 can reach locks.
    pub v3_locks: V3Locks,
}

/// Whether clients of version 3 can reach locks. They look for the lock manager (NLM) at the port mapper on port 111 of the
/// address that they have mounted from, and nowhere else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct V3Locks {
    /// Whether they can.
    pub reachable: bool,
    /// Why not, if they cannot: mount with `nolock` then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a volume is mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MountTargets {
    /// Each protocol that the volume and any of its export rules allow, at each of its endpoints.
    pub mount_targets: Vec<MountTarget>,
}

/// How a volume is mounted over a protocol at an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MountTarget {
    /// The protocol.
    pub protocol: Protocol,
    /// The address; left out if it is any of this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The path; of SMB, the name of the share behind a `/`.
    pub path: String,
    /// For `mount -o`, of the type `nfs` or, for SMB, `cifs`.
    pub options: String,
    /// Whether clients that mount so lock files for each other. With `nolock` their locks are their own.
    pub locks: bool,
}

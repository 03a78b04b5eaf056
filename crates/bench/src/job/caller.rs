//! As whom a generator calls.

use identity::NtHash;
use serde::{Deserialize, Serialize};

/// As whom to call, and from where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// From ports below 1024.
    pub privileged_port: bool,
    /// What the user of a share logs in with. It is told to nobody: each machine has its own.
    #[serde(skip)]
    pub nt_hash: Option<NtHash>,
    /// Local addresses, dealt to the clients in turn. Each machine has its own.
    #[serde(skip)]
    pub sources: Vec<std::net::IpAddr>,
}

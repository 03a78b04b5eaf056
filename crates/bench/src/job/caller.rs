//! The identity of a generator.

use identity::NtHash;
use serde::{Deserialize, Serialize};

/// The user and the addresses of a generator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    pub privileged_port: bool,
    /// The password hash for a share. It is never sent: each machine has its own.
    #[serde(skip)]
    pub nt_hash: Option<NtHash>,
    /// Local addresses of this machine, which the clients use in turn.
    #[serde(skip)]
    pub sources: Vec<std::net::IpAddr>,
}

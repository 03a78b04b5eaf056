//! Peers: other services that replicate volumes of this one, or have sources of its destinations.

use crate::error::Error;
use crate::name::{PeerName, VolumeName};
use replicate::link::{self, Identity, Stop};
use replicate::replication::Link;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use vfs::VolumeId;

pub use replicate::link::PublicKey;

/// Peers of a service.
pub const PEERS_MAX: usize = 64;
/// Bytes of the address of a peer: a host name and a port.
const ADDRESS_BYTES_MAX: usize = 253 + 6;

/// Another service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub name: PeerName,
    /// The only key that is accepted from it.
    pub key: PublicKey,
    /// `HOST:PORT` of its listener for replications; needed for destinations here alone.
    pub address: Option<String>,
    pub version: u64,
    pub created_ms: u64,
    pub changed_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPeer {
    pub name: PeerName,
    pub key: PublicKey,
    pub address: Option<String>,
}

/// Changes of a peer. `None` leaves a property as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerChange {
    pub key: Option<PublicKey>,
    pub address: Option<Option<String>>,
}

/// A peer may replicate a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorization {
    pub(crate) volume_id: VolumeId,
    pub volume: VolumeName,
    pub peer: PeerName,
    /// The replication of the peer. `None`: it has not asked yet.
    pub(crate) relation: Option<u64>,
    /// The time of the last complete transfer.
    pub confirmed_ms: Option<u64>,
    pub created_ms: u64,
}

/// A connection of a peer, for a replication of it.
pub(crate) struct Serving {
    pub(crate) peer: PeerName,
    pub(crate) key: PublicKey,
    pub(crate) relation: u64,
    pub(crate) is_ended: Arc<AtomicBool>,
}

/// Connects to peers.
pub trait Dialer: Send + Sync {
    /// Connects to the service at `address`, which has to prove this key, and proves that of `identity`. The connection ends
    /// soon when `stop` is true.
    fn dial(
        &self,
        identity: &Identity,
        address: &str,
        key: PublicKey,
        stop: Stop,
    ) -> io::Result<Box<dyn Link>>;
}

/// Connects with TLS.
pub struct TlsDialer;

impl Dialer for TlsDialer {
    fn dial(
        &self,
        identity: &Identity,
        address: &str,
        key: PublicKey,
        stop: Stop,
    ) -> io::Result<Box<dyn Link>> {
        Ok(Box::new(link::connect(identity, address, key, stop)?))
    }
}

/// Refuses what is no `HOST:PORT`.
pub(crate) fn check_address(address: Option<&str>) -> Result<(), Error> {
    let Some(address) = address else { return Ok(()) };
    let is_char = |c: char| c.is_ascii_alphanumeric() || "-._[]:%".contains(c);
    let is_port = |port: &str| {
        port.bytes().all(|digit| digit.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    let is_valid = address.len() <= ADDRESS_BYTES_MAX
        && address.chars().all(is_char)
        && address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && is_port(port));
    if is_valid {
        return Ok(());
    }
    Err(Error::invalid(
        format!("{address:?} as the address of a peer"),
        "HOST:PORT, such as site-b.example.org:2052",
    ))
}

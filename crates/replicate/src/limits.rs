//! Every bound of the listener for replications.

/// TLS handshakes at once. A further one ends the oldest of the network that has the most.
pub const HANDSHAKES_MAX: usize = 32;
/// TLS handshakes of one network at once, an IPv4 address or a /64 of IPv6. A further one ends its oldest.
pub const NETWORK_HANDSHAKES_MAX: usize = 8;
/// The time for a TLS handshake.
pub const HANDSHAKE_S_MAX: u64 = 10;
/// Connections of all peers at once; further ones are closed.
pub const PEERS_CONNECTIONS_MAX: usize = 32;
/// Connections of one peer at once; further ones are closed.
pub const PEER_CONNECTIONS_MAX: usize = 16;
/// The time without any byte after which a connection ends. A side that is at work sends a sign of life every 5 seconds.
pub const SILENCE_S_MAX: u64 = 60;
/// Threads of connections, those that are about to end among them.
pub const THREADS_MAX: usize = HANDSHAKES_MAX + PEERS_CONNECTIONS_MAX + 16;

const _: () = assert!(NETWORK_HANDSHAKES_MAX < HANDSHAKES_MAX);
const _: () = assert!(PEER_CONNECTIONS_MAX < PEERS_CONNECTIONS_MAX);

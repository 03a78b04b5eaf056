//! How TCP sends on a connection, as far as it matters to whole replies: whether it paces.
//!
//! BBR paces: it spreads what a connection sends by a timer for each packet. A queue of replies that is held back to fill
//! packets and then let go sets a timer for every reply (64 KiB READ: 24 µs held back, 17 sent one by one). Without pacing
//! it is the other way round: replies that share packets cost less (64 KiB READ 0.87 of a bare server's CPU, 1.01 one by
//! one; 1 MiB READ 0.43 and 0.54, both from one run, docs/decisions/0012).

use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};
use std::net::{TcpListener, TcpStream};

/// Lets the connections of a listener at the loopback address send without pacing, whatever the machine's default is:
/// there is no path between the two ends that could be congested.
pub(crate) fn avoid_pacing_on_loopback(listener: &TcpListener) {
    if listener.local_addr().is_ok_and(|local| local.ip().is_loopback()) {
        // Every kernel has it, and every process may choose it. Without it, it costs more.
        let _ = set_tcp_congestion(listener, "reno");
    }
}

/// Whether replies on this connection do well to share packets.
pub(crate) fn coalesces_replies(socket: &TcpStream) -> bool {
    tcp_congestion(socket).is_ok_and(|name| !name.starts_with("bbr"))
}

//! TCP pacing, as far as it matters to whole replies.
//!
//! BBR paces: it spreads a connection's packets with a timer for each. Replies that are held back to fill packets then
//! cost a timer each (64 KiB READ: 24 µs held back, 17 µs sent one by one). Without pacing, replies that share packets
//! cost less (64 KiB READ 0.87 of a bare server's CPU, 1.01 one by one; 1 MiB READ 0.43 and 0.54, both from one run,
//! docs/decisions/0012).

use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};
use std::net::{TcpListener, TcpStream};

/// Selects an algorithm without pacing for a loopback listener: no path between its two ends can be congested.
pub(crate) fn avoid_pacing_on_loopback(listener: &TcpListener) {
    if listener.local_addr().is_ok_and(|local| local.ip().is_loopback()) {
        // Every kernel has Reno, and every process may choose it. A failure costs only CPU time.
        let _ = set_tcp_congestion(listener, "reno");
    }
}

/// Whether replies on this connection are cheaper when they share packets.
pub(crate) fn coalesces_replies(socket: &TcpStream) -> bool {
    tcp_congestion(socket).is_ok_and(|name| !name.starts_with("bbr"))
}

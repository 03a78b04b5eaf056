//! A capture of the TCP segments that clients receive from an endpoint, at whichever gateway it is.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with, sockopt};

const LOOK: Duration = Duration::from_millis(50);
const SYN: u8 = 2;
const BUFFER_BYTES: usize = 8 << 20;

/// A segment with data, or the first one of a connection.
#[derive(Clone, Copy)]
pub(super) struct Segment {
    pub(super) at: Instant,
    /// Port of the client.
    pub(super) port: u16,
    pub(super) bytes: usize,
    pub(super) is_first: bool,
}

/// The segments with data of connections that began before any data came: a port is used again later.
pub(super) fn of_first_connections(segments: Vec<Segment>, ports: &BTreeSet<u16>) -> Vec<Segment> {
    let (mut begun, mut reused) = (BTreeSet::new(), BTreeSet::new());
    let mut first = Vec::new();
    for segment in segments.into_iter().filter(|segment| ports.contains(&segment.port)) {
        if segment.is_first && begun.contains(&segment.port) {
            reused.insert(segment.port);
        } else if segment.bytes > 0 && !reused.contains(&segment.port) {
            begun.insert(segment.port);
            first.push(segment);
        }
    }
    first
}

/// A running capture. It also sees segments for connections that the client has closed.
pub(super) struct Capture {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Segment>>,
}

impl Capture {
    pub(super) fn start(server: Ipv4Addr) -> anyhow::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::RAW, flags, Some(ipproto::TCP))
            .context("cannot open a raw socket")?;
        sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES)?;
        // The type stands for any datagram socket here.
        let socket = UdpSocket::from(socket);
        socket.connect((server, 0))?;
        socket.set_read_timeout(Some(LOOK))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        Ok(Self { stop, thread: std::thread::spawn(move || capture(&socket, &stopped)) })
    }

    pub(super) fn finish(self) -> anyhow::Result<Vec<Segment>> {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().map_err(|_| anyhow::anyhow!("the capture panicked"))
    }
}

fn capture(socket: &UdpSocket, stop: &AtomicBool) -> Vec<Segment> {
    let (mut segments, mut packet) = (Vec::new(), vec![0; 1 << 17]);
    while !stop.load(Ordering::SeqCst) {
        let Ok(length) = socket.recv(&mut packet) else { continue };
        segments.extend(parse(&packet[..length]).filter(|segment| segment.bytes > 0 || segment.is_first));
    }
    segments
}

/// Parses an IPv4 packet (RFC 791 §3.1) with a TCP segment (RFC 9293 §3.1).
fn parse(packet: &[u8]) -> Option<Segment> {
    let ip = usize::from(packet.first()? & 0xf) * 4;
    let port = u16::from_be_bytes([*packet.get(ip + 2)?, *packet.get(ip + 3)?]);
    let tcp = usize::from(packet.get(ip + 12)? >> 4) * 4;
    let is_first = packet.get(ip + 13)? & SYN != 0;
    Some(Segment { at: Instant::now(), port, bytes: packet.len().saturating_sub(ip + tcp), is_first })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_with_options_has_the_bytes_after_them() {
        let mut packet = vec![0; 20 + 32 + 5];
        (packet[0], packet[22], packet[23], packet[32]) = (0x45, 2, 1, 0x80);
        let segment = parse(&packet).unwrap();
        assert_eq!((segment.port, segment.bytes), (513, 5));
        assert!(parse(&packet[..25]).is_none());
    }

    #[test]
    fn later_connection_of_the_same_port_is_another_one() {
        let segment = |port, bytes| Segment { at: Instant::now(), port, bytes, is_first: bytes == 0 };
        // The answer to a connection may be sent twice.
        let seen = [(1, 0), (1, 0), (2, 0), (1, 9), (2, 7), (1, 0), (1, 28), (2, 8), (3, 0), (3, 5)];
        let found =
            of_first_connections(seen.map(|(port, bytes)| segment(port, bytes)).into(), &[1, 2].into());
        assert_eq!(found.iter().map(|segment| segment.bytes).collect::<Vec<_>>(), [9, 7, 8]);
    }
}

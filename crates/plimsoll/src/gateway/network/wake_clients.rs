//! The wake-up of clients whose connections ended with another gateway.
//!
//! A client that waits for an answer retransmits ever less often, and would notice the new server after many seconds.
//! A bare ACK with a wrong sequence number makes its kernel answer at once with the right one (RFC 9293 §3.10.7.4).
//! This machine has no such connection, so its kernel answers with a reset, and the client connects again.

use super::checksum::{TCP, checksum_of};
use anyhow::{anyhow, bail};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sendto, socket_with};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;
use transport::ConnectionEnds;

/// Segments at one time, and the pause after them: 5000 a second. Each one brings two more packets.
const BATCH: usize = 50;
const PAUSE: Duration = Duration::from_millis(10);
const SEGMENT_BYTES: usize = 20;
const HOP_LIMIT: u8 = 64;

/// Sends a segment to the client of each connection, from the address of the endpoint, which must be on this machine.
/// The service must listen already: clients connect again within a round trip. Returns the number of sent segments.
pub(crate) fn wake_clients(connections: &[ConnectionEnds]) -> anyhow::Result<usize> {
    let mut sockets = [None, None];
    let mut sent = 0;
    for (number, ends) in connections.iter().enumerate() {
        if number > 0 && number % BATCH == 0 {
            std::thread::sleep(PAUSE);
        }
        let (from, to) = (ends.local.ip().to_canonical(), ends.peer.ip().to_canonical());
        if from.is_ipv4() != to.is_ipv4() {
            bail!("a connection between {from} and {to}: addresses of two families");
        }
        let socket = &mut sockets[usize::from(from.is_ipv6())];
        let socket = match socket {
            Some(socket) => socket,
            None => socket.insert(raw_socket(from)?),
        };
        // The port of the address stands for a protocol here; zero is that of the socket.
        match sendto(&*socket, &packet(ends), SendFlags::DONTWAIT, &SocketAddr::new(to, 0)) {
            Ok(_) => sent += 1,
            Err(error) => tracing::debug!(client = %ends.peer, %error, "cannot wake a client"),
        }
    }
    Ok(sent)
}

/// A socket that sends whole packets and receives none.
fn raw_socket(from: IpAddr) -> anyhow::Result<OwnedFd> {
    let family = if from.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, Some(ipproto::RAW));
    socket.map_err(|error| match error {
        Errno::PERM => anyhow!("waking clients needs the capability CAP_NET_RAW"),
        _ => anyhow!("cannot open a raw socket to wake clients: {error}"),
    })
}

/// The packet with the segment. The kernel fills in the checksum of the IPv4 header.
fn packet(ends: &ConnectionEnds) -> Vec<u8> {
    let (from, to) = (ends.local.ip().to_canonical(), ends.peer.ip().to_canonical());
    let segment = bare_ack(ends, from, to);
    let head = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let length = u8::try_from(20 + SEGMENT_BYTES).unwrap_or(u8::MAX);
            let fixed = [0x45, 0, 0, length, 0, 0, 0x40, 0, HOP_LIMIT, TCP, 0, 0];
            [&fixed[..], &from.octets(), &to.octets()].concat()
        }
        (from, to) => {
            let length = u8::try_from(SEGMENT_BYTES).unwrap_or(u8::MAX);
            let fixed = [0x60, 0, 0, 0, 0, length, TCP, HOP_LIMIT];
            [&fixed[..], &octets(from), &octets(to)].concat()
        }
    };
    [head, segment].concat()
}

fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// A segment with no data, sequence and acknowledgment number zero, and the flag ACK.
fn bare_ack(ends: &ConnectionEnds, from: IpAddr, to: IpAddr) -> Vec<u8> {
    const FLAG_ACK: u8 = 0x10;
    const HEADER_WORDS: u8 = 5;
    const WINDOW: [u8; 2] = 1024u16.to_be_bytes();
    let mut segment = [ends.local.port().to_be_bytes(), ends.peer.port().to_be_bytes()].concat();
    segment.extend([0; 8]);
    segment.extend([HEADER_WORDS << 4, FLAG_ACK]);
    segment.extend(WINDOW);
    segment.extend([0; 4]);
    let sum = checksum_of(from, to, TCP, &segment);
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    segment
}

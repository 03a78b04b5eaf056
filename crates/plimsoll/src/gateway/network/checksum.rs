//! The Internet checksum (RFC 1071).

use std::net::IpAddr;

pub(super) const TCP: u8 = 6;
pub(super) const ICMPV6: u8 = 58;

/// The checksum of a segment of TCP or ICMPv6, with its pseudo header (RFC 9293 §3.1, RFC 8200 §8.1). The field of the
/// checksum in `segment` is zero.
pub(super) fn checksum_of(from: IpAddr, to: IpAddr, protocol: u8, segment: &[u8]) -> u16 {
    // Both pseudo headers have the addresses, the length and the protocol. Zeros between them do not count.
    let mut sum = sum_of(segment) + u64::from(protocol) + segment.len() as u64;
    for ip in [from, to] {
        sum += match ip {
            IpAddr::V4(ip) => sum_of(&ip.octets()),
            IpAddr::V6(ip) => sum_of(&ip.octets()),
        };
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !u16::try_from(sum).unwrap_or(0)
}

fn sum_of(bytes: &[u8]) -> u64 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | pair.get(1).copied().map_or(0, u64::from);
    bytes.chunks(2).map(word).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets that Linux sent: the reset of a closed port, and a neighbor solicitation.
    #[test]
    fn checksums_are_those_of_recorded_packets() {
        let bytes = |hex: &str| -> Vec<u8> {
            let digits = hex.as_bytes().chunks(2);
            digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
        };
        let check = |from: &str, to: &str, protocol, segment: &str, at: usize| {
            let mut segment = bytes(segment);
            let recorded = u16::from_be_bytes([segment[at], segment[at + 1]]);
            segment[at..at + 2].fill(0);
            let sum = checksum_of(from.parse().unwrap(), to.parse().unwrap(), protocol, &segment);
            assert_eq!(sum, recorded, "{from} to {to}");
        };
        let reset = "000996e6000000005e7a4c70501400006ff40000";
        check("127.0.0.1", "127.0.0.1", TCP, reset, 16);
        let solicitation = "870034a000000000fd0000000000000000000000000000020101a2c02f127925";
        check("fd00::1", "ff02::1:ff00:2", ICMPV6, solicitation, 2);
    }
}

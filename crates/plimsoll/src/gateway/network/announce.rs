//! Announcements of an address that has moved: hosts of the network replace the hardware address that they remember.
//!
//! IPv4 has gratuitous ARP (RFC 5227 §3) and IPv6 unsolicited neighbor advertisements (RFC 4861 §7.2.6).

use super::checksum::{ICMPV6, checksum_of};
use anyhow::{Context, anyhow, bail};
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, sendto, socket};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};

type Mac = [u8; 6];

const ARP: [u8; 2] = [0x08, 0x06];
const IPV6: [u8; 2] = [0x86, 0xdd];
const BROADCAST: Mac = [0xff; 6];
/// RFC 2464 §7: the hardware address of ff02::1, all nodes.
const ALL_NODES_MAC: Mac = [0x33, 0x33, 0, 0, 0, 1];
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// The type of Ethernet and of what behaves like it: bonds, bridges, VLANs (`ARPHRD_ETHER`).
const ETHERNET: u16 = 1;

/// A network interface.
pub(super) struct Link {
    pub(super) index: u32,
    address: LinkAddr,
}

/// Announces one address at one interface.
pub(super) struct Announcer {
    socket: OwnedFd,
    link: LinkAddr,
    /// None on interfaces without hardware addresses.
    frames: Vec<Vec<u8>>,
}

impl Link {
    pub(super) fn named(name: &str) -> anyhow::Result<Self> {
        let all = getifaddrs().context("cannot list the interfaces of this machine")?;
        let mut names = Vec::new();
        for one in all {
            let Some(address) = one.address.as_ref().and_then(|address| address.as_link_addr()) else {
                continue;
            };
            if one.interface_name != name {
                names.push(one.interface_name);
                continue;
            }
            if !one.flags.contains(InterfaceFlags::IFF_UP) {
                bail!("interface {name} is down: set it up with \"ip link set {name} up\"");
            }
            return Ok(Self { index: u32::try_from(address.ifindex())?, address: *address });
        }
        bail!("there is no interface {name:?} on this machine; there are {}", names.join(", "))
    }
}

impl Announcer {
    pub(super) fn open(link: &Link, ip: IpAddr) -> anyhow::Result<Self> {
        // Without a protocol it receives nothing.
        let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None);
        let socket = socket.map_err(|error| match error {
            Errno::EPERM => anyhow!("announcing address {ip} needs the capability CAP_NET_RAW"),
            _ => anyhow!("cannot open a packet socket to announce address {ip}: {error}"),
        })?;
        let mac = link.address.addr().filter(|_| link.address.hatype() == ETHERNET);
        let frames = mac.map_or_else(Vec::new, |mac| match ip {
            IpAddr::V4(ip) => gratuitous_arp(mac, ip).to_vec(),
            IpAddr::V6(ip) => vec![neighbor_advertisement(mac, ip)],
        });
        Ok(Self { socket, link: link.address, frames })
    }

    /// Announces once. A failure is not the end: announcements are repeated.
    pub(super) fn announce(&self) {
        for frame in &self.frames {
            let sent = sendto(self.socket.as_raw_fd(), frame, &self.link, MsgFlags::MSG_DONTWAIT);
            if let Err(error) = sent {
                tracing::warn!(%error, "cannot announce an address");
            }
        }
    }
}

/// An ARP request and a reply about the address itself: some hosts heed only one of them.
fn gratuitous_arp(mac: Mac, ip: Ipv4Addr) -> [Vec<u8>; 2] {
    let about = |operation: u8, target: Mac| {
        let mut frame = ethernet(BROADCAST, mac, ARP);
        // Ethernet, IPv4, the lengths of their addresses, the operation.
        frame.extend([0, 1, 8, 0, 6, 4, 0, operation]);
        frame.extend(mac);
        frame.extend(ip.octets());
        frame.extend(target);
        frame.extend(ip.octets());
        frame
    };
    [about(1, [0; 6]), about(2, mac)]
}

/// A neighbor advertisement to all nodes that overrides what they remember.
fn neighbor_advertisement(mac: Mac, ip: Ipv6Addr) -> Vec<u8> {
    const TYPE: u8 = 136;
    const OVERRIDE: u8 = 0x20;
    /// RFC 4861 §7.1.2: others are ignored, since they may have crossed a router.
    const HOP_LIMIT: u8 = 255;
    let mut icmp = vec![TYPE, 0, 0, 0, OVERRIDE, 0, 0, 0];
    icmp.extend(ip.octets());
    // The target's hardware address: option 2, of eight bytes.
    icmp.extend([2, 1]);
    icmp.extend(mac);
    let sum = checksum_of(ip.into(), ALL_NODES.into(), ICMPV6, &icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut frame = ethernet(ALL_NODES_MAC, mac, IPV6);
    frame.extend([0x60, 0, 0, 0, 0, 32, ICMPV6, HOP_LIMIT]);
    frame.extend(ip.octets());
    frame.extend(ALL_NODES.octets());
    frame.extend(icmp);
    frame
}

fn ethernet(to: Mac, from: Mac, kind: [u8; 2]) -> Vec<u8> {
    [&to[..], &from, &kind].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: Mac = [2, 0, 0, 0, 0, 7];

    #[test]
    fn gratuitous_arp_has_the_forms_of_arping() {
        let [request, reply] = gratuitous_arp(MAC, Ipv4Addr::new(192, 0, 2, 7));
        let head = [&[0xff; 6][..], &MAC, &[8, 6, 0, 1, 8, 0, 6, 4]].concat();
        let sender = [&MAC[..], &[192, 0, 2, 7]].concat();
        assert_eq!(request, [&head[..], &[0, 1], &sender, &[0; 6], &[192, 0, 2, 7]].concat());
        assert_eq!(reply, [&head[..], &[0, 2], &sender, &sender].concat());
    }

    #[test]
    fn missing_interface_is_named_beside_those_that_exist() {
        let error = Link::named("absent7").err().unwrap().to_string();
        assert!(error.starts_with("there is no interface \"absent7\"") && error.contains("lo"), "{error}");
    }
}

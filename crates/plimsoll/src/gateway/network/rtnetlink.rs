//! Addresses of interfaces, over rtnetlink (man 7 rtnetlink).

use super::address::EndpointAddress;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, CacheInfo};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{self, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The kernel answers at once.
const PATIENCE: Duration = Duration::from_secs(2);
/// The kernel's longest datagram of a list.
const DATAGRAM_BYTES_MAX: usize = 32 << 10;

pub(super) struct Rtnetlink {
    socket: OwnedFd,
    sequence: u32,
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// The interface.
    pub(super) index: u32,
    pub(super) address: EndpointAddress,
    /// Seconds until the kernel removes the address; `u32::MAX` for never.
    pub(super) valid_s: u32,
}

impl Request {
    pub(super) fn new(index: u32, address: EndpointAddress) -> Self {
        Self { index, address, valid_s: u32::MAX }
    }

    fn message(&self) -> AddressMessage {
        let Self { index, address: EndpointAddress { ip, prefix }, .. } = *self;
        let mut message = AddressMessage::default();
        message.header.family = family(ip);
        message.header.prefix_len = prefix;
        message.header.index = index;
        message.attributes = vec![AddressAttribute::Local(ip), AddressAttribute::Address(ip)];
        message
    }

    /// The address in a message of the kernel, if it has a complete one.
    fn from_message(message: &AddressMessage) -> Option<Self> {
        let attributes = || message.attributes.iter();
        // IPv6 has no local address beside the other one.
        let local = attributes().find_map(|one| match one {
            AddressAttribute::Local(ip) => Some(*ip),
            _ => None,
        });
        let ip = local.or_else(|| {
            attributes().find_map(|one| match one {
                AddressAttribute::Address(ip) => Some(*ip),
                _ => None,
            })
        })?;
        let valid_s = attributes().find_map(|one| match one {
            AddressAttribute::CacheInfo(info) => Some(info.ifa_valid),
            _ => None,
        });
        let address = EndpointAddress { ip, prefix: message.header.prefix_len };
        Some(Self { index: message.header.index, address, valid_s: valid_s.unwrap_or(u32::MAX) })
    }
}

impl Rtnetlink {
    pub(super) fn open() -> io::Result<Self> {
        let socket = socket_with(net::AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Adds an address, or renews the time of one that is there.
    pub(super) fn add(&mut self, request: &Request) -> io::Result<()> {
        let mut lifetime = CacheInfo::default();
        lifetime.ifa_valid = request.valid_s;
        // Deprecated from the start: this machine's own connections, as to the storage, must not begin at an address
        // that leaves.
        lifetime.ifa_preferred = 0;
        let mut message = request.message();
        message.attributes.push(AddressAttribute::CacheInfo(lifetime));
        if request.address.ip.is_ipv6() {
            // Usable at once: the earlier holder of the address has lost its lease.
            message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
        self.exchange(RouteNetlinkMessage::NewAddress(message), flags).map(drop)
    }

    pub(super) fn remove(&mut self, request: &Request) -> io::Result<()> {
        self.exchange(RouteNetlinkMessage::DelAddress(request.message()), NLM_F_ACK).map(drop)
    }

    /// The interfaces that have an address.
    pub(super) fn find(&mut self, ip: IpAddr) -> io::Result<Vec<Request>> {
        let mut question = AddressMessage::default();
        question.header.family = family(ip);
        let listed = self.exchange(RouteNetlinkMessage::GetAddress(question), NLM_F_DUMP)?;
        let found = listed.iter().filter_map(Request::from_message);
        Ok(found.filter(|found| found.address.ip == ip).collect())
    }

    /// Sends a request, and receives until it is acknowledged or its list ends. Returns the listed addresses.
    fn exchange(&mut self, request: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<AddressMessage>> {
        self.sequence += 1;
        let mut message = NetlinkMessage::from(request);
        message.header.flags = NLM_F_REQUEST | flags;
        message.header.sequence_number = self.sequence;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        sendto(&self.socket, &bytes, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut listed = Vec::new();
        let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            let (length, _) = recv(&self.socket, &mut *datagram, RecvFlags::empty())?;
            if self.read(&datagram[..length], &mut listed)? {
                return Ok(listed);
            }
        }
    }

    /// Reads the messages of a datagram. Returns whether the answer is complete.
    fn read(&self, mut datagram: &[u8], listed: &mut Vec<AddressMessage>) -> io::Result<bool> {
        while !datagram.is_empty() {
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(datagram);
            let message = message.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            // An answer to an earlier request, whose time was over.
            if message.header.sequence_number == self.sequence {
                match message.payload {
                    NetlinkPayload::Error(error) if error.code.is_none() => return Ok(true),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    NetlinkPayload::Done(_) => return Ok(true),
                    NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewAddress(address)) => {
                        listed.push(address);
                    }
                    _ => {}
                }
            }
            let length = usize::try_from(message.header.length).unwrap_or(usize::MAX);
            // Messages begin at multiples of four bytes.
            let next = length.checked_next_multiple_of(4).unwrap_or(usize::MAX);
            datagram = datagram.get(next..).unwrap_or_default();
        }
        Ok(false)
    }
}

fn family(ip: IpAddr) -> AddressFamily {
    if ip.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

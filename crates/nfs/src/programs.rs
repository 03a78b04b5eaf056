//! The RPC programs of this process and the addresses that serve them.

use nfs_wire::{mount, nlm, nsm, portmap, rquota, v3};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Programs {
    /// NFS versions 3 and 4.
    pub nfs: bool,
    /// MOUNT versions 1 and 3.
    pub mount: bool,
    /// Port mapper version 2 and rpcbind versions 3 and 4.
    pub portmap: bool,
    /// NLM versions 1, 3 and 4, and NSM version 1.
    pub locks: bool,
    /// Remote quotas, versions 1 and 2.
    pub quotas: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    pub program: u32,
    pub version: u32,
    pub transport: Transport,
    /// The listening address, possibly unspecified.
    pub address: SocketAddr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    Tcp,
    Udp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// A network identifier, RFC 5665 §5.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Netid {
    pub(crate) transport: Transport,
    pub(crate) family: Family,
}

pub(crate) struct ServedAddress<'r> {
    pub(crate) registration: &'r Registration,
    pub(crate) netid: Netid,
    /// The address that the client can use.
    pub(crate) address: SocketAddr,
}

impl Registration {
    pub fn of(programs: Programs, transport: Transport, address: SocketAddr) -> Vec<Self> {
        let versions: [(bool, u32, &[u32]); 6] = [
            (programs.nfs, v3::PROGRAM, &[v3::VERSION]),
            (programs.mount, mount::PROGRAM, &[mount::VERSION, mount::VERSION_1]),
            (programs.locks, nlm::PROGRAM, &[nlm::VERSION_4, nlm::VERSION_3, nlm::VERSION_1]),
            (programs.locks, nsm::PROGRAM, &[nsm::VERSION]),
            (programs.quotas, rquota::PROGRAM, &[rquota::VERSION_2, rquota::VERSION_1]),
            (
                programs.portmap,
                portmap::PROGRAM,
                &[portmap::RPCB_VERSION_4, portmap::RPCB_VERSION_3, portmap::PMAP_VERSION],
            ),
        ];
        let served = versions.into_iter().filter(|(served, ..)| *served);
        let each = |(_, program, versions): (bool, u32, &'static [u32])| {
            versions.iter().map(move |&version| Self { program, version, transport, address })
        };
        served.flat_map(each).collect()
    }

    /// The addresses at which a client that reached us at `local` can reach this program.
    pub(crate) fn addresses(&self, local: IpAddr) -> impl Iterator<Item = ServedAddress<'_>> {
        // A socket on `::` accepts IPv4 as well, unless the system is configured otherwise.
        let families: &[Family] = match self.address.ip().to_canonical() {
            IpAddr::V4(_) => &[Family::V4],
            IpAddr::V6(v6) if v6.is_unspecified() => &[Family::V4, Family::V6],
            IpAddr::V6(_) => &[Family::V6],
        };
        families.iter().map(move |&family| ServedAddress {
            registration: self,
            netid: Netid { transport: self.transport, family },
            address: self.address_for(family, local),
        })
    }

    /// The listening address; if that is unspecified, the address that the client already reached.
    fn address_for(&self, family: Family, local: IpAddr) -> SocketAddr {
        let listening = self.address.ip().to_canonical();
        let ip = match family {
            _ if !listening.is_unspecified() => listening,
            family if Family::of(local) == family => local.to_canonical(),
            Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
        };
        SocketAddr::new(ip, self.address.port())
    }
}

impl Family {
    /// An IPv4-mapped IPv6 address is IPv4.
    pub(crate) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }
}

impl Netid {
    const ALL: [Self; 4] = [
        Self { transport: Transport::Tcp, family: Family::V4 },
        Self { transport: Transport::Udp, family: Family::V4 },
        Self { transport: Transport::Tcp, family: Family::V6 },
        Self { transport: Transport::Udp, family: Family::V6 },
    ];

    pub(crate) fn name(self) -> &'static str {
        match (self.transport, self.family) {
            (Transport::Tcp, Family::V4) => "tcp",
            (Transport::Udp, Family::V4) => "udp",
            (Transport::Tcp, Family::V6) => "tcp6",
            (Transport::Udp, Family::V6) => "udp6",
        }
    }

    pub(crate) fn parse(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|netid| netid.name().as_bytes() == name)
    }
}

impl ServedAddress<'_> {
    /// RFC 5665 §5.2.3: the address as text, then the two bytes of the port in decimal.
    pub(crate) fn universal_address(&self) -> String {
        let [high, low] = self.address.port().to_be_bytes();
        format!("{}.{high}.{low}", self.address.ip())
    }
}

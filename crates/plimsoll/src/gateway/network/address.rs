//! The address of an endpoint: it is at one gateway at a time.

use super::announce::{Announcer, Link};
use super::rtnetlink::{Request, Rtnetlink};
use anyhow::{Context, anyhow, bail};
use rustix::io::Errno;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, UdpSocket};
use std::str::FromStr;
use std::time::{Duration, Instant};
use transport::ReplyDeadline;

/// Seconds after which the kernel removes an address that nobody renews: of a process that died or is frozen.
const VALID_S: u32 = 3;
/// Announcements of a new address: at once, and with the next renewals. One may be lost.
const ANNOUNCEMENTS: u32 = 3;
/// The interval at which an address that another program moves is looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The time that the kernel has to make a new address reachable.
const ROUTE_TIME: Duration = Duration::from_millis(500);

/// An address with the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndpointAddress {
    pub(crate) ip: IpAddr,
    pub(crate) prefix: u8,
}

/// Moves the address of an endpoint to this machine and away.
pub(crate) trait AddressMover: Send {
    /// Brings the address to this machine, or waits for it, at most this long.
    fn acquire(&mut self, patience: Duration) -> anyhow::Result<()>;

    /// Lets the kernel keep the address for another [`VALID_S`]. Call it every half second, after a renewal of the
    /// lease was confirmed.
    fn renew(&mut self) -> anyhow::Result<()>;

    /// Takes the address off this machine.
    fn release(&mut self) -> anyhow::Result<()>;
}

/// An address that this process adds to an interface. Dropping this removes it.
pub(crate) struct Interface {
    name: String,
    address: EndpointAddress,
    deadline: ReplyDeadline,
    netlink: Rtnetlink,
    held: Option<Held>,
}

struct Held {
    index: u32,
    announcer: Announcer,
    announcements_left: u32,
}

/// An address that another program moves: a cluster manager, a load balancer, an administrator.
pub(crate) struct External {
    pub(crate) ip: IpAddr,
}

impl FromStr for EndpointAddress {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let Some((ip, prefix)) = text.split_once('/') else {
            bail!(
                "{text:?} has no prefix length: write 192.0.2.7/24, or /32 if only the one address is meant"
            );
        };
        let ip: IpAddr = ip.parse().with_context(|| format!("{ip:?} is not an IP address"))?;
        let most = if ip.is_ipv4() { 32 } else { 128 };
        match prefix.parse() {
            Ok(prefix @ 1..) if prefix <= most => Ok(Self { ip, prefix }),
            _ => bail!("{prefix:?} is not a prefix length of {ip}: allowed are 1 to {most}"),
        }
    }
}

impl fmt::Display for EndpointAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

impl Interface {
    /// An interface by its name. The address is not added or renewed after the deadline.
    pub(crate) fn new(name: &str, address: EndpointAddress, deadline: ReplyDeadline) -> anyhow::Result<Self> {
        let netlink = Rtnetlink::open().context("cannot open a netlink socket")?;
        Ok(Self { name: name.to_owned(), address, deadline, netlink, held: None })
    }

    fn add(&mut self, index: u32) -> io::Result<()> {
        let mut request = Request::new(index, self.address);
        request.valid_s = VALID_S;
        // The kernel adds an address that is gone, also to renew it. So a process that was frozen must not get here.
        self.deadline.check()?;
        self.netlink.add(&request)
    }

    /// Removes the address of a process that ended without doing so. Refuses an address of somebody else.
    fn clear(&mut self) -> anyhow::Result<()> {
        let ip = self.address.ip;
        for found in self.netlink.find(ip).context("cannot list the addresses of this machine")? {
            if found.valid_s > VALID_S {
                bail!(
                    "{ip} is already on an interface of this machine, and not from this service. Remove it with \"ip addr \
                     del\", or declare the endpoint's address as external if another program moves it"
                );
            }
            self.netlink.remove(&found).or_else(ignore_absence).map_err(|error| self.explain(error))?;
        }
        Ok(())
    }

    fn explain(&self, error: io::Error) -> anyhow::Error {
        let Self { name, address, .. } = self;
        match error.kind() {
            ErrorKind::PermissionDenied => anyhow!(
                "cannot change the addresses of interface {name}: the service needs the capability CAP_NET_ADMIN"
            ),
            _ => anyhow!("cannot change address {address} of interface {name}: {error}"),
        }
    }
}

impl AddressMover for Interface {
    fn acquire(&mut self, _patience: Duration) -> anyhow::Result<()> {
        let link = Link::named(&self.name)?;
        // First, so that a missing capability leaves no address.
        let announcer = Announcer::open(&link, self.address.ip)?;
        self.clear()?;
        self.add(link.index).map_err(|error| self.explain(error))?;
        announcer.announce();
        wait_for_route(self.address.ip);
        let announcements_left = ANNOUNCEMENTS - 1;
        self.held = Some(Held { index: link.index, announcer, announcements_left });
        Ok(())
    }

    fn renew(&mut self) -> anyhow::Result<()> {
        let Some(index) = self.held.as_ref().map(|held| held.index) else {
            bail!("address {} is not on this machine", self.address)
        };
        self.add(index).map_err(|error| self.explain(error))?;
        if let Some(held) = &mut self.held
            && held.announcements_left > 0
        {
            held.announcements_left -= 1;
            held.announcer.announce();
        }
        Ok(())
    }

    fn release(&mut self) -> anyhow::Result<()> {
        let Some(held) = self.held.take() else { return Ok(()) };
        let request = Request::new(held.index, self.address);
        self.netlink.remove(&request).or_else(ignore_absence).map_err(|error| self.explain(error))
    }
}

impl Drop for Interface {
    fn drop(&mut self) {
        if let Err(error) = self.release() {
            tracing::warn!("{error:#}; the kernel removes it after {VALID_S} seconds");
        }
    }
}

impl AddressMover for External {
    fn acquire(&mut self, patience: Duration) -> anyhow::Result<()> {
        let Self { ip } = *self;
        let until = Instant::now() + patience;
        loop {
            match UdpSocket::bind((ip, 0)) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() != ErrorKind::AddrNotAvailable => {
                    return Err(error).with_context(|| format!("cannot use address {ip}"));
                }
                Err(_) if Instant::now() >= until => bail!(
                    "address {ip} has not come to this machine within {} s. It is external: another program must move it",
                    patience.as_secs()
                ),
                Err(_) => std::thread::sleep(LOOK_AGAIN),
            }
        }
    }

    fn renew(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn release(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Waits until packets to an address arrive here. The kernel adds an IPv6 address first and its route a little later.
fn wait_for_route(ip: IpAddr) {
    let until = Instant::now() + ROUTE_TIME;
    let arrives = || -> io::Result<bool> {
        let socket = UdpSocket::bind((ip, 0))?;
        socket.set_read_timeout(Some(LOOK_AGAIN))?;
        socket.connect(socket.local_addr()?)?;
        socket.send(&[0])?;
        socket.recv(&mut [0; 1]).map(|bytes| bytes == 1)
    };
    while !arrives().unwrap_or(false) {
        if Instant::now() >= until {
            return tracing::warn!("address {ip} is added, but packets to it do not arrive here yet");
        }
    }
}

fn ignore_absence(error: io::Error) -> io::Result<()> {
    match Errno::from_io_error(&error) {
        Some(Errno::ADDRNOTAVAIL) => Ok(()),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_needs_a_prefix_of_its_family() {
        let parse = |text: &str| text.parse::<EndpointAddress>().map_err(|error| error.to_string());
        assert_eq!(parse("192.0.2.7/32"), Ok(EndpointAddress { ip: [192, 0, 2, 7].into(), prefix: 32 }));
        assert_eq!(parse("2001:db8::7/64").unwrap().to_string(), "2001:db8::7/64");
        assert!(parse("192.0.2.7").unwrap_err().contains("has no prefix length: write"));
        assert_eq!(
            parse("192.0.2.7/33").unwrap_err(),
            "\"33\" is not a prefix length of 192.0.2.7: allowed are 1 to 32"
        );
        assert!(parse("2001:db8::7/0").is_err() && parse("host/24").is_err());
    }

    #[test]
    fn external_address_is_waited_for() {
        let patience = Duration::from_millis(200);
        External { ip: [127, 0, 0, 1].into() }.acquire(patience).unwrap();
        let elsewhere = External { ip: [192, 0, 2, 7].into() }.acquire(patience).unwrap_err().to_string();
        assert!(elsewhere.contains("has not come to this machine"), "{elsewhere}");
    }
}

//! The ports besides NFS's own: MOUNT's, where some clients look for it, the port mapper's, and that of remote quotas.

use crate::mounting::{NFS_PORT, PortMapper};
use crate::nfs_frontend::Listen;
use crate::terminal::in_plain_words;
use anyhow::{Context, bail};
use nfs::portmap::{Registration, Transport};
use nfs::programs::Programs;
use nfs_wire::portmap::PORT;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

/// The port of MOUNT on common storage appliances, which firewalls know.
const MOUNT_PORT: u16 = 635;
/// RFC 1833 §2.
const PORTMAP_PORT: u16 = {
    assert!(PORT == 111);
    111
};

/// The programs at the NFS port.
pub(crate) const NFS_PROGRAMS: Programs =
    Programs { portmap: false, quotas: false, nfs: true, mount: true, locks: true };

/// A socket with what it serves.
type Serving<S> = (S, Programs);

/// The sockets on these ports, as configured and as available.
pub(crate) struct Ports {
    mount: Option<TcpListener>,
    portmap: Option<(TcpListener, UdpSocket)>,
    /// The service that tells clients the ports.
    mapper: PortMapper,
    /// For locks, at the NFS port.
    locks: Option<UdpSocket>,
    /// For remote quotas. Over UDP unless TLS is required.
    quotas: Option<(TcpListener, Option<UdpSocket>)>,
}

/// The programs over UDP at the NFS port.
const UDP_PROGRAMS: Programs =
    Programs { nfs: false, mount: false, portmap: false, locks: true, quotas: false };

const QUOTA_PROGRAMS: Programs =
    Programs { nfs: false, mount: false, portmap: false, locks: false, quotas: true };

impl Ports {
    /// Listens beside an NFS listener at `nfs`. A port that was asked for must be had. The standard ones are tried if
    /// NFS is at its own standard port: a second server, or one of an ordinary user, does without.
    pub(crate) fn open(listen: &Listen, nfs: SocketAddr) -> anyhow::Result<Self> {
        let at = |port| SocketAddr::new(nfs.ip(), port);
        let mount = wanted(listen.mount_port, MOUNT_PORT, nfs)
            .map(|port| open("MOUNT", port, || TcpListener::bind(at(port.number))))
            .transpose()?
            .and_then(Result::ok);
        let (portmap, mapper) = open_portmap(listen, nfs)?;
        let number = Port { number: nfs.port(), required: false };
        // There is no TLS over UDP.
        let locks = match listen.tls.is_required() {
            true => None,
            false => open("the lock manager over UDP", number, || UdpSocket::bind(nfs))?.ok(),
        };
        let port = listen.rquota_port.map(|number| Port { number, required: true });
        let quotas = port.map(|port| open("remote quotas", port, || quota_sockets(at(port.number), listen)));
        let quotas = quotas.transpose()?.and_then(Result::ok);
        Ok(Self { mount, portmap, mapper, locks, quotas })
    }

    /// The registrations for clients, with NFS at `nfs`. MOUNT is registered at the NFS port, so that a firewall needs
    /// one open port.
    pub(crate) fn served(&self, nfs: SocketAddr) -> io::Result<Vec<Registration>> {
        let mut served = Registration::of(NFS_PROGRAMS, Transport::Tcp, nfs);
        if let Some(locks) = &self.locks {
            served.extend(Registration::of(UDP_PROGRAMS, Transport::Udp, locks.local_addr()?));
        }
        if let Some((tcp, udp)) = &self.quotas {
            served.extend(Registration::of(QUOTA_PROGRAMS, Transport::Tcp, tcp.local_addr()?));
            if let Some(udp) = udp {
                served.extend(Registration::of(QUOTA_PROGRAMS, Transport::Udp, udp.local_addr()?));
            }
        }
        Ok(served)
    }

    /// The registrations of the built-in port mapper: itself and the served programs. Empty without one.
    pub(crate) fn mapped(&self, served: &[Registration]) -> io::Result<Vec<Registration>> {
        let Some((tcp, udp)) = &self.portmap else { return Ok(Vec::new()) };
        let portmap = Programs { portmap: true, ..Programs::default() };
        let mut mapped = Registration::of(portmap, Transport::Tcp, tcp.local_addr()?);
        mapped.extend(Registration::of(portmap, Transport::Udp, udp.local_addr()?));
        mapped.extend(served);
        Ok(mapped)
    }

    pub(crate) fn mapper(&self) -> &PortMapper {
        &self.mapper
    }

    /// The listeners and the datagram sockets.
    pub(crate) fn into_sockets(self) -> (Vec<Serving<TcpListener>>, Vec<Serving<UdpSocket>>) {
        let mount = self.mount.map(|tcp| (tcp, Programs { mount: true, ..Programs::default() }));
        let (tcp, udp) = self.portmap.unzip();
        let programs = Programs { portmap: true, ..Programs::default() };
        let portmap = tcp.map(|tcp| (tcp, programs));
        let locks = self.locks.map(|udp| (udp, UDP_PROGRAMS));
        let (quotas_tcp, quotas_udp) = self.quotas.unzip();
        let quotas = quotas_udp.flatten().map(|udp| (udp, QUOTA_PROGRAMS));
        let datagrams = udp.map(|udp| (udp, programs)).into_iter().chain(locks).chain(quotas).collect();
        let quotas = quotas_tcp.map(|tcp| (tcp, QUOTA_PROGRAMS));
        (mount.into_iter().chain(portmap).chain(quotas).collect(), datagrams)
    }
}

/// Listens for remote quotas. There is no TLS over UDP.
fn quota_sockets(at: SocketAddr, listen: &Listen) -> io::Result<(TcpListener, Option<UdpSocket>)> {
    let tcp = TcpListener::bind(at)?;
    let udp = (!listen.tls.is_required()).then(|| UdpSocket::bind(tcp.local_addr()?)).transpose()?;
    Ok((tcp, udp))
}

/// A port to listen on.
#[derive(Clone, Copy)]
struct Port {
    number: u16,
    /// Whether the service must not start without it.
    required: bool,
}

fn wanted(asked: Option<u16>, standard: u16, nfs: SocketAddr) -> Option<Port> {
    match asked {
        Some(0) => None,
        Some(number) => Some(Port { number, required: true }),
        None => (nfs.port() == NFS_PORT).then_some(Port { number: standard, required: false }),
    }
}

/// Opens the sockets of the port mapper, and chooses the service that tells clients the ports. Clients use its standard port alone.
fn open_portmap(
    listen: &Listen,
    nfs: SocketAddr,
) -> anyhow::Result<(Option<(TcpListener, UdpSocket)>, PortMapper)> {
    let at = |port| SocketAddr::new(nfs.ip(), port);
    let nobody = |why: String| Ok((None, PortMapper::Nobody(why)));
    if listen.no_portmap {
        return nobody("the service runs with --no-portmap".to_owned());
    }
    if listen.register_rpcbind {
        if let Some(port @ 1..) = listen.portmap_port {
            bail!(
                "a port mapper on port {port}, and rpcbind is to be told: only one of both can lead clients here"
            );
        }
        return Ok((None, PortMapper::Host));
    }
    let Some(port) = wanted(listen.portmap_port, PORTMAP_PORT, nfs) else {
        let port = nfs.port();
        return nobody(match listen.portmap_port {
            Some(_) => "the service runs with --portmap-port 0".to_owned(),
            None => format!(
                "NFS is on port {port}, and the port mapper is served only with NFS on port {NFS_PORT}"
            ),
        });
    };
    let bind = || Ok((TcpListener::bind(at(port.number))?, UdpSocket::bind(at(port.number))?));
    match open("the port mapper", port, bind)? {
        Err(error) => {
            nobody(in_plain_words(&format!("the port mapper has not got port {}: {error}", port.number)))
        }
        Ok(sockets) if port.number == PORTMAP_PORT => Ok((Some(sockets), PortMapper::Own)),
        Ok(sockets) => {
            let why =
                format!("the port mapper is on port {}, and clients look on {PORTMAP_PORT}", port.number);
            Ok((Some(sockets), PortMapper::Nobody(why)))
        }
    }
}

/// The result of `bind`. An error ends the service where the port is required.
fn open<S>(what: &str, port: Port, bind: impl FnOnce() -> io::Result<S>) -> anyhow::Result<io::Result<S>> {
    let number = port.number;
    match bind() {
        Err(error) if port.required => {
            Err(error).with_context(|| format!("cannot listen on port {number} for {what}"))
        }
        Err(error) => {
            tracing::info!("{what} is not served on port {number}: {error}");
            Ok(Err(error))
        }
        sockets => Ok(sockets),
    }
}

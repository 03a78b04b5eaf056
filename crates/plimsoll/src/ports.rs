//! The ports besides NFS's own: MOUNT's, where some clients look for it, and the port mapper's.

use crate::nfs_frontend::Listen;
use anyhow::Context;
use nfs::portmap::{Registration, Transport};
use nfs::rpc::dispatch::Programs;
use nfs_wire::portmap::PORT;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

/// Where NFS is served by custom (RFC 1813 §2.1).
const NFS_PORT: u16 = 2049;
/// Where storage appliances serve MOUNT, so that firewalls know it.
const MOUNT_PORT: u16 = 635;
/// RFC 1833 §2.
const PORTMAP_PORT: u16 = {
    assert!(PORT == 111);
    111
};

/// What the NFS port serves.
pub(crate) const NFS_PROGRAMS: Programs = Programs { nfs: true, mount: true, portmap: false, locks: true };

/// A socket with what it serves.
type Serving<S> = (S, Programs);

/// Sockets on these ports, as far as they were wanted and could be had.
pub(crate) struct Ports {
    mount: Option<TcpListener>,
    portmap: Option<(TcpListener, UdpSocket)>,
    /// For locks, at the NFS port.
    locks: Option<UdpSocket>,
}

/// What is served over UDP at the NFS port.
const UDP_PROGRAMS: Programs = Programs { nfs: false, mount: false, portmap: false, locks: true };

impl Ports {
    /// Listens beside an NFS listener at `nfs`. A port that was asked for must be had. The standard ones are tried if
    /// NFS is at its own standard port: a second server, or one of an ordinary user, does without.
    pub(crate) fn open(listen: &Listen, nfs: SocketAddr) -> anyhow::Result<Self> {
        let at = |port| SocketAddr::new(nfs.ip(), port);
        let mount = wanted(listen.mount_port, MOUNT_PORT, nfs)
            .map(|port| open("MOUNT", port, || TcpListener::bind(at(port.number))))
            .transpose()?
            .flatten();
        let portmap = wanted(listen.portmap_port, PORTMAP_PORT, nfs)
            .filter(|_| !listen.no_portmap)
            .map(|port| {
                open("the port mapper", port, || {
                    Ok((TcpListener::bind(at(port.number))?, UdpSocket::bind(at(port.number))?))
                })
            })
            .transpose()?
            .flatten();
        let number = Port { number: nfs.port(), required: false };
        let locks = open("the lock manager over UDP", number, || UdpSocket::bind(nfs))?;
        Ok(Self { mount, portmap, locks })
    }

    /// What the port mapper tells of, with NFS at `nfs`; nothing without a port mapper. MOUNT is told of at the NFS
    /// port, so that one open port in a firewall is enough.
    pub(crate) fn registrations(&self, nfs: SocketAddr) -> io::Result<Vec<Registration>> {
        let Some((tcp, udp)) = &self.portmap else { return Ok(Vec::new()) };
        let portmap = Programs { portmap: true, ..Programs::default() };
        let mut registered = Registration::of(portmap, Transport::Tcp, tcp.local_addr()?);
        registered.extend(Registration::of(portmap, Transport::Udp, udp.local_addr()?));
        registered.extend(Registration::of(NFS_PROGRAMS, Transport::Tcp, nfs));
        if let Some(locks) = &self.locks {
            registered.extend(Registration::of(UDP_PROGRAMS, Transport::Udp, locks.local_addr()?));
        }
        Ok(registered)
    }

    /// Whether clients that are told no ports find them out.
    pub(crate) fn has_standard_portmap(&self) -> bool {
        let port =
            self.portmap.as_ref().and_then(|(tcp, _)| tcp.local_addr().ok()).map(|address| address.port());
        port == Some(PORTMAP_PORT)
    }

    /// The listeners and the datagram sockets.
    pub(crate) fn into_sockets(self) -> (Vec<Serving<TcpListener>>, Vec<Serving<UdpSocket>>) {
        let mount = self.mount.map(|tcp| (tcp, Programs { mount: true, ..Programs::default() }));
        let (tcp, udp) = self.portmap.unzip();
        let programs = Programs { portmap: true, ..Programs::default() };
        let portmap = tcp.map(|tcp| (tcp, programs));
        let locks = self.locks.map(|udp| (udp, UDP_PROGRAMS));
        let datagrams = udp.map(|udp| (udp, programs)).into_iter().chain(locks).collect();
        (mount.into_iter().chain(portmap).collect(), datagrams)
    }
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

fn open<S>(what: &str, port: Port, bind: impl FnOnce() -> io::Result<S>) -> anyhow::Result<Option<S>> {
    let number = port.number;
    match bind() {
        Ok(sockets) => Ok(Some(sockets)),
        Err(error) if port.required => {
            Err(error).with_context(|| format!("cannot listen on port {number} for {what}"))
        }
        Err(error) => {
            tracing::info!("{what} is not served on port {number}: {error}");
            Ok(None)
        }
    }
}

//! The port mapper over UDP, where clients look for it first.
//!
//! Senders of datagrams can be forged, so no answer is longer than its question except to this machine: nobody gains
//! by having us answer to somebody else. The lists are for those who ask over TCP. A reply is never answered, so two
//! servers cannot keep each other busy.

use crate::call::Call;
use crate::clock;
use crate::limits::DATAGRAM_BYTES_MAX;
use crate::rpc::dispatch::{Programs, route};
use crate::rpc::reply::Replies;
use crate::rpc::wire::{Accepted, CallHeader};
use crate::service::Service;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use vfs::{Owed, Pace};
use xdr::{Decode, Reader};

/// A thread that answers the datagrams of one socket, until it is dropped.
pub struct Responder {
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// How often the thread looks whether it shall stop.
const LOOK: Duration = Duration::from_millis(200);
const PROGRAMS: Programs = Programs { nfs: false, mount: false, portmap: true };

impl Responder {
    /// Answers what comes to `socket`.
    pub fn start(service: Arc<Service>, socket: UdpSocket) -> io::Result<Self> {
        socket.set_read_timeout(Some(LOOK))?;
        let stopping = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stopping);
        let run = move || {
            while !told.load(Ordering::SeqCst) {
                if let Err(error) = serve_one(&service, &socket) {
                    tracing::warn!(%error, "the port mapper cannot receive or send a datagram");
                    std::thread::sleep(LOOK);
                }
            }
        };
        let thread = std::thread::Builder::new().name("portmap".into()).spawn(run)?;
        Ok(Self { stopping, thread: Some(thread) })
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // It panicked if this fails, and has said so.
            let _ = thread.join();
        }
    }
}

/// Waits a little for a datagram, and answers it.
fn serve_one(service: &Service, socket: &UdpSocket) -> io::Result<()> {
    let mut datagram = [0; DATAGRAM_BYTES_MAX];
    let (length, peer) = match socket.recv_from(&mut datagram) {
        Ok(received) => received,
        // Refused: the one we answered last is gone, and we are told only now.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::WouldBlock
                    | ErrorKind::TimedOut
                    | ErrorKind::Interrupted
                    | ErrorKind::ConnectionRefused
            ) =>
        {
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let local = local_address(socket.local_addr()?.ip(), peer);
    if let Some(reply) = answer(service, peer, local, &datagram[..length])
        && let Err(error) = socket.send_to(&reply, peer)
    {
        tracing::debug!(%peer, %error, "cannot answer");
    }
    Ok(())
}

/// Where `peer` reaches us. A socket on every address is not told which one a datagram was for; it is the one from
/// which answers to `peer` leave, but for hosts with several ways to one client.
fn local_address(listening: IpAddr, peer: SocketAddr) -> IpAddr {
    if !listening.is_unspecified() {
        return listening;
    }
    let any: IpAddr = match peer.ip().to_canonical() {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // Connecting a datagram socket sends nothing: it only picks the route.
    let route = || -> io::Result<IpAddr> {
        let probe = UdpSocket::bind((any, 0))?;
        probe.connect((peer.ip().to_canonical(), peer.port()))?;
        Ok(probe.local_addr()?.ip())
    };
    route().unwrap_or(any)
}

/// The reply to a datagram, if it gets any.
fn answer(service: &Service, peer: SocketAddr, local: IpAddr, datagram: &[u8]) -> Option<Vec<u8>> {
    let mut out = Replies::default();
    let start = out.start();
    if let Some(routed) = route(PROGRAMS, datagram, &mut out).ok()? {
        let mut call = Call {
            service,
            namespace: &service.namespace.load_full(),
            peer,
            local,
            claim: routed.claim,
            now: clock::now(),
            pace: Pace::Wait,
            recent: None,
            owed: &mut Owed::default(),
        };
        routed.perform(&mut call, &mut out);
    }
    let may_be_sent = |reply: &[u8]| reply.len() <= datagram.len() || peer.ip().to_canonical().is_loopback();
    if !may_be_sent(out.record(start)?) {
        let xid = CallHeader::decode(&mut Reader::new(datagram)).ok()?.xid;
        out.abandon(start);
        out.accept(xid, Accepted::SystemErr);
    }
    out.record(start).filter(|reply| may_be_sent(reply)).map(<[u8]>::to_vec)
}

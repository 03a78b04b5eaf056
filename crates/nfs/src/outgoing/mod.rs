//! Calls to programs on clients' hosts: a lock granted later, the news of a restart.
//!
//! The port comes from the port mapper at the host's own address. Names that clients send are never resolved.
//! UDP is tried first, then TCP. All waiting is bounded: an unresponsive host costs one thread a few seconds.

mod deadline;
mod ports;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod workers;

use crate::portmap::Transport;
use deadline::Deadline;
use nfs_wire::rpc::{
    Accepted, AuthFlavor, AuthSys, CallHeader, OpaqueAuth, RPC_VERSION, RecordMark, ReplyBody, ReplyHeader,
};
use ports::Ports;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use transport::ReplyDeadline;
use xdr::{Decode, Encode, Reader};

/// Attempts per datagram, and the wait after each.
const TRIES: u32 = 2;
const DATAGRAM_TIMEOUT: Duration = Duration::from_millis(1000);
const STREAM_TIMEOUT: Duration = Duration::from_millis(2000);
/// The longest reply that is read.
const REPLY_BYTES_MAX: usize = 2048;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub(crate) host: IpAddr,
    /// The server address that the host knows.
    pub(crate) from: IpAddr,
    pub(crate) program: u32,
    pub(crate) version: u32,
    pub(crate) procedure: u32,
    pub(crate) args: Vec<u8>,
}

pub(crate) struct Caller {
    ports: Ports,
    next_xid: AtomicU32,
    /// The time after which no call leaves.
    pub(crate) deadline: ReplyDeadline,
}

impl Caller {
    pub(crate) fn new(portmap_port: u16) -> Self {
        let xid = u32::from_be_bytes(std::process::id().to_be_bytes()).rotate_left(16);
        let deadline = ReplyDeadline::default();
        Self { ports: Ports::new(portmap_port), next_xid: AtomicU32::new(xid), deadline }
    }

    /// Calls a program; `None` without a successful reply.
    pub(crate) fn call(&self, call: &Outgoing) -> Option<Vec<u8>> {
        if let Some(port) = self.ports.of(self, call, Transport::Udp) {
            match self.exchange(call, port, Transport::Udp) {
                Some(results) => return Some(results),
                // The program may have another port by now.
                None => self.ports.forget(call),
            }
        }
        let port = self.ports.of(self, call, Transport::Tcp)?;
        self.exchange(call, port, Transport::Tcp)
    }

    /// Sends a datagram without waiting for a reply. If the port mapper does not know the program, sends to `port`.
    pub(crate) fn send(&self, call: &Outgoing, port: u16) {
        let port = self.ports.of(self, call, Transport::Udp).unwrap_or(port);
        let (_, message) = self.message(call);
        let sent = connected(call, port).and_then(|socket| {
            self.deadline.check()?;
            socket.send(&message)
        });
        if let Err(error) = sent {
            tracing::debug!(host = %call.host, %error, "cannot send a result");
        }
    }

    fn exchange(&self, call: &Outgoing, port: u16, transport: Transport) -> Option<Vec<u8>> {
        let (xid, message) = self.message(call);
        let replied = match transport {
            Transport::Udp => self.over_udp(call, port, xid, &message),
            Transport::Tcp => self.over_tcp(call, port, xid, &message),
        };
        let Outgoing { host, program, procedure, .. } = call;
        replied
            .inspect_err(
                |error| tracing::debug!(%host, port, program, procedure, %error, "a call to a client failed"),
            )
            .ok()
    }

    fn message(&self, call: &Outgoing) -> (u32, Vec<u8>) {
        let xid = self.next_xid.fetch_add(1, Ordering::Relaxed);
        (xid, message(xid, [call.program, call.version, call.procedure], &call.args))
    }

    /// Whether a program answers at an address of this host.
    pub(crate) fn answers(&self, program: u32, version: u32, at: SocketAddr, transport: Transport) -> bool {
        let from = match at {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let call = Outgoing { host: at.ip(), from, program, version, procedure: 0, args: Vec::new() };
        self.exchange(&call, at.port(), transport).is_some()
    }

    fn over_udp(&self, call: &Outgoing, port: u16, xid: u32, message: &[u8]) -> io::Result<Vec<u8>> {
        let socket = connected(call, port)?;
        let mut reply = [0; REPLY_BYTES_MAX];
        for _ in 0..TRIES {
            self.deadline.check()?;
            socket.send(message)?;
            let deadline = Deadline::after(DATAGRAM_TIMEOUT);
            while let Some(remaining) = deadline.remaining() {
                socket.set_read_timeout(Some(remaining))?;
                match socket.recv(&mut reply) {
                    Ok(length) => {
                        // A late reply to an earlier call is skipped.
                        if let Some(results) = results(&reply[..length], xid)? {
                            return Ok(results);
                        }
                    }
                    Err(error) if deadline::is_timeout(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    fn over_tcp(&self, call: &Outgoing, port: u16, xid: u32, message: &[u8]) -> io::Result<Vec<u8>> {
        let deadline = Deadline::after(STREAM_TIMEOUT);
        self.deadline.check()?;
        let mut stream = TcpStream::connect_timeout(&SocketAddr::new(call.host, port), STREAM_TIMEOUT)?;
        let length = u32::try_from(message.len()).map_err(io::Error::other)?;
        let mark = RecordMark { last: true, length }.to_word().to_be_bytes();
        stream.set_write_timeout(Some(STREAM_TIMEOUT))?;
        self.deadline.check()?;
        stream.write_all(&[&mark[..], message].concat())?;
        let mut read = |bytes: &mut [u8]| -> io::Result<()> {
            let mut at = 0;
            while at < bytes.len() {
                stream.set_read_timeout(Some(deadline.remaining().ok_or(io::ErrorKind::TimedOut)?))?;
                match stream.read(&mut bytes[at..])? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    length => at += length,
                }
            }
            Ok(())
        };
        let mut mark = [0; RecordMark::SIZE];
        read(&mut mark)?;
        let RecordMark { last, length } = RecordMark::from_word(u32::from_be_bytes(mark));
        if !last || length as usize > REPLY_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut reply = vec![0; length as usize];
        read(&mut reply)?;
        results(&reply, xid)?.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// Encodes a call of `[program, version, procedure]`.
pub(crate) fn message(xid: u32, [prog, vers, proc]: [u32; 3], args: &[u8]) -> Vec<u8> {
    let sys = AuthSys { machinename: b"plimsoll", ..AuthSys::default() }.to_bytes();
    let cred = OpaqueAuth { flavor: AuthFlavor::SYS, body: &sys };
    let verf = OpaqueAuth::default();
    let header = CallHeader { xid, rpcvers: RPC_VERSION, prog, vers, proc, cred, verf };
    [&header.to_bytes(), args].concat()
}

/// A socket that receives only from this port of the host.
/// The host compares the sender, so the socket has the address that the host knows.
fn connected(call: &Outgoing, port: u16) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((call.from, 0))?;
    socket.connect((call.host, port))?;
    Ok(socket)
}

/// The results in a reply; `None` if it answers another call, an error if it has no results.
pub(crate) fn results(reply: &[u8], xid: u32) -> io::Result<Option<Vec<u8>>> {
    let mut r = Reader::new(reply);
    match ReplyHeader::decode(&mut r) {
        Ok(header) if header.xid != xid => Ok(None),
        Ok(ReplyHeader { body: ReplyBody::Accepted(_, Accepted::Success), .. }) => {
            Ok(Some(r.rest().to_vec()))
        }
        Ok(ReplyHeader { body, .. }) => Err(io::Error::other(format!("call refused: {body:?}"))),
        Err(_) => Ok(None),
    }
}

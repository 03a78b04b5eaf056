//! The identity of a caller, and a TCP connection for one call of RPC at a time (RFC 5531).

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, SystemTime};

use identity::NtHash;
use nfs_wire::rpc::{
    Accepted, AuthFlavor, AuthSys, CallHeader, OpaqueAuth, RPC_VERSION, RecordMark, ReplyBody, ReplyHeader,
};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use xdr::{Decode, Encode, Inline, Reader, Writer};

use crate::error::Error;

const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest accepted reply. The longest regular reply is to a READ of a few MiB.
const REPLY_MAX: usize = 64 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub uid: u32,
    pub gid: u32,
    /// Sent in AUTH_SYS credentials.
    pub machine: String,
    /// The address to call from; `None` lets the system choose.
    pub source: Option<IpAddr>,
    /// Calls from a port below 1024, which many Linux servers demand (`secure` in exports(5)). Needs root.
    pub privileged_port: bool,
    /// For SMB; the target names the user.
    pub nt_hash: Option<NtHash>,
}

impl Identity {
    pub fn new(uid: u32, gid: u32) -> Self {
        let machine = "plimsoll-bench".to_owned();
        Self { uid, gid, machine, source: None, privileged_port: false, nt_hash: None }
    }

    pub fn connect(&self, address: SocketAddr) -> Result<TcpStream, Error> {
        let ports = if self.privileged_port { 600..1024 } else { 0..1 };
        for port in ports.rev() {
            let stream = self.connect_from(address, port).map_err(|errno| Error::Io {
                doing: format!("connect to {address}"),
                source: errno.into(),
            })?;
            if let Some(stream) = stream {
                stream.set_nodelay(true).map_err(Error::io("set TCP_NODELAY"))?;
                return Ok(stream);
            }
        }
        Err(Error::Unsupported("no port from 600 to 1023 is free for --privileged-port".to_owned()))
    }

    /// Connects from this local port. `None` if the port is in use.
    fn connect_from(&self, address: SocketAddr, port: u16) -> Result<Option<TcpStream>, Errno> {
        let (family, any) = match address {
            SocketAddr::V4(_) => (AddressFamily::INET, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            SocketAddr::V6(_) => (AddressFamily::INET6, IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        };
        let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        if port != 0 || self.source.is_some() {
            match rustix::net::bind(&socket, &SocketAddr::new(self.source.unwrap_or(any), port)) {
                Err(Errno::ADDRINUSE) if port != 0 => return Ok(None),
                bound => bound?,
            }
        }
        match rustix::net::connect(&socket, &address) {
            // The port is free, but not for this destination: an earlier connection still waits in TIME_WAIT.
            Err(Errno::ADDRNOTAVAIL | Errno::ADDRINUSE) if port != 0 => Ok(None),
            connected => connected.map(|()| Some(socket.into())),
        }
    }

    /// [`Identity::header`] behind a record mark, which the sender fills in.
    pub fn record_header(&self, program: u32, version: u32, procedure: u32) -> Vec<u8> {
        [&[0; RecordMark::SIZE], &self.header(program, version, procedure)[..]].concat()
    }

    /// Encodes a call's header up to the arguments. The xid is the first word.
    pub fn header(&self, program: u32, version: u32, procedure: u32) -> Vec<u8> {
        let gids = Inline::default();
        let parms =
            AuthSys { stamp: 0, machinename: self.machine.as_bytes(), uid: self.uid, gid: self.gid, gids };
        let body = parms.to_bytes();
        let cred = OpaqueAuth { flavor: AuthFlavor::SYS, body: &body };
        let verf = OpaqueAuth::default();
        CallHeader { xid: 0, rpcvers: RPC_VERSION, prog: program, vers: version, proc: procedure, cred, verf }
            .to_bytes()
    }
}

#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    identity: Identity,
    xid: u32,
    request: Vec<u8>,
    reply: Vec<u8>,
}

impl Connection {
    pub fn open(address: SocketAddr, identity: Identity) -> Result<Self, Error> {
        let stream = identity.connect(address)?;
        let connection = Self { stream, identity, xid: first_xid(), request: Vec::new(), reply: Vec::new() };
        connection.set_timeout(CALL_TIMEOUT)?;
        Ok(connection)
    }

    pub(crate) fn set_timeout(&self, timeout: Duration) -> Result<(), Error> {
        let stream = &self.stream;
        let set = stream.set_read_timeout(Some(timeout)).and(stream.set_write_timeout(Some(timeout)));
        set.map_err(Error::io("set a timeout"))
    }

    pub fn call(
        &mut self,
        program: u32,
        version: u32,
        procedure: u32,
        arguments: &impl Encode,
    ) -> Result<Reader<'_>, Error> {
        self.xid = self.xid.wrapping_add(1);
        self.request.clear();
        self.request.extend_from_slice(&[0; RecordMark::SIZE]);
        self.request.extend_from_slice(&self.identity.header(program, version, procedure));
        let mut writer = Writer::new(&mut self.request);
        arguments.encode(&mut writer);
        let length = u32::try_from(writer.len() - RecordMark::SIZE)
            .map_err(|_| Error::Unsupported("a call takes less than 4 GiB".to_owned()))?;
        writer.patch_u32(0, RecordMark { last: true, length }.to_word());
        writer.patch_u32(RecordMark::SIZE, self.xid);
        self.stream.write_all(&self.request).map_err(Error::io("send a call"))?;
        self.receive()?;
        self.results(&format!("program {program}, procedure {procedure}"))
    }

    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    pub(crate) fn results(&self, call: &str) -> Result<Reader<'_>, Error> {
        let mut reader = Reader::new(&self.reply);
        let header = ReplyHeader::decode(&mut reader)?;
        if header.xid != self.xid {
            return Err(Error::Protocol(format!(
                "a reply to call {:#x}, asked was {:#x}",
                header.xid, self.xid
            )));
        }
        match header.body {
            ReplyBody::Accepted(_, Accepted::Success) => Ok(reader),
            refused => Err(Error::Protocol(format!("{call}: {refused:?}"))),
        }
    }

    /// Joins the fragments of a record.
    fn receive(&mut self) -> Result<(), Error> {
        self.reply.clear();
        loop {
            let mut mark = [0; RecordMark::SIZE];
            self.stream.read_exact(&mut mark).map_err(receive_error)?;
            let mark = RecordMark::from_word(u32::from_be_bytes(mark));
            let start = self.reply.len();
            if start + mark.length as usize > REPLY_MAX {
                return Err(Error::Protocol(format!("a reply of more than {REPLY_MAX} bytes")));
            }
            self.reply.resize(start + mark.length as usize, 0);
            self.stream.read_exact(&mut self.reply[start..]).map_err(receive_error)?;
            if mark.last {
                return Ok(());
            }
        }
    }
}

/// The first xid of a connection. It differs between connections: otherwise a server's duplicate request
/// cache would answer one connection's call with another's reply.
pub fn first_xid() -> u32 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.subsec_nanos().wrapping_mul(2_654_435_761) ^ std::process::id()
}

pub(crate) fn receive_error(wrong: io::Error) -> Error {
    match wrong.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            Error::Protocol(format!("no reply within {CALL_TIMEOUT:?}"))
        }
        io::ErrorKind::UnexpectedEof => {
            Error::Protocol("the server closed the connection instead of replying".to_owned())
        }
        _ => Error::io("receive a reply")(wrong),
    }
}

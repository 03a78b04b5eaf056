//! Registration of our programs with the host's rpcbind, if that has port 111 (SET and UNSET, RFC 1833 §2.2.1).
//!
//! The calls go over its local socket, which identifies the calling user. Only root may replace others' entries.

use crate::outgoing::{Caller, message, results};
use crate::programs::{Netid, Registration, Transport};
use nfs_wire::portmap::{PORT, RPCB_PROGRAM, RPCB_VERSION_4, Rpcb, RpcbList, RpcbProcedure};
use nfs_wire::rpc::RecordMark;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use xdr::{Decode, Encode, Reader};

/// The socket of rpcbind on Linux.
pub const SOCKET: &str = "/run/rpcbind.sock";
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest list of programs that is read.
const REPLY_BYTES_MAX: usize = 1 << 20;

pub struct HostRpcbind {
    socket: PathBuf,
    entries: Vec<Entry>,
    caller: Caller,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    program: u32,
    version: u32,
    netid: Vec<u8>,
    address: Vec<u8>,
}

#[derive(Debug)]
pub enum RegisterError {
    /// rpcbind does not answer.
    Unreachable(PathBuf, io::Error),
    /// Another server has registered the program, and answers.
    InUse { program: u32, version: u32, at: SocketAddr },
    /// rpcbind refuses the registration.
    Refused { program: u32, version: u32 },
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(socket, error) => {
                write!(f, "cannot reach the host's rpcbind at {}: {error}. Is it running?", socket.display())
            }
            Self::InUse { program, version, at } => write!(
                f,
                "another server on this host serves program {program} version {version} at {at}: find it with `rpcinfo -p`. \
                 Stop it, or serve without rpcbind"
            ),
            Self::Refused { program, version } => write!(
                f,
                "the host's rpcbind refuses program {program} version {version}: only root may replace the entries of \
                 other users"
            ),
        }
    }
}

impl std::error::Error for RegisterError {}

impl HostRpcbind {
    pub fn new(socket: &Path, registrations: &[Registration]) -> Self {
        let port = u16::try_from(PORT).unwrap_or_default();
        let entries = registrations.iter().flat_map(|registration| {
            registration.addresses(registration.address.ip()).map(|served| Entry {
                program: registration.program,
                version: registration.version,
                netid: served.netid.name().into(),
                address: served.universal_address().into(),
            })
        });
        Self { socket: socket.to_owned(), entries: entries.collect(), caller: Caller::new(port) }
    }

    /// Registers every program; safe to repeat. Replaces the entries of a server that does not answer.
    pub fn register(&self) -> Result<(), RegisterError> {
        let registered = self.list()?;
        let ours = |entry: &&Entry| !registered.contains(entry);
        for entry in self.entries.iter().filter(ours) {
            let (program, version) = (entry.program, entry.version);
            let has_it = |other: &&Entry| other.conflicts_with(entry);
            if let Some(other) = registered.iter().find(has_it) {
                if let Some((at, transport)) = other.local_address()
                    && self.caller.answers(program, version, at, transport)
                {
                    return Err(RegisterError::InUse { program, version, at });
                }
                self.change(RpcbProcedure::UNSET, other)?;
            }
            if !self.change(RpcbProcedure::SET, entry)? {
                return Err(RegisterError::Refused { program, version });
            }
        }
        Ok(())
    }

    pub fn unregister(&self) -> Result<(), RegisterError> {
        let registered = self.list()?;
        for entry in self.entries.iter().filter(|entry| registered.contains(entry)) {
            self.change(RpcbProcedure::UNSET, entry)?;
        }
        Ok(())
    }

    fn list(&self) -> Result<Vec<Entry>, RegisterError> {
        let reply = self.call(RpcbProcedure::DUMP, &[])?;
        let list = RpcbList::decode(&mut Reader::new(&reply)).map_err(|_| self.unreachable(malformed()))?;
        Ok(list.0.iter().map(Entry::of).collect())
    }

    fn change(&self, procedure: RpcbProcedure, entry: &Entry) -> Result<bool, RegisterError> {
        let Entry { program, version, netid, address } = entry;
        let args = Rpcb { prog: *program, vers: *version, netid, addr: address, owner: super::OWNER };
        let reply = self.call(procedure, &args.to_bytes())?;
        bool::decode(&mut Reader::new(&reply)).map_err(|_| self.unreachable(malformed()))
    }

    fn call(&self, procedure: RpcbProcedure, args: &[u8]) -> Result<Vec<u8>, RegisterError> {
        let call = message(1, [RPCB_PROGRAM, RPCB_VERSION_4, procedure.0], args);
        let replied = exchange(&self.socket, &call);
        let results = replied.and_then(|reply| results(&reply, 1)?.ok_or_else(malformed));
        results.map_err(|error| self.unreachable(error))
    }

    fn unreachable(&self, error: io::Error) -> RegisterError {
        RegisterError::Unreachable(self.socket.clone(), error)
    }
}

impl Entry {
    fn of(registered: &Rpcb<'_>) -> Self {
        let Rpcb { prog: program, vers: version, netid, addr, .. } = *registered;
        Self { program, version, netid: netid.into(), address: addr.into() }
    }

    /// Whether rpcbind can store only one of the two entries.
    fn conflicts_with(&self, other: &Self) -> bool {
        (self.program, self.version, &self.netid) == (other.program, other.version, &other.netid)
    }

    /// The address and transport of the entry, as seen from this host.
    fn local_address(&self) -> Option<(SocketAddr, Transport)> {
        let text = std::str::from_utf8(&self.address).ok()?;
        let [low, high, ip] = text.rsplitn(3, '.').collect::<Vec<_>>().try_into().ok()?;
        let ip = match ip.parse().ok()? {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let port = u16::from_be_bytes([high.parse().ok()?, low.parse().ok()?]);
        Some((SocketAddr::new(ip, port), Netid::parse(&self.netid)?.transport))
    }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "invalid reply")
}

/// Sends a call, and receives the reply record in any number of fragments.
fn exchange(socket: &Path, call: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
    stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
    let length = u32::try_from(call.len()).map_err(io::Error::other)?;
    let mark = RecordMark { last: true, length }.to_word().to_be_bytes();
    stream.write_all(&[&mark[..], call].concat())?;
    let mut reply = Vec::new();
    loop {
        let mut mark = [0; RecordMark::SIZE];
        stream.read_exact(&mut mark)?;
        let RecordMark { last, length } = RecordMark::from_word(u32::from_be_bytes(mark));
        let (begun, length) = (reply.len(), length as usize);
        // Bounds the memory before it is allocated.
        if length > REPLY_BYTES_MAX - begun {
            return Err(malformed());
        }
        reply.resize(begun + length, 0);
        stream.read_exact(&mut reply[begun..])?;
        if last {
            return Ok(reply);
        }
    }
}

#[cfg(test)]
#[path = "rpcbind_tests.rs"]
mod tests;

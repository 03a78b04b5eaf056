//! A small blocking NFSv3 client, independent of the project's own crates on purpose: an oracle that shared the
//! server's wire types would share their mistakes.
//!
//! It makes one call at a time over one connection: ONC RPC (RFC 5531), MOUNT and NFS version 3 (RFC 1813).

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::server::Endpoint;

const NFS_PROGRAM: u32 = 100_003;
const MOUNT_PROGRAM: u32 = 100_005;
const VERSION: u32 = 3;
const RECORD_MAX: usize = 4 << 20;
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// No server needs longer for a call; an emulated guest needs a good part of it.
const REPLY_MAX: Duration = Duration::from_secs(120);

pub(crate) type Handle = Vec<u8>;

#[derive(Debug)]
pub(crate) enum Failure {
    /// The connection broke or could not be made: the call may or may not have been performed.
    Lost(io::Error),
    Status(u32),
    Malformed(&'static str),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lost(error) => write!(f, "connection lost: {error}"),
            Self::Status(status) => write!(f, "status {status}"),
            Self::Malformed(what) => write!(f, "malformed reply: {what}"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

/// `stable_how`, RFC 1813 §3.3.7.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stable {
    Unstable = 0,
    DataSync = 1,
    FileSync = 2,
}

/// `createhow3`, RFC 1813 §3.3.8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Unchecked(u32),
    Guarded(u32),
    Exclusive(u64),
}

/// `None` leaves an attribute unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Change {
    pub(crate) mode: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) mtime: Option<(u32, u32)>,
}

/// The part of `fattr3` that the ledger checks, RFC 1813 §2.5.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// `ftype3`: 1 a regular file, 2 a directory, 5 a symbolic link.
    pub(crate) kind: u32,
    pub(crate) mode: u32,
    pub(crate) links: u32,
    pub(crate) size: u64,
    pub(crate) fileid: u64,
    pub(crate) mtime: (u32, u32),
}

pub(crate) struct WriteResult {
    pub(crate) count: u32,
    pub(crate) stable: Stable,
    pub(crate) verifier: u64,
}

pub(crate) struct Client {
    stream: TcpStream,
    xid: u32,
}

pub(crate) struct MountResult {
    pub(crate) client: Client,
    pub(crate) root: Handle,
}

impl Client {
    /// MNT, RFC 1813 §5.2.1.
    pub(crate) fn mount(endpoint: &Endpoint) -> Result<MountResult, Failure> {
        let mut mount_address = endpoint.address;
        mount_address.set_port(endpoint.mount_port);
        let mut mount = Self::connect(mount_address)?;
        let path = Call::default().opaque(endpoint.export.as_bytes());
        let root = mount.mount_call(1, &path)?.opaque()?;
        let mut client = Self::connect(endpoint.address)?;
        // Checks that the NFS port is served and the handle is valid.
        client.attributes(&root)?;
        Ok(MountResult { client, root })
    }

    pub(super) fn connect(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect_timeout(&address, CONNECT_MAX)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_MAX))?;
        stream.set_write_timeout(Some(REPLY_MAX))?;
        // Distinct after reconnecting from the same port, as duplicate request caches require.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Ok(Self { stream, xid: now.subsec_nanos() })
    }

    pub(crate) fn attributes(&mut self, file: &[u8]) -> Result<Attributes, Failure> {
        self.nfs(1, &Call::default().opaque(file))?.attributes()
    }

    pub(crate) fn set_attributes(&mut self, file: &[u8], change: Change) -> Result<(), Failure> {
        // No guard: the test does not cover the check of the change time.
        self.nfs(2, &Call::default().opaque(file).change(change).u32(0)).map(drop)
    }

    pub(crate) fn lookup(&mut self, dir: &[u8], name: &str) -> Result<Handle, Failure> {
        self.nfs(3, &Call::default().opaque(dir).opaque(name.as_bytes()))?.opaque()
    }

    pub(crate) fn read_link(&mut self, link: &[u8]) -> Result<String, Failure> {
        let mut reply = self.nfs(5, &Call::default().opaque(link))?;
        reply.post_op_attributes()?;
        String::from_utf8(reply.opaque()?).map_err(|_| Failure::Malformed("a target that is not UTF-8"))
    }

    /// Returns the data, and whether they reach the file's end.
    pub(crate) fn read(&mut self, file: &[u8], offset: u64, count: u32) -> Result<(Vec<u8>, bool), Failure> {
        let mut reply = self.nfs(6, &Call::default().opaque(file).u64(offset).u32(count))?;
        reply.post_op_attributes()?;
        reply.u32()?;
        let end = reply.u32()? != 0;
        Ok((reply.opaque()?, end))
    }

    pub(crate) fn write(
        &mut self,
        file: &[u8],
        offset: u64,
        data: &[u8],
        how: Stable,
    ) -> Result<WriteResult, Failure> {
        let mut reply = self.nfs(7, &write_call(file, offset, data, how)?)?;
        reply.wcc_data()?;
        let count = reply.u32()?;
        let stable = match reply.u32()? {
            0 => Stable::Unstable,
            1 => Stable::DataSync,
            2 => Stable::FileSync,
            _ => return Err(Failure::Malformed("stable_how")),
        };
        Ok(WriteResult { count, stable, verifier: reply.u64()? })
    }

    pub(crate) fn create(&mut self, dir: &[u8], name: &str, how: How) -> Result<Handle, Failure> {
        let call = Call::default().opaque(dir).opaque(name.as_bytes());
        let mode = |mode| Change { mode: Some(mode), ..Change::default() };
        let call = match how {
            How::Unchecked(bits) => call.u32(0).change(mode(bits)),
            How::Guarded(bits) => call.u32(1).change(mode(bits)),
            How::Exclusive(verifier) => call.u32(2).u64(verifier),
        };
        self.made(8, &call, dir, name)
    }

    pub(crate) fn make_directory(&mut self, dir: &[u8], name: &str, mode: u32) -> Result<Handle, Failure> {
        let change = Change { mode: Some(mode), ..Change::default() };
        self.made(9, &Call::default().opaque(dir).opaque(name.as_bytes()).change(change), dir, name)
    }

    pub(crate) fn symlink(&mut self, dir: &[u8], name: &str, target: &str) -> Result<Handle, Failure> {
        let call = Call::default().opaque(dir).opaque(name.as_bytes()).change(Change::default());
        self.made(10, &call.opaque(target.as_bytes()), dir, name)
    }

    pub(crate) fn remove(&mut self, dir: &[u8], name: &str) -> Result<(), Failure> {
        self.nfs(12, &Call::default().opaque(dir).opaque(name.as_bytes())).map(drop)
    }

    pub(crate) fn remove_directory(&mut self, dir: &[u8], name: &str) -> Result<(), Failure> {
        self.nfs(13, &Call::default().opaque(dir).opaque(name.as_bytes())).map(drop)
    }

    pub(crate) fn rename(&mut self, from: (&[u8], &str), to: (&[u8], &str)) -> Result<(), Failure> {
        let call =
            Call::default().opaque(from.0).opaque(from.1.as_bytes()).opaque(to.0).opaque(to.1.as_bytes());
        self.nfs(14, &call).map(drop)
    }

    pub(crate) fn link(&mut self, file: &[u8], dir: &[u8], name: &str) -> Result<(), Failure> {
        self.nfs(15, &Call::default().opaque(file).opaque(dir).opaque(name.as_bytes())).map(drop)
    }

    /// Every name in a directory except `.` and `..`, by READDIR, a small piece at a time.
    pub(crate) fn list(&mut self, dir: &[u8]) -> Result<Vec<String>, Failure> {
        let mut names = Vec::new();
        let (mut cookie, mut verifier) = (0, 0);
        loop {
            let mut reply = self.nfs(16, &Call::default().opaque(dir).u64(cookie).u64(verifier).u32(2048))?;
            reply.post_op_attributes()?;
            verifier = reply.u64()?;
            let before = cookie;
            while reply.u32()? != 0 {
                reply.u64()?;
                let name = String::from_utf8_lossy(&reply.opaque()?).into_owned();
                cookie = reply.u64()?;
                if name != "." && name != ".." {
                    names.push(name);
                }
            }
            if reply.u32()? != 0 {
                return Ok(names);
            }
            if cookie == before {
                return Err(Failure::Malformed("a directory that neither ends nor goes on"));
            }
        }
    }

    /// Returns the write verifier.
    pub(crate) fn commit(&mut self, file: &[u8]) -> Result<u64, Failure> {
        let mut reply = self.nfs(21, &Call::default().opaque(file).u64(0).u32(0))?;
        reply.wcc_data()?;
        reply.u64()
    }

    /// A reply may lack the handle (`post_op_fh3`, RFC 1813 §2.5): then the name is looked up.
    fn made(&mut self, procedure: u32, call: &Call, dir: &[u8], name: &str) -> Result<Handle, Failure> {
        let mut reply = self.nfs(procedure, call)?;
        if reply.u32()? != 0 { reply.opaque() } else { self.lookup(dir, name) }
    }

    fn nfs(&mut self, procedure: u32, call: &Call) -> Result<Reply, Failure> {
        self.nfs_of(VERSION, procedure, call)
    }

    /// Calls a procedure of a version of NFS.
    pub(super) fn nfs_of(&mut self, version: u32, procedure: u32, call: &Call) -> Result<Reply, Failure> {
        let sent = self.send(NFS_PROGRAM, version, procedure, call)?;
        self.reply_to(sent)
    }

    /// Sends a WRITE without waiting for its reply. Returns the number of the call.
    pub(crate) fn send_write(
        &mut self,
        file: &[u8],
        offset: u64,
        data: &[u8],
        how: Stable,
    ) -> Result<u32, Failure> {
        self.send(NFS_PROGRAM, VERSION, 7, &write_call(file, offset, data, how)?)
    }

    /// Sends a GETATTR without waiting for its reply. Returns the number of the call.
    pub(crate) fn send_attributes(&mut self, file: &[u8]) -> Result<u32, Failure> {
        self.send(NFS_PROGRAM, VERSION, 1, &Call::default().opaque(file))
    }

    /// Returns the number and the status of the next call that was answered, if a reply comes in this time.
    pub(crate) fn receive_status(&mut self, within: Duration) -> Result<Option<(u32, u32)>, Failure> {
        self.stream.set_read_timeout(Some(within))?;
        let comes = self.stream.peek(&mut [0]);
        self.stream.set_read_timeout(Some(REPLY_MAX))?;
        match comes {
            Ok(0) => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(_) => self.receive().map(|reply| Some((reply.xid, reply.status))),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// This end of the connection.
    pub(crate) fn local_address(&self) -> Result<SocketAddr, Failure> {
        Ok(self.stream.local_addr()?)
    }

    fn mount_call(&mut self, procedure: u32, arguments: &Call) -> Result<Reply, Failure> {
        let sent = self.send(MOUNT_PROGRAM, VERSION, procedure, arguments)?;
        self.reply_to(sent)
    }

    /// Reads the reply to a call up to and including a status of zero.
    fn reply_to(&mut self, sent: u32) -> Result<Reply, Failure> {
        let answer = self.receive()?;
        match (answer.xid == sent, answer.status) {
            (false, _) => Err(Failure::Malformed("not the reply to this call")),
            (true, 0) => Ok(answer.reply),
            (true, status) => Err(Failure::Status(status)),
        }
    }

    fn send(&mut self, program: u32, version: u32, procedure: u32, arguments: &Call) -> Result<u32, Failure> {
        self.xid = self.xid.wrapping_add(1);
        // AUTH_SYS (RFC 5531 appendix A): stamp, machine name, uid 0, gid 0, no further groups.
        let credentials = Call::default().u32(0).opaque(b"ledger").u32(0).u32(0).u32(0);
        let header = Call::default().u32(self.xid).u32(0).u32(2).u32(program).u32(version).u32(procedure);
        let header = header.u32(1).opaque(&credentials.0).u32(0).u32(0);
        let length =
            u32::try_from(header.0.len() + arguments.0.len()).map_err(|_| Failure::Malformed("call"))?;
        // The record mark: the last fragment, and its length (RFC 5531 §11).
        let record = [&(length | 1 << 31).to_be_bytes()[..], &header.0, &arguments.0].concat();
        self.stream.write_all(&record)?;
        Ok(self.xid)
    }

    fn receive(&mut self) -> Result<Answer, Failure> {
        let mut reply = Reply { bytes: self.read_record()?, at: 0 };
        let xid = reply.u32()?;
        if reply.u32()? != 1 {
            return Err(Failure::Malformed("not a reply"));
        }
        if reply.u32()? != 0 {
            return Err(Failure::Malformed("the call was denied"));
        }
        reply.u32()?;
        reply.opaque()?;
        if reply.u32()? != 0 {
            return Err(Failure::Malformed("the call was not accepted"));
        }
        Ok(Answer { xid, status: reply.u32()?, reply })
    }

    fn read_record(&mut self) -> Result<Vec<u8>, Failure> {
        let mut record = Vec::new();
        loop {
            let mut mark = [0; 4];
            self.stream.read_exact(&mut mark)?;
            let mark = u32::from_be_bytes(mark);
            let length = (mark & !(1 << 31)) as usize;
            let start = record.len();
            if start + length > RECORD_MAX {
                return Err(Failure::Malformed("a record too long"));
            }
            record.resize(start + length, 0);
            self.stream.read_exact(&mut record[start..])?;
            if mark >> 31 == 1 {
                return Ok(record);
            }
        }
    }
}

fn write_call(file: &[u8], offset: u64, data: &[u8], how: Stable) -> Result<Call, Failure> {
    let length = u32::try_from(data.len()).map_err(|_| Failure::Malformed("too much to write"))?;
    Ok(Call::default().opaque(file).u64(offset).u32(length).u32(how as u32).opaque(data))
}

/// A reply up to and including its status.
struct Answer {
    xid: u32,
    status: u32,
    reply: Reply,
}

/// Arguments in XDR (RFC 4506).
#[derive(Default)]
pub(super) struct Call(pub(super) Vec<u8>);

impl Call {
    pub(super) fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn opaque(self, bytes: &[u8]) -> Self {
        let length = u32::try_from(bytes.len()).expect("calls are shorter than 4 GiB");
        let mut call = self.u32(length);
        call.0.extend(bytes);
        call.0.resize(call.0.len().next_multiple_of(4), 0);
        call
    }

    /// Bytes as they are, a multiple of four.
    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// `sattr3`, RFC 1813 §2.5: mode, uid, gid, size, atime, mtime.
    fn change(self, change: Change) -> Self {
        let call = match change.mode {
            Some(mode) => self.u32(1).u32(mode),
            None => self.u32(0),
        };
        let call = call.u32(0).u32(0);
        let call = match change.size {
            Some(size) => call.u32(1).u64(size),
            None => call.u32(0),
        };
        let call = call.u32(0);
        match change.mtime {
            // SET_TO_CLIENT_TIME
            Some((seconds, nanoseconds)) => call.u32(2).u32(seconds).u32(nanoseconds),
            None => call.u32(0),
        }
    }
}

pub(super) struct Reply {
    bytes: Vec<u8>,
    at: usize,
}

impl Reply {
    pub(super) fn bytes(&mut self, length: usize) -> Result<&[u8], Failure> {
        let bytes =
            self.bytes.get(self.at..self.at + length).ok_or(Failure::Malformed("a reply too short"))?;
        self.at += length;
        Ok(bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Failure> {
        Ok(self.bytes(4)?.iter().fold(0, |value, &byte| value << 8 | u32::from(byte)))
    }

    pub(super) fn u64(&mut self) -> Result<u64, Failure> {
        Ok(u64::from(self.u32()?) << 32 | u64::from(self.u32()?))
    }

    pub(super) fn opaque(&mut self) -> Result<Vec<u8>, Failure> {
        let length = self.u32()? as usize;
        let bytes = self.bytes(length)?.to_vec();
        self.bytes(length.next_multiple_of(4) - length)?;
        Ok(bytes)
    }

    fn attributes(&mut self) -> Result<Attributes, Failure> {
        let (kind, mode, links) = (self.u32()?, self.u32()?, self.u32()?);
        self.bytes(8)?; // uid, gid
        let size = self.u64()?;
        self.bytes(8 + 8 + 8)?; // used, rdev, fsid
        let fileid = self.u64()?;
        self.bytes(8)?; // atime
        let mtime = (self.u32()?, self.u32()?);
        self.bytes(8)?; // ctime
        Ok(Attributes { kind, mode, links, size, fileid, mtime })
    }

    fn post_op_attributes(&mut self) -> Result<Option<Attributes>, Failure> {
        if self.u32()? != 0 { self.attributes().map(Some) } else { Ok(None) }
    }

    /// `wcc_data`: the attributes before, cut down to three, and after.
    fn wcc_data(&mut self) -> Result<(), Failure> {
        if self.u32()? != 0 {
            self.bytes(8 + 8 + 8)?;
        }
        self.post_op_attributes().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opaque_is_padded_and_read_back() {
        let call = Call::default().opaque(b"hello").u32(7);
        assert_eq!(call.0, b"\0\0\0\x05hello\0\0\0\0\0\0\x07");
        let mut reply = Reply { bytes: call.0, at: 0 };
        assert_eq!(reply.opaque().unwrap(), b"hello");
        assert_eq!(reply.u32().unwrap(), 7);
        assert!(matches!(reply.u32(), Err(Failure::Malformed(_))));
    }

    #[test]
    fn a_change_encodes_only_changed_attributes() {
        assert_eq!(Call::default().change(Change::default()).0, [0; 24]);
        let change = Change { mode: Some(0o640), size: Some(1 << 32), mtime: Some((1, 2)) };
        let words = [1, 0o640, 0, 0, 1, 1, 0, 0, 2, 1, 2];
        let expected: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
        assert_eq!(Call::default().change(change).0, expected);
    }
}

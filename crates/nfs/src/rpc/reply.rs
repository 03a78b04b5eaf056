//! Replies being gathered: bytes, and between them pages on their way from a file.

use super::pipe::Pipe;
use nfs_wire::rpc::{Accepted, OpaqueAuth, RecordMark, Rejected, ReplyBody, ReplyHeader};
use std::io;
use std::os::fd::BorrowedFd;
use xdr::{Encode, Writer};

/// Records ready to leave, in order: bytes, with pipes to be emptied in between.
#[derive(Default)]
pub struct Replies {
    bytes: Vec<u8>,
    sent: usize,
    pipes: Vec<Piped>,
}

struct Piped {
    /// The place in `bytes` where the pipe's contents belong.
    at: usize,
    pipe: Pipe,
}

/// Where a record begins.
#[derive(Clone, Copy)]
pub struct Start {
    byte: usize,
    pipe: usize,
}

impl Replies {
    /// Where the next record will begin.
    #[inline]
    pub fn start(&self) -> Start {
        Start { byte: self.bytes.len(), pipe: self.pipes.len() }
    }

    /// Begins a record: room for its mark.
    #[inline]
    pub fn begin(&mut self) -> Start {
        let start = self.start();
        self.bytes.extend_from_slice(&[0; RecordMark::SIZE]);
        start
    }

    /// Begins a record with the header of an accepted, successful reply.
    #[inline]
    pub fn begin_success(&mut self, xid: u32) -> Start {
        let start = self.begin();
        self.bytes.extend_from_slice(&ReplyHeader::success(xid));
        start
    }

    /// Where the reply's values go.
    #[inline]
    pub fn writer(&mut self) -> Writer<'_> {
        Writer::new(&mut self.bytes)
    }

    /// The bytes so far, for data read in place.
    #[inline]
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Puts the contents of `pipe` next.
    pub fn push_pipe(&mut self, pipe: Pipe) {
        self.pipes.push(Piped { at: self.bytes.len(), pipe });
    }

    /// Ends the record: its mark now says how long it is.
    #[inline]
    pub fn finish(&mut self, start: Start) {
        let piped: usize = self.pipes[start.pipe..].iter().map(|piped| piped.pipe.held()).sum();
        let length = self.bytes.len() - start.byte - RecordMark::SIZE + piped;
        let length = u32::try_from(length).expect("a record is at most a few MiB");
        self.writer().patch_u32(start.byte, RecordMark { last: true, length }.to_word());
    }

    /// Takes a record back.
    pub fn abandon(&mut self, start: Start) {
        self.bytes.truncate(start.byte);
        self.pipes.truncate(start.pipe);
    }

    /// Adds a whole record that says no at the level of RPC.
    pub fn reject(&mut self, xid: u32, rejected: Rejected) {
        self.whole(&ReplyHeader { xid, body: ReplyBody::Denied(rejected) });
    }

    /// Adds a whole record that was accepted but has no results.
    pub fn accept(&mut self, xid: u32, accepted: Accepted) {
        self.whole(&ReplyHeader { xid, body: ReplyBody::Accepted(OpaqueAuth::default(), accepted) });
    }

    fn whole(&mut self, header: &ReplyHeader<'_>) {
        let start = self.begin();
        header.encode(&mut self.writer());
        self.finish(start);
    }

    /// The bytes of the record that begins at `start`, without its mark; `None` if any part of what follows is in a
    /// pipe.
    pub fn record(&self, start: Start) -> Option<&[u8]> {
        if self.pipes.len() > start.pipe {
            return None;
        }
        let (mark, rest) = self.bytes[start.byte..].split_first_chunk::<{ RecordMark::SIZE }>()?;
        rest.get(..RecordMark::from_word(u32::from_be_bytes(*mark)).length as usize)
    }

    /// Adds a whole record of these bytes.
    pub fn push_record(&mut self, record: &[u8]) {
        let start = self.begin();
        self.bytes.extend_from_slice(record);
        self.finish(start);
    }

    /// Bytes that have not left yet.
    pub fn pending(&self) -> usize {
        self.bytes.len() - self.sent + self.pipes.iter().map(|piped| piped.pipe.held()).sum::<usize>()
    }

    /// Whether all has left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sent == self.bytes.len() && self.pipes.is_empty()
    }

    /// Moves everything of `other` behind what is here.
    pub fn append(&mut self, other: &mut Self) {
        // A queue may never become empty, so what has left goes from here, once it is the larger part.
        if self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.pipes.iter_mut().for_each(|piped| piped.at -= self.sent);
            self.sent = 0;
        }
        let unsent = Start { byte: other.sent, pipe: 0 };
        self.append_from(other, unsent);
        other.clear();
    }

    /// Moves the records of `other` from `start` on behind what is here.
    pub fn append_from(&mut self, other: &mut Self, start: Start) {
        let base = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes[start.byte..]);
        let pipes = other.pipes.drain(start.pipe..);
        self.pipes.extend(pipes.map(|piped| Piped { at: piped.at - start.byte + base, ..piped }));
        other.bytes.truncate(start.byte);
    }

    /// Sends until all has left (true) or the socket would block (false). If it `gathers`, replies share packets.
    pub fn send(&mut self, socket: BorrowedFd<'_>, gathers: bool) -> io::Result<bool> {
        match self.send_all(socket, gathers) {
            Ok(()) => {
                self.clear();
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn send_all(&mut self, socket: BorrowedFd<'_>, gathers: bool) -> io::Result<()> {
        while !self.is_empty() {
            let until = self.pipes.first().map_or(self.bytes.len(), |piped| piped.at);
            while self.sent < until {
                let more = !self.pipes.is_empty();
                self.sent += send_bytes(socket, &self.bytes[self.sent..until], more)?;
            }
            let more = gathers && (self.pipes.len() > 1 || self.sent < self.bytes.len());
            if let Some(first) = self.pipes.first_mut() {
                first.pipe.drain(socket, more)?;
                self.pipes.remove(0).pipe.recycle();
            }
        }
        Ok(())
    }

    /// Empties this for the next batch; the memory is kept unless it grew out of proportion.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEEP_BYTES);
        self.pipes.clear();
        self.sent = 0;
    }
}

/// What an emptied [`Replies`] keeps.
const KEEP_BYTES: usize = 2 << 20;

fn send_bytes(socket: BorrowedFd<'_>, bytes: &[u8], more: bool) -> io::Result<usize> {
    use rustix::net::{SendFlags, send};
    let flags =
        SendFlags::NOSIGNAL | SendFlags::DONTWAIT | if more { SendFlags::MORE } else { SendFlags::empty() };
    match send(socket, bytes, flags) {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        Ok(sent) => Ok(sent),
        Err(rustix::io::Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    /// A client that reads steadily but never catches up.
    #[test]
    fn a_queue_that_is_never_empty_does_not_grow() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut queue = Replies::default();
        let mut expected = 0u32;
        let mut next = 0u32;
        let mut taken = vec![0; 64 << 10];
        for _ in 0..500 {
            let mut fresh = Replies::default();
            while fresh.pending() + queue.pending() < 400 << 10 {
                fresh.push_record(&[next.to_be_bytes(); 255].concat());
                next += 1;
            }
            queue.append(&mut fresh);
            assert!(!queue.send(ours.as_fd(), true).unwrap(), "more than the socket takes");
            theirs.read_exact(&mut taken).unwrap();
            for record in taken.chunks(1024) {
                assert_eq!(record[4..8], expected.to_be_bytes());
                expected += 1;
            }
            assert!(queue.bytes.capacity() <= 2 << 20, "{} bytes kept", queue.bytes.capacity());
        }
    }

    #[test]
    fn what_lies_in_a_pipe_keeps_its_place() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let file = rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&file, &[7; 100_000]).unwrap();
        let mut queue = Replies::default();
        let mut sent = Vec::new();
        let mut got: Vec<u8> = Vec::new();
        let mut taken = [0; 20_000];
        for round in 0..200u32 {
            let mut fresh = Replies::default();
            fresh.push_record(&round.to_be_bytes());
            sent.extend([&[0x80, 0, 0, 4][..], &round.to_be_bytes()].concat());
            let start = fresh.begin();
            let mut pipe = Pipe::take().unwrap();
            let length = pipe.fill(file.as_fd(), 0, 20_000 + round as usize).unwrap();
            fresh.push_pipe(pipe);
            fresh.bytes().push(9);
            fresh.finish(start);
            let mark = RecordMark { last: true, length: u32::try_from(length).unwrap() + 1 };
            sent.extend([&mark.to_word().to_be_bytes()[..], &vec![7; length], &[9]].concat());
            queue.append(&mut fresh);
            queue.send(ours.as_fd(), true).unwrap();
            let count = theirs.read(&mut taken).unwrap();
            got.extend(&taken[..count]);
        }
        while got.len() < sent.len() {
            queue.send(ours.as_fd(), true).unwrap();
            let count = theirs.read(&mut taken).unwrap();
            got.extend(&taken[..count]);
        }
        assert!(got == sent && queue.is_empty());
    }
}

//! Outgoing messages: bytes, with pages of files between them.

use super::pipe::Pipe;
use super::reply_deadline::ReplyDeadline;
use std::io;
use std::os::fd::BorrowedFd;

/// Messages ready to be sent, in order: bytes, with pipes in between.
#[derive(Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
    pipes: Vec<Piped>,
}

struct Piped {
    /// The position in `bytes` at which the pipe's contents are sent.
    at: usize,
    pipe: Pipe,
}

#[derive(Clone, Copy, Debug)]
pub struct Start {
    byte: usize,
    pipe: usize,
}

impl Outbox {
    #[inline]
    pub fn start(&self) -> Start {
        Start { byte: self.bytes.len(), pipe: self.pipes.len() }
    }

    #[inline]
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub fn push_pipe(&mut self, pipe: Pipe) {
        self.pipes.push(Piped { at: self.bytes.len(), pipe });
    }

    /// Bytes since `start`, including those in pipes.
    #[inline]
    pub fn len_since(&self, start: Start) -> usize {
        let piped: usize = self.pipes[start.pipe..].iter().map(|piped| piped.pipe.len()).sum();
        self.bytes.len() - start.byte + piped
    }

    /// Overwrites the bytes at `start`: a length that becomes known only now.
    #[inline]
    pub fn patch(&mut self, start: Start, bytes: &[u8]) {
        self.bytes[start.byte..start.byte + bytes.len()].copy_from_slice(bytes);
    }

    pub fn truncate(&mut self, start: Start) {
        self.bytes.truncate(start.byte);
        self.pipes.truncate(start.pipe);
    }

    /// The bytes from `start` to `end`; `None` if some of them are in a pipe.
    pub fn between(&self, start: Start, end: Start) -> Option<&[u8]> {
        (start.pipe == end.pipe).then(|| &self.bytes[start.byte..end.byte])
    }

    /// The bytes since `start`; `None` if some of them are in a pipe.
    pub fn since(&self, start: Start) -> Option<&[u8]> {
        self.between(start, self.start())
    }

    /// All unsent bytes, with the contents of pipes read into memory.
    pub(crate) fn load_pipes(&mut self) -> io::Result<&[u8]> {
        if !self.pipes.is_empty() {
            let mut plain = Vec::with_capacity(self.pending());
            let mut at = self.sent;
            for Piped { at: until, mut pipe } in std::mem::take(&mut self.pipes) {
                plain.extend_from_slice(&self.bytes[at..until]);
                at = until;
                pipe.read_into(&mut plain)?;
                pipe.recycle();
            }
            plain.extend_from_slice(&self.bytes[at..]);
            (self.bytes, self.sent) = (plain, 0);
        }
        Ok(&self.bytes[self.sent..])
    }

    /// Replaces all contents by `bytes`. The old memory is returned in `bytes`.
    pub(crate) fn replace(&mut self, bytes: &mut Vec<u8>) {
        std::mem::swap(&mut self.bytes, bytes);
        (self.sent, self.pipes) = (0, Vec::new());
    }

    pub fn pending(&self) -> usize {
        self.bytes.len() - self.sent + self.pipes.iter().map(|piped| piped.pipe.len()).sum::<usize>()
    }

    /// Bytes of memory and of pipes, including sent bytes that are not released yet.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.pipes.iter().map(|piped| piped.pipe.len()).sum::<usize>()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sent == self.bytes.len() && self.pipes.is_empty()
    }

    pub fn append(&mut self, other: &mut Self) {
        if self.is_empty() {
            std::mem::swap(self, other);
            return other.clear();
        }
        // A queue may never become empty, so its sent bytes are released once they are the larger part.
        if self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.pipes.iter_mut().for_each(|piped| piped.at -= self.sent);
            self.sent = 0;
        }
        let unsent = Start { byte: other.sent, pipe: 0 };
        self.append_from(other, unsent);
        other.clear();
    }

    pub fn append_from(&mut self, other: &mut Self, start: Start) {
        let base = self.bytes.len();
        let moved = &other.bytes[start.byte..];
        if moved.len() >= EXACT_BYTES_MIN {
            // Long contents are moved seldom. Doubling would leave as much memory unused as is used.
            self.bytes.reserve_exact(moved.len());
        }
        self.bytes.extend_from_slice(moved);
        let pipes = other.pipes.drain(start.pipe..);
        self.pipes.extend(pipes.map(|piped| Piped { at: piped.at - start.byte + base, ..piped }));
        other.bytes.truncate(start.byte);
    }

    /// Sends until everything is sent (true) or the socket would block (false). With `coalesces`, messages share
    /// packets. Fails after the deadline.
    pub(crate) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        coalesces: bool,
        deadline: ReplyDeadline,
    ) -> io::Result<bool> {
        match self.send_all(socket, coalesces, deadline) {
            Ok(()) => {
                self.clear();
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn send_all(&mut self, socket: BorrowedFd<'_>, gathers: bool, deadline: ReplyDeadline) -> io::Result<()> {
        while !self.is_empty() {
            let until = self.pipes.first().map_or(self.bytes.len(), |piped| piped.at);
            while self.sent < until {
                let more = !self.pipes.is_empty();
                self.sent += send_bytes(socket, &self.bytes[self.sent..until], more, deadline)?;
            }
            let more = gathers && (self.pipes.len() > 1 || self.sent < self.bytes.len());
            if let Some(first) = self.pipes.first_mut() {
                first.pipe.drain_to(socket, more, deadline)?;
                self.pipes.remove(0).pipe.recycle();
            }
        }
        Ok(())
    }

    /// Empties the outbox for the next batch. Its memory is retained up to [`KEEP_BYTES`].
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEEP_BYTES);
        self.pipes.clear();
        self.sent = 0;
    }
}

/// From this many bytes on, an outbox grows to the exact size.
const EXACT_BYTES_MIN: usize = 64 << 10;
/// The capacity that an emptied [`Outbox`] retains.
const KEEP_BYTES: usize = 2 << 20;

fn send_bytes(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    more: bool,
    deadline: ReplyDeadline,
) -> io::Result<usize> {
    use rustix::net::{SendFlags, send};
    let flags =
        SendFlags::NOSIGNAL | SendFlags::DONTWAIT | if more { SendFlags::MORE } else { SendFlags::empty() };
    deadline.check()?;
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
    use crate::reply_deadline::ReplyLease;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    fn push(out: &mut Outbox, message: &[u8]) {
        out.bytes().extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        out.bytes().extend(message);
    }

    #[test]
    fn a_queue_that_is_never_empty_stays_bounded() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut queue = Outbox::default();
        let mut expected = 0u32;
        let mut next = 0u32;
        let mut received = vec![0; 64 << 10];
        for _ in 0..500 {
            let mut fresh = Outbox::default();
            while fresh.pending() + queue.pending() < 400 << 10 {
                push(&mut fresh, &[next.to_be_bytes(); 255].concat());
                next += 1;
            }
            queue.append(&mut fresh);
            assert!(
                !queue.send(ours.as_fd(), true, ReplyDeadline::default()).unwrap(),
                "more than the socket takes"
            );
            theirs.read_exact(&mut received).unwrap();
            for record in received.chunks(1024) {
                assert_eq!(record[4..8], expected.to_be_bytes());
                expected += 1;
            }
            assert!(queue.bytes.capacity() <= 2 << 20, "{} bytes kept", queue.bytes.capacity());
        }
    }

    #[test]
    fn pipe_contents_are_sent_in_order() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let file = rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&file, &[7; 100_000]).unwrap();
        let mut queue = Outbox::default();
        let mut sent = Vec::new();
        let mut got: Vec<u8> = Vec::new();
        let mut received = [0; 20_000];
        for round in 0..200u32 {
            let mut fresh = Outbox::default();
            push(&mut fresh, &round.to_be_bytes());
            sent.extend([&[0, 0, 0, 4][..], &round.to_be_bytes()].concat());
            let start = fresh.start();
            fresh.bytes().extend([0; 4]);
            let mut pipe = Pipe::acquire().unwrap();
            let length = pipe.fill(file.as_fd(), 0, 20_000 + round as usize).unwrap();
            fresh.push_pipe(pipe);
            fresh.bytes().push(9);
            let framing = (u32::try_from(length).unwrap() + 1).to_be_bytes();
            assert_eq!(fresh.len_since(start), 4 + length + 1);
            assert!(fresh.since(start).is_none());
            fresh.patch(start, &framing);
            sent.extend([&framing[..], &vec![7; length], &[9]].concat());
            queue.append(&mut fresh);
            queue.send(ours.as_fd(), true, ReplyDeadline::default()).unwrap();
            let count = theirs.read(&mut received).unwrap();
            got.extend(&received[..count]);
        }
        while got.len() < sent.len() {
            queue.send(ours.as_fd(), true, ReplyDeadline::default()).unwrap();
            let count = theirs.read(&mut received).unwrap();
            got.extend(&received[..count]);
        }
        assert!(got == sent && queue.is_empty());
    }

    #[test]
    fn neither_bytes_nor_pages_are_sent_after_the_deadline() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let lease = ReplyLease::new(0);
        let file = rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&file, &[7; 1000]).unwrap();
        for has_bytes in [true, false] {
            let mut out = Outbox::default();
            if has_bytes {
                push(&mut out, b"reply");
            }
            let mut pipe = Pipe::acquire().unwrap();
            assert_eq!(pipe.fill(file.as_fd(), 0, 1000).unwrap(), 1000);
            out.push_pipe(pipe);
            let error = out.send(ours.as_fd(), true, lease.deadline()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert_eq!(theirs.read(&mut [0; 10]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
    }
}

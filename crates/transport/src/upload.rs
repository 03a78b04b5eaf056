//! Messages that are longer than a receive buffer: their body is taken as it comes.

use crate::buffer::Buffer;
use crate::limits::{BUFFER_BYTES, WHOLE_MESSAGE_BYTES_MAX};
use crate::message::{Body, Malformed};
use crate::pipe::Pipe;
use crate::protocol::Protocol;
use crate::tail::{Tail, TailPool};
use std::io::{self, Read};
use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;
use vfs::qos::Permit;

/// Bytes that are awaited of a part that comes through a pipe: enough that what happens once for each part is cheap against
/// the copy. What is there at once is taken with it: parts of 1 MiB cost 0.92 of those of 256 KiB, those of 128 KiB 1.19.
const PART_BYTES: usize = 256 << 10;
/// With less than this to come, a buffer serves better than a pipe.
const PIPED_BYTES_MIN: usize = 64 << 10;

/// A call whose body is coming in.
pub(crate) struct Uploading<P: Protocol> {
    pub(crate) upload: P::Upload,
    /// What it has paid, and is not spent yet.
    pub(crate) charge: Option<Permit>,
    /// When it began to come.
    pub(crate) since: Instant,
    /// A part of the body on its way through a pipe, and whether the pipe takes no more.
    pipe: Option<Pipe>,
    is_pipe_full: bool,
    /// Bytes of the body received, of so many in all.
    at: usize,
    body: usize,
    /// What follows the body.
    pub(crate) tail: Tail,
}

/// What of an upload can be dealt with now.
pub(crate) enum Part {
    /// A part of the body that begins `at` bytes into it and lies in this range of the receive buffer.
    Received { at: usize, range: Range<usize> },
    /// The same, in a pipe.
    Piped { at: usize, pipe: Pipe },
    /// Everything is there.
    End,
}

/// Whether a message of `len` bytes, framing included, is taken as it comes, `have` of them being there.
pub(crate) fn is_long<P: Protocol>(len: usize, have: usize) -> bool {
    len > WHOLE_MESSAGE_BYTES_MAX && have >= P::HEAD_BYTES
}

impl<P: Protocol> Uploading<P> {
    /// The rest of a message of `message_bytes` whose body has not begun to come.
    pub(crate) fn new(
        upload: P::Upload,
        charge: Option<Permit>,
        body: Body,
        message_bytes: usize,
        tails: &Arc<TailPool>,
    ) -> Result<Self, Malformed> {
        let tail_len = message_bytes.checked_sub(body.start + body.len);
        let tail_len = tail_len.ok_or(Malformed("a body longer than its message"))?;
        if tail_len > P::TAIL_BYTES_MAX {
            return Err(Malformed("too much behind a body"));
        }
        Ok(Self {
            upload,
            charge,
            since: Instant::now(),
            pipe: None,
            is_pipe_full: false,
            at: 0,
            body: body.len,
            tail: Tail::new(tail_len, P::TAIL_BYTES_MAX, tails),
        })
    }

    /// Receives what comes next from the socket, which has some, where that need not go through a buffer: how many bytes, 0 at the
    /// end of the stream.
    pub(crate) fn receive(&mut self, socket: &TcpStream) -> Option<io::Result<usize>> {
        if self.at == self.body {
            return self.fill_tail(socket);
        }
        let wants_pipe = self.pipe.is_some() || self.body - self.at >= PIPED_BYTES_MIN;
        if wants_pipe { self.fill_pipe(socket) } else { None }
    }

    /// Whether there is something to deal with.
    pub(crate) fn is_ready(&self, received: &[u8]) -> bool {
        self.is_pipe_ready() || !received.is_empty() || self.at == self.body && self.tail.is_whole()
    }

    fn is_pipe_ready(&self) -> bool {
        self.pipe.is_some() && (self.is_pipe_full || self.at == self.body)
    }

    /// The next thing to deal with; what lies in `buffer` is taken from there.
    pub(crate) fn next(&mut self, buffer: &mut Option<Buffer>) -> Option<Part> {
        if self.is_pipe_ready() {
            self.is_pipe_full = false;
            return self.pipe.take().map(|pipe| Part::Piped { at: self.at - pipe.held(), pipe });
        }
        let have = buffer.as_ref().map_or(0, |buffer| buffer.bytes().len());
        if self.at < self.body {
            let buffer = buffer.as_mut().filter(|_| have > 0)?;
            let taken = have.min(self.body - self.at);
            let part = Part::Received { at: self.at, range: buffer.start..buffer.start + taken };
            buffer.start += taken;
            self.at += taken;
            return Some(part);
        }
        if let Some(buffer) = buffer {
            buffer.start += self.tail.put(buffer.bytes());
        }
        self.tail.is_whole().then_some(Part::End)
    }

    fn fill_tail(&mut self, mut socket: &TcpStream) -> Option<io::Result<usize>> {
        let room = self.tail.room()?;
        // No more at one time than into a receive buffer: other connections have their turn.
        let most = room.len().min(BUFFER_BYTES);
        let received = socket.read(&mut room[..most]);
        if let Ok(count) = received {
            self.tail.fill(count);
        }
        Some(received)
    }

    /// Moves bytes of the body into a pipe. `None` if there is no pipe to be had.
    fn fill_pipe(&mut self, socket: &TcpStream) -> Option<io::Result<usize>> {
        if self.pipe.is_none() {
            self.pipe = Some(Pipe::take().ok()?);
        }
        let pipe = self.pipe.as_mut()?;
        match pipe.fill_from_socket(socket.as_fd(), self.body - self.at) {
            Ok(taken) => {
                self.at += taken;
                self.is_pipe_full = pipe.held() >= PART_BYTES;
                Some(Ok(taken))
            }
            // The socket may have bytes and the pipe no room: it counts pages, not bytes.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.is_pipe_full = pipe.held() > 0;
                Some(Err(error))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

//! Messages longer than a receive buffer, whose bodies are streamed.

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

/// The size of a part that arrives through a pipe: enough to make the cost per part small against the copy. Bytes that
/// are available immediately are added: parts of 1 MiB cost 0.92 of those of 256 KiB, those of 128 KiB 1.19.
const PART_BYTES: usize = 256 << 10;
/// For a shorter remainder, a buffer is cheaper than a pipe.
const PIPED_BYTES_MIN: usize = 64 << 10;

pub(crate) struct UploadState<P: Protocol> {
    pub(crate) upload: P::Upload,
    /// The permit, as far as it is not used up.
    pub(crate) permit: Option<Permit>,
    /// The time at which the message began.
    pub(crate) since: Instant,
    /// A part of the body in a pipe, and whether the pipe is full.
    pipe: Option<Pipe>,
    is_pipe_full: bool,
    /// Received bytes of the body, and its length.
    at: usize,
    body: usize,
    pub(crate) tail: Tail,
}

pub(crate) enum Part {
    /// A part at offset `at` of the body, in this range of the receive buffer.
    Received {
        at: usize,
        range: Range<usize>,
    },
    /// A part at offset `at` of the body, in a pipe.
    Piped {
        at: usize,
        pipe: Pipe,
    },
    End,
}

/// Whether a message of `len` bytes, framing included, is streamed once `have` bytes are received.
pub(crate) fn is_streamed<P: Protocol>(len: usize, have: usize) -> bool {
    len > WHOLE_MESSAGE_BYTES_MAX && have >= P::HEAD_BYTES
}

impl<P: Protocol> UploadState<P> {
    /// The state for a message of `message_bytes` whose body has not begun to arrive.
    pub(crate) fn new(
        upload: P::Upload,
        permit: Option<Permit>,
        body: Body,
        message_bytes: usize,
        tails: &Arc<TailPool>,
    ) -> Result<Self, Malformed> {
        let tail_len = message_bytes.checked_sub(body.start + body.len);
        let tail_len = tail_len.ok_or(Malformed("a body longer than its message"))?;
        if tail_len > P::TAIL_BYTES_MAX {
            return Err(Malformed("a tail above the limit"));
        }
        Ok(Self {
            upload,
            permit,
            since: Instant::now(),
            pipe: None,
            is_pipe_full: false,
            at: 0,
            body: body.len,
            tail: Tail::new(tail_len, P::TAIL_BYTES_MAX, tails),
        })
    }

    /// Receives from a readable socket into a pipe or the tail. Returns the number of bytes, 0 at the end of the
    /// stream; `None` if a buffer has to be used.
    pub(crate) fn receive(&mut self, socket: &TcpStream) -> Option<io::Result<usize>> {
        if self.at == self.body {
            return self.fill_tail(socket);
        }
        let wants_pipe = self.pipe.is_some() || self.body - self.at >= PIPED_BYTES_MIN;
        if wants_pipe { self.fill_pipe(socket) } else { None }
    }

    pub(crate) fn is_ready(&self, received: &[u8]) -> bool {
        self.is_pipe_ready() || !received.is_empty() || self.at == self.body && self.tail.is_whole()
    }

    fn is_pipe_ready(&self) -> bool {
        self.pipe.is_some() && (self.is_pipe_full || self.at == self.body)
    }

    pub(crate) fn next(&mut self, buffer: &mut Option<Buffer>) -> Option<Part> {
        if self.is_pipe_ready() {
            self.is_pipe_full = false;
            return self.pipe.take().map(|pipe| Part::Piped { at: self.at - pipe.len(), pipe });
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
            buffer.start += self.tail.append(buffer.bytes());
        }
        self.tail.is_whole().then_some(Part::End)
    }

    fn fill_tail(&mut self, mut socket: &TcpStream) -> Option<io::Result<usize>> {
        let room = self.tail.room()?;
        // At most one buffer's worth at a time, so that other connections have their turn.
        let most = room.len().min(BUFFER_BYTES);
        let received = socket.read(&mut room[..most]);
        if let Ok(count) = received {
            self.tail.fill(count);
        }
        Some(received)
    }

    /// Splices bytes of the body into a pipe. `None` if no pipe is available.
    fn fill_pipe(&mut self, socket: &TcpStream) -> Option<io::Result<usize>> {
        if self.pipe.is_none() {
            self.pipe = Some(Pipe::acquire().ok()?);
        }
        let pipe = self.pipe.as_mut()?;
        match pipe.fill_from_socket(socket.as_fd(), self.body - self.at) {
            Ok(taken) => {
                self.at += taken;
                self.is_pipe_full = pipe.len() >= PART_BYTES;
                Some(Ok(taken))
            }
            // `WouldBlock` also means a full pipe: its capacity counts pages, not bytes.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.is_pipe_full = !pipe.is_empty();
                Some(Err(error))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

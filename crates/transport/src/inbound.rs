//! The receiving half of a connection: what has come and is not dealt with. It belongs to whoever receives, the event loop or
//! a storage thread that has leased the connection.
//!
//! [`Inbound::next`] is the one place that finds out what to do with received bytes. It does nothing itself.

use crate::assembly::Assembly;
use crate::buffer::Buffer;
use crate::connection::Connection;
use crate::limits::{BUFFER_BYTES, SCARCE_RECEIVE_BYTES, WHOLE_MESSAGE_BYTES_MAX};
use crate::message::{Frame, Malformed};
use crate::protocol::{Plan, Protocol};
use crate::resources::Resources;
use crate::upload::{UploadState, is_streamed};
use rustix::io::Errno;
use std::cell::RefCell;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use vfs::Protection;

thread_local! {
    /// Where bytes are received that a transform opens.
    static WIRE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Messages shorter than this are cheaper moved than guessed.
const BOUNDARY_BYTES_MIN: usize = 16 << 10;
/// The rest of a message that is moved to the front of its buffer before more is received.
const SHORT_REST_BYTES: usize = 16 << 10;

/// What was received and not dealt with.
pub(crate) struct Inbound<P: Protocol> {
    pub(crate) buffer: Option<Buffer>,
    /// A message in parts.
    pub(crate) assembly: Assembly,
    /// What was planned for the message that is being put together.
    pub(crate) planned: Option<Plan<P::Call>>,
    /// A message longer than a buffer.
    pub(crate) uploading: Option<UploadState<P>>,
    /// The length of the last message, framing included: the next ones are probably as long.
    expected: usize,
    /// What of `buffer` was moved elsewhere when buffers were scarce.
    spilled: Vec<u8>,
    /// As much of it, and of messages being put together, as is counted in the sum over all connections.
    counted: usize,
    /// Bytes that a transform has not opened yet.
    wire: Vec<u8>,
    /// The other side has said, through a transform, that nothing follows.
    pub(crate) is_closed: bool,
    /// Why a transform opens nothing more.
    pub(crate) error: Option<Malformed>,
    resources: Arc<Resources>,
}

/// What a storage thread has received and left of a connection that it had leased.
pub(crate) struct ReleasedConnection<P: Protocol> {
    /// The receiving half.
    pub(crate) inbound: Inbound<P>,
    /// Why the connection cannot go on, if it cannot.
    pub(crate) error: Option<Malformed>,
}

/// A message that is all there.
pub(crate) enum Message {
    /// In this range of the receive buffer.
    Received(Range<usize>),
    /// In memory of its own.
    Assembled(Vec<u8>),
}

/// What is to be done next with what was received.
pub(crate) enum Step {
    /// Deal with a message.
    Message(Message),
    /// Begin to take the body of a message of `len` bytes, which is longer than a buffer.
    Begin { framing: usize, len: usize },
    /// Deal with a part of a body.
    Upload,
    /// Receive more.
    Receive,
}

/// How a receive ended.
pub(crate) enum Received {
    /// Something came.
    Bytes,
    /// Nothing is there.
    Nothing,
    /// There is no buffer to receive into.
    NoBuffer,
    /// The client sends no more.
    Closed,
    /// The connection is broken.
    Broken(String),
}

impl Message {
    /// Its bytes, as a range of `buffer` or its own.
    #[inline]
    pub(crate) fn bytes<'m>(&'m self, buffer: Option<&'m Buffer>) -> &'m [u8] {
        match self {
            Self::Received(range) => {
                buffer.map_or(&[], |buffer| buffer.all().get(range.clone()).unwrap_or_default())
            }
            Self::Assembled(bytes) => bytes,
        }
    }

    /// Its bytes in memory of their own.
    pub(crate) fn into_bytes(self, buffer: Option<&Buffer>) -> Vec<u8> {
        match self {
            Self::Received(_) => self.bytes(buffer).to_vec(),
            Self::Assembled(bytes) => bytes,
        }
    }
}

impl<P: Protocol> Inbound<P> {
    /// Nothing has come yet.
    pub(crate) fn new(resources: &Arc<Resources>) -> Self {
        Self {
            buffer: None,
            assembly: Assembly::default(),
            planned: None,
            uploading: None,
            expected: 0,
            spilled: Vec::new(),
            counted: 0,
            wire: Vec::new(),
            is_closed: false,
            error: None,
            resources: Arc::clone(resources),
        }
    }

    /// What is to be done next. A message or the framing of a part is taken from the buffer's front.
    #[inline]
    pub(crate) fn next(&mut self, protocol: &P) -> Result<Step, Malformed> {
        let received = self.buffer.as_ref().map_or(&[][..], Buffer::bytes);
        if let Some(uploading) = &self.uploading {
            return Ok(if uploading.is_ready(received) { Step::Upload } else { Step::Receive });
        }
        let Some(buffer) = &mut self.buffer else { return Ok(Step::Receive) };
        loop {
            if self.assembly.is_inside() {
                let (taken, whole) = self.assembly.take(buffer.bytes());
                buffer.start += taken;
                if let Some(message) = whole {
                    return Ok(Step::Message(Message::Assembled(message)));
                }
                if self.assembly.is_inside() {
                    return Ok(Step::Receive);
                }
            }
            match protocol.frame(buffer.bytes(), self.assembly.is_partial())? {
                Frame::Message(range) => {
                    self.expected = range.end;
                    let message = buffer.start + range.start..buffer.start + range.end;
                    buffer.start = message.end;
                    return Ok(Step::Message(Message::Received(message)));
                }
                Frame::Part { framing, len, is_last } => {
                    buffer.start += framing;
                    self.assembly.begin(len, is_last, P::MESSAGE_BYTES_MAX)?;
                }
                Frame::Incomplete { framing, len } => {
                    // As long as the length is not known, the next message is taken to be like the last.
                    if len > 0 {
                        self.expected = framing + len;
                    }
                    let begins = is_streamed::<P>(framing + len, buffer.bytes().len());
                    return Ok(if begins { Step::Begin { framing, len } } else { Step::Receive });
                }
            }
        }
    }

    /// Receives from a socket that has something.
    pub(crate) fn receive(&mut self, connection: &Connection<P>) -> Received {
        let socket = &connection.socket;
        if let Some(uploading) = &mut self.uploading
            && self.buffer.as_ref().is_none_or(Buffer::is_done)
            && !connection.is_transformed()
            && let Some(result) = uploading.receive(socket)
        {
            return if uploading.is_ready(&[]) { Received::Bytes } else { received(result) };
        }
        let Some(buffer) = self.take_buffer() else { return Received::NoBuffer };
        // What is short is moved at once: the same part of the buffer stays in the processor's cache.
        if buffer.room().len() < BUFFER_BYTES / 2 || buffer.bytes().len() <= SHORT_REST_BYTES {
            buffer.compact();
        }
        if buffer.room().is_empty() {
            return Received::Bytes;
        }
        if connection.is_transformed() {
            return self.receive_sealed(connection);
        }
        let mut most = self.receive_bytes();
        if self.resources.queued.is_crowded() {
            most = most.min(SCARCE_RECEIVE_BYTES);
        }
        let Some(buffer) = &mut self.buffer else { return Received::NoBuffer };
        let result = { socket }.read(&mut buffer.room()[..most]);
        match &result {
            Ok(count) => buffer.filled += *count,
            // A TLS record that is no data: the client's last word, or other keys, which the kernel does not take.
            Err(error)
                if error.raw_os_error() == Some(Errno::IO.raw_os_error())
                    && connection.protection() != Protection::Plain =>
            {
                return Received::Closed;
            }
            Err(_) => {}
        }
        received(result)
    }

    /// Receives what a transform opens.
    fn receive_sealed(&mut self, connection: &Connection<P>) -> Received {
        if self.is_closed {
            return Received::Closed;
        }
        WIRE.with_borrow_mut(|wire| {
            let had = self.wire.len();
            let room = self.buffer.as_mut().map_or(0, |buffer| buffer.room().len());
            wire.resize(BUFFER_BYTES, 0);
            let Some(behind) = wire.get_mut(had..room) else {
                return Received::Broken("bytes that a transform never opens".into());
            };
            let most = if self.resources.queued.is_crowded() { SCARCE_RECEIVE_BYTES } else { BUFFER_BYTES };
            let most = behind.len().min(most);
            let result = { &connection.socket }.read(&mut behind[..most]);
            let count = match result {
                Ok(count) if count > 0 => count,
                result => return received(result),
            };
            wire[..had].copy_from_slice(&self.wire);
            self.wire.clear();
            match self.open_wire(connection, &mut wire[..had + count]) {
                Err(error) => {
                    self.error = Some(error);
                    Received::Broken(error.to_string())
                }
                Ok(0) if self.is_closed => Received::Closed,
                Ok(_) => Received::Bytes,
            }
        })
    }

    /// Opens what has come over the wire, as far as it can be, and keeps the rest: how many bytes it stands for.
    fn open_wire(&mut self, connection: &Connection<P>, wire: &mut [u8]) -> Result<usize, Malformed> {
        let Some(buffer) = &mut self.buffer else { return Ok(0) };
        let opened = connection.open(wire, buffer.room())?;
        buffer.filled += opened.plain;
        self.is_closed = opened.is_closed;
        self.wire.extend_from_slice(&wire[opened.used..]);
        if self.wire.is_empty() {
            self.wire = Vec::new();
        }
        Ok(opened.plain)
    }

    /// Takes what lies in the buffer for sealed: a transform begins with it.
    pub(crate) fn begin_transform(&mut self, connection: &Connection<P>) -> Result<(), Malformed> {
        let mut wire = self.buffer.as_ref().map_or_else(Vec::new, |buffer| buffer.bytes().to_vec());
        if let Some(buffer) = &mut self.buffer {
            (buffer.start, buffer.filled) = (0, 0);
        }
        self.open_wire(connection, &mut wire).map(drop)
    }

    /// Bytes in the receive buffer.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.buffer.as_ref().map_or(0, |buffer| buffer.bytes().len())
    }

    /// Lets an empty buffer go.
    pub(crate) fn release_empty_buffer(&mut self) {
        if self.buffer.as_ref().is_some_and(Buffer::is_done) {
            self.buffer = None;
        }
    }

    /// Whether a message has begun to come and is not complete, as far as is known.
    pub(crate) fn is_partial(&self) -> bool {
        self.buffer.is_some()
            || !self.spilled.is_empty()
            || self.assembly.is_partial()
            || !self.wire.is_empty()
            || self.long_tail_since().is_some()
    }

    /// When a long message began to come that is kept until it is whole.
    pub(crate) fn long_tail_since(&self) -> Option<Instant> {
        let uploading = self.uploading.as_ref().filter(|uploading| uploading.tail.is_long());
        uploading.map(|uploading| uploading.since)
    }

    /// Whether bytes lie here that can be looked at without another receive.
    pub(crate) fn has_received(&self) -> bool {
        self.buffer.is_some() || !self.spilled.is_empty()
    }

    /// The buffer with what was received and not dealt with; an empty one if there is nothing. `None` if there are too
    /// many in use.
    pub(crate) fn take_buffer(&mut self) -> Option<&mut Buffer> {
        if self.buffer.is_none() {
            let mut buffer = self.resources.buffers.take()?;
            self.unspill(&mut buffer);
            self.buffer = Some(buffer);
        }
        self.buffer.as_mut()
    }

    /// As [`Inbound::take_buffer`], for bytes that must go on now.
    pub(crate) fn take_buffer_always(&mut self) {
        if self.buffer.is_none() && !self.spilled.is_empty() {
            let mut buffer = self.resources.buffers.take_always();
            self.unspill(&mut buffer);
            self.buffer = Some(buffer);
        }
    }

    fn unspill(&mut self, buffer: &mut Buffer) {
        if !self.spilled.is_empty() {
            buffer.put(&std::mem::take(&mut self.spilled));
            self.count_spilled(false);
        }
    }

    /// Moves what lies in the buffer into memory of its own size, and gives the buffer back.
    pub(crate) fn spill(&mut self, is_reserved: bool) {
        if let Some(buffer) = self.buffer.take() {
            self.spilled = buffer.bytes().to_vec();
            self.count_spilled(is_reserved);
        }
    }

    /// Counts what is held outside of receive buffers. What waits for limits is counted by another bound.
    pub(crate) fn count_spilled(&mut self, is_reserved: bool) {
        let assembled = if is_reserved { 0 } else { self.assembly.held() };
        let now = self.spilled.len() + assembled + self.wire.len();
        if now != self.counted {
            self.count(now);
        }
    }

    fn count(&mut self, now: usize) {
        let total = &self.resources.spilled;
        total.fetch_add(now, Ordering::Relaxed);
        total.fetch_sub(std::mem::replace(&mut self.counted, now), Ordering::Relaxed);
    }

    /// What is counted of it.
    pub(crate) fn counted(&self) -> usize {
        self.counted
    }

    /// How much to receive so that, if messages go on being `expected` bytes long, the last one is received whole: then nothing
    /// is left behind to be moved. Of a message that is longer than a buffer, only the head: the rest goes another way.
    fn receive_bytes(&mut self) -> usize {
        let (have, expected) = (self.buffered_bytes(), self.expected);
        let room = self.buffer.as_mut().map_or(0, |buffer| buffer.room().len());
        if self.uploading.is_some() || self.assembly.is_inside() {
            return room;
        }
        if expected > WHOLE_MESSAGE_BYTES_MAX && have < P::HEAD_BYTES {
            return room.min(P::HEAD_BYTES - have);
        }
        match expected.checked_sub(have) {
            Some(first) if expected >= BOUNDARY_BYTES_MIN && first <= room => {
                first + (room - first) / expected * expected
            }
            _ => room,
        }
    }
}

impl<P: Protocol> Drop for Inbound<P> {
    fn drop(&mut self) {
        self.count(0);
    }
}

fn received(result: std::io::Result<usize>) -> Received {
    match result {
        Ok(0) => Received::Closed,
        Ok(_) => Received::Bytes,
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Received::Nothing
        }
        Err(error) => Received::Broken(error.to_string()),
    }
}

/// Waits for at most `patience_ms` until a socket has something.
pub(crate) fn is_readable(socket: &TcpStream, patience_ms: i64) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let patience = Timespec { tv_sec: 0, tv_nsec: patience_ms * 1_000_000 };
    let mut socket = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut socket, Some(&patience)).is_ok_and(|ready| ready > 0)
}

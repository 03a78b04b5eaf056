//! The receiving half of a connection: bytes that are received and not processed. It belongs to the receiving thread:
//! the event loop, or a storage thread that has leased the connection.
//!
//! [`Inbound::next`] is the one place that decides about received bytes. It performs nothing itself.

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
    /// The receive buffer for bytes that a transform opens.
    static WIRE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Shorter messages cost less to move than a wrong guess of their length costs.
const BOUNDARY_BYTES_MIN: usize = 16 << 10;
/// A remainder up to this length is moved to the front of its buffer before more is received.
const SHORT_REST_BYTES: usize = 16 << 10;

pub(crate) struct Inbound<P: Protocol> {
    pub(crate) buffer: Option<Buffer>,
    pub(crate) assembly: Assembly,
    pub(crate) planned: Option<Plan<P::Call>>,
    /// A message longer than a buffer.
    pub(crate) uploading: Option<UploadState<P>>,
    /// The length of the last message, framing included. The next ones are probably as long.
    expected: usize,
    /// Bytes moved out of `buffer` when buffers were scarce.
    spilled: Vec<u8>,
    /// Spilled and assembled bytes, as counted in the sum over all connections.
    counted: usize,
    /// Bytes that a transform has not opened yet.
    wire: Vec<u8>,
    /// Whether the peer has ended the stream through the transform.
    pub(crate) is_closed: bool,
    /// The error after which a transform opens nothing more.
    pub(crate) error: Option<Malformed>,
    resources: Arc<Resources>,
}

/// A connection that a storage thread returns after its lease.
pub(crate) struct ReleasedConnection<P: Protocol> {
    pub(crate) inbound: Inbound<P>,
    pub(crate) error: Option<Malformed>,
}

pub(crate) enum Message {
    Received(Range<usize>),
    Assembled(Vec<u8>),
}

pub(crate) enum Step {
    Message(Message),
    /// Begin to take the body of a message of `len` bytes, which is longer than a buffer.
    Begin {
        framing: usize,
        len: usize,
    },
    Upload,
    Receive,
}

pub(crate) enum Received {
    Bytes,
    /// The socket has no bytes now.
    Nothing,
    NoBuffer,
    Closed,
    Broken(String),
}

impl Message {
    #[inline]
    pub(crate) fn bytes<'m>(&'m self, buffer: Option<&'m Buffer>) -> &'m [u8] {
        match self {
            Self::Received(range) => {
                buffer.map_or(&[], |buffer| buffer.all().get(range.clone()).unwrap_or_default())
            }
            Self::Assembled(bytes) => bytes,
        }
    }

    pub(crate) fn into_bytes(self, buffer: Option<&Buffer>) -> Vec<u8> {
        match self {
            Self::Received(_) => self.bytes(buffer).to_vec(),
            Self::Assembled(bytes) => bytes,
        }
    }
}

impl<P: Protocol> Inbound<P> {
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

    /// Returns the next step, and takes a message or the framing of a part from the buffer's front.
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
                    // While the length is unknown, the next message is expected to be as long as the last.
                    if len > 0 {
                        self.expected = framing + len;
                    }
                    let begins = is_streamed::<P>(framing + len, buffer.bytes().len());
                    return Ok(if begins { Step::Begin { framing, len } } else { Step::Receive });
                }
            }
        }
    }

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
        // Short remainders are moved early, so that the same part of the buffer stays in the processor's cache.
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
            // A TLS record without data: an alert or a key update, which the kernel does not process.
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

    /// Receives bytes that a transform opens.
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

    /// Opens as many received bytes as possible and keeps the rest. Returns the number of plain bytes.
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

    /// Treats the bytes in the buffer as sealed: a transform begins with them.
    pub(crate) fn begin_transform(&mut self, connection: &Connection<P>) -> Result<(), Malformed> {
        let mut wire = self.buffer.as_ref().map_or_else(Vec::new, |buffer| buffer.bytes().to_vec());
        if let Some(buffer) = &mut self.buffer {
            (buffer.start, buffer.filled) = (0, 0);
        }
        self.open_wire(connection, &mut wire).map(drop)
    }

    pub(crate) fn buffered_bytes(&self) -> usize {
        self.buffer.as_ref().map_or(0, |buffer| buffer.bytes().len())
    }

    pub(crate) fn release_empty_buffer(&mut self) {
        if self.buffer.as_ref().is_some_and(Buffer::is_done) {
            self.buffer = None;
        }
    }

    pub(crate) fn is_partial(&self) -> bool {
        self.buffer.is_some()
            || !self.spilled.is_empty()
            || self.assembly.is_partial()
            || !self.wire.is_empty()
            || self.long_tail_since().is_some()
    }

    /// The time at which a long message with its own memory began.
    pub(crate) fn long_tail_since(&self) -> Option<Instant> {
        let uploading = self.uploading.as_ref().filter(|uploading| uploading.tail.is_long());
        uploading.map(|uploading| uploading.since)
    }

    /// Whether there are bytes to process without another receive.
    pub(crate) fn has_received(&self) -> bool {
        self.buffer.is_some() || !self.spilled.is_empty()
    }

    /// The buffer with the unprocessed bytes, or an empty one. `None` if too many are in use.
    pub(crate) fn take_buffer(&mut self) -> Option<&mut Buffer> {
        if self.buffer.is_none() {
            let mut buffer = self.resources.buffers.take()?;
            self.unspill(&mut buffer);
            self.buffer = Some(buffer);
        }
        self.buffer.as_mut()
    }

    /// Like [`Inbound::take_buffer`], but without a limit, for bytes that must be processed now.
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

    /// Moves the bytes in the buffer into memory of their own size, and releases the buffer.
    pub(crate) fn spill(&mut self, is_reserved: bool) {
        if let Some(buffer) = self.buffer.take() {
            self.spilled = buffer.bytes().to_vec();
            self.count_spilled(is_reserved);
        }
    }

    /// Counts the memory outside of receive buffers. Messages that wait for limits have a bound of their own.
    pub(crate) fn count_spilled(&mut self, is_reserved: bool) {
        let assembled = if is_reserved { 0 } else { self.assembly.buffered_bytes() };
        let now = self.spilled.len() + assembled + self.wire.len();
        if now != self.counted {
            self.count(now);
        }
    }

    fn count(&mut self, now: usize) {
        let (total, before) = (&self.resources.spilled, std::mem::replace(&mut self.counted, now));
        // In one step: the other loops never see the bytes twice and end connections for them.
        match now.checked_sub(before) {
            Some(more) => total.fetch_add(more, Ordering::Relaxed),
            None => total.fetch_sub(before - now, Ordering::Relaxed),
        };
    }

    pub(crate) fn counted(&self) -> usize {
        self.counted
    }

    /// The number of bytes to receive so that the last message is complete, if messages continue to be `expected` bytes
    /// long: then no remainder has to be moved. Of a message longer than a buffer, only the head: its body is streamed.
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

pub(crate) fn is_readable(socket: &TcpStream, patience_ms: i64) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let patience = Timespec { tv_sec: 0, tv_nsec: patience_ms * 1_000_000 };
    let mut socket = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut socket, Some(&patience)).is_ok_and(|ready| ready > 0)
}

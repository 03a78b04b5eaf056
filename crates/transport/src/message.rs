//! Messages as far as the transport knows them: where they end, how they may be done, what is no message.

use crate::pipe::Pipe;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// Bytes that are no message of the protocol. There is nothing to answer, and what follows cannot be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// The client's address.
    pub peer: SocketAddr,
    /// The address at which the client has reached us.
    pub local: IpAddr,
}

/// What the front of the received bytes is. Framing bytes come before each message or part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A whole message: these bytes. What follows starts at `end`.
    Message(Range<usize>),
    /// The framing of a part of a message that comes in several.
    Part {
        /// Bytes of framing.
        framing: usize,
        /// Bytes of the part.
        len: usize,
        /// Whether the message ends with this part.
        is_last: bool,
    },
    /// A message that is not all there yet.
    Incomplete {
        /// Bytes of framing; as many as are needed to know more, if `len` is 0.
        framing: usize,
        /// Bytes of the message.
        len: usize,
    },
}

/// How a call may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// Tried at once on the thread that received it; where it would block, it goes on from its continuation on a storage
    /// thread.
    Inline,
    /// On a storage thread by itself.
    Offload,
    /// On a storage thread, in order with its neighbors: they share one hop and one flush.
    Batched,
}

/// Which thread the memory of a protocol ([`crate::Protocol::Memory`]) belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An event loop: it serves many connections for as long as the process runs.
    EventLoop,
    /// A storage thread that has leased a connection for a while.
    Lease,
    /// A storage thread that does one call.
    Job,
}

/// The body of a long message within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body {
    /// Where it begins in the message.
    pub start: usize,
    /// Its length in bytes. What follows it is the tail, of at most [`crate::Protocol::TAIL_BYTES_MAX`].
    pub len: usize,
}

/// A part of a body.
pub enum PartData<'d> {
    /// In a receive buffer.
    Bytes(&'d [u8]),
    /// In a pipe, never seen by this process.
    Pipe(Pipe),
}

impl PartData<'_> {
    /// Bytes of it.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Pipe(pipe) => pipe.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

//! Messages as the transport knows them: their framing, their dispatch and their bodies.

use crate::pipe::Pipe;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// Bytes that are not a message of the protocol. They get no reply, and later bytes cannot be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints {
    pub peer: SocketAddr,
    /// The server's address to which the client connected.
    pub local: IpAddr,
}

/// The two ends of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionEnds {
    pub local: SocketAddr,
    pub peer: SocketAddr,
}

/// The beginning of the received bytes. Framing bytes precede each message or part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A whole message in this range. The next one starts at its end.
    Message(Range<usize>),
    Part {
        framing: usize,
        len: usize,
        is_last: bool,
    },
    Incomplete {
        /// Bytes of framing. If `len` is 0, the number of bytes needed to find out more.
        framing: usize,
        len: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// The receiving thread. A call that needs storage continues on a storage thread.
    Inline,
    /// A storage thread of its own.
    Offload,
    /// A storage thread, in order with its neighbors: they share one hop and one flush.
    Batched,
}

/// The thread that owns a protocol's [`crate::Protocol::Memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An event loop: serves many connections for as long as the process runs.
    EventLoop,
    /// A storage thread that has leased a connection.
    Lease,
    Job,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body {
    pub start: usize,
    /// Bytes of the body. The bytes after it are the tail, of at most [`crate::Protocol::TAIL_BYTES_MAX`].
    pub len: usize,
}

pub enum PartData<'d> {
    Bytes(&'d [u8]),
    /// Bytes in a pipe, which this process has not read.
    Pipe(Pipe),
}

impl PartData<'_> {
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Pipe(pipe) => pipe.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

//! How other threads reach an event loop.

use crate::clients::Counted;
use crate::inbound::Released;
use crate::protocol::Protocol;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;
use vfs::qos::Permit;
use vfs::sync::Mutex;

/// How other threads reach an event loop.
pub(crate) struct Mailbox<P: Protocol> {
    /// What the loop waits on; any thread may change what a socket is watched for.
    pub(crate) epoll: Arc<OwnedFd>,
    wake: OwnedFd,
    messages: Mutex<Vec<Message<P>>>,
}

/// What an event loop is told.
pub(crate) enum Message<P: Protocol> {
    /// A client has connected to a listener.
    Accepted(TcpStream, SocketAddr, P::Listener, Counted),
    /// A connection may take calls again.
    Resume(u64),
    /// A storage thread has done with a connection.
    Released(u64, Box<Released<P>>),
    /// A queued call may go on: its connection, its number there, and what it has paid.
    Admitted(u64, u64, Permit),
    /// Receive buffers are free again.
    BuffersFree,
    /// Receive buffers have run out.
    BuffersScarce,
    /// Take no more calls; end when the replies are out, or when the time is up.
    Stop(Instant),
}

/// The token of the eventfd that announces messages.
pub(crate) const WAKE: u64 = u64::MAX;

impl<P: Protocol> Message<P> {
    /// The connection that it is about; [`WAKE`], which is none, if it is about no particular one.
    pub(crate) fn token(&self) -> u64 {
        match self {
            Self::Resume(token) | Self::Released(token, _) | Self::Admitted(token, _, _) => *token,
            Self::Accepted(..) | Self::BuffersFree | Self::BuffersScarce | Self::Stop(_) => WAKE,
        }
    }
}

impl<P: Protocol> Mailbox<P> {
    /// A mailbox with its epoll instance.
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        Ok(Arc::new(Self { epoll: Arc::new(epoll), wake, messages: Mutex::default() }))
    }

    /// Leaves a message.
    pub(crate) fn post(&self, message: Message<P>) {
        let mut messages = self.messages.lock();
        let is_first = messages.is_empty();
        messages.push(message);
        drop(messages);
        if is_first {
            // Fails only if the counter is full, and then the loop is about to wake anyway.
            let _ = rustix::io::write(&self.wake, &1u64.to_le_bytes());
        }
    }

    pub(crate) fn collect(&self) -> Vec<Message<P>> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.wake, &mut count);
        std::mem::take(&mut *self.messages.lock())
    }
}

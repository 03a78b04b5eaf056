//! The mailbox through which other threads reach an event loop.

use crate::clients::ConnectionGuard;
use crate::inbound::ReleasedConnection;
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

pub(crate) struct Mailbox<P: Protocol> {
    /// The epoll instance of the loop. Any thread may change the events that it waits for.
    pub(crate) epoll: Arc<OwnedFd>,
    wake: OwnedFd,
    messages: Mutex<Vec<Message<P>>>,
}

pub(crate) enum Message<P: Protocol> {
    Accepted(TcpStream, SocketAddr, P::Listener, ConnectionGuard),
    Resume(u64),
    Released(u64, Box<ReleasedConnection<P>>),
    /// A limit has admitted a queued call: its connection's token, its number there, and its permit.
    Admitted(u64, u64, Permit),
    BuffersFree,
    BuffersScarce,
    /// Take no more calls. End when all replies are sent, or at this time.
    Stop(Instant),
}

/// The token of the eventfd that announces messages.
pub(crate) const WAKE: u64 = u64::MAX;

impl<P: Protocol> Message<P> {
    /// The connection that the message is about; [`WAKE`] if it is about none.
    pub(crate) fn token(&self) -> u64 {
        match self {
            Self::Resume(token) | Self::Released(token, _) | Self::Admitted(token, _, _) => *token,
            Self::Accepted(..) | Self::BuffersFree | Self::BuffersScarce | Self::Stop(_) => WAKE,
        }
    }
}

impl<P: Protocol> Mailbox<P> {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        Ok(Arc::new(Self { epoll: Arc::new(epoll), wake, messages: Mutex::default() }))
    }

    pub(crate) fn post(&self, message: Message<P>) {
        let mut messages = self.messages.lock();
        let is_first = messages.is_empty();
        messages.push(message);
        drop(messages);
        if is_first {
            // A write fails only if the counter is full; then the loop is about to wake anyway.
            let _ = rustix::io::write(&self.wake, &1u64.to_le_bytes());
        }
    }

    pub(crate) fn collect(&self) -> Vec<Message<P>> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.wake, &mut count);
        std::mem::take(&mut *self.messages.lock())
    }
}

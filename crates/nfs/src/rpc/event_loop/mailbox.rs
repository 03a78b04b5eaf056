//! How other threads reach an event loop.

use crate::rpc::clients::Counted;
use crate::rpc::dispatch::Programs;
use crate::rpc::lease::Rest;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// How other threads reach an event loop.
pub struct Mailbox {
    /// What the loop waits on; any thread may change what a socket is watched for.
    pub epoll: OwnedFd,
    wake: OwnedFd,
    messages: Mutex<Vec<Message>>,
}

/// What an event loop is told.
pub enum Message {
    /// A client has connected.
    Accepted(TcpStream, SocketAddr, Programs, Counted),
    /// A connection may take calls again.
    Resume(u64),
    /// A storage thread has done with a connection: what it received and left.
    Released(u64, Rest),
    /// A queued call may go on: its connection and its number there.
    Ready(u64, u64),
    /// Receive buffers are free again.
    BuffersFree,
    /// Receive buffers have run out.
    BuffersScarce,
    /// Take no more calls; end when the replies are out, or when the time is up.
    Stop(Instant),
}

/// The token of the eventfd that announces messages.
pub(super) const WAKE: u64 = u64::MAX;

impl Message {
    /// The connection that it is about; [`WAKE`], which is none, if it is about no particular one.
    pub(super) fn token(&self) -> u64 {
        match self {
            Self::Resume(token) | Self::Released(token, _) | Self::Ready(token, _) => *token,
            Self::Accepted(..) | Self::BuffersFree | Self::BuffersScarce | Self::Stop(_) => WAKE,
        }
    }
}

impl Mailbox {
    /// A mailbox with its epoll instance.
    pub fn new() -> io::Result<Arc<Self>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        Ok(Arc::new(Self { epoll, wake, messages: Mutex::default() }))
    }

    /// Leaves a message.
    pub fn post(&self, message: Message) {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = messages.is_empty();
        messages.push(message);
        drop(messages);
        if is_first {
            // Fails only if the counter is full, and then the loop is about to wake anyway.
            let _ = rustix::io::write(&self.wake, &1u64.to_le_bytes());
        }
    }

    /// Says that a connection may take calls again.
    pub fn resume(&self, token: u64) {
        self.post(Message::Resume(token));
    }

    pub(super) fn collect(&self) -> Vec<Message> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.wake, &mut count);
        std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

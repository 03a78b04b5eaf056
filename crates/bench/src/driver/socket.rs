//! A connection's non-blocking socket, watched for writability only while it is full.

use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

use super::buffers::{Inbox, Outbox};
use crate::error::Error;
use crate::pattern::Payload;

#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    /// Whether the last send took only a part of the outbox.
    blocked: bool,
}

impl Socket {
    pub(crate) fn new(stream: TcpStream) -> Result<Self, Error> {
        stream.set_nonblocking(true).map_err(Error::io("make a socket non-blocking"))?;
        Ok(Self { stream, blocked: false })
    }

    pub(crate) fn watch<'a>(sockets: impl Iterator<Item = &'a Self>) -> Result<OwnedFd, Error> {
        let watched = || {
            let epoll = epoll::create(CreateFlags::CLOEXEC)?;
            for (number, socket) in (0..).zip(sockets) {
                epoll::add(&epoll, &socket.stream, EventData::new_u64(number), socket.wanted())?;
            }
            Ok(epoll)
        };
        watched().map_err(|errno: Errno| Error::io("watch sockets")(errno.into()))
    }

    /// Receives once. Returns whether anything arrived. The error of a closed connection names the calls in
    /// flight.
    #[inline]
    pub(crate) fn receive(&self, inbox: &mut Inbox, in_flight: usize) -> Result<bool, Error> {
        match inbox.receive(&self.stream) {
            Ok(0) => Err(closed(in_flight)),
            Ok(_) => Ok(true),
            Err(wrong) => match wrong.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(false),
                io::ErrorKind::ConnectionReset => Err(closed(in_flight)),
                _ => Err(Error::io("receive replies")(wrong)),
            },
        }
    }

    /// Sends as much as the socket takes. `epoll` watches a full socket under `number`.
    #[inline]
    pub(crate) fn flush(
        &mut self,
        outbox: &mut Outbox,
        payloads: &[Payload],
        epoll: &OwnedFd,
        number: u64,
        in_flight: usize,
    ) -> Result<(), Error> {
        let was_blocked = self.blocked;
        self.blocked = !outbox.flush(&self.stream, payloads).map_err(|wrong| match wrong.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => closed(in_flight),
            _ => Error::io("send calls")(wrong),
        })?;
        if self.blocked != was_blocked {
            epoll::modify(epoll, &self.stream, EventData::new_u64(number), self.wanted())
                .map_err(|errno| Error::io("watch a socket")(errno.into()))?;
        }
        Ok(())
    }

    fn wanted(&self) -> EventFlags {
        if self.blocked { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN }
    }
}

#[cold]
fn closed(in_flight: usize) -> Error {
    Error::Protocol(format!("the server closed a connection with {in_flight} calls in flight"))
}

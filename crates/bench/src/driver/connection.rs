//! A connection with its generator.

use std::net::TcpStream;
use std::os::fd::OwnedFd;

use super::buffers::{Inbox, Record};
use super::calls::Calls;
use super::generator::{Generator, Reply, RunContext};
use super::socket::Socket;
use crate::error::Error;

#[derive(Debug)]
pub(crate) struct Connection<G> {
    pub(super) socket: Socket,
    pub(super) calls: Calls,
    pub(crate) generator: G,
    inbox: Inbox,
    /// Set if a timer has added calls since the last send.
    has_begun: bool,
}

impl<G: Generator> Connection<G> {
    pub(crate) fn new(stream: TcpStream, calls: Calls, inbox: Inbox, generator: G) -> Result<Self, Error> {
        Ok(Self { socket: Socket::new(stream)?, calls, generator, inbox, has_begun: false })
    }

    pub(super) fn start(&mut self, context: &mut RunContext) {
        self.generator.start(&mut self.calls, context);
    }

    pub(super) fn end(&mut self, context: &mut RunContext) {
        self.generator.end(&mut self.calls, context);
    }

    /// Returns whether this is the first operation since the last send.
    pub(super) fn begin(&mut self, worker: usize, due: u64, context: &mut RunContext) -> bool {
        self.generator.begin(worker, due, &mut self.calls, context);
        !std::mem::replace(&mut self.has_begun, true)
    }

    pub(super) fn receive(&mut self, context: &mut RunContext) -> Result<(), Error> {
        if !self.socket.receive(&mut self.inbox, self.calls.in_flight)? {
            return Ok(());
        }
        context.now = context.counters.clock.now();
        while let Some(record) = self.inbox.next()? {
            let (range, missing) = match record {
                Record::Whole(range) => (range, 0),
                Record::Cut(range, missing) => (range, missing),
            };
            let Some((slot, bytes)) = self.calls.take_reply(self.inbox.bytes_mut(range))? else { continue };
            self.generator.complete(slot, Reply { bytes, missing }, &mut self.calls, context)?;
        }
        Ok(())
    }

    pub(super) fn flush(&mut self, epoll: &OwnedFd, number: u64) -> Result<(), Error> {
        self.has_begun = false;
        if let Some(wrong) = self.calls.error.take() {
            return Err(wrong);
        }
        let Calls { outbox, payloads, in_flight, .. } = &mut self.calls;
        self.socket.flush(outbox, payloads, epoll, number, *in_flight)
    }
}

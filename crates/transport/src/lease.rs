//! A lease of a connection: the storage thread that performs its writes also receives its next calls.
//!
//! Handing a call to another thread costs two context switches, more than writing a few pages does. So the thread that
//! performs the first call continues to receive from the same socket until nothing arrives for a moment, or other jobs
//! wait for a thread. Slow calls are still handed on, as by the event loop, so one call does not delay the next. The
//! bodies of long messages are received here as well, part by part.

use crate::connection::Connection;
use crate::inbound::{Inbound, Received, ReleasedConnection, is_readable};
use crate::limits::{LEASE_IDLE_TURNS, LEASE_MS};
use crate::mailbox::{Mailbox, Message};
use crate::protocol::Protocol;
use crate::resources::Resources;
use crate::runner::{LeasedCall, RunSite, Runner, TurnEnd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The receiving half of a connection, away from its event loop.
pub(crate) struct Lease<P: Protocol> {
    inbound: Inbound<P>,
    leased_call: Option<LeasedCall<P>>,
    /// The mailbox of the event loop, which gets the connection back.
    mailbox: Arc<Mailbox<P>>,
    _counted: LeaseCount,
}

/// Counts a leased connection until it is dropped.
struct LeaseCount(Arc<Resources>);

impl LeaseCount {
    fn new(resources: &Arc<Resources>) -> Self {
        resources.leased.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(resources))
    }
}

impl Drop for LeaseCount {
    fn drop(&mut self) {
        self.0.leased.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<P: Protocol> Lease<P> {
    /// Leases a connection with its received bytes. The event loop must not receive until the connection returns.
    pub(crate) fn new(
        connection: &Connection<P>,
        inbound: Inbound<P>,
        first: Option<LeasedCall<P>>,
        mailbox: &Arc<Mailbox<P>>,
    ) -> Self {
        connection.lease();
        let _counted = LeaseCount::new(&connection.resources);
        Self { inbound, leased_call: first, mailbox: Arc::clone(mailbox), _counted }
    }

    /// Runs the first call and those that follow, and returns the connection.
    pub(crate) fn run(mut self, connection: &Arc<Connection<P>>, mut runner: Runner<P>) {
        let resources = &*connection.resources;
        let (mut idle_turns, mut error) = (0, None);
        self.inbound.take_buffer_always();
        loop {
            let is_alone = resources.leased.load(Ordering::Relaxed) == 1;
            let turn =
                runner.turn(connection, &mut self.inbound, self.leased_call.take(), RunSite::Lease, is_alone);
            // The event loop performs calls without storage better: its caches last longer.
            let is_busy = turn.used_storage || self.inbound.uploading.is_some();
            idle_turns = if is_busy { 0 } else { idle_turns + 1 };
            match turn.end {
                Ok(TurnEnd::Receive) if idle_turns < LEASE_IDLE_TURNS => {}
                Ok(_) => break,
                Err(malformed) => {
                    error = Some(malformed);
                    break;
                }
            }
            if !may_stay(resources) || !connection.may_take_calls() || !self.receive(connection, is_alone) {
                break;
            }
        }
        self.inbound.release_empty_buffer();
        self.inbound.count_spilled(connection.queue.has_reserved());
        // The event loop sees the socket's state itself, but not an error in bytes received here.
        let error = error.or(self.inbound.error);
        let released = ReleasedConnection { inbound: self.inbound, error };
        self.mailbox.post(Message::Released(connection.token(), Box::new(released)));
    }

    /// Receives the bytes that arrive within a moment. Returns `false` if none arrive, or the stream ends, which the
    /// event loop will see. A single client has mostly sent more already; several take turns.
    fn receive(&mut self, connection: &Connection<P>, is_alone: bool) -> bool {
        if is_alone {
            match self.inbound.receive(connection) {
                Received::Nothing => {}
                received => return matches!(received, Received::Bytes),
            }
        }
        is_readable(&connection.socket, LEASE_MS)
            && matches!(self.inbound.receive(connection), Received::Bytes)
    }
}

fn may_stay(resources: &Resources) -> bool {
    !resources.stopping.load(Ordering::SeqCst) && !resources.is_pressed()
}

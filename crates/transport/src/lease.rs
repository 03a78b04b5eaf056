//! A connection that changes files is leased to the storage thread that does its calls, as long as more of them come.
//!
//! Handing calls to another thread costs two context switches, more than writing a few pages does. So the thread that got
//! the first goes on receiving from the same socket, and does what it finds there, until nothing comes for a moment, or other
//! work waits for a thread. What may take long is still handed on, as by the event loop, so one call does not hold up the
//! next. The bodies of long messages are taken here as well, part by part.

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
    /// The call that the connection is leased for.
    leased_call: Option<LeasedCall<P>>,
    /// Where it is released.
    mailbox: Arc<Mailbox<P>>,
    _counted: LeaseCount,
}

/// Counts a leased connection for as long as it is leased.
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
    /// Takes a connection with what it has received; its event loop must not receive until it is released.
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

    /// Does the first call, then those that come, and releases the connection.
    pub(crate) fn run(mut self, connection: &Arc<Connection<P>>, mut runner: Runner<P>) {
        let resources = &*connection.resources;
        let (mut idle_turns, mut error) = (0, None);
        self.inbound.take_buffer_always();
        loop {
            let is_alone = resources.leased.load(Ordering::Relaxed) == 1;
            let turn =
                runner.turn(connection, &mut self.inbound, self.leased_call.take(), RunSite::Lease, is_alone);
            // Calls that need no storage thread are answered better by the event loop, which remembers more.
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
        // The socket tells the event loop what it has told here, but not what came of its bytes.
        let error = error.or(self.inbound.error);
        let released = ReleasedConnection { inbound: self.inbound, error };
        self.mailbox.post(Message::Released(connection.token(), Box::new(released)));
    }

    /// Receives what comes in a moment. False: nothing came, or the stream ended, which the event loop will see. A client that
    /// is alone has mostly sent more meanwhile; of several, each waits for its turn.
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

/// Whether nothing else needs this thread.
fn may_stay(resources: &Resources) -> bool {
    !resources.stopping.load(Ordering::SeqCst) && !resources.is_pressed()
}

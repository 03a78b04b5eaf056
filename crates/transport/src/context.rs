//! The context in which a protocol performs a call.

use crate::connection::{Connection, Work};
use crate::counters::CallStats;
use crate::message::Endpoints;
use crate::outbox::Outbox;
use crate::protocol::Protocol;
use std::sync::Arc;
use std::time::Instant;
use vfs::bounds::Network;
use vfs::qos::Permit;
use vfs::{Blocking, PendingSync, Time};

pub struct Context<'c, P: Protocol> {
    pub connection: &'c Arc<Connection<P>>,
    pub memory: &'c mut P::Memory,
    pub out: &'c mut Outbox,
    /// The flushes that must finish before an [`crate::Progress::AfterSync`] reply leaves.
    pub pending: &'c mut PendingSync,
    pub blocking: Blocking,
    /// The time of day at the start of this batch of calls.
    pub now: Time,
    pub stats: CallStats<P::Target>,
    /// The permit of the call. [`CallStats::transferred`] is recorded in it when the attempt ends. A call that pays for
    /// its next step by itself records it earlier and stores the next permit here.
    pub permit: Option<Permit>,
}

impl<P: Protocol> Context<'_, P> {
    pub fn session(&self) -> &P::Session {
        &self.connection.session
    }

    pub fn endpoints(&self) -> Endpoints {
        self.connection.endpoints
    }

    /// Whether replies may contain pages of files. Bytes for a transform must be in memory.
    pub fn moves_pages(&self) -> bool {
        !self.connection.is_transformed()
    }

    /// Detaches the reply from the order of calls: the returned handle sends it later. The caller returns
    /// [`crate::Progress::Detached`].
    pub fn detach(&self) -> DeferredReply<P> {
        DeferredReply::new(self.connection)
    }
}

/// A reply that is sent later, from any thread. The connection counts the call as in progress until this is used or
/// dropped. Dropping it sends no reply.
pub struct DeferredReply<P: Protocol> {
    connection: Arc<Connection<P>>,
}

impl<P: Protocol> DeferredReply<P> {
    pub(crate) fn new(connection: &Arc<Connection<P>>) -> Self {
        connection.begin_calls(1);
        Self { connection: Arc::clone(connection) }
    }

    pub fn network(&self) -> Network {
        self.connection.network()
    }

    pub fn send(self, out: &mut Outbox) {
        self.connection.send(out);
    }

    pub fn resume(self, at: P::Continuation) {
        let received = Instant::now();
        self.connection.submit(Work::Resume { at, permit: None, received });
    }

    /// Ends the connection without a reply, so that the client repeats the call.
    pub fn close_connection(self) {
        self.connection.close();
    }
}

impl<P: Protocol> Drop for DeferredReply<P> {
    fn drop(&mut self) {
        self.connection.end_calls(1);
    }
}

//! What a protocol is given to do a call with.

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

/// Everything a call has besides its message.
pub struct Context<'c, P: Protocol> {
    /// The connection it came over.
    pub connection: &'c Arc<Connection<P>>,
    /// What the thread remembers.
    pub memory: &'c mut P::Memory,
    /// Where the reply goes.
    pub out: &'c mut Outbox,
    /// The flushes that must be done before replies leave which are [`crate::Progress::AfterSync`].
    pub pending: &'c mut PendingSync,
    /// Whether the call may wait for storage.
    pub blocking: Blocking,
    /// The time of day at the start of this batch of calls.
    pub now: Time,
    /// What the call does, for counters and limits.
    pub stats: CallStats<P::Target>,
    /// The payment of the call, settled with [`CallStats::moved`] when the attempt ends. A call that goes on at something that it pays
    /// for by itself settles it before and puts the next one here.
    pub charge: Option<Permit>,
}

impl<P: Protocol> Context<'_, P> {
    /// What is known of the connection.
    pub fn session(&self) -> &P::Session {
        &self.connection.session
    }

    /// The two ends of the connection.
    pub fn ends(&self) -> Endpoints {
        self.connection.ends
    }

    /// Whether replies may hold pages of files: what goes through a transform must be in memory.
    pub fn moves_pages(&self) -> bool {
        !self.connection.is_transformed()
    }

    /// Takes the answer to this call out of its order: it comes from elsewhere, later. Return
    /// [`crate::Progress::Detached`].
    pub fn detach(&self) -> Late<P> {
        Late::new(self.connection)
    }
}

/// An answer that comes later, from any thread. The connection counts the call as one that waits until this is used or
/// dropped; dropped, it has no answer.
pub struct Late<P: Protocol> {
    connection: Arc<Connection<P>>,
}

impl<P: Protocol> Late<P> {
    pub(crate) fn new(connection: &Arc<Connection<P>>) -> Self {
        connection.begin_calls(1);
        Self { connection: Arc::clone(connection) }
    }

    /// The network of the client.
    pub fn network(&self) -> Network {
        self.connection.network()
    }

    /// Sends the answer.
    pub fn answer(self, out: &mut Outbox) {
        self.connection.send(out);
    }

    /// Goes on with the call on a storage thread.
    pub fn resume(self, at: P::Continuation) {
        let received = Instant::now();
        self.connection.submit(Work::Resume { at, charge: None, received });
    }

    /// Ends the connection: there is no answer, and the client has to ask again.
    pub fn give_up(self) {
        self.connection.close();
    }
}

impl<P: Protocol> Drop for Late<P> {
    fn drop(&mut self) {
        self.connection.end_calls(1);
    }
}

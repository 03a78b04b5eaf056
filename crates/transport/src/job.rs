//! Work for storage threads.

use crate::connection::Connection;
use crate::lease::Lease;
use crate::limits::LONG_REPLY_BYTES;
use crate::protocol::{Protocol, Role};
use crate::queue::Queued;
use crate::runner::Runner;
use std::sync::Arc;
use std::time::Instant;
use vfs::panics;
use vfs::qos::Charge;

/// What a storage thread is to do for a connection.
pub(crate) struct Job<P: Protocol> {
    connection: Arc<Connection<P>>,
    work: Work<P>,
    /// What it counts as while it is in progress.
    weight: u32,
}

enum Work<P: Protocol> {
    /// Do a call.
    Call { call: P::Call, message: Vec<u8>, charge: Option<Charge>, received: Instant },
    /// Go on with a call that would have blocked.
    Resume { at: P::Continuation, charge: Option<Charge>, received: Instant },
    /// Do the calls that have come and those that come, as long as that is worth it.
    Lease(Box<Lease<P>>),
}

impl<P: Protocol> Job<P> {
    fn new(connection: &Arc<Connection<P>>, work: Work<P>, reply_bytes_max: u32) -> Self {
        let weight = 1 + reply_bytes_max / LONG_REPLY_BYTES;
        connection.begin_calls(weight);
        Self { connection: Arc::clone(connection), work, weight }
    }

    /// A call that came in `message` at this time.
    pub(crate) fn call(
        connection: &Arc<Connection<P>>,
        call: P::Call,
        message: Vec<u8>,
        charge: Option<Charge>,
        received: Instant,
    ) -> Self {
        let reply_bytes_max = connection.shared.protocol.reply_bytes_max(&call, &message);
        Self::new(connection, Work::Call { call, message, charge, received }, reply_bytes_max)
    }

    /// A call that has waited for its volume's limits.
    pub(crate) fn queued(connection: &Arc<Connection<P>>, queued: Queued<P::Call>, charge: Charge) -> Self {
        let Queued { call, message, since, dispatch: _ } = queued;
        Self::call(connection, call, message, Some(charge), since)
    }

    /// A call that goes on at `at`.
    pub(crate) fn resume(
        connection: &Arc<Connection<P>>,
        at: P::Continuation,
        charge: Option<Charge>,
        received: Instant,
    ) -> Self {
        let reply_bytes_max = connection.shared.protocol.reply_bytes_max_at(&at);
        Self::new(connection, Work::Resume { at, charge, received }, reply_bytes_max)
    }

    /// All that a connection sends for a while.
    pub(crate) fn lease(connection: &Arc<Connection<P>>, lease: Lease<P>) -> Self {
        Self::new(connection, Work::Lease(Box::new(lease)), 0)
    }

    /// Does the work and sends the replies.
    pub(crate) fn run(self) {
        let Self { connection, work, weight } = self;
        let run = || {
            let role = if matches!(work, Work::Lease(_)) { Role::Lease } else { Role::Job };
            let mut runner = Runner::new(connection.shared.protocol.memory(role, 0));
            // With this, the reply may be a long one.
            let is_refused = weight > 1 && connection.is_flooded();
            match work {
                Work::Call { call, message, charge, received } => {
                    runner.begin(&connection, received);
                    runner.run_job(&connection, call, &message, charge, is_refused);
                }
                Work::Resume { at, charge, received } => {
                    runner.begin(&connection, received);
                    runner.resume_job(&connection, at, charge, is_refused);
                }
                Work::Lease(lease) => lease.run(&connection, runner),
            }
        };
        if panics::catch(run).is_err() {
            tracing::error!(peer = %connection.ends.peer, "a call panicked; its connection is closed");
            connection.close();
        }
        connection.end_calls(weight);
    }
}

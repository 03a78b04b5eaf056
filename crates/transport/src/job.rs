//! Work for storage threads.

use crate::connection::{Connection, Work};
use crate::lease::Lease;
use crate::limits::LONG_REPLY_BYTES;
use crate::long_reply::LongReply;
use crate::message::Role;
use crate::protocol::Protocol;
use crate::runner::Runner;
use std::sync::Arc;
use vfs::panics;

/// What a storage thread is to do for a connection.
pub(crate) struct Job<P: Protocol> {
    connection: Arc<Connection<P>>,
    task: Task<P>,
    /// What it counts as while it is in progress.
    weight: u32,
    reply_bytes_max: u32,
}

enum Task<P: Protocol> {
    /// One call.
    Work(Work<P>),
    /// The calls that have come and those that come, as long as that is worth it.
    Lease(Box<Lease<P>>),
}

impl<P: Protocol> Job<P> {
    /// One call.
    pub(crate) fn work(connection: &Arc<Connection<P>>, work: Work<P>) -> Self {
        let reply_bytes_max = match &work {
            Work::Call { call, message, .. } => connection.protocol.reply_bytes_max(call, message),
            Work::Resume { at, .. } => connection.protocol.reply_bytes_max_at(at),
        };
        Self::new(connection, Task::Work(work), reply_bytes_max)
    }

    /// All that a connection sends for a while.
    pub(crate) fn lease(connection: &Arc<Connection<P>>, lease: Lease<P>) -> Self {
        Self::new(connection, Task::Lease(Box::new(lease)), 0)
    }

    fn new(connection: &Arc<Connection<P>>, task: Task<P>, reply_bytes_max: u32) -> Self {
        let weight = 1 + reply_bytes_max / LONG_REPLY_BYTES;
        connection.begin_calls(weight);
        Self { connection: Arc::clone(connection), task, weight, reply_bytes_max }
    }

    /// Does the work and sends the replies.
    pub(crate) fn run(self) {
        let Self { connection, task, weight, reply_bytes_max } = self;
        let run = || {
            let role = if matches!(task, Task::Lease(_)) { Role::Lease } else { Role::Job };
            let mut runner = Runner::new(connection.protocol.memory(role, 0));
            let making = LongReply::begin(&connection, reply_bytes_max as usize);
            let is_refused = making.is_none();
            match task {
                Task::Work(Work::Call { call, message, charge, received }) => {
                    runner.begin(&connection, received);
                    runner.run_job(&connection, call, &message, charge, is_refused);
                }
                Task::Work(Work::Resume { at, charge, received }) => {
                    runner.begin(&connection, received);
                    runner.resume_job(&connection, at, charge, is_refused);
                }
                Task::Lease(lease) => lease.run(&connection, runner),
            }
        };
        if panics::catch(run).is_err() {
            tracing::error!(peer = %connection.ends.peer, "a call panicked; its connection is closed");
            connection.close();
        }
        connection.end_calls(weight);
    }
}

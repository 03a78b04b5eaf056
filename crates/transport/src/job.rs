//! Jobs of storage threads.

use crate::connection::{Connection, Work};
use crate::lease::Lease;
use crate::limits::{LONG_REPLY_BYTES, LONG_REPLY_DEFER_MAX, LONG_REPLY_PAUSE_MAX, LONG_REPLY_PAUSE_MIN};
use crate::long_reply::LongReply;
use crate::message::Role;
use crate::parking::{Parked, Parking};
use crate::pool::Pool;
use crate::protocol::Protocol;
use crate::runner::Runner;
use std::sync::Arc;
use std::time::Duration;
use vfs::bounds::Network;
use vfs::panics;

pub(crate) struct Job<P: Protocol> {
    connection: Arc<Connection<P>>,
    task: Task<P>,
    /// The number of calls that it counts as while in progress.
    weight: u32,
    reply_bytes_max: u32,
    deferred_for: Duration,
}

enum Task<P: Protocol> {
    Work(Work<P>),
    Lease(Box<Lease<P>>),
}

impl<P: Protocol> Job<P> {
    pub(crate) fn work(connection: &Arc<Connection<P>>, work: Work<P>) -> Self {
        let reply_bytes_max = match &work {
            Work::Call { call, message, .. } => connection.protocol.reply_bytes_max(call, message),
            Work::Resume { at, .. } => connection.protocol.reply_bytes_max_at(at),
        };
        Self::new(connection, Task::Work(work), reply_bytes_max)
    }

    pub(crate) fn lease(connection: &Arc<Connection<P>>, lease: Lease<P>) -> Self {
        Self::new(connection, Task::Lease(Box::new(lease)), 0)
    }

    fn new(connection: &Arc<Connection<P>>, task: Task<P>, reply_bytes_max: u32) -> Self {
        let weight = 1 + reply_bytes_max / LONG_REPLY_BYTES;
        connection.begin_calls(weight);
        Self {
            connection: Arc::clone(connection),
            task,
            weight,
            reply_bytes_max,
            deferred_for: Duration::ZERO,
        }
    }

    /// Does the work and sends the replies. Defers a long reply that must not be produced now.
    pub(crate) fn run(self, pool: &Arc<Pool<Self>>, parking: &Parking<DeferredJob<P>>) {
        let connection = Arc::clone(&self.connection);
        match LongReply::begin(&connection, self.reply_bytes_max as usize) {
            Some(_making) => self.perform(false),
            None => {
                if let Some(job) = self.defer(pool, parking) {
                    job.perform(true);
                }
            }
        }
    }

    /// Defers the job. Returns it if its time is up or the queue is full: its call is then refused.
    fn defer(mut self, pool: &Arc<Pool<Self>>, parking: &Parking<DeferredJob<P>>) -> Option<Self> {
        if self.deferred_for >= LONG_REPLY_DEFER_MAX || self.connection.is_broken() {
            return Some(self);
        }
        let pause = self.deferred_for.clamp(LONG_REPLY_PAUSE_MIN, LONG_REPLY_PAUSE_MAX);
        self.deferred_for += pause;
        let put_off = DeferredJob { job: self, pool: Arc::clone(pool) };
        parking.park(put_off, pause).err().map(|back| back.job)
    }

    fn perform(self, is_refused: bool) {
        let Self { connection, task, weight, .. } = self;
        let run = || {
            let role = if matches!(task, Task::Lease(_)) { Role::Lease } else { Role::Job };
            let mut runner = Runner::new(connection.protocol.memory(role, connection.resources.lease_files));
            match task {
                Task::Work(Work::Call { call, message, permit, received }) => {
                    runner.begin(&connection, received);
                    runner.run_job(&connection, call, &message, permit, is_refused);
                }
                Task::Work(Work::Resume { at, permit, received }) => {
                    runner.begin(&connection, received);
                    runner.resume_job(&connection, at, permit, is_refused);
                }
                Task::Lease(lease) => lease.run(&connection, runner),
            }
        };
        if panics::catch(run).is_err() {
            tracing::error!(peer = %connection.endpoints.peer, "a call panicked; its connection is closed");
            connection.close();
        }
        connection.end_calls(weight);
    }
}

pub(crate) struct DeferredJob<P: Protocol> {
    job: Job<P>,
    pool: Arc<Pool<Job<P>>>,
}

impl<P: Protocol> Parked for DeferredJob<P> {
    fn bytes(&self) -> usize {
        let protocol = &*self.job.connection.protocol;
        let bytes = match &self.job.task {
            Task::Work(Work::Call { call, message, .. }) => protocol.bytes(call, message),
            Task::Work(Work::Resume { at, .. }) => protocol.bytes_at(at),
            Task::Lease(_) => 0,
        };
        size_of::<Self>() + bytes
    }

    fn network(&self) -> Network {
        self.job.connection.network()
    }

    fn resume(self) {
        self.pool.submit(self.job);
    }
}

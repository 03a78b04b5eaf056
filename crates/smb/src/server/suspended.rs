//! Calls that continue later: behind replies that wait for flushes, after a deferral, or when they are woken.

use super::compound::{Compound, ReplyTarget};
use super::replies::Replies;
use super::run::append_replies;
use super::{Continuation, Smb};
use crate::state::connection::Connection;
use crate::state::pending::{Cancel, Suspension, Waker, Wakeup};
use crate::state::session::Session;
use crate::state::tree::DiskShare;
use smb_wire::NtStatus;
use std::sync::{Arc, Weak};
use transport::{CallStats, DeferredReply, Outbox, Parked};
use vfs::bounds::Network;

/// A call at a command that has to wait.
pub(super) struct SuspendedCall {
    pub(super) connection: Arc<Connection>,
    pub(super) message: Vec<u8>,
    pub(super) compound: Compound,
    /// The replies so far, without their frame.
    pub(super) replies: Vec<u8>,
    /// Statistics of the commands that are done.
    pub(super) stats: CallStats<Arc<DiskShare>>,
}

/// A call that is tried again after a while.
pub(super) struct ParkedCall {
    pub(super) reply: DeferredReply<Smb>,
    pub(super) suspended: Box<SuspendedCall>,
}

/// Replies that wait for flushes.
pub(super) struct FlushingReplies {
    pub(super) replies: Replies,
    /// A command behind the replies that is about to wait.
    pub(super) blocked: Option<BlockedCommand>,
    /// The commands behind the replies.
    pub(super) remaining: Option<RemainingCommands>,
}

impl Drop for FlushingReplies {
    fn drop(&mut self) {
        // The replies have left by now.
        self.blocked.take().into_iter().for_each(BlockedCommand::wait);
        self.remaining.take().into_iter().for_each(RemainingCommands::resume);
    }
}

/// The commands of a message behind replies that wait for flushes.
pub(super) struct RemainingCommands {
    /// Weak, because the commands end with their connection.
    pub(super) connection: Weak<transport::Connection<Smb>>,
    pub(super) message: Vec<u8>,
    pub(super) compound: Compound,
}

/// A command that is about to wait.
pub(super) struct BlockedCommand {
    pub(super) waker: Waker,
    pub(super) cancel: Cancel,
    pub(super) waiting: Box<WaitingCall>,
}

/// A call whose next command waits for a wakeup.
pub(super) struct WaitingCall {
    /// Weak, because the call ends with its connection.
    pub(super) connection: Weak<transport::Connection<Smb>>,
    pub(super) reply_target: ReplyTarget,
    pub(super) message: Vec<u8>,
    pub(super) compound: Compound,
    pub(super) replies: Vec<u8>,
}

impl SuspendedCall {
    /// Memory of the call in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.message.len() + self.replies.len()
    }
}

impl Parked for ParkedCall {
    fn bytes(&self) -> usize {
        self.suspended.bytes()
    }

    fn network(&self) -> Network {
        self.reply.network()
    }

    fn resume(self) {
        self.reply.resume(Continuation::Suspended(self.suspended));
    }
}

impl RemainingCommands {
    fn resume(self) {
        let Self { connection, message, compound } = self;
        if let Some(connection) = connection.upgrade() {
            resume_at(&connection, message, compound, Vec::new());
        }
    }
}

impl BlockedCommand {
    pub(super) fn wait(self) {
        self.waker.suspend(self.cancel, self.waiting);
    }
}

impl WaitingCall {
    fn wake(self, waker: Waker, fails_with: Option<NtStatus>) {
        let Self { connection, reply_target, message, mut compound, replies } = self;
        let other = || match fails_with.is_none() && compound.detach(&waker) {
            true => connection_of(&reply_target.session),
            false => None,
        };
        let connection = connection.upgrade().or_else(other);
        let wakeup = waker.take_outcome().map(|outcome| Wakeup::new(outcome, reply_target.rollback));
        let Some(connection) = connection else {
            // The client sends the request again over another connection, which must not conflict with this one.
            drop(wakeup);
            return waker.finish();
        };
        compound.wake(waker, wakeup, fails_with);
        resume_at(&connection, message, compound, replies);
    }
}

impl Suspension for WaitingCall {
    fn resume(self: Box<Self>, waker: Waker) {
        self.wake(waker, None);
    }

    fn end(self: Box<Self>, waker: Waker, status: NtStatus) {
        if !self.compound.is_at_last(&self.message) {
            // The commands behind it still have to run.
            return self.wake(waker, Some(status));
        }
        let Self { connection, reply_target, compound, replies, .. } = *self;
        let connection = connection.upgrade().filter(|_| !compound.is_detached());
        let Some(connection) = connection else { return waker.finish() };
        let mut outbox = Outbox::default();
        append_replies(&mut outbox, compound, |compound, buffer| {
            buffer.out.extend_from_slice(&replies);
            compound.end_pending(&connection.session, reply_target, &waker, status, buffer);
        });
        connection.send(&mut outbox);
    }
}

fn resume_at(
    connection: &Arc<transport::Connection<Smb>>,
    message: Vec<u8>,
    compound: Compound,
    replies: Vec<u8>,
) {
    let (session, stats) = (Arc::clone(&connection.session), CallStats::default());
    let suspended = SuspendedCall { connection: session, message, compound, replies, stats };
    connection.defer_reply().resume(Continuation::Suspended(Box::new(suspended)));
}

fn connection_of(session: &Weak<Session>) -> Option<Arc<transport::Connection<Smb>>> {
    let channels = session.upgrade()?.channels();
    channels.iter().find_map(|channel| channel.connection()?.transport()?.downcast().ok())
}

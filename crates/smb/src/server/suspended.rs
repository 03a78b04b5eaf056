//! What goes on later: behind replies that wait for flushes, or when it is woken.

use super::compound::{Compound, ReplyTarget};
use super::{Continuation, Smb, SuspendedCall, append_replies};
use crate::state::pending::{Cancel, Suspension, Waker, Wakeup};
use crate::state::session::Session;
use smb_wire::NtStatus;
use std::sync::{Arc, Weak};
use transport::{CallStats, Outbox};

/// Replies that wait for flushes.
pub(super) struct FlushingReplies {
    pub(super) compound: Compound,
    /// A command behind them that is about to wait.
    pub(super) blocked: Option<BlockedCommand>,
    /// What goes on behind them.
    pub(super) remaining: Option<RemainingCommands>,
}

impl Drop for FlushingReplies {
    fn drop(&mut self) {
        // The replies have left by now.
        self.blocked.take().into_iter().for_each(BlockedCommand::wait);
        self.remaining.take().into_iter().for_each(RemainingCommands::resume_at_connection);
    }
}

/// The commands of a message that follow those which wait for flushes.
pub(super) struct RemainingCommands {
    /// Not kept alive: what follows goes with its connection.
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

/// A call whose next command waits to be woken.
pub(super) struct WaitingCall {
    /// Not kept alive: what waits goes with its connection.
    pub(super) connection: Weak<transport::Connection<Smb>>,
    pub(super) asker: ReplyTarget,
    pub(super) message: Vec<u8>,
    pub(super) compound: Compound,
    pub(super) replies: Vec<u8>,
}

impl RemainingCommands {
    fn resume_at_connection(self) {
        let Self { connection, message, compound } = self;
        let Some(connection) = connection.upgrade() else { return };
        let ours = Arc::clone(&connection.session);
        let suspended = SuspendedCall {
            connection: ours,
            message,
            compound,
            replies: Vec::new(),
            stats: CallStats::default(),
        };
        connection.late().resume(Continuation::Suspended(Box::new(suspended)));
    }
}

impl BlockedCommand {
    pub(super) fn wait(self) {
        self.waker.suspend(self.cancel, self.waiting);
    }
}

impl WaitingCall {
    fn resume_at_connection(self, waker: Waker, ends_with: Option<NtStatus>) {
        let Self { connection, asker, message, mut compound, replies } = self;
        let other = || match ends_with.is_none() && compound.detach(&waker) {
            true => connection_of(&asker.session),
            false => None,
        };
        let connection = connection.upgrade().or_else(other);
        let woken = waker.take_outcome().map(|outcome| Wakeup::new(outcome, asker.undo));
        let Some(connection) = connection else {
            // Its client asks again by another connection, and must not find itself in the way.
            drop(woken);
            return waker.finish();
        };
        compound.woken(waker, woken, ends_with);
        let (ours, stats) = (Arc::clone(&connection.session), CallStats::default());
        let suspended = SuspendedCall { connection: ours, message, compound, replies, stats };
        connection.late().resume(Continuation::Suspended(Box::new(suspended)));
    }
}

impl Suspension for WaitingCall {
    fn resume(self: Box<Self>, waker: Waker) {
        self.resume_at_connection(waker, None);
    }

    fn end(self: Box<Self>, waker: Waker, status: NtStatus) {
        if !self.compound.is_at_last(&self.message) {
            // What follows it in its message is still to be done.
            return self.resume_at_connection(waker, Some(status));
        }
        let Self { connection, asker, mut compound, replies, .. } = *self;
        let connection = connection.upgrade().filter(|_| !compound.is_detached());
        let Some(connection) = connection else { return waker.finish() };
        let mut outbox = Outbox::default();
        append_replies(&mut outbox, &mut compound, |compound, out, base| {
            out.extend_from_slice(&replies);
            compound.end_pending(&connection.session, asker, &waker, status, (out, base));
        });
        connection.send(&mut outbox);
    }
}

/// A connection that a session still has.
fn connection_of(session: &Weak<Session>) -> Option<Arc<transport::Connection<Smb>>> {
    let channels = session.upgrade()?.channels();
    channels.iter().find_map(|channel| channel.connection()?.transport()?.downcast().ok())
}

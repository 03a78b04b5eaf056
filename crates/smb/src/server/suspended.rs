//! What goes on later: behind replies that wait for flushes, or when it is woken.

use super::compound::{Asker, Chain};
use super::{Continuation, Smb, Suspended, write};
use crate::state::pending::{Cancel, Suspension, Waker, Woken};
use crate::state::session::Session;
use smb_wire::NtStatus;
use std::sync::{Arc, Weak};
use transport::{CallStats, Outbox};

/// Replies that wait for flushes.
pub(super) struct Replied {
    pub(super) chain: Chain,
    /// A command behind them that is about to wait.
    pub(super) held: Option<Held>,
    /// What goes on behind them.
    pub(super) rest: Option<Rest>,
}

impl Drop for Replied {
    fn drop(&mut self) {
        // The replies have left by now.
        self.held.take().into_iter().for_each(Held::wait);
        self.rest.take().into_iter().for_each(Rest::go_on);
    }
}

/// The commands of a message that follow those which wait for flushes.
pub(super) struct Rest {
    /// Not kept alive: what follows goes with its connection.
    pub(super) connection: Weak<transport::Connection<Smb>>,
    pub(super) message: Vec<u8>,
    pub(super) chain: Chain,
}

/// A command that is about to wait.
pub(super) struct Held {
    pub(super) waker: Waker,
    pub(super) cancel: Cancel,
    pub(super) waiting: Box<WaitingCall>,
}

/// A call whose next command waits to be woken.
pub(super) struct WaitingCall {
    /// Not kept alive: what waits goes with its connection.
    pub(super) connection: Weak<transport::Connection<Smb>>,
    pub(super) asker: Asker,
    pub(super) message: Vec<u8>,
    pub(super) chain: Chain,
    pub(super) replies: Vec<u8>,
}

impl Rest {
    fn go_on(self) {
        let Self { connection, message, chain } = self;
        let Some(connection) = connection.upgrade() else { return };
        let ours = Arc::clone(&connection.session);
        let suspended =
            Suspended { connection: ours, message, chain, replies: Vec::new(), stats: CallStats::default() };
        connection.defer_reply().resume(Continuation::Suspended(Box::new(suspended)));
    }
}

impl Held {
    pub(super) fn wait(self) {
        self.waker.suspend(self.cancel, self.waiting);
    }
}

impl WaitingCall {
    fn go_on(self, waker: Waker, ends_with: Option<NtStatus>) {
        let Self { connection, asker, message, mut chain, replies } = self;
        let other = || match ends_with.is_none() && chain.outlives(&waker) {
            true => connection_of(&asker.session),
            false => None,
        };
        let connection = connection.upgrade().or_else(other);
        let woken = waker.take_woken().map(|outcome| Woken::new(outcome, asker.undo));
        let Some(connection) = connection else {
            // Its client asks again by another connection, and must not find itself in the way.
            drop(woken);
            return waker.finish();
        };
        chain.woken(waker, woken, ends_with);
        let (ours, stats) = (Arc::clone(&connection.session), CallStats::default());
        let suspended = Suspended { connection: ours, message, chain, replies, stats };
        connection.defer_reply().resume(Continuation::Suspended(Box::new(suspended)));
    }
}

impl Suspension for WaitingCall {
    fn resume(self: Box<Self>, waker: Waker) {
        self.go_on(waker, None);
    }

    fn end(self: Box<Self>, waker: Waker, status: NtStatus) {
        if !self.chain.is_at_last(&self.message) {
            // What follows it in its message is still to be done.
            return self.go_on(waker, Some(status));
        }
        let Self { connection, asker, mut chain, replies, .. } = *self;
        let connection = connection.upgrade().filter(|_| !chain.is_lost());
        let Some(connection) = connection else { return waker.finish() };
        let mut outbox = Outbox::default();
        write(&mut outbox, &mut chain, |chain, out, base| {
            out.extend_from_slice(&replies);
            chain.end(&connection.session, asker, &waker, status, (out, base));
        });
        connection.send(&mut outbox);
    }
}

/// A connection that a session still has.
fn connection_of(session: &Weak<Session>) -> Option<Arc<transport::Connection<Smb>>> {
    let channels = session.upgrade()?.channels();
    channels.iter().find_map(|channel| channel.connection()?.carrier()?.downcast().ok())
}

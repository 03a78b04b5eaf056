//! Calls that have to wait until the limits of their volumes let them pass.
//!
//! A call that must wait is queued with its connection as the bytes it came as and what was planned for it; it holds neither
//! a thread nor a lock. A connection of which much is queued is not read any more, so the back-pressure reaches its client.
//! What passes pays for what it asks, and is refunded what it did not get or give.

use crate::buffer::Buffer;
use crate::connection::{Connection, Work};
use crate::inbound::Message;
use crate::message::Dispatch;
use crate::outbox::Outbox;
use crate::protocol::{Plan, Protocol};
use crate::queue::Queued;
use std::sync::{Arc, Weak};
use std::time::Instant;
use vfs::qos::{Admission, Permit, QueueResult, Waiter};
use vfs::{FsError, Wait};

/// A call that waits, with its connection.
type Waiting<P> = Queued<<P as Protocol>::Call, <P as Protocol>::Continuation>;

/// What a storage thread does for a call that has paid.
fn into_work<P: Protocol>(queued: Waiting<P>, charge: Permit) -> Work<P> {
    let charge = Some(charge);
    match queued {
        Queued::Call { call, message, since, .. } => Work::Call { call, message, charge, received: since },
        Queued::Continuation { at, since } => Work::Resume { at, charge, received: since },
    }
}

/// A queued call that waits for its turn. The call lies with its connection, and goes with it.
struct QueuedCall<P: Protocol> {
    toll: Admission,
    connection: Weak<Connection<P>>,
    number: u64,
}

/// A call that may be done now.
pub(crate) struct Admitted<P: Protocol> {
    pub(crate) call: P::Call,
    pub(crate) message: Message,
    pub(crate) dispatch: Dispatch,
    pub(crate) charge: Option<Permit>,
}

/// Has a planned call pay, whose message lies in `buffer` or in memory of its own. `None`: it is queued, or its refusal is in
/// `out`.
#[inline]
pub(crate) fn admit<P: Protocol>(
    connection: &Arc<Connection<P>>,
    plan: Plan<P::Call>,
    message: Message,
    buffer: Option<&Buffer>,
    out: &mut Outbox,
) -> Option<Admitted<P>> {
    let Plan { call, dispatch, toll } = plan;
    match toll.map(Admission::try_acquire) {
        None => Some(Admitted { call, message, dispatch, charge: None }),
        Some(Ok(charge)) => Some(Admitted { call, message, dispatch, charge: Some(charge) }),
        Some(Err(toll)) => {
            let message = message.into_bytes(buffer);
            let bytes = message.len();
            let queued = Queued::Call { call, message, dispatch, since: Instant::now() };
            match queue(connection, (queued, bytes), &toll) {
                Ok(Some((Queued::Call { call, message, dispatch, .. }, charge))) => {
                    let message = Message::Assembled(message);
                    Some(Admitted { call, message, dispatch, charge: Some(charge) })
                }
                Err(Queued::Call { call, message, .. }) => {
                    connection.protocol.refuse(&call, &message, FsError::Wait(Wait::Recall), out);
                    None
                }
                Ok(_) | Err(Queued::Continuation { .. }) => None,
            }
        }
    }
}

/// Has a call that goes on `at` something pay for that first, while it takes so many bytes. It comes back if too much is queued.
pub(crate) fn admit_later<P: Protocol>(
    connection: &Arc<Connection<P>>,
    (at, bytes): (P::Continuation, usize),
    toll: &Admission,
) -> Result<(), P::Continuation> {
    let queued = Queued::Continuation { at, since: Instant::now() };
    match queue(connection, (queued, bytes), toll) {
        Ok(Some((queued, charge))) => connection.submit(into_work(queued, charge)),
        Ok(None) | Err(Queued::Call { .. }) => {}
        Err(Queued::Continuation { at, .. }) => return Err(at),
    }
    Ok(())
}

/// A call that has paid.
type Passed<P> = (Waiting<P>, Permit);

/// Queues a call. It comes back if its turn comes in the same moment, and with an error if too much is queued.
fn queue<P: Protocol>(
    connection: &Arc<Connection<P>>,
    (queued, bytes): (Waiting<P>, usize),
    toll: &Admission,
) -> Result<Option<Passed<P>>, Waiting<P>> {
    let number = connection.queue.add(queued, bytes)?;
    let waiting = QueuedCall { toll: toll.clone(), connection: Arc::downgrade(connection), number };
    let wait = toll.wait(Box::new(waiting));
    if wait == QueueResult::Queued {
        return Ok(None);
    }
    match connection.queue.take(number) {
        Some(queued) if wait == QueueResult::Full => Err(queued),
        queued => Ok(queued.map(|queued| (queued, toll.clone().into_permit()))),
    }
}

impl<P: Protocol> Waiter for QueuedCall<P> {
    fn pass(self: Box<Self>) {
        let charge = self.toll.into_permit();
        let Some(connection) = self.connection.upgrade() else { return };
        let Some(is_inline) = connection.queue.look(self.number, Queued::is_inline) else { return };
        if is_inline {
            return connection.admit(self.number, charge);
        }
        // The connection has something to answer all the while.
        connection.begin_calls(1);
        if let Some(queued) = connection.queue.take(self.number) {
            connection.submit(into_work(queued, charge));
        }
        connection.end_calls(1);
        connection.resume_if_paused();
    }

    fn is_gone(&self) -> bool {
        self.connection.strong_count() == 0
    }
}

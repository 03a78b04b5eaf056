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
use vfs::FsError;
use vfs::qos::{Charge, Toll, Wait, Waiter};

/// A queued call that waits for its turn. The call lies with its connection, and goes with it.
struct QueuedCall<P: Protocol> {
    toll: Toll,
    connection: Weak<Connection<P>>,
    number: u64,
}

/// A call that may be done now.
pub(crate) struct Admitted<P: Protocol> {
    pub(crate) call: P::Call,
    pub(crate) message: Message,
    pub(crate) dispatch: Dispatch,
    pub(crate) charge: Option<Charge>,
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
    match toll.map(Toll::pay) {
        None => Some(Admitted { call, message, dispatch, charge: None }),
        Some(Ok(charge)) => Some(Admitted { call, message, dispatch, charge: Some(charge) }),
        Some(Err(toll)) => {
            let message = message.into_bytes(buffer);
            let queued = Queued { call, message, dispatch, since: Instant::now() };
            queue(connection, queued, &toll, out)
        }
    }
}

/// Queues a call. It may go on at once after all if its turn comes in the same moment.
fn queue<P: Protocol>(
    connection: &Arc<Connection<P>>,
    queued: Queued<P::Call>,
    toll: &Toll,
    out: &mut Outbox,
) -> Option<Admitted<P>> {
    let mut refuse = |queued: Queued<P::Call>| {
        connection.protocol.refuse(&queued.call, FsError::Delay, out);
        None
    };
    let number = match connection.queue.add(queued) {
        Ok(number) => number,
        Err(queued) => return refuse(queued),
    };
    let waiting = QueuedCall { toll: toll.clone(), connection: Arc::downgrade(connection), number };
    let wait = toll.wait(Box::new(waiting));
    if wait == Wait::Queued {
        return None;
    }
    let queued = connection.queue.take(number)?;
    if wait == Wait::Full {
        return refuse(queued);
    }
    let Queued { call, message, dispatch, since: _ } = queued;
    let message = Message::Assembled(message);
    Some(Admitted { call, message, dispatch, charge: Some(toll.clone().paid()) })
}

impl<P: Protocol> Waiter for QueuedCall<P> {
    fn pass(self: Box<Self>) {
        let charge = self.toll.paid();
        let Some(connection) = self.connection.upgrade() else { return };
        let Some(dispatch) = connection.queue.dispatch_of(self.number) else { return };
        if dispatch == Dispatch::Inline {
            return connection.admit(self.number, charge);
        }
        // The connection has something to answer all the while.
        connection.begin_calls(1);
        if let Some(queued) = connection.queue.take(self.number) {
            let Queued { call, message, since, dispatch: _ } = queued;
            connection.submit(Work::Call { call, message, charge: Some(charge), received: since });
        }
        connection.end_calls(1);
        connection.resume_if_paused();
    }

    fn is_gone(&self) -> bool {
        self.connection.strong_count() == 0
    }
}

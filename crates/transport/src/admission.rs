//! Calls that wait for the limits of their volumes.
//!
//! A queued call is stored with its connection, as its message and its plan. It occupies no thread and no lock. The
//! server stops reading a connection with a long queue, so TCP carries the back-pressure to the client. A call pays in
//! advance for the bytes that it requests, and is refunded the difference.

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

type Waiting<P> = Queued<<P as Protocol>::Call, <P as Protocol>::Continuation>;

fn into_work<P: Protocol>(queued: Waiting<P>, permit: Permit) -> Work<P> {
    let permit = Some(permit);
    match queued {
        Queued::Call { call, message, since, .. } => Work::Call { call, message, permit, received: since },
        Queued::Continuation { at, since } => Work::Resume { at, permit, received: since },
    }
}

/// The waiter of a queued call. The call itself is stored with its connection, and is dropped with it.
struct QueuedCall<P: Protocol> {
    admission: Admission,
    connection: Weak<Connection<P>>,
    number: u64,
}

pub(crate) struct Admitted<P: Protocol> {
    pub(crate) call: P::Call,
    pub(crate) message: Message,
    pub(crate) dispatch: Dispatch,
    pub(crate) permit: Option<Permit>,
}

/// Admits a planned call. `None`: the call is queued, or its refusal is in `out`.
#[inline]
pub(crate) fn admit<P: Protocol>(
    connection: &Arc<Connection<P>>,
    plan: Plan<P::Call>,
    message: Message,
    buffer: Option<&Buffer>,
    out: &mut Outbox,
) -> Option<Admitted<P>> {
    let Plan { call, dispatch, admission } = plan;
    match admission.map(Admission::try_acquire) {
        None => Some(Admitted { call, message, dispatch, permit: None }),
        Some(Ok(permit)) => Some(Admitted { call, message, dispatch, permit: Some(permit) }),
        Some(Err(admission)) => {
            let message = message.into_bytes(buffer);
            let bytes = message.len();
            let queued = Queued::Call { call, message, dispatch, since: Instant::now() };
            match queue(connection, queued, bytes, &admission) {
                Ok(Some((Queued::Call { call, message, dispatch, .. }, permit))) => {
                    let message = Message::Assembled(message);
                    Some(Admitted { call, message, dispatch, permit: Some(permit) })
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

/// Queues a call whose next step needs tokens. Returns the call if the queue is full.
pub(crate) fn admit_later<P: Protocol>(
    connection: &Arc<Connection<P>>,
    at: P::Continuation,
    admission: &Admission,
) -> Result<(), P::Continuation> {
    let bytes = connection.protocol.bytes_at(&at);
    let queued = Queued::Continuation { at, since: Instant::now() };
    match queue(connection, queued, bytes, admission) {
        Ok(Some((queued, permit))) => connection.submit(into_work(queued, permit)),
        Ok(None) | Err(Queued::Call { .. }) => {}
        Err(Queued::Continuation { at, .. }) => return Err(at),
    }
    Ok(())
}

type AdmittedCall<P> = (Waiting<P>, Permit);

/// Queues a call. Returns the call and its permit if the limit admits it meanwhile; an error if the queue is full.
fn queue<P: Protocol>(
    connection: &Arc<Connection<P>>,
    queued: Waiting<P>,
    bytes: usize,
    admission: &Admission,
) -> Result<Option<AdmittedCall<P>>, Waiting<P>> {
    let number = connection.queue.add(queued, bytes)?;
    let waiting = QueuedCall { admission: admission.clone(), connection: Arc::downgrade(connection), number };
    let wait = admission.wait(Box::new(waiting));
    if wait == QueueResult::Queued {
        return Ok(None);
    }
    match connection.queue.take(number) {
        Some(queued) if wait == QueueResult::Full => Err(queued),
        queued => Ok(queued.map(|queued| (queued, admission.clone().into_permit()))),
    }
}

impl<P: Protocol> Waiter for QueuedCall<P> {
    fn pass(self: Box<Self>) {
        let permit = self.admission.into_permit();
        let Some(connection) = self.connection.upgrade() else { return };
        let Some(is_inline) = connection.queue.inspect(self.number, Queued::is_inline) else { return };
        if is_inline {
            return connection.admit(self.number, permit);
        }
        // Between leaving the queue and becoming a job the call must count, or a connection that is ending would close.
        connection.begin_calls(1);
        if let Some(queued) = connection.queue.take(self.number) {
            connection.submit(into_work(queued, permit));
        }
        connection.end_calls(1);
        connection.resume_if_paused();
    }

    fn is_gone(&self) -> bool {
        self.connection.strong_count() == 0
    }
}

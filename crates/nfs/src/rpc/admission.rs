//! Whether a call may go on, or has to wait until its volume's limits let it pass.
//!
//! Every call is asked about here once, before anything is done for it. What has to wait, waits as the bytes it came as, and
//! holds neither a thread nor a lock. The data of a WRITE that is longer than a receive buffer cannot be kept, and leaving
//! it with the client would hold up every other call on its connection: it is written, and its reply waits. A connection
//! that much waits of is not read any more, so the back-pressure reaches its client.

use super::connection::Connection;
use super::dispatch::{Routed, Speed, Target, route};
use super::event_loop::{Message, Shared};
use super::job::Job;
use super::record::{Front, front};
use super::reply::Replies;
use super::wire::RecordMark;
use crate::handle::Seal;
use crate::service::Service;
use crate::v3;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;
use vfs::qos::{Demand, Wait, Waiter, is_anything_limited};
use vfs::{FsError, Namespace, Volume};

/// A call to a limited volume.
#[derive(Clone)]
struct Admission {
    volume: Arc<Volume>,
    client: IpAddr,
    demand: Demand,
}

/// A call that waits for its turn. Its record lies with the connection, and goes with it.
struct WaitingCall {
    admission: Admission,
    connection: Weak<Connection>,
    shared: Weak<Shared>,
    number: u64,
}

/// The reply to a long WRITE, held back until the call's turn comes.
pub struct HeldReply {
    admission: Admission,
    connection: Weak<Connection>,
    began: Instant,
    state: Mutex<HeldState>,
}

#[derive(Default)]
struct HeldState {
    has_passed: bool,
    /// With whether the WRITE succeeded.
    reply: Option<(Replies, bool)>,
}

/// The waiter of a [`HeldReply`].
struct Release(Arc<HeldReply>);

/// Whether a call may go on now. If not, it waits, or its refusal is in `out`: it has been dealt with.
#[inline]
pub fn admit(
    routed: &Routed<'_>,
    record: &[u8],
    connection: &Arc<Connection>,
    shared: &Arc<Shared>,
    namespace: &Namespace,
    out: &mut Replies,
) -> bool {
    if !is_anything_limited() {
        return true;
    }
    match Admission::needed(routed, &shared.service, namespace, connection.peer.ip()) {
        None => true,
        Some(admission) => admission.is_granted() || admission.park(routed, record, connection, shared, out),
    }
}

/// What holds back the reply to the long WRITE at the front of `received`, if its turn has not come. An error: too many
/// wait.
pub fn hold(
    received: &[u8],
    connection: &Arc<Connection>,
    service: &Service,
    namespace: &Namespace,
) -> Result<Option<Arc<HeldReply>>, FsError> {
    match Admission::of_long(received, connection, service, namespace) {
        Some(admission) if !admission.is_granted() => admission.hold(connection),
        _ => Ok(None),
    }
}

impl Admission {
    /// What a call needs in order to go on; `None` if that is nothing, or if it will be refused anyway.
    #[inline]
    fn needed(routed: &Routed<'_>, service: &Service, namespace: &Namespace, client: IpAddr) -> Option<Self> {
        let Target::Nfs(procedure) = routed.target else { return None };
        let (handle, demand) = v3::demand(procedure, routed.args())?;
        let export = namespace.volume(Seal::claimed_volume(handle)?)?;
        if !export.volume.gate().is_limited() {
            return None;
        }
        // Nobody spends what a volume has without a handle that we made, nor from where it is not exported to.
        service.seal.open(handle).ok()?;
        export.rule(client)?;
        Some(Self { volume: Arc::clone(&export.volume), client: client.to_canonical(), demand })
    }

    /// What the long call at the front of `received` needs.
    fn of_long(
        received: &[u8],
        connection: &Connection,
        service: &Service,
        namespace: &Namespace,
    ) -> Option<Self> {
        let Ok(Front::Incomplete(_)) = front(received, false) else { return None };
        // Whatever else is wrong with it, whoever begins the stream finds out.
        let head = received.get(RecordMark::SIZE..)?;
        let routed = route(connection.programs, head, &mut Replies::default()).ok()??;
        Self::needed(&routed, service, namespace, connection.peer.ip())
    }

    fn is_granted(&self) -> bool {
        self.volume.gate().admit(self.client, self.demand)
    }

    fn wait(&self, waiter: Box<dyn Waiter>) -> Wait {
        self.volume.gate().wait(self.client, self.demand, waiter)
    }

    /// Gives back what a call was let pass with and did not take.
    fn give_back(&self) {
        self.volume.gate().give_back(self.client, self.demand.kind, self.demand.bytes);
    }

    /// Has a call wait. True: it may go on at once, after all.
    fn park(
        self,
        routed: &Routed<'_>,
        record: &[u8],
        connection: &Arc<Connection>,
        shared: &Arc<Shared>,
        out: &mut Replies,
    ) -> bool {
        let number = connection.waiting.park(record);
        let (weak, shared) = (Arc::downgrade(connection), Arc::downgrade(shared));
        let waiting = WaitingCall { admission: self.clone(), connection: weak, shared, number };
        let wait = self.wait(Box::new(waiting));
        if wait != Wait::Queued {
            connection.waiting.unpark(number);
        }
        if wait == Wait::Full {
            routed.fail(FsError::Delay, out);
        }
        wait == Wait::Passed
    }

    /// Has a reply wait.
    fn hold(self, connection: &Arc<Connection>) -> Result<Option<Arc<HeldReply>>, FsError> {
        let bytes = self.demand.bytes as usize;
        let held = Arc::new(HeldReply {
            admission: self.clone(),
            connection: Arc::downgrade(connection),
            began: Instant::now(),
            state: Mutex::default(),
        });
        connection.waiting.hold(bytes);
        match self.wait(Box::new(Release(Arc::clone(&held)))) {
            Wait::Queued => return Ok(Some(held)),
            Wait::Passed => {}
            Wait::Full => return Err(FsError::Delay),
        }
        connection.waiting.release(bytes);
        Ok(None)
    }
}

impl HeldReply {
    /// The reply is there, to a WRITE that succeeded or failed. It is sent now if the turn has come, later if not.
    pub fn settle(&self, mut reply: Replies, succeeded: bool) {
        let mut state = self.lock();
        if state.has_passed {
            drop(state);
            self.send(&mut reply, succeeded);
        } else {
            state.reply = Some((reply, succeeded));
        }
    }

    fn send(&self, reply: &mut Replies, succeeded: bool) {
        if !succeeded {
            self.admission.give_back();
        }
        let Some(connection) = self.connection.upgrade() else { return };
        let Admission { volume, demand, .. } = &self.admission;
        connection.send(reply);
        let bytes = if succeeded { demand.bytes } else { 0 };
        volume.traffic().count(demand.kind, 1, u64::from(bytes), self.began.elapsed());
        connection.note_volume(volume.id());
    }

    fn lock(&self) -> MutexGuard<'_, HeldState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter for Release {
    fn pass(self: Box<Self>) {
        let held = &self.0;
        let reply = {
            let mut state = held.lock();
            state.has_passed = true;
            state.reply.take()
        };
        let Some(connection) = held.connection.upgrade() else { return held.admission.give_back() };
        if let Some((mut reply, succeeded)) = reply {
            held.send(&mut reply, succeeded);
        }
        connection.waiting.release(held.admission.demand.bytes as usize);
        connection.resume_if_paused();
    }
}

impl Waiter for WaitingCall {
    fn pass(self: Box<Self>) {
        let (Some(connection), Some(shared)) = (self.connection.upgrade(), self.shared.upgrade()) else {
            return self.admission.give_back();
        };
        let Some(fate) = connection.waiting.look(self.number, |record| fate(&connection, record)) else {
            return self.admission.give_back();
        };
        let Some(reply_bytes_max) = fate else {
            return connection.tell_loop(Message::Admitted(connection.token, self.number));
        };
        // The connection has something to answer all the while.
        connection.defer(1);
        if let Some(parked) = connection.waiting.unpark(self.number) {
            shared.pool.submit(Job::parked(&connection, parked, reply_bytes_max));
        }
        connection.answered(1);
        connection.resume_if_paused();
    }
}

/// Where a call goes that may go on: `None` to its event loop, else to a storage thread, with the size of its reply.
fn fate(connection: &Connection, record: &[u8]) -> Option<u32> {
    let routed = route(connection.programs, record, &mut Replies::default()).ok()??;
    (routed.speed() != Speed::Inline).then(|| routed.reply_bytes_max())
}

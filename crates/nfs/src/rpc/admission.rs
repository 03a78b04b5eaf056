//! Whether a call may go on, or has to wait until its volume's limits let it pass.
//!
//! Every call is asked about here once, when its record is complete and before anything is done for it. What has to wait,
//! waits as the bytes it came as, and holds neither a thread nor a lock; of a WRITE that is longer than a receive buffer
//! even the data is still with the client. A connection that much waits of is not read any more, so the back-pressure
//! reaches its client.

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
use std::sync::{Arc, Weak};
use vfs::qos::{Demand, Gate, Wait, Waiter};
use vfs::{FsError, Namespace};

/// A call to a limited volume.
#[derive(Clone)]
struct Admission {
    gate: Arc<Gate>,
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

/// A connection that waits until its next call, a long one, may pass.
struct WaitingConnection {
    admission: Admission,
    connection: Weak<Connection>,
}

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
    match Admission::needed(routed, &shared.service, namespace, connection.peer.ip()) {
        None => true,
        Some(admission) => admission.is_granted() || admission.park(routed, record, connection, shared, out),
    }
}

/// Whether the long WRITE whose head is in `received` may go on now.
pub fn may_stream(
    received: &[u8],
    connection: &Connection,
    service: &Service,
    namespace: &Namespace,
) -> bool {
    connection.take_pass()
        || Admission::of_long(received, connection, service, namespace)
            .is_none_or(|admission| admission.is_granted())
}

/// As [`may_stream`]; if not, the connection waits until it may. An error: too many do.
pub fn wait_to_stream(
    received: &[u8],
    connection: &Arc<Connection>,
    service: &Service,
    namespace: &Namespace,
) -> Result<bool, FsError> {
    if connection.take_pass() {
        return Ok(true);
    }
    match Admission::of_long(received, connection, service, namespace) {
        Some(admission) if !admission.is_granted() => admission.wait_at_door(connection),
        _ => Ok(true),
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
        Some(Self { gate: Arc::clone(export.volume.gate()), client: client.to_canonical(), demand })
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
        self.gate.admit(self.client, self.demand)
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
        let number = connection.park(record, routed.reply_bytes_max());
        let Self { gate, client, demand } = self.clone();
        let (weak, shared) = (Arc::downgrade(connection), Arc::downgrade(shared));
        let waiting = WaitingCall { admission: self, connection: weak, shared, number };
        let wait = gate.wait(client, demand, Box::new(waiting));
        if wait != Wait::Queued
            && let Some(parked) = connection.unpark(number)
        {
            connection.answered(parked.weight);
        }
        if wait == Wait::Full {
            routed.fail(FsError::Delay, out);
        }
        wait == Wait::Passed
    }

    /// Has a connection wait. True: it may go on at once, after all.
    fn wait_at_door(self, connection: &Arc<Connection>) -> Result<bool, FsError> {
        let Self { gate, client, demand } = self.clone();
        connection.close_door();
        let waiting = WaitingConnection { admission: self, connection: Arc::downgrade(connection) };
        match gate.wait(client, demand, Box::new(waiting)) {
            Wait::Queued => {}
            Wait::Passed => connection.pass_door(),
            Wait::Full => return Err(FsError::Delay),
        }
        connection.set_paused(true);
        // The turn may have come before the pause.
        let passes = connection.take_pass();
        if passes {
            connection.set_paused(false);
        }
        Ok(passes)
    }

    /// Gives back what a call was let pass with that nobody waits for any more.
    fn give_back(&self) {
        self.gate.give_back(self.client, self.demand.kind, self.demand.bytes);
    }
}

impl Waiter for WaitingCall {
    fn pass(self: Box<Self>) {
        let (Some(connection), Some(shared)) = (self.connection.upgrade(), self.shared.upgrade()) else {
            return self.admission.give_back();
        };
        let Some(parked) = connection.unpark(self.number) else { return self.admission.give_back() };
        let routed = route(connection.programs, &parked.record, &mut Replies::default()).ok().flatten();
        match routed.map(|routed| routed.speed()) {
            Some(Speed::Inline) => {
                connection.tell_loop(Message::Admitted(Arc::clone(&connection), parked));
            }
            _ => shared.pool.submit(Job::parked(&connection, parked)),
        }
    }
}

impl Waiter for WaitingConnection {
    fn pass(self: Box<Self>) {
        match self.connection.upgrade() {
            Some(connection) => connection.pass_door(),
            None => self.admission.give_back(),
        }
    }
}

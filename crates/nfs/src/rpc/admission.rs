//! Whether a call may go on, or has to wait until its volume's limits let it pass.
//!
//! Every call is asked about here once, before anything is done for it. What has to wait, waits as the bytes it came as, and
//! holds neither a thread nor a lock. A WRITE that is longer than a receive buffer is put together in memory first. A
//! connection that much waits of is not read any more, so the back-pressure reaches its client. What passes pays for what
//! it asks; what it did not get or give it is paid back.

use super::connection::Connection;
use super::dispatch::{Dispatch, Routed, Target, route};
use super::event_loop::{Message, Shared};
use super::job::Job;
use super::record::{Frame, parse_frame};
use super::reply::Replies;
use crate::handle::HandleSigner;
use crate::service::Service;
use crate::v3;
use nfs_wire::rpc::RecordMark;
use nfs_wire::v3::Procedure;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use vfs::qos::{Demand, Gate, Kind, Wait, Waiter, is_anything_limited};
use vfs::{FsError, Namespace};

/// A call that is limited.
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

/// What a long WRITE has paid for. What of it is not written by the end is paid back.
pub struct Charge {
    admission: Admission,
    used: AtomicU32,
}

/// How a call goes on that is longer than a receive buffer.
pub enum LongCall {
    /// Its data is written as it comes. If it is limited, with what it has paid.
    Stream(Option<Charge>),
    /// It has to wait, and is put together in memory for that.
    Gather,
    /// Too much is queued already: it is answered with this, and its data is dropped.
    Refuse(FsError),
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
        Some(admission) => {
            admission.is_granted() || admission.enqueue(routed, record, connection, shared, out)
        }
    }
}

/// How the long call at the front of `received` goes on.
pub fn admit_long(
    received: &[u8],
    connection: &Connection,
    service: &Service,
    namespace: &Namespace,
) -> LongCall {
    let Some(admission) = Admission::of_long(received, connection, service, namespace) else {
        return LongCall::Stream(None);
    };
    let length = admission.demand.bytes as usize;
    if admission.is_granted() {
        LongCall::Stream(Some(Charge { admission, used: AtomicU32::new(0) }))
    } else if connection.limit_queue.reserve(length) {
        LongCall::Gather
    } else {
        LongCall::Refuse(FsError::Delay)
    }
}

/// Pays back what a call that has passed did not use: `used` bytes were delivered.
#[inline]
pub fn refund(routed: &Routed<'_>, client: IpAddr, service: &Service, namespace: &Namespace, used: u32) {
    let Target::Nfs(procedure) = routed.target else { return };
    if !is_anything_limited() || v3::demand(procedure, routed.args()).is_none_or(|(_, of)| of.bytes <= used) {
        return;
    }
    if let Some(admission) = Admission::needed(routed, service, namespace, client) {
        admission.refund(used);
    }
}

impl Admission {
    /// What a call needs in order to go on; `None` if that is nothing, or if it will be refused anyway.
    #[inline]
    fn needed(routed: &Routed<'_>, service: &Service, namespace: &Namespace, client: IpAddr) -> Option<Self> {
        let rated = |gate: &Arc<Gate>| {
            let demand = Demand { kind: Kind::Other, bytes: 0 };
            Some(Self { gate: Arc::clone(gate), client: client.to_canonical(), demand })
        };
        let procedure = match routed.target {
            Target::Nfs(Procedure::COMMIT) => return rated(&service.rates.commits),
            Target::Mount(_, nfs_wire::mount::Procedure::MNT) => return rated(&service.rates.mounts),
            Target::Nfs(procedure) if is_anything_limited() => procedure,
            _ => return None,
        };
        let (handle, demand) = v3::demand(procedure, routed.args())?;
        let export = namespace.volume(HandleSigner::claimed_volume(handle)?)?;
        if !export.volume.gate().is_limited() {
            return None;
        }
        // Nobody spends what a volume has without a handle that we made, nor from where it is not exported to.
        service.signer.verify(handle).ok()?;
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
        let Ok(Frame::Incomplete(_)) = parse_frame(received, false) else { return None };
        // Whatever else is wrong with it, whoever begins the stream finds out.
        let head = received.get(RecordMark::SIZE..)?;
        let routed = route(connection.programs, head, &mut Replies::default()).ok()??;
        Self::needed(&routed, service, namespace, connection.peer.ip())
    }

    fn is_granted(&self) -> bool {
        self.gate.admit(self.client, self.demand)
    }

    /// Pays back what was not used.
    fn refund(&self, used: u32) {
        self.gate.refund(self.client, self.demand, used);
    }

    /// Has a call wait. True: it may go on at once, after all.
    fn enqueue(
        self,
        routed: &Routed<'_>,
        record: &[u8],
        connection: &Arc<Connection>,
        shared: &Arc<Shared>,
        out: &mut Replies,
    ) -> bool {
        let Some(number) = connection.limit_queue.enqueue(record) else {
            routed.fail(FsError::Delay, out);
            return false;
        };
        let (gate, client, demand) = (Arc::clone(&self.gate), self.client, self.demand);
        let (weak, shared) = (Arc::downgrade(connection), Arc::downgrade(shared));
        let queued = WaitingCall { admission: self, connection: weak, shared, number };
        let wait = gate.wait(client, demand, Box::new(queued));
        if wait != Wait::Queued {
            connection.limit_queue.dequeue(number);
        }
        if wait == Wait::Full {
            routed.fail(FsError::Delay, out);
        }
        wait == Wait::Passed
    }
}

impl Charge {
    /// Counts bytes that are written.
    pub fn spend(&self, bytes: usize) {
        self.used.fetch_add(u32::try_from(bytes).unwrap_or(u32::MAX), Ordering::Relaxed);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.admission.refund(*self.used.get_mut());
    }
}

impl Waiter for WaitingCall {
    fn pass(self: Box<Self>) {
        let (Some(connection), Some(shared)) = (self.connection.upgrade(), self.shared.upgrade()) else {
            return self.admission.refund(0);
        };
        let Some(fate) = connection.limit_queue.look(self.number, |record| fate(&connection, record)) else {
            return self.admission.refund(0);
        };
        let Some(reply_bytes_max) = fate else {
            return connection.tell_loop(Message::Ready(connection.token, self.number));
        };
        // The connection has something to answer all the while.
        connection.count_queued(1);
        if let Some(queued) = connection.limit_queue.dequeue(self.number) {
            shared.pool.submit(Job::queued(&connection, queued, reply_bytes_max));
        }
        connection.answered(1);
        connection.resume_if_paused();
    }

    fn is_gone(&self) -> bool {
        self.connection.strong_count() == 0
    }
}

/// Where a call goes that may go on: `None` to its event loop, else to a storage thread, with the size of its reply.
fn fate(connection: &Connection, record: &[u8]) -> Option<u32> {
    let routed = route(connection.programs, record, &mut Replies::default()).ok()??;
    (routed.dispatch() != Dispatch::Inline).then(|| routed.reply_bytes_max())
}

//! The back channel of a session: its slots, the callbacks in them, and its connections (RFC 8881 §2.10.3.1, §20.9).
//! Pure except for sending.

use super::callbacks::Callbacks;
use super::wire::Wire;
use nfs_wire::rpc::{AuthFlavor, AuthSys, CallHeader, OpaqueAuth, RPC_VERSION};
use nfs_wire::v4::callback::{
    self, Argument, CompoundHead, CompoundReplyHead, OpReply, Procedure, SequenceArgs,
};
use nfs_wire::v4::{CallbackSecParms, Fattr, Reply, SessionId, Stateid, Status};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Weak};
use xdr::{Decode, Encode, Reader};

pub(super) trait GetattrListener: Send + Sync {
    /// Reports the attributes of a query.
    fn report(&self, number: u64, attributes: &Fattr<'_>);
}

/// A call to a client: one operation, which follows CB_SEQUENCE.
pub(crate) struct Callback {
    pub(super) operation: Vec<u8>,
    /// The stateid to recall. The callback is dropped once the state has ended.
    pub(super) recalled: Option<Stateid>,
    pub(super) tries: u32,
    /// The receiver of CB_GETATTR's attributes, and the number of its query.
    listener: Option<(Arc<dyn GetattrListener>, u64)>,
}

impl Callback {
    pub(crate) fn new(argument: &Argument<'_>) -> Self {
        let recalled = match argument {
            Argument::Recall(args) => Some(args.stateid),
            _ => None,
        };
        Self { operation: argument.to_bytes(), recalled, tries: 0, listener: None }
    }

    /// A CB_GETATTR with its query number.
    pub(super) fn getattr(argument: &Argument<'_>, asker: Arc<dyn GetattrListener>, number: u64) -> Self {
        Self { listener: Some((asker, number)), ..Self::new(argument) }
    }

    /// Whether a callback is repeated after NFS4ERR_DELAY. CB_GETATTR is not: its caller queries again.
    fn is_repeated(&self) -> bool {
        self.listener.is_none()
    }

    /// Handles the results after CB_SEQUENCE.
    fn take_results(&self, results: &mut Reader<'_>) {
        if let Some((asker, number)) = &self.listener
            && let Ok(OpReply::Getattr(Reply::Ok(ok))) = OpReply::decode(results)
        {
            asker.report(*number, &ok.obj_attributes);
        }
    }
}

/// The credential of callbacks, from the list that the client accepts (RFC 8881 §18.33).
#[derive(Clone, Default)]
pub(crate) struct Credential {
    flavor: AuthFlavor,
    body: Box<[u8]>,
}

impl Credential {
    /// The first acceptable credential that we support; AUTH_NONE for an empty list.
    pub(crate) fn choose(accepted: &[CallbackSecParms<'_>]) -> Option<Self> {
        if accepted.is_empty() {
            return Some(Self::default());
        }
        accepted.iter().find_map(|parms| match parms {
            CallbackSecParms::None => Some(Self::default()),
            CallbackSecParms::Sys(sys) => Some(Self::sys(sys)),
            CallbackSecParms::Gss(_) => None,
        })
    }

    fn sys(sys: &AuthSys<'_>) -> Self {
        Self { flavor: AuthFlavor::SYS, body: sys.to_bytes().into() }
    }
}

pub(crate) struct Agreement {
    pub(crate) minor: u32,
    pub(crate) slots: u32,
    /// `csa_cb_program`.
    pub(crate) program: u32,
    pub(crate) credential: Credential,
}

pub(super) struct Channel {
    pub(super) session: SessionId,
    pub(super) agreement: Agreement,
    /// Whether the client wants one: connections without it are no fault.
    pub(super) is_wanted: bool,
    /// The client sent an invalid reply.
    pub(super) is_faulty: bool,
    /// The flags for SEQUENCE ([`nfs_wire::v4::SequenceStatus`]).
    pub(super) status: Arc<AtomicU32>,
    wires: Vec<Weak<Wire>>,
    slots: Vec<Slot>,
}

#[derive(Default)]
struct Slot {
    sequence: u32,
    call: Option<InFlight>,
}

struct InFlight {
    callback: Callback,
    wire: Weak<Wire>,
    xid: u32,
    sent: u64,
}

/// Records to send once no lock is held.
pub(super) type Outgoing = Vec<(Arc<Wire>, Vec<u8>)>;

pub(super) enum CallbackOutcome {
    Done,
    /// The client returned NFS4ERR_DELAY.
    Retry(Callback),
    /// The callback failed, and this channel is unusable.
    Faulty(Callback),
}

const WIRES_MAX: usize = 16;
/// Seconds that a client has for an answer.
const ANSWER_S: u64 = 10;

impl Channel {
    pub(super) fn new(session: SessionId, agreement: Agreement, status: Arc<AtomicU32>) -> Self {
        let slots = (0..agreement.slots).map(|_| Slot::default()).collect();
        let (is_wanted, is_faulty, wires) = (false, false, Vec::new());
        Self { session, agreement, is_wanted, is_faulty, status, wires, slots }
    }

    /// Adds a connection for callbacks.
    pub(super) fn bind(&mut self, wire: &Arc<Wire>) {
        self.wires.retain(|other| other.strong_count() > 0 && !is(other, wire));
        // The oldest connection gives way.
        if self.wires.len() >= WIRES_MAX {
            self.wires.remove(0);
        }
        self.wires.push(Arc::downgrade(wire));
        (self.is_wanted, self.is_faulty) = (true, false);
    }

    /// The client is not called over this connection.
    pub(super) fn unbind(&mut self, wire: &Arc<Wire>) {
        self.wires.retain(|other| !is(other, wire));
    }

    pub(super) fn is_up(&self) -> bool {
        self.wire().is_some()
    }

    /// The connection that was bound last of those that are there.
    fn wire(&self) -> Option<Arc<Wire>> {
        self.wires.iter().rev().filter_map(Weak::upgrade).find(|wire| wire.is_up())
    }

    /// Whether another callback can be sent.
    pub(super) fn has_room(&self) -> bool {
        !self.is_faulty && self.slots.iter().any(|slot| slot.call.is_none()) && self.is_up()
    }

    /// Sends a callback in a free slot, or gives it back.
    pub(super) fn send(
        &mut self,
        caller: &Weak<Callbacks>,
        mut callback: Callback,
        second: u64,
        outgoing: &mut Outgoing,
    ) -> Result<(), Callback> {
        let Some(at) = self.slots.iter().position(|slot| slot.call.is_none()) else { return Err(callback) };
        let Some(wire) = self.wire() else { return Err(callback) };
        let Some(xid) = wire.begin(caller) else { return Err(callback) };
        callback.tries += 1;
        let slot = &mut self.slots[at];
        slot.sequence = slot.sequence.wrapping_add(1);
        slot.call = Some(InFlight { callback, wire: Arc::downgrade(&wire), xid, sent: second });
        let record = self.record(at);
        outgoing.push((wire, record));
        Ok(())
    }

    /// Repeats callbacks of lost connections, and abandons connections that did not answer in time.
    pub(super) fn resend(&mut self, caller: &Weak<Callbacks>, second: u64, outgoing: &mut Outgoing) {
        for at in 0..self.slots.len() {
            let Some(call) = &mut self.slots[at].call else { continue };
            if let Some(silent) = call.wire.upgrade() {
                if silent.is_up() && second < call.sent + ANSWER_S {
                    continue;
                }
                silent.forget(call.xid);
                call.wire = Weak::new();
                self.unbind(&silent);
            }
            let Some(wire) = self.wire() else { continue };
            let Some(xid) = wire.begin(caller) else { continue };
            if let Some(call) = &mut self.slots[at].call {
                (call.wire, call.xid, call.sent) = (Arc::downgrade(&wire), xid, second);
            }
            let record = self.record(at);
            outgoing.push((wire, record));
        }
    }

    /// Encodes the call of a slot.
    fn record(&self, at: usize) -> Vec<u8> {
        let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let highest = self.slots.iter().rposition(|slot| slot.call.is_some()).unwrap_or(at);
        let Some(call) = &self.slots[at].call else { return Vec::new() };
        let Agreement { minor, program, credential, .. } = &self.agreement;
        let header = CallHeader {
            xid: call.xid,
            rpcvers: RPC_VERSION,
            prog: *program,
            vers: callback::VERSION,
            proc: Procedure::COMPOUND.0,
            cred: OpaqueAuth { flavor: credential.flavor, body: &credential.body },
            verf: OpaqueAuth::default(),
        };
        // CB_SEQUENCE, and the operation.
        let head = CompoundHead { tag: b"", minorversion: *minor, callback_ident: 0, operations: 2 };
        let sequence = Argument::Sequence(SequenceArgs {
            sessionid: self.session,
            sequenceid: self.slots[at].sequence,
            slotid: number(at),
            highest_slotid: number(highest),
            cachethis: false,
            referring_call_lists: vec![],
        });
        let mut record = header.to_bytes();
        for part in [head.to_bytes(), sequence.to_bytes()] {
            record.extend_from_slice(&part);
        }
        record.extend_from_slice(&call.callback.operation);
        record
    }

    /// Handles a reply, if it is to a call of this channel. `None` as results: the call was rejected.
    pub(super) fn handle_reply(
        &mut self,
        wire: &Wire,
        xid: u32,
        results: Option<&[u8]>,
    ) -> Option<CallbackOutcome> {
        let is_it = |call: &InFlight| call.xid == xid && std::ptr::eq(call.wire.as_ptr(), wire);
        let at = self.slots.iter().position(|slot| slot.call.as_ref().is_some_and(is_it))?;
        let slot = &mut self.slots[at];
        let callback = slot.call.take()?.callback;
        let answer = results.map(|results| read(results, &self.session, slot.sequence, at));
        let answered = match answer {
            Some(Ok((status, _))) if is_premature(status) && callback.is_repeated() => {
                CallbackOutcome::Retry(callback)
            }
            Some(Ok((_, mut results))) => {
                callback.take_results(&mut results);
                CallbackOutcome::Done
            }
            // The client ran the callback before, without caching the reply.
            Some(Err(Status::RETRY_UNCACHED_REP)) => CallbackOutcome::Done,
            Some(Err(Status::DELAY)) => {
                // The client did not accept the sequence number, so the next callback uses it again.
                slot.sequence = slot.sequence.wrapping_sub(1);
                CallbackOutcome::Retry(callback)
            }
            Some(Err(_)) | None => CallbackOutcome::Faulty(callback),
        };
        self.is_faulty |= matches!(answered, CallbackOutcome::Faulty(_));
        Some(answered)
    }

    /// The callbacks without a reply, when the session ends.
    pub(super) fn into_callbacks(self) -> impl Iterator<Item = Callback> {
        self.slots.into_iter().filter_map(|slot| slot.call).map(|call| {
            if let Some(wire) = call.wire.upgrade() {
                wire.forget(call.xid);
            }
            call.callback
        })
    }
}

fn is(other: &Weak<Wire>, wire: &Arc<Wire>) -> bool {
    std::ptr::eq(other.as_ptr(), Arc::as_ptr(wire))
}

/// Whether the client does not know the object yet: the reply that names it may still be under way.
fn is_premature(status: Status) -> bool {
    matches!(status, Status::DELAY | Status::BADHANDLE | Status::BAD_STATEID)
}

/// The status of the operation in the results of a CB_COMPOUND, and its result. An error is that of its CB_SEQUENCE.
fn read<'a>(
    results: &'a [u8],
    session: &SessionId,
    sequence: u32,
    slot: usize,
) -> Result<(Status, Reader<'a>), Status> {
    let mut reader = Reader::new(results);
    let malformed = |_| Status::BADXDR;
    let head = CompoundReplyHead::decode(&mut reader).map_err(malformed)?;
    if head.operations == 0 {
        return Err(if head.status == Status::OK { Status::BADXDR } else { head.status });
    }
    match OpReply::decode(&mut reader).map_err(malformed)? {
        OpReply::Sequence(Reply::Ok(ok)) => {
            let is_of_call =
                ok.sessionid == *session && ok.sequenceid == sequence && ok.slotid as usize == slot;
            if is_of_call { Ok((head.status, reader)) } else { Err(Status::BADXDR) }
        }
        OpReply::Sequence(Reply::Err(status)) => Err(status),
        _ => Err(Status::BADXDR),
    }
}

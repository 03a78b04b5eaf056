//! The 4.0 layer (RFC 7530): clients without sessions, and operations with sequence numbers of open and lock owners.
//! The operations themselves are those of later versions.

pub(super) mod client;
#[cfg(test)]
mod tests;

use super::compound_state::{CompoundState, OpError, OpResult};
use super::{filehandle_ops, lock, open};
use crate::state::nfs4::client::Client;
use crate::state::nfs4::tables::Table;
use crate::state::nfs4::v40::owners::OpenStart;
use crate::state::nfs4::v40::sequence::{Reply, SequenceVerdict, advances};
use crate::state::nfs4::v40::{OwnerId, SequencedRequest};
use nfs_wire::v4::{
    Argument, CreateHow, LockArgs, Locker, Op, OpenArgs, OpenClaim, OpenConfirmArgs, OpenFlag,
    OpenToLockOwner, ShareAccess, Stateid, Status,
};
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use vfs::bounds::Slot;
use vfs::{Blocking, Wait};
use xdr::{Encode, Writer};

/// Whether an operation has a sequence number of an owner.
pub(super) fn is_numbered(op: Op) -> bool {
    matches!(op, Op::OPEN | Op::OPEN_CONFIRM | Op::OPEN_DOWNGRADE | Op::CLOSE | Op::LOCK | Op::LOCKU)
}

pub(super) fn checksum(op: Op, args: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u32(op.0);
    hasher.write(args);
    hasher.finish()
}

struct NumberedRequest {
    client: Arc<Client>,
    owner: OwnerId,
    number: u32,
}

/// Does an operation with a sequence number, once however often it comes (RFC 7530 §9.1.7).
pub(super) fn in_sequence(
    cx: &mut CompoundState<'_, '_>,
    argument: &Argument<'_>,
    w: &mut Writer<'_>,
) -> OpResult {
    cx.current_filehandle()?;
    let numbered = numbered(cx, argument)?;
    let (verdict, ended) = begin(cx, &numbered, argument)?;
    if let Some(ended) = ended {
        numbered.client.close(&ended);
    }
    match verdict {
        SequenceVerdict::New => {}
        SequenceVerdict::Replay(reply) => return replay(cx, &reply, w),
        SequenceVerdict::Refused(status) => return Err(OpError::Status(status)),
    }
    let NumberedRequest { client, owner, .. } = numbered;
    let in_sequence = SequencedRequest::new(&client, owner.clone());
    let (start, flushes) = (w.len(), cx.call.pending.added());
    let mut done = perform(cx, &client, &owner, argument, w);
    let status = match &done {
        Ok(()) => Status::OK,
        Err(OpError::Status(status) | OpError::Written(status)) => *status,
        Err(OpError::Wait(Wait::Storage)) if cx.call.blocking == Blocking::Never => return done,
        // The request starts over after paying.
        Err(OpError::Wait(Wait::Tokens)) => return done,
        // The request starts over after the recall.
        Err(OpError::Wait(Wait::Recall))
            if cx.state.retries_left > 0 && cx.call.pending.added() == flushes =>
        {
            return done;
        }
        // The recall timed out, or a backend refuses to wait on a thread that may.
        Err(OpError::Wait(_) | OpError::Replay(_)) => {
            done = Err(OpError::Status(Status::DELAY));
            Status::DELAY
        }
    };
    let is_written = matches!(done, Ok(()) | Err(OpError::Written(_)));
    let body = if is_written { Box::from(&w.buffer()[start..]) } else { Box::default() };
    let handle = match (&cx.current, argument) {
        (Some(filehandle), Argument::Open(_)) if done.is_ok() => {
            Some(Box::from(filehandle.handle(cx.call).bytes()))
        }
        _ => None,
    };
    let is_unsynced = cx.call.pending.added() > flushes;
    // Before another request of the owner can begin.
    note(cx, &client, &owner, argument, status);
    cx.state.unsynced.extend(in_sequence.complete(Reply { status, body, handle }, is_unsynced));
    done
}

fn numbered(cx: &CompoundState<'_, '_>, argument: &Argument<'_>) -> Result<NumberedRequest, OpError> {
    let (stateid, number) = match argument {
        Argument::Open(args) => {
            check_version(args)?;
            let owner = OwnerId::Open(args.owner.owner.into());
            return Ok(NumberedRequest { client: cx.owner_client(&args.owner)?, owner, number: args.seqid });
        }
        Argument::OpenConfirm(args) => (&args.open_stateid, args.seqid),
        Argument::OpenDowngrade(args) => (&args.open_stateid, args.seqid),
        Argument::Close(args) => (&args.open_stateid, args.seqid),
        Argument::Lock(LockArgs { locker: Locker::New(new), .. }) => (&new.open_stateid, new.open_seqid),
        Argument::Lock(LockArgs { locker: Locker::Existing(known), .. }) => {
            (&known.lock_stateid, known.lock_seqid)
        }
        Argument::Locku(args) => (&args.lock_stateid, args.seqid),
        _ => return Err(OpError::Status(Status::SERVERFAULT)),
    };
    let client = cx.client_of(stateid)?;
    let owner = owner_of(&client, stateid, argument)?;
    Ok(NumberedRequest { client, owner, number })
}

/// Rejects OPENs that 4.0 does not have.
fn check_version(args: &OpenArgs<'_>) -> Result<(), Status> {
    let is_later = matches!(args.claim, OpenClaim::Fh | OpenClaim::DelegCurFh(_) | OpenClaim::DelegPrevFh)
        || matches!(args.openhow, OpenFlag::Create(CreateHow::Exclusive41(_)));
    if is_later { Err(Status::BADXDR) } else { Ok(()) }
}

/// The owner of a stateid. The file that an owner closed last is still known, for a repeated CLOSE.
fn owner_of(client: &Client, stateid: &Stateid, argument: &Argument<'_>) -> Result<OwnerId, Status> {
    let is_of_lock =
        matches!(argument, Argument::Locku(_) | Argument::Lock(LockArgs { locker: Locker::Existing(_), .. }));
    let states = client.states();
    let Some(index) = states.index_of(stateid) else {
        drop(states);
        let owners = client.open_owners().filter(|_| !is_of_lock);
        let owner = owners.and_then(|owners| owners.closed_by(stateid));
        return owner.map(OwnerId::Open).ok_or(Status::BAD_STATEID);
    };
    if is_of_lock {
        return states.lock(index).map(|lock| OwnerId::Lock(lock.owner.owner));
    }
    states.open(index).map(|open| OwnerId::Open(open.owner.clone()))
}

/// Begins a numbered request. Returns the decision, and an open that ends because of it.
fn begin(
    cx: &CompoundState<'_, '_>,
    numbered: &NumberedRequest,
    argument: &Argument<'_>,
) -> Result<(SequenceVerdict, Option<Stateid>), Status> {
    let NumberedRequest { client, owner, number } = numbered;
    let (fingerprint, now) = (cx.checksum, cx.call.service.v4.second());
    match owner {
        OwnerId::Lock(owner) => {
            let mut states = client.states();
            let sequence = states.lock_sequence(*owner).ok_or(Status::BAD_STATEID)?;
            Ok((sequence.begin(*number, fingerprint), None))
        }
        OwnerId::Open(name) => {
            if matches!(argument, Argument::Open(_)) {
                let room = room_for_owner(cx, client, name)?;
                let mut owners = client.open_owners().ok_or(Status::SERVERFAULT)?;
                let OpenStart { verdict, ended } =
                    owners.begin_open(name, *number, fingerprint, now, room)?;
                return Ok((verdict, ended));
            }
            let mut owners = client.open_owners().ok_or(Status::SERVERFAULT)?;
            // An open is unusable before it is confirmed.
            if !matches!(argument, Argument::OpenConfirm(_)) && !owners.is_confirmed(name) {
                return Err(Status::BAD_STATEID);
            }
            Ok((owners.begin(name, *number, fingerprint, now), None))
        }
    }
}

/// Room for an open owner if it is new. The client's own without a use give way before it is refused.
fn room_for_owner(cx: &CompoundState<'_, '_>, client: &Client, name: &[u8]) -> Result<Option<Slot>, Status> {
    if !client.open_owners().is_some_and(|mut owners| owners.is_new(name)) {
        return Ok(None);
    }
    let (state, party) = (&cx.call.service.v4, client.user(cx.call.credential.uid));
    if let Ok(room) = state.tables.open_owners.take(&party, 1) {
        return Ok(Some(room));
    }
    if let Some(mut owners) = client.open_owners() {
        owners.forget_idle();
    }
    state.reserve(Table::OpenOwners, &party, client).map(Some)
}

/// Repeats a cached reply, and restores the current filehandle.
fn replay(cx: &mut CompoundState<'_, '_>, reply: &Reply, w: &mut Writer<'_>) -> OpResult {
    if let Some(handle) = &reply.handle {
        cx.current = Some(filehandle_ops::resolve(cx, handle)?);
    }
    w.buffer().extend_from_slice(&reply.body);
    match reply.status {
        Status::OK => Ok(()),
        status if reply.body.is_empty() => Err(OpError::Status(status)),
        status => Err(OpError::Written(status)),
    }
}

fn perform(
    cx: &mut CompoundState<'_, '_>,
    client: &Arc<Client>,
    owner: &OwnerId,
    argument: &Argument<'_>,
    w: &mut Writer<'_>,
) -> OpResult {
    cx.pay()?;
    match argument {
        Argument::Open(args) if args.share_access.0 & !ShareAccess::BOTH.0 != 0 => {
            Err(OpError::Status(Status::INVAL))
        }
        Argument::Open(args) => {
            if !matches!(args.claim, OpenClaim::Previous(_)) {
                cx.call.service.v4.record_40(client);
            }
            open::open(cx, args, w)
        }
        Argument::OpenConfirm(args) => open_confirm(cx, client, owner, args, w),
        Argument::OpenDowngrade(args) => open::open_downgrade(cx, args, w),
        Argument::Close(args) => open::close(cx, args, w),
        Argument::Lock(args) => match &args.locker {
            Locker::New(new) => lock_anew(cx, client, args, new, w),
            Locker::Existing(_) => lock::lock(cx, args, w),
        },
        Argument::Locku(args) => lock::locku(cx, args, w),
        _ => Err(OpError::Status(Status::SERVERFAULT)),
    }
}

/// RFC 7530 §16.18.
fn open_confirm(
    cx: &mut CompoundState<'_, '_>,
    client: &Client,
    owner: &OwnerId,
    args: &OpenConfirmArgs,
    w: &mut Writer<'_>,
) -> OpResult {
    let file = cx.file()?;
    let mut states = client.states();
    let index = states.find(&cx.stateid(&args.open_stateid)?)?;
    open::check_file(&states.open(index)?.file, &file)?;
    let OwnerId::Open(name) = owner else { return Err(OpError::Status(Status::BAD_STATEID)) };
    if !client.open_owners().is_some_and(|mut owners| owners.confirm(name)) {
        return Err(OpError::Status(Status::BAD_STATEID));
    }
    states.advance(index).encode(w);
    Ok(())
}

/// A LOCK of an owner that names itself: the request is in the sequences of both owners, and the open owner's keeps the reply
/// (RFC 7530 §9.1.7).
fn lock_anew(
    cx: &mut CompoundState<'_, '_>,
    client: &Arc<Client>,
    args: &LockArgs<'_>,
    new: &OpenToLockOwner<'_>,
    w: &mut Writer<'_>,
) -> OpResult {
    let named = cx.owner_client(&new.lock_owner)?;
    if !Arc::ptr_eq(&named, client) {
        return Err(OpError::Status(Status::BAD_STATEID));
    }
    let name = new.lock_owner.owner;
    let number = client.states().known_lock_owner(name);
    if let Some(number) = number {
        let begun =
            client.states().lock_sequence(number).map(|owner| owner.begin(new.lock_seqid, cx.checksum));
        match begun {
            Some(SequenceVerdict::New) => {}
            Some(SequenceVerdict::Refused(Status::DELAY)) => return Err(OpError::Status(Status::DELAY)),
            _ => return Err(OpError::Status(Status::BAD_SEQID)),
        }
    }
    let in_sequence = number.map(|number| SequencedRequest::new(client, OwnerId::Lock(number)));
    let done = lock::lock(cx, args, w);
    let is_used = match &done {
        Ok(()) => true,
        Err(OpError::Status(status) | OpError::Written(status)) => advances(*status),
        Err(OpError::Wait(_) | OpError::Replay(_)) => false,
    };
    drop(in_sequence);
    if is_used {
        let mut states = client.states();
        let number = states.known_lock_owner(name);
        if let Some(sequence) = number.and_then(|number| states.lock_sequence(number)) {
            sequence.skip_to(new.lock_seqid);
        }
    }
    done
}

/// Updates the opens of an owner after a request.
fn note(
    cx: &CompoundState<'_, '_>,
    client: &Client,
    owner: &OwnerId,
    argument: &Argument<'_>,
    status: Status,
) {
    let (OwnerId::Open(name), Some(mut owners)) = (owner, client.open_owners()) else { return };
    match (argument, status, cx.state.stateid) {
        // The first seqid: the owner did not have the file open before.
        (Argument::Open(_), Status::OK, Some(stateid @ Stateid { seqid: 1, .. })) => {
            owners.add_open(name, stateid);
        }
        (Argument::Open(_), Status::OK, _) => {}
        (Argument::Open(_), ..) => owners.fail_open(name),
        (Argument::Close(args), Status::OK, _) => owners.close(name, &args.open_stateid),
        _ => {}
    }
}

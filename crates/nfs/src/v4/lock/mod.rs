//! Byte-range locks: LOCK, LOCKT, LOCKU, RFC 8881 §18.10 to §18.12.

use super::open::{check_file, check_regular, file_id, granted, holder, refusal};
use super::ops::{Done, Ops, Stop, reply};
use crate::call::File;
use crate::state::nfs4::client::Client;
use crate::state::nfs4::state_table::{Held, LockState};
use crate::state::nfs4::tables::Table;
use crate::state::nfs4::waiting::{KEPT_S, WAITS_S, WaitingLock};
use nfs_wire::v4::{LockArgs, LockDenied, LockType, Locker, LocktArgs, LockuArgs, StateOwner, Status};
use std::sync::Arc;
use vfs::claims::{
    Access, Conflict, Granted, LockOwner, LockRequest, OpenId, Queueing, Request, Rights, Span, Stream,
    Verdict,
};
use vfs::qos::Nanos;
use xdr::{Encode, Writer};

/// RFC 8881 §18.10.
pub(super) fn lock(ops: &mut Ops<'_, '_>, args: &LockArgs<'_>, w: &mut Writer<'_>) -> Done {
    let span = span(args.offset, args.length)?;
    let file = ops.file()?;
    let client = ops.client_of(match &args.locker {
        Locker::New(new) => &new.open_stateid,
        Locker::Existing(existing) => &existing.lock_stateid,
    })?;
    if args.reclaim {
        ops.call.service.v4.check_reclaims(&client)?;
    }
    // Before the claim, which then cannot be left without a state.
    let (state, party) = (&ops.call.service.v4, client.user(ops.call.credential.uid));
    let range = state.take(Table::Ranges, &party, &client)?;
    let slot = match &args.locker {
        Locker::New(_) => Some(state.take(Table::States, &party, &client)?),
        Locker::Existing(_) => None,
    };
    let mut held = client.held();
    let Named { open, owner, known, name } = named(ops, &client, &mut held, &file, &args.locker)?;
    let state = held.open(open)?;
    check_file(&state.file, &file)?;
    let (claim, is_exclusive) = (state.claim, is_exclusive(args.locktype));
    check_mode(state.access, is_exclusive)?;
    if !held.has_room_for_range() {
        return Err(Stop::Status(Status::DELAY));
    }
    let index = match (known, slot) {
        (Some(index), _) => index,
        (None, Some(slot)) => held.insert_lock(LockState { open, owner, ranges: range }, name, slot)?,
        (None, None) => return Err(Stop::Status(Status::BAD_STATEID)),
    };
    let request = lock_request(owner, Some(claim), span, is_exclusive);
    let request = LockRequest { reclaims: args.reclaim, ..request };
    let mut verdict = file.claim(&Request::Lock(request));
    if is_waited_for(args) && matches!(verdict, Verdict::Refused(Conflict::Range { .. })) {
        let granted = wait_for(ops, &client, &mut held, &file, request, open, name)?;
        verdict = granted.map_or(verdict, Verdict::Granted);
    }
    let refused = match verdict {
        Verdict::Granted(_) => {
            end_wait(&mut held, &file, owner, span);
            held.count_ranges(index, ranges_of(&file, owner));
            let stateid = if known.is_some() { held.advance(index) } else { held.stateid(index) };
            ops.stateid = Some(stateid);
            return reply(w, &stateid);
        }
        refused => refused,
    };
    if known.is_none() {
        held.remove(index);
    }
    drop(held);
    if args.reclaim {
        return granted(refused).map(drop).map_err(|stop| refusal(stop, true));
    }
    refuse(ops, &file, refused, w)
}

/// The owner that a LOCK names.
struct Named<'a> {
    open: u32,
    owner: LockOwner,
    /// The state of its locks, if there is one.
    known: Option<u32>,
    /// The client's name for it, where that is given.
    name: &'a [u8],
}

fn named<'a>(
    ops: &mut Ops<'_, '_>,
    client: &Arc<Client>,
    held: &mut Held,
    file: &File,
    locker: &Locker<'a>,
) -> Result<Named<'a>, Stop> {
    match locker {
        Locker::New(new) => {
            let open = held.find(&ops.stateid(&new.open_stateid)?)?;
            // Only an open stateid leads to a new lock owner.
            held.open(open)?;
            let name = new.lock_owner.owner;
            let holder = holder(&ops.call.service.v4, client, held, file);
            let owner = LockOwner { holder, owner: held.lock_owner(name) };
            Ok(Named { open, owner, known: held.lock_by(open, owner), name })
        }
        Locker::Existing(existing) => {
            let index = held.find(&ops.stateid(&existing.lock_stateid)?)?;
            let lock = held.lock(index)?;
            Ok(Named { open: lock.open, owner: lock.owner, known: Some(index), name: &[] })
        }
    }
}

/// Whether the client will ask again for a lock that it does not get.
fn is_waited_for(args: &LockArgs<'_>) -> bool {
    matches!(args.locktype, LockType::ReadWait | LockType::WriteWait) && !args.reclaim
}

/// Has a client wait for a lock that somebody else has, to be told when it may ask for it again: then it is kept for it for a
/// while. The lock may have come free in this moment.
fn wait_for(
    ops: &Ops<'_, '_>,
    client: &Client,
    held: &mut Held,
    file: &File,
    request: LockRequest,
    open: u32,
    name: &[u8],
) -> Result<Option<Granted>, Stop> {
    let LockRequest { owner, span, is_exclusive, .. } = request;
    let (id, name) = (file_id(file), Box::from(held.lock_owner_name(owner.owner).unwrap_or(name)));
    let is_new = !held.waits_for(owner, id, span, is_exclusive);
    if ops.minor == 0 || !is_new || !held.may_wait() || !client.callbacks.is_reachable() {
        return Ok(None);
    }
    let party = client.user(ops.call.credential.uid);
    let Ok(slot) = ops.call.service.v4.tables.states.take(&party, 1) else { return Ok(None) };
    let until = Nanos(file.volume().now().0.saturating_add(Nanos::from_seconds(WAITS_S).0));
    let queueing = Queueing::Reserved { until, kept: Nanos::from_seconds(KEPT_S) };
    let ticket = match file.claim(&Request::Lock(LockRequest { queueing, ..request })) {
        Verdict::Wait(ticket) => ticket,
        Verdict::Granted(granted) => return Ok(Some(granted)),
        Verdict::Refused(_) => return Ok(None),
    };
    let lock = WaitingLock {
        file: id,
        place: (file.volume_id(), file.key()),
        ticket,
        open,
        owner,
        span,
        is_exclusive,
        handle: file.handle().bytes().into(),
        until: ops.call.service.v4.second() + WAITS_S + KEPT_S,
        is_told: false,
        _slot: slot,
    };
    if held.wait(lock, &name).is_err() {
        file.claim(&Request::Cancel(ticket));
    }
    Ok(None)
}

/// An owner has got a lock, and waits for none of these bytes any longer.
fn end_wait(held: &mut Held, file: &File, owner: LockOwner, span: Span) {
    let id = file_id(file);
    for ticket in held.stop_waiting(|lock| lock.owner == owner && lock.file == id && lock.span == span) {
        // If its turn has come already, what was kept is what it has got.
        file.claim(&Request::Cancel(ticket));
    }
}

/// RFC 8881 §18.11.
pub(super) fn lockt(ops: &mut Ops<'_, '_>, args: &LocktArgs<'_>, w: &mut Writer<'_>) -> Done {
    let span = span(args.offset, args.length)?;
    let file = ops.file()?;
    check_regular(ops.call.attrs(&file)?.file_type)?;
    let client = ops.owner_client(&args.owner)?;
    check_may_ask(ops, &client, &file)?;
    let mut held = client.held();
    let holder = holder(&ops.call.service.v4, &client, &mut held, &file);
    let owner = LockOwner { holder, owner: held.lock_owner(args.owner.owner) };
    drop(held);
    let request = lock_request(owner, None, span, is_exclusive(args.locktype));
    match file.claim(&Request::TestLock(request)) {
        Verdict::Granted(_) => Ok(()),
        refused => refuse(ops, &file, refused, w),
    }
}

/// Refuses to tell of a file's locks where the caller may neither read nor write it and does not have it open.
fn check_may_ask(ops: &Ops<'_, '_>, client: &Client, file: &File) -> Done {
    let may = |access| file.authorize_data(&file.caller, access, ops.call.blocking);
    match may(vfs::Access::READ).or_else(|_| may(vfs::Access::WRITE)) {
        Err(error) if client.held().file(file_id(file)).is_none() => Err(error.into()),
        _ => Ok(()),
    }
}

/// RFC 8881 §18.12.
pub(super) fn locku(ops: &mut Ops<'_, '_>, args: &LockuArgs, w: &mut Writer<'_>) -> Done {
    let span = span(args.offset, args.length)?;
    let file = ops.file()?;
    let client = ops.client_of(&args.lock_stateid)?;
    let mut held = client.held();
    let index = held.find(&ops.stateid(&args.lock_stateid)?)?;
    let lock = held.lock(index)?;
    check_file(&held.open(lock.open)?.file, &file)?;
    let (owner, stream) = (lock.owner, Stream::default());
    let splits = || file.volume().claims().is_split_by(&file.key(), owner, stream, &span);
    let has_room = held.has_room_for_range()
        && ops.call.service.v4.tables.ranges.take(&client.user(ops.call.credential.uid), 1).is_ok();
    if !has_room && splits() {
        return Err(Stop::Status(Status::DELAY));
    }
    granted(file.claim(&Request::Unlock { owner, stream, span, enforced: false, is_exclusive: None }))?;
    held.count_ranges(index, ranges_of(&file, owner));
    let stateid = held.advance(index);
    ops.stateid = Some(stateid);
    reply(w, &stateid)
}

fn ranges_of(file: &File, owner: LockOwner) -> usize {
    file.volume().claims().ranges_of(&file.key(), owner)
}

/// The bytes of a lock; RFC 8881 §18.10.3 lets none be empty or end past the last byte there can be.
fn span(offset: u64, length: u64) -> Result<Span, Status> {
    match length {
        0 => Err(Status::INVAL),
        u64::MAX => Ok(Span::to_end(offset)),
        length => Span::new(offset, length).ok_or(Status::INVAL),
    }
}

fn is_exclusive(locktype: LockType) -> bool {
    matches!(locktype, LockType::Write | LockType::WriteWait)
}

/// A lock needs a file that is open for what the lock protects.
fn check_mode(access: Access, is_exclusive: bool) -> Result<(), Status> {
    let needed = if is_exclusive { Rights::WRITE } else { Rights::READ };
    if access.rights.contains(needed) { Ok(()) } else { Err(Status::OPENMODE) }
}

fn lock_request(owner: LockOwner, open: Option<OpenId>, span: Span, is_exclusive: bool) -> LockRequest {
    LockRequest {
        owner,
        open,
        stream: Stream::default(),
        span,
        is_exclusive,
        is_enforced: false,
        reclaims: false,
        queueing: Queueing::Never,
    }
}

/// Why a lock is not given: which other one stands against it, or a status.
fn refuse(ops: &Ops<'_, '_>, file: &File, refused: Verdict, w: &mut Writer<'_>) -> Done {
    let Verdict::Refused(Conflict::Range { owner, span, is_exclusive }) = refused else {
        return granted(refused).map(drop);
    };
    let name = |held: &Held, owner: u64| held.lock_owner_name(owner).map(Box::<[u8]>::from);
    let of = ops.call.service.v4.holding(file.volume_id(), owner.holder);
    let (clientid, owner) = match of {
        Some(other) => (other.id, name(&other.held(), owner.owner).unwrap_or_default()),
        // Somebody of another protocol.
        None => (0, owner.owner.to_be_bytes().into()),
    };
    LockDenied {
        offset: span.start(),
        length: span.len(),
        locktype: if is_exclusive { LockType::Write } else { LockType::Read },
        owner: StateOwner { clientid, owner: &owner },
    }
    .encode(w);
    Err(Stop::Written(Status::DENIED))
}

#[cfg(test)]
mod tests;

//! Byte-range locks: LOCK, LOCKT, LOCKU, RFC 8881 §18.10 to §18.12.

use super::compound_state::{CompoundState, OpError, OpResult, reply};
use super::open::{check_file, check_regular, file_id, granted, holder, refusal};
use crate::call::File;
use crate::state::nfs4::client::Client;
use crate::state::nfs4::state_table::{LockState, StateTable};
use crate::state::nfs4::tables::Table;
use crate::state::nfs4::waiting::{RESERVED_S, WAIT_S, WaitingLock};
use nfs_wire::v4::{LockArgs, LockDenied, LockType, Locker, LocktArgs, LockuArgs, StateOwner, Status};
use std::sync::Arc;
use vfs::claims::{
    Access, Conflict, Granted, LockOwner, LockRequest, OpenId, Queueing, Request, Rights, Span, Stream,
    Verdict,
};
use vfs::qos::Nanos;
use xdr::{Encode, Writer};

/// RFC 8881 §18.10.
pub(super) fn lock(cx: &mut CompoundState<'_, '_>, args: &LockArgs<'_>, w: &mut Writer<'_>) -> OpResult {
    let span = span(args.offset, args.length)?;
    let file = cx.file()?;
    let client = cx.client_of(match &args.locker {
        Locker::New(new) => &new.open_stateid,
        Locker::Existing(existing) => &existing.lock_stateid,
    })?;
    if args.reclaim {
        cx.call.service.v4.check_reclaims(&client)?;
    }
    // Room is reserved first, so that a granted claim always gets a state.
    let (state, party) = (&cx.call.service.v4, client.user(cx.call.credential.uid));
    let range = state.reserve(Table::Ranges, &party, &client)?;
    let slot = match &args.locker {
        Locker::New(_) => Some(state.reserve(Table::States, &party, &client)?),
        Locker::Existing(_) => None,
    };
    let mut states = client.states();
    let ResolvedOwner { open, owner, lock_state, name } =
        resolve_owner(cx, &client, &mut states, &file, &args.locker)?;
    let state = states.open(open)?;
    check_file(&state.file, &file)?;
    let (claim, is_exclusive) = (state.claim, is_exclusive(args.locktype));
    check_mode(state.access, is_exclusive)?;
    if !states.has_room_for_range() {
        return Err(OpError::Status(Status::DELAY));
    }
    let index = match (lock_state, slot) {
        (Some(index), _) => index,
        (None, Some(slot)) => states.insert_lock(LockState { open, owner, ranges: range }, name, slot)?,
        (None, None) => return Err(OpError::Status(Status::BAD_STATEID)),
    };
    let request = lock_request(owner, Some(claim), span, is_exclusive);
    let request = LockRequest { reclaims: args.reclaim, ..request };
    let mut verdict = file.claim(&Request::Lock(request));
    if is_waited_for(args) && matches!(verdict, Verdict::Refused(Conflict::Range { .. })) {
        let granted = wait_for(cx, &client, &mut states, &file, request, open, name)?;
        verdict = granted.map_or(verdict, Verdict::Granted);
    }
    let refused = match verdict {
        Verdict::Granted(_) => {
            end_wait(&mut states, &file, owner, span);
            states.count_ranges(index, ranges_of(&file, owner));
            let stateid = if lock_state.is_some() { states.advance(index) } else { states.stateid(index) };
            cx.state.stateid = Some(stateid);
            return reply(w, &stateid);
        }
        refused => refused,
    };
    if lock_state.is_none() {
        states.remove(index);
    }
    drop(states);
    if args.reclaim {
        return granted(refused).map(drop).map_err(|stop| refusal(stop, true));
    }
    refuse(cx, &file, refused, w)
}

/// The lock owner of a LOCK.
struct ResolvedOwner<'a> {
    open: u32,
    owner: LockOwner,
    lock_state: Option<u32>,
    /// The client's name of the owner, if the request has it.
    name: &'a [u8],
}

fn resolve_owner<'a>(
    cx: &mut CompoundState<'_, '_>,
    client: &Arc<Client>,
    states: &mut StateTable,
    file: &File,
    locker: &Locker<'a>,
) -> Result<ResolvedOwner<'a>, OpError> {
    match locker {
        Locker::New(new) => {
            let open = states.find(&cx.stateid(&new.open_stateid)?)?;
            // Only an open stateid introduces a new lock owner.
            states.open(open)?;
            let name = new.lock_owner.owner;
            let holder = holder(&cx.call.service.v4, client, states, file);
            let owner = LockOwner { holder, owner: states.lock_owner(name) };
            Ok(ResolvedOwner { open, owner, lock_state: states.lock_by(open, owner), name })
        }
        Locker::Existing(existing) => {
            let index = states.find(&cx.stateid(&existing.lock_stateid)?)?;
            let lock = states.lock(index)?;
            Ok(ResolvedOwner { open: lock.open, owner: lock.owner, lock_state: Some(index), name: &[] })
        }
    }
}

/// Whether the client will ask again for a lock that it does not get.
fn is_waited_for(args: &LockArgs<'_>) -> bool {
    matches!(args.locktype, LockType::ReadWait | LockType::WriteWait) && !args.reclaim
}

/// Queues a client for a lock, to be notified when it is free; it is then reserved for a while. The lock may have
/// become free meanwhile.
fn wait_for(
    cx: &CompoundState<'_, '_>,
    client: &Client,
    states: &mut StateTable,
    file: &File,
    request: LockRequest,
    open: u32,
    name: &[u8],
) -> Result<Option<Granted>, OpError> {
    let LockRequest { owner, span, is_exclusive, .. } = request;
    let (id, name) = (file_id(file), Box::from(states.lock_owner_name(owner.owner).unwrap_or(name)));
    let is_new = !states.waits_for(owner, id, span, is_exclusive);
    if cx.request.minor == 0 || !is_new || !states.has_room_to_wait() || !client.callbacks.is_reachable() {
        return Ok(None);
    }
    let party = client.user(cx.call.credential.uid);
    let Ok(slot) = cx.call.service.v4.tables.states.take(&party, 1) else { return Ok(None) };
    let until = Nanos(file.volume().now().0.saturating_add(Nanos::from_seconds(WAIT_S).0));
    let queueing = Queueing::Reserved { until, kept: Nanos::from_seconds(RESERVED_S) };
    let ticket = match file.claim(&Request::Lock(LockRequest { queueing, ..request })) {
        Verdict::Wait(ticket) => ticket,
        Verdict::Granted(granted) => return Ok(Some(granted)),
        Verdict::Refused(_) => return Ok(None),
    };
    let lock = WaitingLock {
        file: id,
        volume_file: (file.volume_id(), file.key()),
        ticket,
        open,
        owner,
        span,
        is_exclusive,
        handle: file.handle().bytes().into(),
        until: cx.call.service.v4.second() + WAIT_S + RESERVED_S,
        is_notified: false,
        _slot: slot,
    };
    if states.wait(lock, &name).is_err() {
        file.claim(&Request::Cancel(ticket));
    }
    Ok(None)
}

/// An owner has got a lock, and waits for none of these bytes any longer.
fn end_wait(states: &mut StateTable, file: &File, owner: LockOwner, span: Span) {
    let id = file_id(file);
    for ticket in states.stop_waiting(|lock| lock.owner == owner && lock.file == id && lock.span == span) {
        // If the lock was reserved already, the reservation became this lock.
        file.claim(&Request::Cancel(ticket));
    }
}

/// RFC 8881 §18.11.
pub(super) fn lockt(cx: &mut CompoundState<'_, '_>, args: &LocktArgs<'_>, w: &mut Writer<'_>) -> OpResult {
    let span = span(args.offset, args.length)?;
    let file = cx.file()?;
    check_regular(cx.call.attrs(&file)?.file_type)?;
    let client = cx.owner_client(&args.owner)?;
    check_may_ask(cx, &client, &file)?;
    let mut states = client.states();
    let holder = holder(&cx.call.service.v4, &client, &mut states, &file);
    let owner = LockOwner { holder, owner: states.lock_owner(args.owner.owner) };
    drop(states);
    let request = lock_request(owner, None, span, is_exclusive(args.locktype));
    match file.claim(&Request::TestLock(request)) {
        Verdict::Granted(_) => Ok(()),
        refused => refuse(cx, &file, refused, w),
    }
}

/// Refuses to tell of a file's locks where the caller may neither read nor write it and does not have it open.
fn check_may_ask(cx: &CompoundState<'_, '_>, client: &Client, file: &File) -> OpResult {
    let may = |access| file.authorize_data(&file.caller, access, cx.call.blocking);
    match may(vfs::Access::READ).or_else(|_| may(vfs::Access::WRITE)) {
        Err(error) if client.states().file(file_id(file)).is_none() => Err(error.into()),
        _ => Ok(()),
    }
}

/// RFC 8881 §18.12.
pub(super) fn locku(cx: &mut CompoundState<'_, '_>, args: &LockuArgs, w: &mut Writer<'_>) -> OpResult {
    let span = span(args.offset, args.length)?;
    let file = cx.file()?;
    let client = cx.client_of(&args.lock_stateid)?;
    let mut states = client.states();
    let index = states.find(&cx.stateid(&args.lock_stateid)?)?;
    let lock = states.lock(index)?;
    check_file(&states.open(lock.open)?.file, &file)?;
    let (owner, stream) = (lock.owner, Stream::default());
    let splits = || file.volume().claims().is_split_by(&file.key(), owner, stream, &span);
    let has_room = states.has_room_for_range()
        && cx.call.service.v4.tables.ranges.take(&client.user(cx.call.credential.uid), 1).is_ok();
    // Unlocking the middle of a range leaves two.
    if !has_room && splits() {
        return Err(OpError::Status(Status::DELAY));
    }
    granted(file.claim(&Request::Unlock { owner, stream, span, enforced: false, is_exclusive: None }))?;
    states.count_ranges(index, ranges_of(&file, owner));
    let stateid = states.advance(index);
    cx.state.stateid = Some(stateid);
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

/// Checks that the open has the access that the lock protects.
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
fn refuse(cx: &CompoundState<'_, '_>, file: &File, refused: Verdict, w: &mut Writer<'_>) -> OpResult {
    let Verdict::Refused(Conflict::Range { owner, span, is_exclusive }) = refused else {
        return granted(refused).map(drop);
    };
    let name = |states: &StateTable, owner: u64| states.lock_owner_name(owner).map(Box::<[u8]>::from);
    let of = cx.call.service.v4.holding(file.volume_id(), owner.holder);
    let (clientid, owner) = match of {
        Some(other) => (other.id, name(&other.states(), owner.owner).unwrap_or_default()),
        // A holder of another protocol.
        None => (0, owner.owner.to_be_bytes().into()),
    };
    LockDenied {
        offset: span.start(),
        length: span.len(),
        locktype: if is_exclusive { LockType::Write } else { LockType::Read },
        owner: StateOwner { clientid, owner: &owner },
    }
    .encode(w);
    Err(OpError::Written(Status::DENIED))
}

#[cfg(test)]
mod tests;

//! LOCK: byte ranges (MS-SMB2 §3.3.5.14, MS-FSA §2.1.5.8).

use crate::limits::LOCKS_MAX;
use crate::request::context::RequestContext;
use crate::request::outcome::{CommandError, CommandResult};
use crate::state::open::Open;
use crate::state::pending::Interim;
use crate::state::persistent::record;
use crate::status::from_conflict;
use smb_wire::lock::{LockElement, LockFlags, LockRequest};
use smb_wire::negotiate::Capabilities;
use smb_wire::session::Empty;
use smb_wire::{NtStatus, Writer};
use vfs::claims::{self, Conflict, IoKind, Outcome, Queueing, Request, Span, Verdict};
use vfs::qos::Nanos;

pub(crate) fn lock(cx: &mut RequestContext<'_, '_>, request: &[u8], w: &mut Writer<'_>) -> CommandResult {
    let args: LockRequest = RequestContext::decode(request)?;
    let open = cx.open(args.file_id)?;
    if args.locks.is_empty() || args.locks.len() > LOCKS_MAX {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    if open.opened().is_none() {
        return Err(NtStatus::INVALID_DEVICE_REQUEST.into());
    }
    let has_sequences = has_sequences(cx) || open.is_persistent();
    let sequences = has_sequences.then_some(&open.sequences.locks);
    if sequences.is_some_and(|sequences| sequences.was_done(args.lock_sequence)) {
        return cx.respond(w, &Empty);
    }
    let unlocks = args.locks[0].flags == LockFlags::UNLOCK;
    if !unlocks && args.locks.len() > 1 && args.locks.iter().any(may_wait) {
        // A request for several ranges must not wait (MS-SMB2 §3.3.5.14.2).
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    // As over NFS: an exclusive lock needs write permission, which nobody has in a snapshot.
    let is_for_one = |element: &LockElement| element.flags.contains(LockFlags::EXCLUSIVE_LOCK);
    if open.check_writable().is_err() && args.locks.iter().any(is_for_one) {
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    let mut locked = Vec::with_capacity(args.locks.len());
    for element in &args.locks {
        match apply_element(cx, &open, element, unlocks) {
            Ok(range) => locked.push(range),
            Err(stop) => {
                // A failed request releases its own locks, but completed unlocks stay (MS-SMB2 §3.3.5.14.1,
                // §3.3.5.14.2).
                if !unlocks {
                    unlock_all(&open, locked)?;
                }
                return Err(stop);
            }
        }
    }
    if let Some(sequences) = sequences {
        sequences.record_done(args.lock_sequence);
    }
    // The unlock stays although the record is stale: after a restart the range is locked until the open closes.
    if let Err(status) = record::save(&open)
        && !unlocks
    {
        open.sequences.locks.clear(args.lock_sequence);
        unlock_all(&open, locked)?;
        return Err(status.into());
    }
    cx.respond(w, &Empty)
}

/// Whether lock requests can be replayed, because the client may have several connections.
fn has_sequences(cx: &RequestContext<'_, '_>) -> bool {
    let agreed = cx.message.connection.negotiated();
    agreed.is_some_and(|agreed| agreed.capabilities.contains(Capabilities::MULTI_CHANNEL))
}

fn may_wait(element: &LockElement) -> bool {
    !element.flags.intersects(LockFlags::FAIL_IMMEDIATELY | LockFlags::UNLOCK)
}

/// Releases the locks of this request, but no earlier ones with the same bounds.
fn unlock_all(open: &Open, locked: Vec<(Span, bool)>) -> Result<(), NtStatus> {
    locked.into_iter().rev().try_for_each(|(span, is_exclusive)| unlock(open, span, Some(is_exclusive)))
}

fn apply_element(
    cx: &mut RequestContext<'_, '_>,
    open: &Open,
    element: &LockElement,
    unlocks: bool,
) -> Result<(Span, bool), CommandError> {
    let (span, is_exclusive) = parse_element(element, unlocks)?;
    match unlocks {
        true => unlock(open, span, None)?,
        false if may_wait(element) => lock_or_wait(cx, open, span, is_exclusive)?,
        false => lock_now(cx, open, span, is_exclusive)?,
    }
    Ok((span, is_exclusive))
}

fn parse_element(element: &LockElement, unlocks: bool) -> Result<(Span, bool), NtStatus> {
    let kind = element.flags.without(LockFlags::FAIL_IMMEDIATELY);
    let is_exclusive = kind == LockFlags::EXCLUSIVE_LOCK;
    let is_good = match unlocks {
        true => element.flags == LockFlags::UNLOCK,
        false => is_exclusive || kind == LockFlags::SHARED_LOCK,
    };
    if !is_good {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let span = Span::new(element.offset, element.length).ok_or(NtStatus::INVALID_LOCK_RANGE)?;
    Ok((span, is_exclusive))
}

fn try_lock(open: &Open, span: Span, is_exclusive: bool) -> Result<(), NtStatus> {
    check_granted(&request_lock(open, span, is_exclusive, Queueing::Never), NtStatus::LOCK_NOT_GRANTED)
}

/// Acquires a lock without waiting for other locks. Breaks the caches of others first (MS-FSA §2.1.5.8).
fn lock_now(
    cx: &mut RequestContext<'_, '_>,
    open: &Open,
    span: Span,
    is_exclusive: bool,
) -> Result<(), CommandError> {
    match request_lock(open, span, is_exclusive, Queueing::Never) {
        Verdict::Refused(Conflict::Recalling) => {
            // A lock breaks the same leases as I/O on its bytes.
            let kind = if is_exclusive { IoKind::Write } else { IoKind::Read };
            Err(cx.wait_for_io(open, kind, span))
        }
        verdict => Ok(check_granted(&verdict, NtStatus::LOCK_NOT_GRANTED)?),
    }
}

fn lock_or_wait(
    cx: &mut RequestContext<'_, '_>,
    open: &Open,
    span: Span,
    is_exclusive: bool,
) -> Result<(), CommandError> {
    if let Some(wakeup) = cx.wait.wakeup.take() {
        match wakeup.outcome {
            Outcome::Granted => {
                wakeup.commit();
                return Ok(());
            }
            Outcome::TimedOut | Outcome::Canceled => return Err(NtStatus::CANCELLED.into()),
            Outcome::Again => {}
        }
    }
    if try_lock(open, span, is_exclusive).is_ok() {
        return Ok(());
    }
    let waker = cx.waker(Some(open.id), NtStatus::RANGE_NOT_LOCKED, Interim::OfLast)?;
    match request_lock(open, span, is_exclusive, Queueing::Until(Nanos(u64::MAX))) {
        Verdict::Wait(ticket) => {
            let (file, request) = (open.file.clone(), unlock_request(open, span, Some(is_exclusive)));
            // Releases a lock that is granted when no client is left to receive it.
            cx.wait.rollback = Some(Box::new(move || _ = file.claim(&request)));
            Err(cx.wait_for_claim(&open.disk, &open.file, ticket, &waker))
        }
        verdict => Ok(check_granted(&verdict, NtStatus::LOCK_NOT_GRANTED)?),
    }
}

fn request_lock(open: &Open, span: Span, is_exclusive: bool, queueing: Queueing) -> Verdict {
    open.file.claim(&Request::Lock(claims::LockRequest {
        owner: open.lock_owner(),
        open: Some(open.claim()),
        stream: open.file.stream(),
        span,
        is_exclusive,
        is_enforced: true,
        reclaims: false,
        queueing,
    }))
}

fn unlock(open: &Open, span: Span, is_exclusive: Option<bool>) -> Result<(), NtStatus> {
    check_granted(&open.file.claim(&unlock_request(open, span, is_exclusive)), NtStatus::RANGE_NOT_LOCKED)
}

/// The release of a range of this kind, or of either kind.
fn unlock_request(open: &Open, span: Span, is_exclusive: Option<bool>) -> Request {
    let (owner, stream) = (open.lock_owner(), open.file.stream());
    Request::Unlock { owner, stream, span, enforced: true, is_exclusive }
}

/// Maps a verdict to a status; `not_held_status` if no such range exists.
fn check_granted(verdict: &Verdict, not_held_status: NtStatus) -> Result<(), NtStatus> {
    match verdict {
        Verdict::Granted(_) => Ok(()),
        Verdict::Refused(Conflict::NotHeld) | Verdict::Wait(_) => Err(not_held_status),
        Verdict::Refused(conflict) => Err(from_conflict(*conflict).unwrap_or(not_held_status)),
    }
}

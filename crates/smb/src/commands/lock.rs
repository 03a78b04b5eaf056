//! LOCK: byte ranges (MS-SMB2 §3.3.5.14, MS-FSA §2.1.5.8).

use crate::limits::LOCKS_MAX;
use crate::request::context::{Done, Ops, Stop};
use crate::state::open::Open;
use crate::state::pending::Interim;
use crate::state::persistent::record;
use crate::status::of_conflict;
use smb_wire::lock::{LockElement, LockFlags, LockRequest};
use smb_wire::negotiate::Capabilities;
use smb_wire::session::Empty;
use smb_wire::{NtStatus, Writer};
use vfs::claims::{self, Conflict, IoKind, Outcome, Queueing, Request, Span, Verdict};
use vfs::qos::Nanos;

/// MS-SMB2 §3.3.5.14.
pub(crate) fn lock(ops: &mut Ops<'_>, request: &[u8], w: &mut Writer<'_>) -> Done {
    let args: LockRequest = Ops::decode(request)?;
    let open = ops.open(args.file_id)?;
    if args.locks.is_empty() || args.locks.len() > LOCKS_MAX {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    if open.opened().is_none() {
        return Err(NtStatus::INVALID_DEVICE_REQUEST.into());
    }
    let has_sequences = has_sequences(ops) || open.is_persistent();
    let sequences = has_sequences.then_some(&open.lock_sequences);
    if sequences.is_some_and(|sequences| sequences.was_done(args.lock_sequence)) {
        return ops.reply(w, &Empty);
    }
    let unlocks = args.locks[0].flags == LockFlags::UNLOCK;
    if !unlocks && args.locks.len() > 1 && args.locks.iter().any(may_wait) {
        // Of several ranges none is waited for (MS-SMB2 §3.3.5.14.2).
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    // As over NFS: bytes are locked for one alone by callers that may write.
    let is_for_one = |element: &LockElement| element.flags.contains(LockFlags::EXCLUSIVE_LOCK);
    if open.disk.caller.read_only && args.locks.iter().any(is_for_one) {
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    let mut taken = Vec::with_capacity(args.locks.len());
    for element in &args.locks {
        match one(ops, &open, element, unlocks) {
            Ok(range) => taken.push(range),
            Err(stop) => {
                // What was locked by this request is let go; what was unlocked stays so (MS-SMB2 §3.3.5.14.1, §3.3.5.14.2).
                if !unlocks {
                    take_back(&open, taken)?;
                }
                return Err(stop);
            }
        }
    }
    if let Some(sequences) = sequences {
        sequences.note_done(args.lock_sequence);
    }
    // What was unlocked stays so: after a restart it is locked until the open is closed.
    if let Err(status) = record::save(&open)
        && !unlocks
    {
        open.lock_sequences.forget(args.lock_sequence);
        take_back(&open, taken)?;
        return Err(status.into());
    }
    ops.reply(w, &Empty)
}

/// Whether requests for ranges can come twice: the client may have several connections.
fn has_sequences(ops: &Ops<'_>) -> bool {
    let agreed = ops.connection.negotiated();
    agreed.is_some_and(|agreed| agreed.capabilities.contains(Capabilities::MULTI_CHANNEL))
}

fn may_wait(element: &LockElement) -> bool {
    !element.flags.intersects(LockFlags::FAIL_IMMEDIATELY | LockFlags::UNLOCK)
}

/// Lets go of what a request has locked, and of nothing that was locked before by the same bounds.
fn take_back(open: &Open, taken: Vec<(Span, bool)>) -> Result<(), NtStatus> {
    taken.into_iter().rev().try_for_each(|(span, is_exclusive)| unlock(open, span, Some(is_exclusive)))
}

/// Does what one element says, and gives its bytes and whether they are for one alone.
fn one(ops: &mut Ops<'_>, open: &Open, element: &LockElement, unlocks: bool) -> Result<(Span, bool), Stop> {
    let (span, is_exclusive) = step(element, unlocks)?;
    match unlocks {
        true => unlock(open, span, None)?,
        false if may_wait(element) => take_or_wait(ops, open, span, is_exclusive)?,
        false => take_at_once(ops, open, span, is_exclusive)?,
    }
    Ok((span, is_exclusive))
}

/// The bytes of an element, and whether they are for one alone.
fn step(element: &LockElement, unlocks: bool) -> Result<(Span, bool), NtStatus> {
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

fn take(open: &Open, span: Span, is_exclusive: bool) -> Result<(), NtStatus> {
    granted(&ask(open, span, is_exclusive, Queueing::Never), NtStatus::LOCK_NOT_GRANTED)
}

/// Takes a range that is not waited for. What others only cache is: it comes before ranges (MS-FSA 2.1.5.8).
fn take_at_once(ops: &mut Ops<'_>, open: &Open, span: Span, is_exclusive: bool) -> Result<(), Stop> {
    match ask(open, span, is_exclusive, Queueing::Never) {
        Verdict::Refused(Conflict::Recalling) => {
            // Reading and writing of these bytes have the same leases in their way.
            let kind = if is_exclusive { IoKind::Write } else { IoKind::Read };
            Err(ops.wait_for_io(open, kind, span))
        }
        verdict => Ok(granted(&verdict, NtStatus::LOCK_NOT_GRANTED)?),
    }
}

/// Takes a range, or waits for it until it is canceled.
fn take_or_wait(ops: &mut Ops<'_>, open: &Open, span: Span, is_exclusive: bool) -> Result<(), Stop> {
    if let Some(woken) = ops.woken.take() {
        match woken.outcome {
            Outcome::Granted => {
                woken.keep();
                return Ok(());
            }
            Outcome::TimedOut | Outcome::Canceled => return Err(NtStatus::CANCELLED.into()),
            Outcome::Again => {}
        }
    }
    if take(open, span, is_exclusive).is_ok() {
        return Ok(());
    }
    let waker = ops.waker(Some(open.id), NtStatus::RANGE_NOT_LOCKED, Interim::OfLast)?;
    match ask(open, span, is_exclusive, Queueing::Until(Nanos(u64::MAX))) {
        Verdict::Wait(ticket) => {
            let (file, request) = (open.file.clone(), unlocking(open, span, Some(is_exclusive)));
            ops.undo = Some(Box::new(move || _ = file.claim(&request)));
            Err(ops.wait_for_claim(&open.disk, &open.file, ticket, &waker))
        }
        verdict => Ok(granted(&verdict, NtStatus::LOCK_NOT_GRANTED)?),
    }
}

fn ask(open: &Open, span: Span, is_exclusive: bool, queueing: Queueing) -> Verdict {
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
    granted(&open.file.claim(&unlocking(open, span, is_exclusive)), NtStatus::RANGE_NOT_LOCKED)
}

/// The end of a range: the one of this kind, or otherwise of whichever.
fn unlocking(open: &Open, span: Span, is_exclusive: Option<bool>) -> Request {
    let (owner, stream) = (open.lock_owner(), open.file.stream());
    Request::Unlock { owner, stream, span, enforced: true, is_exclusive }
}

/// What became of a request; `not_held` where there is no such range.
fn granted(verdict: &Verdict, otherwise: NtStatus) -> Result<(), NtStatus> {
    match verdict {
        Verdict::Granted(_) => Ok(()),
        Verdict::Refused(Conflict::NotHeld) | Verdict::Wait(_) => Err(otherwise),
        Verdict::Refused(conflict) => Err(of_conflict(*conflict).unwrap_or(otherwise)),
    }
}

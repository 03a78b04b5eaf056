//! OPLOCK_BREAK: acknowledgments of oplock and lease breaks (MS-SMB2 §3.3.5.22).

use super::create::lease_owner;
use crate::request::context::RequestContext;
use crate::request::outcome::{CommandError, CommandResult};
use crate::state::caching::breaks::{caching_of_level, caching_of_state};
use smb_wire::create::OplockLevel;
use smb_wire::oplock::{BreakAck, LeaseBreakAck, LeaseBreakFlags, OplockBreak};
use smb_wire::{NtStatus, Writer};
use vfs::claims::{Caching, Conflict, LeaseKey, Request, Verdict};

pub(crate) fn acknowledge(
    cx: &mut RequestContext<'_, '_>,
    request: &[u8],
    w: &mut Writer<'_>,
) -> CommandResult {
    match RequestContext::decode(request)? {
        BreakAck::Oplock(args) => of_oplock(cx, &args, w),
        BreakAck::Lease(args) => of_lease(cx, &args, w),
    }
}

/// MS-SMB2 §3.3.5.22.1.
fn of_oplock(cx: &mut RequestContext<'_, '_>, args: &OplockBreak, w: &mut Writer<'_>) -> CommandResult {
    let open = cx.open(args.file_id)?;
    let keeps = caching_of_level(args.oplock_level).ok_or(NtStatus::INVALID_PARAMETER)?;
    if open.has_lease() {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let key = LeaseKey::Oplock(open.claim());
    let acknowledged =
        |keeps| open.file.claim(&Request::Acknowledge { key, stream: open.file.stream(), keeps });
    let is_exclusive =
        || open.file.granted_of(open.claim()).is_some_and(|granted| granted.caching.contains(Caching::WRITE));
    match acknowledged(keeps) {
        Verdict::Granted(_) => cx.respond(w, args),
        Verdict::Refused(Conflict::Denied) => {
            // An acknowledgment that keeps too much loses everything.
            acknowledged(Caching::NONE);
            Err(NtStatus::INVALID_OPLOCK_PROTOCOL.into())
        }
        Verdict::Refused(_) if args.oplock_level == OplockLevel::NONE && is_exclusive() => {
            Err(NtStatus::INVALID_DEVICE_STATE.into())
        }
        Verdict::Refused(_) | Verdict::Wait(_) => Err(NtStatus::INVALID_OPLOCK_PROTOCOL.into()),
    }
}

/// MS-SMB2 §3.3.5.22.2.
fn of_lease(cx: &mut RequestContext<'_, '_>, args: &LeaseBreakAck, w: &mut Writer<'_>) -> CommandResult {
    let unknown = CommandError::Status(NtStatus::OBJECT_NAME_NOT_FOUND);
    let owner = lease_owner(cx).ok_or(unknown)?;
    let (file, stream, key) = cx.message.service.leases.find(owner, args.lease_key).ok_or(unknown)?;
    let keeps = caching_of_state(args.lease_state);
    match file.claim(&Request::Acknowledge { key, stream, keeps }) {
        Verdict::Granted(_) => {
            let response = LeaseBreakAck { flags: LeaseBreakFlags::empty(), lease_duration: 0, ..*args };
            cx.respond(w, &response)
        }
        Verdict::Refused(Conflict::Denied) => Err(NtStatus::REQUEST_NOT_ACCEPTED.into()),
        Verdict::Refused(_) | Verdict::Wait(_) => Err(NtStatus::UNSUCCESSFUL.into()),
    }
}

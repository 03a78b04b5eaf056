//! The network lock manager: byte ranges and share modes for clients of NFS version 3 (RFC 1813 Appendix II, XNFS
//! chapter 10).
//!
//! A client is its address, whatever name it sends. There is no authentication: a client that may use an export and
//! read or write a file may lock it, and can release only its own locks.

mod share;
#[cfg(test)]
mod tests;

use crate::call::{Attempt, Call, CallResult, File, Outcome};
use crate::limits::LOCK_OWNER_BYTES_MAX;
use crate::outgoing::Outgoing;
use crate::records::reply::Records;
use crate::state::nlm::table::{GrantArgs, OwnerName};
use crate::state::nlm::{ConflictingLock, LockCall, LockOptions};
use crate::status::nlm::{from_error, in_version};
use nfs_wire::nlm::{
    CancelArgs, Holder, Lock, LockArgs, Notify, Object, Offset, PROGRAM, Procedure, Reply, ShareArgs,
    ShareReply, Status, TestArgs, TestReply, TestStatus, UnlockArgs, VERSION_1, VERSION_4,
};
use transport::Outbox;
use vfs::claims::Span;
use vfs::{Blocking, ExportAccess, FsError, FsResult, Wait};
use xdr::{Decode, Encode, Malformed, Reader, Writer};

/// Distance from a procedure to its asynchronous call, and from that to its asynchronous result (RFC 1813 §6.3).
const TO_MSG: u32 = Procedure::TEST_MSG.0 - Procedure::TEST.0;
const TO_RES: u32 = Procedure::TEST_RES.0 - Procedure::TEST_MSG.0;

pub(crate) fn answer(
    call: &mut Call<'_>,
    version: u32,
    procedure: Procedure,
    args: &[u8],
    out: &mut Outbox,
) -> Attempt {
    let (mut r, mut w) = (Reader::new(args), out.writer());
    call.service.locks.mark_seen(call.client());
    match version {
        VERSION_4 => Procedures::<u64>::answer(call, version, procedure, &mut r, &mut w),
        _ => Procedures::<u32>::answer(call, version, procedure, &mut r, &mut w),
    }
}

/// Writes the result of a failed call; false if the procedure has none.
/// A client repeats a lock request after `FsError::Wait(Wait::Recall)`.
pub(crate) fn fail(
    version: u32,
    procedure: Procedure,
    args: &[u8],
    error: FsError,
    w: &mut Writer<'_>,
) -> bool {
    // All arguments begin with the cookie.
    let Ok(cookie) = Object::decode(&mut Reader::new(args)) else { return false };
    let stat = in_version(from_error(error), version);
    match procedure {
        // A result without a holder is the same in all versions.
        Procedure::TEST => TestReply::<u64> { cookie, stat: TestStatus::Other(stat) }.encode(w),
        Procedure::LOCK | Procedure::NM_LOCK | Procedure::CANCEL | Procedure::UNLOCK => {
            Reply { cookie, stat }.encode(w)
        }
        Procedure::SHARE | Procedure::UNSHARE => ShareReply { cookie, stat, sequence: 0 }.encode(w),
        _ => return false,
    }
    true
}

pub(crate) fn handle(version: u32, procedure: Procedure, args: &[u8]) -> Option<&[u8]> {
    let r = Reader::new(args);
    match version {
        VERSION_4 => Procedures::<u64>::handle(procedure, r),
        _ => Procedures::<u32>::handle(procedure, r),
    }
}

struct Procedures<O>(std::marker::PhantomData<O>);

type ProcedureResult = Result<CallResult, Malformed>;

impl<O: Offset> Procedures<O> {
    fn handle(procedure: Procedure, mut r: Reader<'_>) -> Option<&[u8]> {
        let lock = match procedure {
            Procedure::TEST | Procedure::TEST_MSG => TestArgs::<O>::decode(&mut r).ok()?.alock,
            Procedure::LOCK | Procedure::LOCK_MSG | Procedure::NM_LOCK => {
                LockArgs::decode(&mut r).ok()?.alock
            }
            Procedure::CANCEL | Procedure::CANCEL_MSG => CancelArgs::decode(&mut r).ok()?.alock,
            Procedure::UNLOCK | Procedure::UNLOCK_MSG => UnlockArgs::decode(&mut r).ok()?.alock,
            Procedure::SHARE | Procedure::UNSHARE => {
                return Some(ShareArgs::decode(&mut r).ok()?.share.fh.0);
            }
            _ => return None,
        };
        Some(lock.fh.0)
    }

    fn answer(
        call: &mut Call<'_>,
        version: u32,
        procedure: Procedure,
        r: &mut Reader<'_>,
        w: &mut Writer<'_>,
    ) -> Attempt {
        match procedure {
            Procedure::NULL => {}
            // We send no _MSG calls, so these results are unexpected.
            Procedure::TEST_RES
            | Procedure::LOCK_RES
            | Procedure::CANCEL_RES
            | Procedure::UNLOCK_RES
            | Procedure::GRANTED_RES => {}
            Procedure::TEST_MSG
            | Procedure::LOCK_MSG
            | Procedure::CANCEL_MSG
            | Procedure::UNLOCK_MSG
            | Procedure::GRANTED_MSG => {
                let mut result = Vec::new();
                let wanted = Procedure(procedure.0 - TO_MSG);
                if let Err(wait) = Self::result(call, version, wanted, r, &mut Writer::new(&mut result))? {
                    return Ok(Outcome::Wait(wait));
                }
                send_result(call, version, Procedure(procedure.0 + TO_RES), result);
            }
            Procedure::SHARE | Procedure::UNSHARE if version != VERSION_1 => {
                let args = ShareArgs::decode(r)?;
                let stat = match share::answer(call, procedure, &args) {
                    Err(FsError::Wait(Wait::Storage)) => return Ok(Outcome::Wait(Wait::Storage)),
                    stat => in_version(stat.unwrap_or_else(from_error), version),
                };
                ShareReply { cookie: args.cookie, stat, sequence: 0 }.encode(w);
            }
            // The address of the caller counts, not the name in the call: a client frees only its own locks.
            Procedure::FREE_ALL if version != VERSION_1 => {
                Notify::decode(r)?;
                call.service.locks.free_all(call.client());
            }
            Procedure::NM_LOCK if version == VERSION_1 => return Ok(Outcome::NoProcedure),
            Procedure::TEST
            | Procedure::LOCK
            | Procedure::CANCEL
            | Procedure::UNLOCK
            | Procedure::GRANTED
            | Procedure::NM_LOCK => return Ok(Self::result(call, version, procedure, r, w)?.into()),
            _ => return Ok(Outcome::NoProcedure),
        }
        Ok(Outcome::Replied)
    }

    /// Procedures that also have an asynchronous form.
    fn result(
        call: &mut Call<'_>,
        version: u32,
        procedure: Procedure,
        r: &mut Reader<'_>,
        w: &mut Writer<'_>,
    ) -> ProcedureResult {
        let (cookie, status) = match procedure {
            Procedure::TEST => return Self::test(call, version, &TestArgs::decode(r)?, w),
            Procedure::LOCK | Procedure::NM_LOCK => {
                let args = LockArgs::decode(r)?;
                (args.cookie, Self::lock(call, version, &args, procedure == Procedure::LOCK))
            }
            Procedure::CANCEL => {
                let CancelArgs { cookie, exclusive, alock, .. } = CancelArgs::decode(r)?;
                (
                    cookie,
                    Self::with_lock_call(call, version, &alock, exclusive, |call, lock_call| {
                        call.service.locks.cancel(lock_call)
                    }),
                )
            }
            Procedure::UNLOCK => {
                let UnlockArgs { cookie, alock } = UnlockArgs::decode(r)?;
                (
                    cookie,
                    Self::with_lock_call(call, version, &alock, false, |call, lock_call| {
                        call.service.locks.unlock(lock_call)
                    }),
                )
            }
            // We never wait for locks of other servers.
            _ => (TestArgs::<O>::decode(r)?.cookie, Ok(Status::DENIED)),
        };
        let stat = match status {
            Err(FsError::Wait(Wait::Storage)) => return Ok(Err(Wait::Storage)),
            status => in_version(status.unwrap_or_else(from_error), version),
        };
        Reply { cookie, stat }.encode(w);
        Ok(Ok(()))
    }

    /// RFC 1813 §6.3.1.
    fn test(
        call: &mut Call<'_>,
        version: u32,
        args: &TestArgs<'_, O>,
        w: &mut Writer<'_>,
    ) -> ProcedureResult {
        let tested = call.lockable(&args.alock, Some(args.exclusive)).map(|(file, span)| {
            let lock_call = lock_call(call, &file, version, &args.alock, span, args.exclusive);
            call.service.locks.test(&lock_call)
        });
        let (status, conflict) = match tested {
            Err(FsError::Wait(Wait::Storage)) => return Ok(Err(Wait::Storage)),
            Err(error) => (from_error(error), None),
            Ok(Ok(())) => (Status::GRANTED, None),
            Ok(Err(refused)) => refused,
        };
        let cookie = args.cookie;
        let stat = match (status, &conflict) {
            (Status::DENIED, _) => TestStatus::Denied(holder(conflict.as_ref())),
            (status, _) => TestStatus::Other(in_version(status, version)),
        };
        TestReply::<O> { cookie, stat }.encode(w);
        Ok(Ok(()))
    }

    /// RFC 1813 §6.3.2 and §6.3.22.
    fn lock(
        call: &mut Call<'_>,
        version: u32,
        args: &LockArgs<'_, O>,
        is_monitored: bool,
    ) -> FsResult<Status> {
        let (file, span) = call.lockable(&args.alock, Some(args.exclusive))?;
        let is_recorded = !is_monitored || call.service.locks.is_recorded(call.client());
        // Recording a client writes to the disk.
        if !is_recorded && call.blocking == Blocking::Never {
            return Err(FsError::Wait(Wait::Storage));
        }
        let monitor = is_monitored.then_some(args.state);
        let options = LockOptions { waits: args.block, reclaims: args.reclaim, monitor };
        let lock_call = lock_call(call, &file, version, &args.alock, span, args.exclusive);
        let status = call.service.locks.lock(&lock_call, options);
        call.service.locks.note_grant(call.namespace, &call.service.namespace);
        Ok(status)
    }

    /// Runs a request that releases a lock. It needs no file permission: the client had it when it locked.
    fn with_lock_call(
        call: &mut Call<'_>,
        version: u32,
        alock: &Lock<'_, O>,
        is_exclusive: bool,
        act: impl FnOnce(&Call<'_>, &LockCall<'_>) -> Status,
    ) -> FsResult<Status> {
        let (file, span) = call.lockable(alock, None)?;
        let lock_call = lock_call(call, &file, version, alock, span, is_exclusive);
        Ok(act(call, &lock_call))
    }
}

impl Call<'_> {
    fn admission(&self, file: &File, changes: bool) -> ExportAccess {
        let (export, incarnation) = (file.export_id(), file.volume().incarnation());
        ExportAccess { export, incarnation, origin: self.origin(), changes }
    }

    /// The file and byte range of a lock. With `Some`, the caller must have the right to lock the range,
    /// exclusively or shared.
    fn lockable<O: Offset>(
        &mut self,
        alock: &Lock<'_, O>,
        is_exclusive: Option<bool>,
    ) -> FsResult<(File, Span)> {
        if alock.oh.0.len() > LOCK_OWNER_BYTES_MAX || alock.caller_name.len() > LOCK_OWNER_BYTES_MAX {
            return Err(FsError::Invalid);
        }
        let (offset, len): (u64, u64) = (alock.l_offset.into(), alock.l_len.into());
        let span = match len {
            0 => Span::to_end(offset),
            len => Span::new(offset, len).ok_or(FsError::FileTooBig)?,
        };
        let file = self.file(alock.fh.0)?;
        if let Some(is_exclusive) = is_exclusive {
            file.authorize_lock(&file.caller, is_exclusive, self.blocking)?;
        }
        Ok((file, span))
    }
}

fn lock_call<'f, O: Offset>(
    call: &Call<'_>,
    file: &'f File,
    version: u32,
    alock: &Lock<'_, O>,
    span: Span,
    is_exclusive: bool,
) -> LockCall<'f> {
    let grant_args = GrantArgs {
        version,
        local: call.local.to_canonical(),
        caller_name: alock.caller_name.into(),
        handle: alock.fh.0.into(),
        offset: alock.l_offset.into(),
        len: alock.l_len.into(),
    };
    let owner = OwnerName { svid: alock.svid, oh: alock.oh.0.into() };
    let admission = call.admission(file, is_exclusive);
    LockCall { file, client: call.client(), owner, span, is_exclusive, grant_args, admission }
}

/// The holder in a TEST reply. Only the existence of a conflict that is not a byte range is known.
fn holder<O: Offset>(conflict: Option<&ConflictingLock>) -> Holder<'_, O> {
    let width = |value: u64| O::try_from(value).unwrap_or(O::MAX);
    let Some(ConflictingLock { owner, span, is_exclusive }) = conflict else {
        let whole = width(0);
        return Holder { exclusive: true, svid: 0, oh: Object(b""), l_offset: whole, l_len: whole };
    };
    let is_to_end = *span == Span::to_end(span.start());
    // A length that the version cannot express becomes "to the end of the file".
    let len = if is_to_end { 0 } else { span.len() };
    Holder {
        exclusive: *is_exclusive,
        svid: owner.svid,
        oh: Object(&owner.oh),
        l_offset: width(span.start()),
        l_len: O::try_from(len).unwrap_or_else(|_| width(0)),
    }
}

/// Sends the result of an asynchronous call. Clients that no export admits get no datagrams.
fn send_result(call: &Call<'_>, version: u32, procedure: Procedure, args: Vec<u8>) {
    if !call.namespace.exports().iter().any(|export| export.rule(call.origin()).is_some()) {
        return;
    }
    let (host, from) = (call.client(), call.local.to_canonical());
    let result = Outgoing { host, from, program: PROGRAM, version, procedure: procedure.0, args };
    call.service.locks.send_result(result, call.peer.port());
}

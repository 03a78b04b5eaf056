//! The operations: in which minor versions they are there, and what they need of the compound and its thread.

use super::ops::Ops;
use crate::limits::COMPOUND_OPERATIONS_MAX;
use nfs_wire::v4::{Op, Status};

/// What is known of an operation before it is looked at.
struct Known {
    /// The minor versions that have it, a bit each.
    minors: u8,
    needs: Needs,
    /// Whether it can be tried on a thread that must not wait.
    is_inline: bool,
}

/// What must have come before an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// SEQUENCE, where there are sessions.
    Session,
    /// Nothing: it stands alone, without a session (RFC 8881 §2.10.2.1, §18.34.3, §18.35.3, §18.36.3, §18.37.3, §18.50.3), or
    /// not first in one that has it.
    Alone,
    /// Nothing: it is SEQUENCE.
    First,
}

const V40: u8 = 1;
const V41: u8 = 2;
const V42: u8 = 4;
const ALL: u8 = V40 | V41 | V42;
const SESSIONS: u8 = V41 | V42;

/// What is known of an operation; `None` if no minor version has it.
const fn known(op: Op) -> Option<Known> {
    match op {
        Op::SEQUENCE => Some(Known { minors: SESSIONS, needs: Needs::First, is_inline: true }),
        Op::BIND_CONN_TO_SESSION
        | Op::EXCHANGE_ID
        | Op::CREATE_SESSION
        | Op::DESTROY_SESSION
        | Op::DESTROY_CLIENTID => Some(Known { minors: SESSIONS, needs: Needs::Alone, is_inline: false }),
        Op::ACCESS | Op::GETATTR | Op::GETFH | Op::LOOKUP | Op::NVERIFY | Op::PUTFH | Op::PUTPUBFH => {
            inline()
        }
        Op::PUTROOTFH | Op::READ | Op::RESTOREFH | Op::SAVEFH | Op::VERIFY => inline(),
        Op::READ_PLUS => Some(Known { minors: V42, needs: Needs::Session, is_inline: true }),
        Op::OPEN_CONFIRM | Op::RENEW | Op::SETCLIENTID | Op::SETCLIENTID_CONFIRM | Op::RELEASE_LOCKOWNER => {
            offloaded(V40)
        }
        op => match op.0 {
            OLD_FIRST..=OLD_LAST => offloaded(ALL),
            SESSIONS_FIRST..=SESSIONS_LAST => offloaded(SESSIONS),
            V42_FIRST..=V42_LAST => offloaded(V42),
            _ => None,
        },
    }
}

/// Operations are numbered by the minor version that brought them.
const OLD_FIRST: u32 = Op::ACCESS.0;
const OLD_LAST: u32 = Op::RELEASE_LOCKOWNER.0;
const SESSIONS_FIRST: u32 = Op::BACKCHANNEL_CTL.0;
const SESSIONS_LAST: u32 = Op::RECLAIM_COMPLETE.0;
const V42_FIRST: u32 = Op::ALLOCATE.0;
const V42_LAST: u32 = Op::REMOVEXATTR.0;

const fn inline() -> Option<Known> {
    Some(Known { minors: ALL, needs: Needs::Session, is_inline: true })
}

const fn offloaded(minors: u8) -> Option<Known> {
    Some(Known { minors, needs: Needs::Session, is_inline: false })
}

/// Whether the operation can be tried on a thread that must not wait.
pub(super) fn is_inline(op: Op) -> bool {
    known(op).is_none_or(|known| known.is_inline)
}

/// Whether the operation has its client recorded for a restart, at once or before it opens something.
pub(super) fn is_recorded(op: Op) -> bool {
    matches!(op, Op::RECLAIM_COMPLETE | Op::SETCLIENTID_CONFIRM)
}

/// Whether an operation that was done may be taken back by not telling of it.
pub(super) fn is_repeatable(op: Op) -> bool {
    is_inline(op)
        || matches!(
            op,
            Op::READDIR | Op::READLINK | Op::LOOKUPP | Op::SECINFO | Op::SECINFO_NO_NAME | Op::LOCKT
        )
        || matches!(op, Op::GETXATTR | Op::LISTXATTRS | Op::SEEK | Op::TEST_STATEID)
}

/// Whether an operation of 4.0 that comes again may do something else than the first time.
pub(super) fn is_once(op: Op) -> bool {
    !is_repeatable(op) && !matches!(op, Op::WRITE | Op::COMMIT | Op::RENEW)
}

/// The status of a failure as a minor version has it: 4.0 knows none of those that came later (RFC 7530 §13.1).
pub(super) fn status_in(minor: u32, status: Status) -> Status {
    match status {
        status if minor > 0 || status.0 <= Status::CB_PATH_DOWN.0 => status,
        Status::WRONG_TYPE => Status::INVAL,
        _ => Status::SERVERFAULT,
    }
}

/// Whether an operation gives another current filehandle and no stateid that goes with it (RFC 8881 §16.2.3.1.2).
pub(super) fn replaces_handle(op: Op) -> bool {
    matches!(op, Op::PUTFH | Op::PUTROOTFH | Op::PUTPUBFH | Op::LOOKUP | Op::LOOKUPP | Op::CREATE)
}

/// The operation that a number stands for in this compound, after `done` others, and whether it may be done now.
pub(super) fn check(ops: &Ops<'_, '_>, number: Op, done: u32) -> (Op, Result<(), Status>) {
    let known = known(number).filter(|known| known.minors & 1 << ops.minor != 0);
    let Some(known) = known else { return (Op::ILLEGAL, Err(Status::OP_ILLEGAL)) };
    if ops.minor == 0 {
        // Since 4.1, sessions have bounds of their own.
        let is_too_long = ops.operations > COMPOUND_OPERATIONS_MAX;
        return (number, if is_too_long { Err(Status::RESOURCE) } else { Ok(()) });
    }
    let allowed = match known.needs {
        Needs::First if done > 0 => Err(Status::SEQUENCE_POS),
        Needs::Session if ops.slot.is_none() => Err(Status::OP_NOT_IN_SESSION),
        Needs::Alone if ops.slot.is_none() && (done > 0 || ops.operations > 1) => Err(Status::NOT_ONLY_OP),
        _ => Ok(()),
    };
    (number, allowed)
}

//! The operations: their minor versions, and their requirements of the compound and its thread.

use crate::limits::COMPOUND_OPERATIONS_MAX;
use nfs_wire::v4::{Op, Status};

#[derive(Clone, Copy)]
struct OperationInfo {
    /// The minor versions that have it, a bit each.
    minors: u8,
    needs: Needs,
    traits: Traits,
}

/// Properties of an operation that do not depend on its arguments, or the union over several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Traits(u8);

impl Traits {
    pub(super) const NONE: Self = Self(0);
    /// Cannot be tried on a thread that must not wait.
    pub(super) const WAITS: Self = Self(1);
    /// Once it is done, it cannot be taken back by not telling of it.
    pub(super) const LASTS: Self = Self(2);
    /// Records the client for a restart, at once or before it opens a file.
    pub(super) const RECORDED: Self = Self(4);
    /// In 4.0, it may do something else when it comes again.
    pub(super) const ONCE: Self = Self(8);
    /// Sets another current filehandle, without a current stateid (RFC 8881 §16.2.3.1.2).
    pub(super) const MOVES: Self = Self(16);
    pub(super) const WRITES: Self = Self(32);
    /// Has a price at the volume of the current file, or stands beside operations that have one (`price.rs`).
    pub(super) const PAYS: Self = Self(64);

    #[inline]
    pub(super) fn of(op: Op) -> Self {
        operation_info(op).traits
    }

    #[inline]
    pub(super) fn has(self, one: Self) -> bool {
        self.0 & one.0 != 0
    }

    #[inline]
    pub(super) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn info(op: Op, is_inline: bool) -> Self {
        let only_looks = is_inline
            || matches!(
                op,
                Op::READDIR | Op::READLINK | Op::LOOKUPP | Op::SECINFO | Op::SECINFO_NO_NAME | Op::LOCKT
            )
            || matches!(op, Op::GETXATTR | Op::LISTXATTRS | Op::SEEK | Op::TEST_STATEID);
        let is_same_again = only_looks || matches!(op, Op::WRITE | Op::COMMIT | Op::RENEW);
        let is_recorded = matches!(op, Op::RECLAIM_COMPLETE | Op::SETCLIENTID_CONFIRM);
        let moves =
            matches!(op, Op::PUTFH | Op::PUTROOTFH | Op::PUTPUBFH | Op::LOOKUP | Op::LOOKUPP | Op::CREATE);
        let is_free = matches!(op, Op::PUTFH | Op::PUTROOTFH | Op::PUTPUBFH | Op::SEQUENCE | Op::COMMIT)
            || matches!(op, Op::GETFH | Op::SAVEFH | Op::RESTOREFH | Op::DELEGRETURN);
        Self::WAITS
            .only_if(!is_inline)
            .or(Self::PAYS.only_if(!is_free))
            .or(Self::LASTS.only_if(!only_looks))
            .or(Self::ONCE.only_if(!is_same_again))
            .or(Self::RECORDED.only_if(is_recorded))
            .or(Self::MOVES.only_if(moves))
            .or(Self::WRITES.only_if(matches!(op, Op::WRITE | Op::COPY)))
    }

    const fn only_if(self, is_so: bool) -> Self {
        if is_so { self } else { Self::NONE }
    }
}

/// The required predecessor of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// SEQUENCE, if the minor version has sessions.
    Session,
    /// Nothing: it stands alone, without a session (RFC 8881 §2.10.2.1, §18.34.3, §18.35.3, §18.36.3, §18.37.3, §18.50.3), or
    /// not first in one that has it.
    Alone,
    /// None: it is SEQUENCE.
    First,
}

const V40: u8 = 1;
const V41: u8 = 2;
const V42: u8 = 4;
const ALL: u8 = V40 | V41 | V42;
const SESSIONS: u8 = V41 | V42;

/// Properties of each operation, by number.
static OPERATIONS: [OperationInfo; NUMBERS] = {
    let mut all = [UNKNOWN; NUMBERS];
    let mut number = 0;
    while number < NUMBERS {
        #[expect(clippy::cast_possible_truncation, reason = "below NUMBERS")]
        let op = Op(number as u32);
        all[number] = find(op);
        number += 1;
    }
    all
};
/// Numbers of operations are below this.
const NUMBERS: usize = V42_LAST as usize + 1;

const UNKNOWN: OperationInfo = OperationInfo { minors: 0, needs: Needs::Session, traits: Traits::NONE };

#[inline]
fn operation_info(op: Op) -> &'static OperationInfo {
    OPERATIONS.get(op.0 as usize).unwrap_or(&UNKNOWN)
}

const fn find(op: Op) -> OperationInfo {
    let (minors, needs, is_inline) = match op {
        Op::SEQUENCE => (SESSIONS, Needs::First, true),
        Op::BIND_CONN_TO_SESSION
        | Op::EXCHANGE_ID
        | Op::CREATE_SESSION
        | Op::DESTROY_SESSION
        | Op::DESTROY_CLIENTID => (SESSIONS, Needs::Alone, false),
        Op::ACCESS | Op::GETATTR | Op::GETFH | Op::LOOKUP | Op::NVERIFY | Op::PUTFH | Op::PUTPUBFH => {
            (ALL, Needs::Session, true)
        }
        Op::PUTROOTFH | Op::READ | Op::RESTOREFH | Op::SAVEFH | Op::VERIFY => (ALL, Needs::Session, true),
        Op::READ_PLUS => (V42, Needs::Session, true),
        Op::OPEN_CONFIRM | Op::RENEW | Op::SETCLIENTID | Op::SETCLIENTID_CONFIRM | Op::RELEASE_LOCKOWNER => {
            (V40, Needs::Session, false)
        }
        op => match op.0 {
            OLD_FIRST..=OLD_LAST => (ALL, Needs::Session, false),
            SESSIONS_FIRST..=SESSIONS_LAST => (SESSIONS, Needs::Session, false),
            V42_FIRST..=V42_LAST => (V42, Needs::Session, false),
            _ => return UNKNOWN,
        },
    };
    OperationInfo { minors, needs, traits: Traits::info(op, is_inline) }
}

/// Operations are numbered by the minor version that brought them.
const OLD_FIRST: u32 = Op::ACCESS.0;
const OLD_LAST: u32 = Op::RELEASE_LOCKOWNER.0;
const SESSIONS_FIRST: u32 = Op::BACKCHANNEL_CTL.0;
const SESSIONS_LAST: u32 = Op::RECLAIM_COMPLETE.0;
const V42_FIRST: u32 = Op::ALLOCATE.0;
const V42_LAST: u32 = Op::REMOVEXATTR.0;

/// The status of a failure as a minor version has it: 4.0 knows none of those that came later (RFC 7530 §13.1).
pub(super) fn status_in(minor: u32, status: Status) -> Status {
    match status {
        status if minor > 0 || status.0 <= Status::CB_PATH_DOWN.0 => status,
        Status::WRONG_TYPE => Status::INVAL,
        _ => Status::SERVERFAULT,
    }
}

/// A compound as far as it decides which operations may be done.
#[derive(Clone, Copy)]
pub(super) struct CompoundFacts {
    pub(super) minor: u32,
    pub(super) operations: u32,
    pub(super) has_session: bool,
}

/// The traits of an operation that may run after `done` others of its compound. An error is the operation to name in
/// the result, and its status.
#[inline]
pub(super) fn check(compound: CompoundFacts, number: Op, done: u32) -> Result<Traits, (Op, Status)> {
    let CompoundFacts { minor, operations, has_session } = compound;
    let info = operation_info(number);
    if info.minors & 1 << minor == 0 {
        return Err((Op::ILLEGAL, Status::OP_ILLEGAL));
    }
    if minor == 0 {
        // Since 4.1, the session bounds the number of operations.
        let is_too_long = operations > COMPOUND_OPERATIONS_MAX;
        return if is_too_long { Err((number, Status::RESOURCE)) } else { Ok(info.traits) };
    }
    match info.needs {
        Needs::First if done > 0 => Err((number, Status::SEQUENCE_POS)),
        Needs::Session if !has_session => Err((number, Status::OP_NOT_IN_SESSION)),
        Needs::Alone if !has_session && (done > 0 || operations > 1) => Err((number, Status::NOT_ONLY_OP)),
        _ => Ok(info.traits),
    }
}

//! The network lock manager: version 4, RFC 1813 Appendix II, and versions 1 and 3, XNFS chapter 10.
//!
//! All versions have the same messages. They differ in the width of offsets and lengths, which is [`Offset`]
//! here: 32 bits in versions 1 and 3, 64 in version 4; and in the statuses past [`Status::DEADLCK`], which
//! are version 4's alone.

use xdr::{Decode, Encode, Malformed, Reader, Writer, Xdr};

xdr::constants! {
    pub CONSTANTS {
        PROGRAM: "NLM_PROG" = 100_021,
        VERSION_1: "NLM_VERS" = 1,
        VERSION_3: "NLM_VERSX" = 3,
        VERSION_4: "NLM4_VERS" = 4,
        STRING_MAX: "LM_MAXSTRLEN" = 1024,
        OBJECT_MAX: "MAXNETOBJ_SZ" = 1024,
    }
}

xdr::open_set! {
    /// The procedures, RFC 1813 §6.3; those of versions 1 and 3 have the same numbers, and version 1 ends
    /// with [`Procedure::GRANTED_RES`].
    pub struct Procedure {
        NULL: "NLMPROC4_NULL" = 0,
        TEST: "NLMPROC4_TEST" = 1,
        LOCK: "NLMPROC4_LOCK" = 2,
        CANCEL: "NLMPROC4_CANCEL" = 3,
        UNLOCK: "NLMPROC4_UNLOCK" = 4,
        GRANTED: "NLMPROC4_GRANTED" = 5,
        TEST_MSG: "NLMPROC4_TEST_MSG" = 6,
        LOCK_MSG: "NLMPROC4_LOCK_MSG" = 7,
        CANCEL_MSG: "NLMPROC4_CANCEL_MSG" = 8,
        UNLOCK_MSG: "NLMPROC4_UNLOCK_MSG" = 9,
        GRANTED_MSG: "NLMPROC4_GRANTED_MSG" = 10,
        TEST_RES: "NLMPROC4_TEST_RES" = 11,
        LOCK_RES: "NLMPROC4_LOCK_RES" = 12,
        CANCEL_RES: "NLMPROC4_CANCEL_RES" = 13,
        UNLOCK_RES: "NLMPROC4_UNLOCK_RES" = 14,
        GRANTED_RES: "NLMPROC4_GRANTED_RES" = 15,
        SHARE: "NLMPROC4_SHARE" = 20,
        UNSHARE: "NLMPROC4_UNSHARE" = 21,
        NM_LOCK: "NLMPROC4_NM_LOCK" = 22,
        FREE_ALL: "NLMPROC4_FREE_ALL" = 23,
    }
}

xdr::open_set! {
    /// `nlm4_stats`, RFC 1813 §6.1.3.
    pub struct Status {
        GRANTED: "NLM4_GRANTED" = 0,
        DENIED: "NLM4_DENIED" = 1,
        DENIED_NOLOCKS: "NLM4_DENIED_NOLOCKS" = 2,
        BLOCKED: "NLM4_BLOCKED" = 3,
        DENIED_GRACE_PERIOD: "NLM4_DENIED_GRACE_PERIOD" = 4,
        DEADLCK: "NLM4_DEADLCK" = 5,
        ROFS: "NLM4_ROFS" = 6,
        STALE_FH: "NLM4_STALE_FH" = 7,
        FBIG: "NLM4_FBIG" = 8,
        FAILED: "NLM4_FAILED" = 9,
    }
}

xdr::open_set! {
    /// `fsh4_mode`, RFC 1813 §6.1.3: the access that a share denies to others.
    pub struct ShareMode {
        DENY_NONE: "FSM_DN" = 0,
        DENY_READ: "FSM_DR" = 1,
        DENY_WRITE: "FSM_DW" = 2,
        DENY_BOTH: "FSM_DRW" = 3,
    }
}

xdr::open_set! {
    /// `fsh4_access`, RFC 1813 §6.1.3: the access that a share requests.
    pub struct ShareAccess {
        NONE: "FSA_NONE" = 0,
        READ: "FSA_R" = 1,
        WRITE: "FSA_W" = 2,
        BOTH: "FSA_RW" = 3,
    }
}

/// `uint64` of version 4 (RFC 1813 §6.1.3), `unsigned` of versions 1 and 3 (XNFS §10.1.2).
pub trait Offset: Encode + for<'a> Decode<'a> + Into<u64> + TryFrom<u64> + Copy {
    const MAX: Self;
}

impl Offset for u32 {
    const MAX: Self = Self::MAX;
}

impl Offset for u64 {
    const MAX: Self = Self::MAX;
}

/// `netobj`, RFC 1813 §6.1.3: bytes that only their sender interprets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct Object<'a>(#[xdr(max = OBJECT_MAX)] pub &'a [u8]);

/// `nlm4_lock`, RFC 1813 §6.1.3: a byte range of a file with its owner. A length of 0 reaches to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct Lock<'a, O: Offset> {
    #[xdr(max = STRING_MAX)]
    pub caller_name: &'a [u8],
    pub fh: Object<'a>,
    pub oh: Object<'a>,
    pub svid: u32,
    pub l_offset: O,
    pub l_len: O,
}

/// `nlm4_holder`, RFC 1813 §6.1.3: the conflicting lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct Holder<'a, O: Offset> {
    pub exclusive: bool,
    pub svid: u32,
    pub oh: Object<'a>,
    pub l_offset: O,
    pub l_len: O,
}

/// `nlm4_testargs`, RFC 1813 §6.1.3: the argument of TEST and GRANTED.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct TestArgs<'a, O: Offset> {
    pub cookie: Object<'a>,
    pub exclusive: bool,
    pub alock: Lock<'a, O>,
}

/// `nlm4_lockargs`, RFC 1813 §6.1.3: the argument of LOCK and NM_LOCK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct LockArgs<'a, O: Offset> {
    pub cookie: Object<'a>,
    pub block: bool,
    pub exclusive: bool,
    pub alock: Lock<'a, O>,
    pub reclaim: bool,
    /// The state number of the caller's status monitor.
    pub state: u32,
}

/// `nlm4_cancargs`, RFC 1813 §6.1.3: the argument of CANCEL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct CancelArgs<'a, O: Offset> {
    pub cookie: Object<'a>,
    pub block: bool,
    pub exclusive: bool,
    pub alock: Lock<'a, O>,
}

/// `nlm4_unlockargs`, RFC 1813 §6.1.3: the argument of UNLOCK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct UnlockArgs<'a, O: Offset> {
    pub cookie: Object<'a>,
    pub alock: Lock<'a, O>,
}

/// `nlm4_share`, RFC 1813 §6.1.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct Share<'a> {
    #[xdr(max = STRING_MAX)]
    pub caller_name: &'a [u8],
    pub fh: Object<'a>,
    pub oh: Object<'a>,
    pub mode: ShareMode,
    pub access: ShareAccess,
}

/// `nlm4_shareargs`, RFC 1813 §6.1.3: the argument of SHARE and UNSHARE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ShareArgs<'a> {
    pub cookie: Object<'a>,
    pub share: Share<'a>,
    pub reclaim: bool,
}

/// `nlm4_notify`, RFC 1813 §6.1.3: the argument of FREE_ALL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct Notify<'a> {
    #[xdr(max = STRING_MAX)]
    pub name: &'a [u8],
    pub state: u32,
}

/// `nlm4_res`, RFC 1813 §6.1.3: the result of LOCK, CANCEL, UNLOCK, GRANTED and NM_LOCK, and the argument of
/// their `_RES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct Reply<'a> {
    pub cookie: Object<'a>,
    pub stat: Status,
}

/// `nlm4_testres`, RFC 1813 §6.1.3: the result of TEST and the argument of TEST_RES.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct TestReply<'a, O: Offset> {
    pub cookie: Object<'a>,
    pub stat: TestStatus<'a, O>,
}

/// `nlm4_testrply`, RFC 1813 §6.1.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestStatus<'a, O: Offset> {
    Denied(Holder<'a, O>),
    /// Never [`Status::DENIED`].
    Other(Status),
}

/// `nlm4_shareres`, RFC 1813 §6.1.3: the result of SHARE and UNSHARE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ShareReply<'a> {
    pub cookie: Object<'a>,
    pub stat: Status,
    pub sequence: u32,
}

impl<O: Offset> Encode for TestStatus<'_, O> {
    fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Self::Denied(holder) => {
                Status::DENIED.encode(w);
                holder.encode(w);
            }
            Self::Other(status) => status.encode(w),
        }
    }
}

impl<'a, O: Offset> Decode<'a> for TestStatus<'a, O> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match Status::decode(r)? {
            Status::DENIED => Holder::decode(r).map(Self::Denied),
            status => Ok(Self::Other(status)),
        }
    }
}

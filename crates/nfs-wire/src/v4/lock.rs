//! Byte-range locks and stateids, RFC 8881 §18.10 to §18.12, §18.38 and §18.48.

use xdr::Xdr;

use super::{ARRAY_MAX, Reply, StateOwner, Stateid, Status};

/// `nfs_lock_type4`, RFC 8881 §18.10.1; those that wait are hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
#[repr(u32)]
pub enum LockType {
    #[xdr(name = "READ_LT")]
    Read = 1,
    #[xdr(name = "WRITE_LT")]
    Write = 2,
    #[xdr(name = "READW_LT")]
    ReadWait = 3,
    #[xdr(name = "WRITEW_LT")]
    WriteWait = 4,
}

/// `LOCK4args`, RFC 8881 §18.10.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct LockArgs<'a> {
    pub locktype: LockType,
    pub reclaim: bool,
    pub offset: u64,
    /// `u64::MAX`: to the end of the file.
    pub length: u64,
    pub locker: Locker<'a>,
}

/// `locker4`, RFC 8881 §18.10.1: its tag is the boolean `new_lock_owner`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum Locker<'a> {
    #[xdr(tag = 1)]
    New(OpenToLockOwner<'a>),
    #[xdr(tag = 0)]
    Existing(ExistLockOwner),
}

/// `open_to_lock_owner4`, RFC 8881 §3.3.11.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct OpenToLockOwner<'a> {
    /// Used by 4.0; zero since 4.1.
    pub open_seqid: u32,
    pub open_stateid: Stateid,
    /// Used by 4.0; zero since 4.1.
    pub lock_seqid: u32,
    pub lock_owner: StateOwner<'a>,
}

/// `exist_lock_owner4`, RFC 8881 §18.10.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ExistLockOwner {
    pub lock_stateid: Stateid,
    /// Used by 4.0; zero since 4.1.
    pub lock_seqid: u32,
}

/// `LOCK4denied`, RFC 8881 §18.10.2: the conflicting lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct LockDenied<'a> {
    pub offset: u64,
    pub length: u64,
    pub locktype: LockType,
    pub owner: StateOwner<'a>,
}

/// `LOCK4res`, RFC 8881 §18.10.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum LockReply<'a> {
    /// `LOCK4resok`: the lock's stateid.
    #[xdr(tag = Status::OK.0)]
    Ok(Stateid),
    #[xdr(tag = Status::DENIED.0)]
    Denied(LockDenied<'a>),
    #[xdr(default)]
    Err(Status),
}

/// `LOCKT4args`, RFC 8881 §18.11.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct LocktArgs<'a> {
    pub locktype: LockType,
    pub offset: u64,
    pub length: u64,
    pub owner: StateOwner<'a>,
}

/// `LOCKT4res`, RFC 8881 §18.11.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum LocktReply<'a> {
    #[xdr(tag = Status::OK.0)]
    Ok,
    #[xdr(tag = Status::DENIED.0)]
    Denied(LockDenied<'a>),
    #[xdr(default)]
    Err(Status),
}

/// `LOCKU4args`, RFC 8881 §18.12.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct LockuArgs {
    pub locktype: LockType,
    /// Used by 4.0; zero since 4.1.
    pub seqid: u32,
    pub lock_stateid: Stateid,
    pub offset: u64,
    pub length: u64,
}

/// `LOCKU4res`, RFC 8881 §18.12.2.
pub type LockuReply = Reply<Stateid>;

/// `FREE_STATEID4args`, RFC 8881 §18.38.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct FreeStateidArgs {
    pub stateid: Stateid,
}

/// `TEST_STATEID4args`, RFC 8881 §18.48.1.
#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub struct TestStateidArgs {
    #[xdr(max = ARRAY_MAX)]
    pub stateids: Vec<Stateid>,
}

/// `TEST_STATEID4resok`, RFC 8881 §18.48.2: one status for each stateid.
#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub struct TestStateidOk {
    #[xdr(max = ARRAY_MAX)]
    pub status_codes: Vec<Status>,
}

/// `TEST_STATEID4res`, RFC 8881 §18.48.2.
pub type TestStateidReply = Reply<TestStateidOk>;

//! Remote quotas, versions 1 and 2: what a user or a group uses of a file system. `rquota.x` of the quota tools
//! describes the protocol; no RFC does.

use xdr::{Decode, Encode, Malformed, Reader, Writer, Xdr};

xdr::constants! {
    pub CONSTANTS {
        PROGRAM: "RQUOTAPROG" = 100_011,
        VERSION_1: "RQUOTAVERS" = 1,
        VERSION_2: "EXT_RQUOTAVERS" = 2,
        PATH_MAX: "RQ_PATHLEN" = 1024,
    }
}

xdr::open_set! {
    /// The procedures; both versions have the same numbers.
    pub struct Procedure {
        NULL: "RQUOTAPROC_NULL" = 0,
        GETQUOTA: "RQUOTAPROC_GETQUOTA" = 1,
        GETACTIVEQUOTA: "RQUOTAPROC_GETACTIVEQUOTA" = 2,
        SETQUOTA: "RQUOTAPROC_SETQUOTA" = 3,
        SETACTIVEQUOTA: "RQUOTAPROC_SETACTIVEQUOTA" = 4,
    }
}

xdr::open_set! {
    /// `gqr_status` and `sqr_status`.
    pub struct Status {
        OK: "Q_OK" = 1,
        NOQUOTA: "Q_NOQUOTA" = 2,
        PERM: "Q_EPERM" = 3,
    }
}

/// `gqa_type` of version 2: a user.
pub const TYPE_USER: u32 = 0;
/// `gqa_type` of version 2: a group.
pub const TYPE_GROUP: u32 = 1;

/// `getquota_args`: the arguments of GETQUOTA and GETACTIVEQUOTA in version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct GetArgs<'a> {
    #[xdr(max = PATH_MAX)]
    pub path: &'a [u8],
    pub uid: u32,
}

/// `ext_getquota_args`: the arguments of GETQUOTA and GETACTIVEQUOTA in version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ExtGetArgs<'a> {
    #[xdr(max = PATH_MAX)]
    pub path: &'a [u8],
    pub kind: u32,
    pub id: u32,
}

/// `sq_dqblk`: limits and usage to set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct SetLimits {
    pub block_hard: u32,
    pub block_soft: u32,
    pub blocks: u32,
    pub file_hard: u32,
    pub file_soft: u32,
    pub files: u32,
    pub block_seconds_left: u32,
    pub file_seconds_left: u32,
}

/// `setquota_args`: the arguments of SETQUOTA and SETACTIVEQUOTA in version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct SetArgs<'a> {
    pub command: u32,
    #[xdr(max = PATH_MAX)]
    pub path: &'a [u8],
    pub uid: u32,
    pub limits: SetLimits,
}

/// `ext_setquota_args`: the arguments of SETQUOTA and SETACTIVEQUOTA in version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ExtSetArgs<'a> {
    pub command: u32,
    #[xdr(max = PATH_MAX)]
    pub path: &'a [u8],
    pub id: u32,
    pub kind: u32,
    pub limits: SetLimits,
}

/// `rquota`. Blocks have `block_bytes`. A limit of 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct Quota {
    pub block_bytes: u32,
    pub active: bool,
    pub block_hard: u32,
    pub block_soft: u32,
    pub blocks: u32,
    pub file_hard: u32,
    pub file_soft: u32,
    pub files: u32,
    pub block_seconds_left: u32,
    pub file_seconds_left: u32,
}

/// `getquota_rslt` and `setquota_rslt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaReply {
    Ok(Quota),
    /// Never [`Status::OK`].
    Err(Status),
}

impl Encode for QuotaReply {
    fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Self::Ok(quota) => {
                Status::OK.encode(w);
                quota.encode(w);
            }
            Self::Err(status) => status.encode(w),
        }
    }
}

impl<'a> Decode<'a> for QuotaReply {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match Status::decode(r)? {
            Status::OK => Quota::decode(r).map(Self::Ok),
            status => Ok(Self::Err(status)),
        }
    }
}

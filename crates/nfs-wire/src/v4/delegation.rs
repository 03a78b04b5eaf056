//! Delegations apart from OPEN, RFC 8881 §18.5, §18.6, §18.39 and §18.49.

use xdr::Xdr;

use super::{
    Bitmap, ClientId, DelegationType, NfsTime, OpenClaimType, OpenDelegation, Reply, ShareAccess, Stateid,
    Verifier,
};

/// `DELEGPURGE4args`, RFC 8881 §18.5.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct DelegpurgeArgs {
    pub clientid: ClientId,
}

/// `DELEGRETURN4args`, RFC 8881 §18.6.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct DelegreturnArgs {
    pub deleg_stateid: Stateid,
}

/// `GET_DIR_DELEGATION4args`, RFC 8881 §18.39.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct GetDirDelegationArgs {
    pub signal_deleg_avail: bool,
    pub notification_types: Bitmap,
    pub child_attr_delay: NfsTime,
    pub dir_attr_delay: NfsTime,
    pub child_attributes: Bitmap,
    pub dir_attributes: Bitmap,
}

/// `GET_DIR_DELEGATION4resok`, RFC 8881 §18.39.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct GetDirDelegationOk {
    pub cookieverf: Verifier,
    pub stateid: Stateid,
    pub notification: Bitmap,
    pub child_attributes: Bitmap,
    pub dir_attributes: Bitmap,
}

/// `gddrnf4_status`, RFC 8881 §18.39.2; the tags of [`DirDelegation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Xdr)]
#[repr(u32)]
pub enum DirDelegationStatus {
    #[xdr(name = "GDD4_OK")]
    Ok = 0,
    #[xdr(name = "GDD4_UNAVAIL")]
    Unavail = 1,
}

/// `GET_DIR_DELEGATION4res_non_fatal`, RFC 8881 §18.39.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum DirDelegation {
    #[xdr(tag = DirDelegationStatus::Ok as u32)]
    Ok(GetDirDelegationOk),
    /// Whether the server notifies the client when one is available.
    #[xdr(tag = DirDelegationStatus::Unavail as u32)]
    Unavail(bool),
}

/// `GET_DIR_DELEGATION4res`, RFC 8881 §18.39.2.
pub type GetDirDelegationReply = Reply<DirDelegation>;

/// `deleg_claim4`, RFC 8881 §18.49.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum DelegClaim {
    #[xdr(tag = OpenClaimType::Fh as u32)]
    Fh,
    #[xdr(tag = OpenClaimType::DelegPrevFh as u32)]
    DelegPrevFh,
    #[xdr(tag = OpenClaimType::Previous as u32)]
    Previous(DelegationType),
}

/// `WANT_DELEGATION4args`, RFC 8881 §18.49.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct WantDelegationArgs {
    pub want: ShareAccess,
    pub claim: DelegClaim,
}

/// `WANT_DELEGATION4res`, RFC 8881 §18.49.2.
pub type WantDelegationReply<'a> = Reply<OpenDelegation<'a>>;

//! Clients of 4.0, RFC 7530 §16, which sessions replaced in 4.1.

use xdr::Xdr;

use super::{ClientId, NetAddr, OPAQUE_LIMIT, StateOwner, Status, Verifier};

/// `RENEW4args`, RFC 7530 §16.28.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct RenewArgs {
    pub clientid: ClientId,
}

/// `nfs_client_id4`, RFC 7530 §2.2.12.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct NfsClientId<'a> {
    pub verifier: Verifier,
    #[xdr(max = OPAQUE_LIMIT)]
    pub id: &'a [u8],
}

/// `cb_client4`, RFC 7530 §2.2.11: the client's address for callbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct CbClient<'a> {
    pub cb_program: u32,
    pub cb_location: NetAddr<'a>,
}

/// `SETCLIENTID4args`, RFC 7530 §16.33.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct SetclientidArgs<'a> {
    pub client: NfsClientId<'a>,
    pub callback: CbClient<'a>,
    pub callback_ident: u32,
}

/// `SETCLIENTID4resok`, RFC 7530 §16.33.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct SetclientidOk {
    pub clientid: ClientId,
    pub setclientid_confirm: Verifier,
}

/// `SETCLIENTID4res`, RFC 7530 §16.33.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum SetclientidReply<'a> {
    #[xdr(tag = Status::OK.0)]
    Ok(SetclientidOk),
    /// The client that uses the identifier.
    #[xdr(tag = Status::CLID_INUSE.0)]
    InUse(NetAddr<'a>),
    #[xdr(default)]
    Err(Status),
}

/// `SETCLIENTID_CONFIRM4args`, RFC 7530 §16.34.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct SetclientidConfirmArgs {
    pub clientid: ClientId,
    pub setclientid_confirm: Verifier,
}

/// `RELEASE_LOCKOWNER4args`, RFC 7530 §16.37.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct ReleaseLockownerArgs<'a> {
    pub lock_owner: StateOwner<'a>,
}

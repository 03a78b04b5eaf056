//! Errors of a reply.

use nfs_wire::rpc::{Accepted, ReplyBody, ReplyHeader};
use wire_client::call::Rejection;
use xdr::Malformed;

use crate::error::Error;

#[derive(Debug)]
pub(crate) enum Fault {
    /// The load continues.
    Counted { what: String, detail: String },
    /// The load ends.
    Fatal(Error),
}

#[derive(Debug)]
pub(crate) enum ReplyError {
    /// The server asks for the call again later.
    Later,
    Fault(Fault),
}

impl From<Malformed> for Fault {
    fn from(malformed: Malformed) -> Self {
        Self::Fatal(malformed.into())
    }
}

impl From<Fault> for ReplyError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl ReplyError {
    pub(crate) fn new(rejection: Rejection, refused: impl FnOnce(String) -> Fault) -> Self {
        match rejection {
            Rejection::Later => Self::Later,
            Rejection::Refused(status) => Self::Fault(refused(status)),
            Rejection::Fatal(error) => Self::Fault(Fault::Fatal(error.into())),
        }
    }
}

#[inline]
pub(crate) fn check_accepted(header: &ReplyHeader<'_>) -> Result<(), Fault> {
    match header.body {
        ReplyBody::Accepted(_, Accepted::Success) => Ok(()),
        other => Err(counted(format!("RPC {other:?}"), "the call was not executed".to_owned())),
    }
}

#[cold]
pub(crate) fn counted(what: String, detail: String) -> Fault {
    Fault::Counted { what, detail }
}

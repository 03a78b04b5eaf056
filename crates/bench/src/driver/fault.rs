//! What can be wrong with a reply.

use nfs_wire::rpc::{Accepted, ReplyBody, ReplyHeader};
use xdr::{Malformed, Reader};

use crate::error::Error;

/// What is wrong with a reply.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Counted; the load goes on.
    Counted { what: String, detail: String },
    /// The load ends.
    Fatal(Error),
}

impl From<Malformed> for Fault {
    fn from(malformed: Malformed) -> Self {
        Self::Fatal(malformed.into())
    }
}

/// The results in an accepted reply.
#[inline]
pub(crate) fn accepted(header: &ReplyHeader<'_>) -> Result<(), Fault> {
    match header.body {
        ReplyBody::Accepted(_, Accepted::Success) => Ok(()),
        other => Err(counted(format!("RPC {other:?}"), "the call was not executed".to_owned())),
    }
}

/// Nothing follows the results.
#[inline]
pub(crate) fn ended(r: &Reader<'_>) -> Result<(), Fault> {
    match r.remaining() {
        0 => Ok(()),
        more => Err(Fault::Fatal(Error::Protocol(format!("{more} bytes behind the end of a reply")))),
    }
}

/// A fault that the load goes on after.
#[cold]
pub(crate) fn counted(what: String, detail: String) -> Fault {
    Fault::Counted { what, detail }
}

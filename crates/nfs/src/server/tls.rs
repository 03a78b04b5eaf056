//! TLS under RPC, RFC 9289: a NULL call requests it, and the handshake follows on the same connection.

use crate::records::reply::Records;
use nfs_wire::rpc::{
    Accepted, AuthFlavor, AuthStat, CallHeader, OpaqueAuth, Rejected, ReplyBody, ReplyHeader,
};
use std::sync::Arc;
use transport::Outbox;
use transport::tls::Tls;
use vfs::Protection;
use xdr::Encode;

/// The name of ONC RPC in ALPN, RFC 9289 §7.2.
pub const ALPN: &[u8] = b"sunrpc";

/// The verifier of a server that is ready for the handshake, RFC 9289 §4.1.
const STARTTLS: &[u8] = b"STARTTLS";

#[derive(Clone)]
pub struct TlsPolicy {
    pub tls: Arc<Tls>,
    /// Whether calls in clear are refused.
    pub is_required: bool,
}

/// Whether a call requests TLS. It must be a NULL call with an empty credential and verifier.
pub(crate) fn asks(header: &CallHeader<'_>) -> Result<bool, AuthStat> {
    if header.cred.flavor != AuthFlavor::TLS {
        return Ok(false);
    }
    if header.proc != 0 || !header.cred.body.is_empty() {
        return Err(AuthStat::BADCRED);
    }
    if header.verf != OpaqueAuth::default() {
        return Err(AuthStat::BADVERF);
    }
    Ok(true)
}

/// Whether calls other than NULL may run over a connection with this protection.
#[inline]
pub(crate) fn admits(policy: Option<&TlsPolicy>, protection: Protection) -> bool {
    protection != Protection::Plain || !policy.is_some_and(|policy| policy.is_required)
}

/// Refuses a call that requires TLS.
pub(crate) fn refuse(xid: u32, out: &mut Outbox) {
    out.reject(xid, Rejected::AuthError(AuthStat::TOOWEAK));
}

pub(crate) fn reply(xid: u32, out: &mut Outbox) {
    let verifier = OpaqueAuth { flavor: AuthFlavor::NONE, body: STARTTLS };
    let header = ReplyHeader { xid, body: ReplyBody::Accepted(verifier, Accepted::Success) };
    let start = out.begin();
    header.encode(&mut out.writer());
    out.finish(start);
}

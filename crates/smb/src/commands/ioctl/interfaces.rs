//! Which interfaces a client can connect to (MS-SMB2 §3.3.5.15.11).

use super::answer::FsctlReply;
use crate::request::context::RequestContext;
use crate::request::outcome::CommandError;
use smb_wire::NtStatus;
use smb_wire::fsctl::{InterfaceCapabilities, NetworkInterface};
use smb_wire::ioctl::IoctlRequest;
use smb_wire::negotiate::Capabilities;
use std::net::IpAddr;

/// What the speed of a link is said to be, in bits a second: clients compare the interfaces that they are told of, and there is one.
const LINK_SPEED: u64 = 10_000_000_000;

/// The address that the client has reached us at: it is certain to be answered there, and others are for it to know. Clients make
/// several connections to one interface if that spreads what it receives.
pub(crate) fn query(
    cx: &RequestContext<'_, '_>,
    args: &IoctlRequest<'_>,
) -> Result<FsctlReply, CommandError> {
    let negotiated = cx.message.connection.negotiated().ok_or(NtStatus::INVALID_PARAMETER)?;
    if !negotiated.capabilities.contains(Capabilities::MULTI_CHANNEL) {
        return Err(NtStatus::NOT_SUPPORTED.into());
    }
    let address = cx.message.endpoints.local.to_canonical();
    let needs_scope = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    if needs_scope {
        // It means nothing to the client without the interface of its own.
        return Ok(FsctlReply::NOTHING);
    }
    let interface = NetworkInterface {
        if_index: 1,
        capability: InterfaceCapabilities::RSS_CAPABLE,
        link_speed: LINK_SPEED,
        address,
    };
    FsctlReply::encode_whole(args, &interface, NtStatus::BUFFER_TOO_SMALL)
}

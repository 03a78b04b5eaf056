//! QUERY_NETWORK_INTERFACE_INFO (MS-SMB2 §3.3.5.15.11).

use super::answer::FsctlReply;
use crate::request::context::RequestContext;
use crate::request::outcome::CommandError;
use smb_wire::NtStatus;
use smb_wire::fsctl::{InterfaceCapabilities, NetworkInterface};
use smb_wire::ioctl::IoctlRequest;
use smb_wire::negotiate::Capabilities;
use std::net::IpAddr;

/// The reported link speed, in bits per second. Clients compare speeds of interfaces; there is only one.
const LINK_SPEED: u64 = 10_000_000_000;

/// Returns the address that the client connected to, since it is reachable. RSS makes clients open several connections
/// to it.
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
        // A scoped address is meaningless without the client's own interface.
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

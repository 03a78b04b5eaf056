//! What macOS asks with its own create context: what the server and its volumes can do.
//!
//! Nothing is said to be there that is not: neither copies of whole files in one request, in place of which macOS has chunks copied
//! (decision 0056), nor paths by file ids.

use crate::request::context::RequestContext;
use crate::state::open::Open;
use smb_wire::apple::{
    self, AppleCapabilities, AppleVolumeCapabilities, QueryBitmap, ServerQuery, ServerQueryResponse,
};
use smb_wire::create::CreateContexts;
use smb_wire::{Decode, Encode, Utf16};
use vfs::{Durability, SecurityStyle};

/// By which Finder picks an icon: that of a server that is no Mac.
const MODEL: &str = "MacSamba";

/// The answer to a query; none to what is no query. What it promises holds for the session from then on.
pub(super) fn response(
    cx: &RequestContext<'_, '_>,
    contexts: &CreateContexts<'_>,
    open: &Open,
) -> Option<(&'static [u8], Vec<u8>)> {
    let query = ServerQuery::from_bytes(contexts.find(apple::NAME)?).ok()?;
    let ServerQuery { request_bitmap: requested, client_capabilities } = query;
    let server = server_capabilities(open, client_capabilities);
    let has_server_caps = requested.contains(QueryBitmap::SERVER_CAPS);
    if has_server_caps {
        cx.session().ok()?.announce(server);
    }
    // A flush is a full one, as F_FULLFSYNC wants it, where what is acknowledged is durable at all.
    let volume = match open.file.volume().durability() {
        Durability::Sync => AppleVolumeCapabilities::SUPPORTS_FULL_SYNC,
        _ => AppleVolumeCapabilities::empty(),
    };
    let model: Vec<u8> = MODEL.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let answer = ServerQueryResponse {
        server_capabilities: has_server_caps.then_some(server),
        volume_capabilities: requested.contains(QueryBitmap::VOLUME_CAPS).then_some(volume),
        model: if requested.contains(QueryBitmap::MODEL_INFO) { Utf16::new(&model).ok() } else { None },
    };
    Some((apple::NAME, answer.to_bytes()))
}

/// Listings with attributes of Apple's for who knows them, and modes in descriptors where modes rule.
fn server_capabilities(open: &Open, client: AppleCapabilities) -> AppleCapabilities {
    let lists = AppleCapabilities::SUPPORTS_READ_DIR_ATTR;
    let has_modes = open.file.volume().security_style() == SecurityStyle::Unix;
    let more = [(client.contains(lists), lists), (has_modes, AppleCapabilities::SUPPORTS_NFS_ACE)];
    more.into_iter()
        .filter(|(has, _)| *has)
        .fold(AppleCapabilities::UNIX_BASED, |all, (_, capability)| all | capability)
}

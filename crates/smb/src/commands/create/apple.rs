//! The create context AAPL: capabilities of the server and its volumes for macOS.
//!
//! Not offered: copies of whole files in one request, in place of which macOS copies chunks (decision 0056), and paths
//! by file id.

use crate::request::context::RequestContext;
use crate::state::open::Open;
use smb_wire::apple::{
    self, AppleCapabilities, AppleVolumeCapabilities, QueryBitmap, ServerQuery, ServerQueryResponse,
};
use smb_wire::create::CreateContexts;
use smb_wire::{Decode, Encode, Utf16};
use vfs::{Durability, SecurityStyle};

/// Finder picks an icon by this model: a server that is not a Mac.
const MODEL: &str = "MacSamba";

/// Answers a query; `None` if it is malformed. The negotiated capabilities apply to the whole session.
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
    // A flush satisfies F_FULLFSYNC if the volume makes acknowledged data durable.
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

/// Offers Apple's attributes in listings to clients that know them, and modes in descriptors on volumes with Unix
/// rules.
fn server_capabilities(open: &Open, client: AppleCapabilities) -> AppleCapabilities {
    let lists = AppleCapabilities::SUPPORTS_READ_DIR_ATTR;
    let has_modes = open.file.volume().security_style() == SecurityStyle::Unix;
    let more = [(client.contains(lists), lists), (has_modes, AppleCapabilities::SUPPORTS_NFS_ACE)];
    more.into_iter()
        .filter(|(has, _)| *has)
        .fold(AppleCapabilities::UNIX_BASED, |all, (_, capability)| all | capability)
}

//! What macOS asks with its own create context: what the server and its volumes can do.
//!
//! Nothing is said to be there that is not: neither copies of whole files in one request, in place of which macOS has chunks copied
//! (decision 0056), nor paths by file ids.

use crate::open::Open;
use crate::ops::Ops;
use smb_wire::apple::{
    self, AppleCapabilities, AppleVolumeCapabilities, QueryBitmap, ServerAnswer, ServerQuery,
};
use smb_wire::create::CreateContexts;
use smb_wire::{Decode, Encode, Utf16};
use vfs::Durability;

/// By which Finder picks an icon: that of a server that is no Mac.
const MODEL: &str = "MacSamba";

/// The answer to a query; none to what is no query. From one on that asks for them, listings of the session have attributes of Apple's.
pub(super) fn answer(
    ops: &Ops<'_>,
    contexts: &CreateContexts<'_>,
    open: &Open,
) -> Option<(&'static [u8], Vec<u8>)> {
    let query = ServerQuery::from_bytes(contexts.find(apple::NAME)?).ok()?;
    let ServerQuery { request_bitmap: asked, client_capabilities } = query;
    let mut server = AppleCapabilities::UNIX_BASED;
    if asked.contains(QueryBitmap::SERVER_CAPS)
        && client_capabilities.contains(AppleCapabilities::SUPPORTS_READ_DIR_ATTR)
    {
        server |= AppleCapabilities::SUPPORTS_READ_DIR_ATTR;
        ops.session().ok()?.list_for_apple();
    }
    // A flush is a full one, as F_FULLFSYNC wants it, where what is acknowledged is durable at all.
    let volume = match open.file.volume().durability() {
        Durability::Sync => AppleVolumeCapabilities::SUPPORTS_FULL_SYNC,
        _ => AppleVolumeCapabilities::empty(),
    };
    let model: Vec<u8> = MODEL.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let answer = ServerAnswer {
        server_capabilities: asked.contains(QueryBitmap::SERVER_CAPS).then_some(server),
        volume_capabilities: asked.contains(QueryBitmap::VOLUME_CAPS).then_some(volume),
        model: if asked.contains(QueryBitmap::MODEL_INFO) { Utf16::new(&model).ok() } else { None },
    };
    Some((apple::NAME, answer.to_bytes()))
}

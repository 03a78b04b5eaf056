//! What macOS asks with its own create context: what the server and its volumes can do.
//!
//! Nothing is said to be there that is not: neither attributes of Apple's in listings, nor copies of whole files, nor paths by file ids.

use crate::open::Open;
use smb_wire::apple::{AppleCapabilities, AppleVolumeCapabilities, QueryBitmap, ServerAnswer, ServerQuery};
use smb_wire::{Decode, Encode, Utf16};
use vfs::Durability;

/// By which Finder picks an icon: that of a server that is no Mac.
const MODEL: &str = "MacSamba";

/// The answer to a query; none to what is no query.
pub(super) fn answer(data: &[u8], open: &Open) -> Option<Vec<u8>> {
    let asked = ServerQuery::from_bytes(data).ok()?.request_bitmap;
    // A flush is a full one, as F_FULLFSYNC wants it, where what is acknowledged is durable at all.
    let volume = match open.file.volume().durability() {
        Durability::Sync => AppleVolumeCapabilities::SUPPORTS_FULL_SYNC,
        _ => AppleVolumeCapabilities::empty(),
    };
    let model: Vec<u8> = MODEL.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let answer = ServerAnswer {
        server_capabilities: asked
            .contains(QueryBitmap::SERVER_CAPS)
            .then_some(AppleCapabilities::UNIX_BASED),
        volume_capabilities: asked.contains(QueryBitmap::VOLUME_CAPS).then_some(volume),
        model: if asked.contains(QueryBitmap::MODEL_INFO) { Utf16::new(&model).ok() } else { None },
    };
    Some(answer.to_bytes())
}

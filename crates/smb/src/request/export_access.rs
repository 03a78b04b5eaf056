//! The exports that the client of a request may use, and the flags of a share.

use super::context::RequestContext;
use crate::state::tree::client_origin;
use smb_wire::tree::ShareFlags;
use std::sync::Arc;
use vfs::{Export, ExportRule, Origin, Protection};

pub(crate) const IPC: &str = "IPC$";

/// Whether a share requires encryption from every client.
pub(crate) fn is_sealed(export: &Export, rule: &ExportRule) -> bool {
    rule.protection > Protection::Plain || export.share.encryption
}

/// The flags of a share in the reply to TREE_CONNECT.
pub(crate) fn share_flags(must_seal: bool, compresses: bool, export: &Export) -> ShareFlags {
    let mut flags = ShareFlags::NO_CACHING;
    if must_seal {
        flags |= ShareFlags::ENCRYPT_DATA;
    }
    if compresses {
        flags |= ShareFlags::COMPRESS_DATA;
    }
    match export.share.access_based_enumeration {
        true => flags | ShareFlags::ACCESS_BASED_DIRECTORY_ENUM,
        false => flags,
    }
}

pub(crate) fn visible_exports<'c>(
    cx: &RequestContext<'_, 'c>,
) -> impl Iterator<Item = (&'c Arc<Export>, &'c ExportRule)> {
    let from = request_origin(cx);
    let exports = cx.message.namespace.exports().iter();
    exports.filter_map(move |export| Some((export, export.rule(from)?)))
}

pub(crate) fn request_origin(cx: &RequestContext<'_, '_>) -> Origin {
    client_origin(cx.message.endpoints.peer.ip())
}

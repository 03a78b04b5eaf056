//! TREE_CONNECT and TREE_DISCONNECT (MS-SMB2 §3.3.5.7, §3.3.5.8).

use crate::limits::{ANONYMOUS_TREES_MAX, SESSION_TREES_MAX};
use crate::metadata::names::{folded, is_spelled};
use crate::request::context::RequestContext;
use crate::request::export_access::{IPC, is_sealed, request_origin, share_flags};
use crate::request::outcome::{CommandError, CommandResult};
use crate::state::connection::Connection;
use crate::state::session::Session;
use crate::state::tree::{DiskShare, Share, share_name};
use smb_wire::header::Routing;
use smb_wire::session::Empty;
use smb_wire::tree::{
    ShareCapabilities, ShareFlags, ShareType, TreeConnectFlags, TreeConnectRequest, TreeConnectResponse,
};
use smb_wire::types::AccessMask;
use smb_wire::{NtStatus, Writer};
use std::sync::{Arc, Weak};
use vfs::Export;

pub(crate) fn connect(cx: &mut RequestContext<'_, '_>, request: &[u8], w: &mut Writer<'_>) -> CommandResult {
    let args: TreeConnectRequest<'_> = RequestContext::decode(request)?;
    if args.flags.contains(TreeConnectFlags::EXTENSION_PRESENT) {
        return Err(NtStatus::NOT_SUPPORTED.into());
    }
    let session = Arc::clone(cx.session()?);
    let path: Vec<u16> = args.path.units().collect();
    let name = share_of(&path).ok_or(NtStatus::BAD_NETWORK_NAME)?;
    let share = if folded(name) == folded(&IPC.encode_utf16().collect::<Vec<_>>()) {
        Share::Pipe
    } else {
        Share::Disk(Arc::new(disk(cx, &session, name)?))
    };
    let response = TreeConnectResponse {
        share_type: if matches!(share, Share::Pipe) { ShareType::PIPE } else { ShareType::DISK },
        share_flags: match &share {
            Share::Disk(disk) => {
                let compresses =
                    disk.export.share.compression && cx.message.connection.compression().is_some();
                share_flags(disk.must_seal, compresses, &disk.export)
            }
            Share::Pipe => ShareFlags::NO_CACHING,
        },
        capabilities: capabilities(cx, &share),
        maximal_access: maximal_access(&share),
    };
    let trees_max = if session.is_anonymous() { ANONYMOUS_TREES_MAX } else { SESSION_TREES_MAX };
    let tree_id = session.add_tree(&cx.message.service.counters, share, trees_max);
    let tree_id = tree_id.ok_or(NtStatus::INSUFFICIENT_RESOURCES)?;
    cx.header.routing = Routing::Sync { process_id: 0, tree_id };
    cx.respond(w, &response)
}

/// MS-SMB2 §3.3.5.8.
pub(crate) fn disconnect(
    cx: &mut RequestContext<'_, '_>,
    request: &[u8],
    w: &mut Writer<'_>,
) -> CommandResult {
    let _: Empty = RequestContext::decode(request)?;
    let tree = Arc::clone(cx.tree()?);
    cx.message.service.end_tree(cx.session()?, &tree);
    if let Some(disk) = tree.disk() {
        disk.delete_closed();
    }
    cx.respond(w, &Empty)
}

fn share_of(path: &[u16]) -> Option<&[u16]> {
    let backslash = u16::from(b'\\');
    let rest = path.strip_prefix(&[backslash, backslash])?;
    let server = rest.iter().position(|&unit| unit == backslash)?;
    let name = &rest[server + 1..];
    (!name.is_empty() && !name.contains(&backslash)).then_some(name)
}

fn disk(
    cx: &RequestContext<'_, '_>,
    session: &Arc<Session>,
    name: &[u16],
) -> Result<DiskShare, CommandError> {
    // An anonymous session can use only pipes.
    let identity = session.identity().ok_or(NtStatus::ACCESS_DENIED)?;
    let folded_name = folded(name);
    let is_named = |export: &&Arc<Export>| is_spelled(share_name(export), &folded_name);
    let found = cx.message.namespace.exports().iter().find(is_named);
    let Some((export, rule)) = found.and_then(|export| Some((export, export.rule(request_origin(cx))?)))
    else {
        if let Some(why) = cx.message.service.refusals.add(request_origin(cx), found.map(|export| &**export))
        {
            log_refusal(cx, name, why);
        }
        let refused = found.map_or(NtStatus::BAD_NETWORK_NAME, |_| NtStatus::ACCESS_DENIED);
        return Err(refused.into());
    };
    // Without signing, only encryption detects changes in transit.
    let must_seal = is_sealed(export, rule) || export.share.signing && !session.must_sign();
    if must_seal && !can_seal(cx.message.connection) {
        if cx.message.service.refusals.add(request_origin(cx), Some(export)).is_some() {
            log_refusal(cx, name, "the volume requires encryption, which the client does not offer");
        }
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    let client: Weak<Session> = Arc::downgrade(session);
    let caller = rule.caller(&identity.credential);
    let uid = identity.credential.uid;
    Ok(DiskShare::new(client, export, caller, uid, must_seal, Some(request_origin(cx))))
}

fn log_refusal(cx: &RequestContext<'_, '_>, name: &[u16], why: &str) {
    let (client, share) = (cx.message.endpoints.peer.ip().to_canonical(), String::from_utf16_lossy(name));
    tracing::info!(%client, share, "a mount over SMB is refused: {why}");
}

fn capabilities(cx: &RequestContext<'_, '_>, share: &Share) -> ShareCapabilities {
    match share {
        Share::Disk(disk) if cx.is_continuously_available(disk) => ShareCapabilities::CONTINUOUS_AVAILABILITY,
        Share::Disk(_) | Share::Pipe => ShareCapabilities::empty(),
    }
}

fn can_seal(connection: &Connection) -> bool {
    connection.negotiated().is_some_and(|negotiated| negotiated.cipher.is_some())
}

/// `MaximalAccess`: the rights at the root of the share, regardless of file permissions.
fn maximal_access(share: &Share) -> AccessMask {
    match share {
        Share::Disk(disk) if disk.caller.read_only => READ_ONLY,
        Share::Disk(_) | Share::Pipe => AccessMask::FILE_ALL,
    }
}

pub(crate) const READ_ONLY: AccessMask = AccessMask(
    AccessMask::READ_DATA.0
        | AccessMask::READ_EA.0
        | AccessMask::EXECUTE.0
        | AccessMask::READ_ATTRIBUTES.0
        | AccessMask::READ_CONTROL.0
        | AccessMask::SYNCHRONIZE.0,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_name_is_the_second_part_of_a_path() {
        let name = |path: &str| {
            let path: Vec<u16> = path.encode_utf16().collect();
            share_of(&path).map(|name| String::from_utf16(name).unwrap())
        };
        assert_eq!(name("\\\\host\\share").as_deref(), Some("share"));
        for bad in ["", "\\", "\\\\", "\\\\host", "\\\\host\\", "\\\\host\\a\\b", "host\\share"] {
            assert_eq!(name(bad), None, "{bad:?}");
        }
    }
}

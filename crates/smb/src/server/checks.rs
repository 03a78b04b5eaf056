//! Checks of a request before its command runs: signature, encryption, session, tree connect and credits.

use super::command_table::{CommandEntry, Needs, command_entry};
use crate::limits::CREDIT_BYTES;
use crate::request::context::RequestContext;
use crate::request::export_access::request_origin;
use crate::request::outcome::CommandError;
use crate::request::payload::payload_bytes;
use crate::state::session::Session;
use crate::state::session::channel::Channel;
use crate::state::tree::{DiskShare, TreeConnect};
use smb_wire::NtStatus;
use smb_wire::compound::Message;
use smb_wire::header::{Command, Flags};
use smb_wire::types::Dialect;
use std::sync::Arc;
use vfs::{Blocking, Wait};

/// Returns the table entry of a command that may run.
pub(super) fn check_request(
    cx: &RequestContext<'_, '_>,
    request: &Message<'_>,
    sealed_by: Option<&Arc<Session>>,
    is_alone: bool,
) -> Result<&'static CommandEntry, CommandError> {
    let command = request.header.command;
    let connection = cx.message.connection;
    if command == Command::NEGOTIATE && connection.negotiated().is_some() {
        // MS-SMB2 §3.3.5.4.
        return Err(CommandError::Disconnect);
    }
    let entry = command_entry(command).ok_or(NtStatus::INVALID_PARAMETER)?;
    if connection.negotiated().is_none() && command != Command::NEGOTIATE {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let channel = cx.channel.as_ref().filter(|channel| channel.is_valid());
    if let Some(channel) = channel {
        // A request that has waited was checked before, perhaps with the key of a channel that has gone.
        if cx.wait.waker.is_none() {
            check_protection(cx, request, channel, sealed_by)?;
        }
    } else if sealed_by.is_some() {
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    check_charge(request)?;
    match entry.needs {
        Needs::SingleCommand if !is_alone => return Err(NtStatus::INVALID_PARAMETER.into()),
        Needs::SingleCommand | Needs::Nothing => {}
        Needs::Session | Needs::Tree => _ = channel.ok_or(NtStatus::USER_SESSION_DELETED)?,
    }
    if entry.needs == Needs::Tree {
        let tree = cx.tree()?;
        if let Some(disk) = tree.disk() {
            if command != Command::TREE_DISCONNECT {
                check_current(cx, tree, disk)?;
            }
            cx.check_sealed(disk)?;
        }
    }
    Ok(entry)
}

/// Fails if the share has changed since its client connected to it. The client may connect again, and must not find its
/// old opens.
fn check_current(
    cx: &RequestContext<'_, '_>,
    tree: &Arc<TreeConnect>,
    disk: &DiskShare,
) -> Result<(), CommandError> {
    if disk.is_current(cx.message.namespace, request_origin(cx)) {
        return Ok(());
    }
    if cx.message.blocking == Blocking::Never {
        // Closing the opens of the share may take long.
        return Err(CommandError::Wait(Wait::Storage));
    }
    cx.message.service.end_tree_if_withdrawn(cx.session()?, tree);
    Err(NtStatus::NETWORK_NAME_DELETED.into())
}

/// Checks the signature or encryption of a request in an established session (MS-SMB2 §3.3.5.2.4, §3.3.5.2.11).
fn check_protection(
    cx: &RequestContext<'_, '_>,
    request: &Message<'_>,
    channel: &Channel,
    sealed_by: Option<&Arc<Session>>,
) -> Result<(), CommandError> {
    let is_signed = request.header.flags.contains(Flags::SIGNED);
    if is_protected(request, channel, sealed_by) {
        let is_bare = sealed_by.is_none() && !is_signed;
        // With 3.1.1 the signature proves that the negotiation was not changed on the way (MS-SMB2 §3.3.5.7).
        let must_prove = request.header.command == Command::TREE_CONNECT
            && !channel.session.is_anonymous()
            && cx.has_dialect(Dialect::SMB311);
        return if is_bare && must_prove { Err(CommandError::Disconnect) } else { Ok(()) };
    }
    if sealed_by.is_none() {
        let peer = cx.message.endpoints.peer;
        tracing::warn!(%peer, command = ?request.header.command, is_signed, "a request without a valid signature is refused");
    }
    Err(NtStatus::ACCESS_DENIED.into())
}

/// Whether a request is encrypted for its session, or signed where a signature is present or required.
pub(super) fn is_protected(
    request: &Message<'_>,
    channel: &Channel,
    sealed_by: Option<&Arc<Session>>,
) -> bool {
    match sealed_by {
        Some(sealer) => Arc::ptr_eq(sealer, &channel.session),
        None if request.header.flags.contains(Flags::SIGNED) => channel.verify(request.bytes),
        None => !channel.session.must_sign(),
    }
}

/// Fails if the payload exceeds the credits of the request (MS-SMB2 §3.3.5.2.5).
fn check_charge(request: &Message<'_>) -> Result<(), NtStatus> {
    let needed = 1 + payload_bytes(request).saturating_sub(1) / CREDIT_BYTES;
    let charge = u32::from(request.header.credit_charge.max(1));
    if charge < needed { Err(NtStatus::INVALID_PARAMETER) } else { Ok(()) }
}

//! SESSION_SETUP, LOGOFF and ECHO (MS-SMB2 §3.3.5.5, §3.3.5.6, §3.3.5.17).

use crate::limits::CONNECTION_SETUPS_MAX;
use crate::request::context::RequestContext;
use crate::request::outcome::{CommandError, CommandResult};
use crate::state::connection::negotiated::Negotiated;
use crate::state::session::Session;
use crate::state::session::channel::Channel;
use identity::{Accepted, Account, Step};
use smb_wire::header::Flags;
use smb_wire::negotiate::{SecurityMode, SigningAlgorithm};
use smb_wire::session::{
    Empty, SessionFlags, SessionSecurityMode, SessionSetupFlags, SessionSetupRequest, SessionSetupResponse,
};
use smb_wire::types::Dialect;
use smb_wire::{FileTime, NtStatus, Writer};
use std::sync::Arc;
use std::time::Instant;

pub(crate) fn setup(cx: &mut RequestContext<'_, '_>, request: &[u8], w: &mut Writer<'_>) -> CommandResult {
    let args: SessionSetupRequest<'_> = RequestContext::decode(request)?;
    let negotiated = cx.message.connection.negotiated().ok_or(NtStatus::INVALID_PARAMETER)?;
    let (address, tried_at) = (cx.message.endpoints.peer.ip(), Instant::now());
    if !cx.message.service.login_throttle.is_allowed(address, tried_at) {
        return Err(NtStatus::REQUEST_NOT_ACCEPTED.into());
    }
    let channel = if args.flags.contains(SessionSetupFlags::BINDING) {
        bind_channel(cx, request, negotiated)?
    } else {
        match (cx.header.session_id, &cx.channel) {
            (0, _) => begin_session(cx, tried_at)?,
            (_, Some(channel)) if !is_binding(channel) => Arc::clone(channel),
            _ => return Err(NtStatus::USER_SESSION_DELETED.into()),
        }
    };
    cx.header.session_id = channel.session.id;
    cx.channel = Some(Arc::clone(&channel));
    let now = identity::FileTime(FileTime::from_unix(cx.message.now.seconds, cx.message.now.nanos).0);
    let random = &mut |bytes: &mut [u8]| (cx.message.service.random)(bytes);
    let (authority, local) = (&cx.message.service.authority, cx.message.endpoints.local);
    match channel.authenticate(request, args.security_buffer, authority, local, now, random) {
        Step::Continue(token) => {
            let session_flags = SessionFlags::empty();
            cx.respond(w, &SessionSetupResponse { session_flags, security_buffer: &token })?;
            Ok(NtStatus::MORE_PROCESSING_REQUIRED)
        }
        Step::Done(accepted) => {
            let is_anonymous = accepted.account == Account::Anonymous;
            // The keys of an anonymous session are publicly known.
            let must_sign = !is_anonymous && must_sign(negotiated, &args);
            if let Err(stop) = establish(cx, &channel, negotiated, &accepted, must_sign) {
                abandon_setup(cx, &channel);
                return Err(stop);
            }
            cx.message.connection.note_login(!is_anonymous);
            cx.reply.signer = channel.signing().filter(|_| !is_anonymous).cloned();
            end_previous(cx, &channel.session, args.previous_session_id);
            let session_flags = if is_anonymous { SessionFlags::IS_NULL } else { SessionFlags::empty() };
            cx.respond(w, &SessionSetupResponse { session_flags, security_buffer: &accepted.token })
        }
        Step::Refused(refusal) => {
            tracing::info!(peer = %cx.message.endpoints.peer, %refusal, "a session was refused");
            cx.message.service.login_throttle.record_refused(address, tried_at);
            cx.message.service.counters.count_refused_login();
            abandon_setup(cx, &channel);
            let status =
                if refusal.is_malformed() { NtStatus::INVALID_PARAMETER } else { NtStatus::LOGON_FAILURE };
            Err(status.into())
        }
    }
}

fn begin_session(cx: &RequestContext<'_, '_>, now: Instant) -> Result<Arc<Channel>, NtStatus> {
    let session = cx
        .message
        .service
        .new_session(cx.message.endpoints.peer.ip(), now)
        .ok_or(NtStatus::INSUFFICIENT_RESOURCES)?;
    let channel = cx.message.connection.new_channel(session);
    if let Err(status) = cx.message.connection.add_channel(&channel, CONNECTION_SETUPS_MAX) {
        cx.message.service.end_session(&channel.session);
        return Err(status);
    }
    Ok(channel)
}

/// Whether a channel is being added to an existing session.
fn is_binding(channel: &Channel) -> bool {
    !channel.is_bound() && channel.session.is_established()
}

/// Binds a channel to a session. The client must have the session's key and the user's password, and must have
/// negotiated the same values on this connection.
fn bind_channel(
    cx: &mut RequestContext<'_, '_>,
    request: &[u8],
    negotiated: &Negotiated,
) -> Result<Arc<Channel>, NtStatus> {
    let of_channel = cx.channel.as_ref().map(|channel| Arc::clone(&channel.session));
    let session = of_channel.or_else(|| cx.message.service.session(cx.header.session_id));
    let session = session.filter(|session| !session.is_over()).ok_or(NtStatus::USER_SESSION_DELETED)?;
    // A session during setup belongs to its first connection.
    let (Some(first), Some(keys)) = (session.negotiated(), session.keys()) else {
        return Err(NtStatus::REQUEST_NOT_ACCEPTED);
    };
    let is_signed = cx.header.flags.contains(Flags::SIGNED);
    // An AES-GMAC key is valid on one connection: message ids, its nonces, restart on another.
    let is_shared = first.signing != SigningAlgorithm::AES_GMAC;
    if is_shared && is_signed && keys.signing().verify(request).is_ok() {
        cx.reply.signer = Some(Arc::clone(keys.signing()));
    }
    check_binding(first, negotiated)?;
    if !session.has_channels() {
        return Err(NtStatus::REQUEST_NOT_ACCEPTED);
    }
    if !is_signed {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    if cx.channel.as_ref().is_some_and(|channel| channel.is_bound()) {
        return Err(NtStatus::REQUEST_NOT_ACCEPTED);
    }
    if cx.reply.signer.is_none() {
        return Err(NtStatus::ACCESS_DENIED);
    }
    if session.identity().is_none() {
        return Err(NtStatus::NOT_SUPPORTED);
    }
    if let Some(channel) = &cx.channel {
        return Ok(Arc::clone(channel));
    }
    if !session.has_room_for_channel() {
        return Err(NtStatus::INSUFFICIENT_RESOURCES);
    }
    let channel = cx.message.connection.new_channel(session);
    cx.message.connection.add_channel(&channel, CONNECTION_SETUPS_MAX)?;
    Ok(channel)
}

/// Checks that a connection negotiated the same values as the session's first one (MS-SMB2 §3.3.5.5). Checks AES-GMAC
/// first, as Windows does: all channels or none must use it.
fn check_binding(first: &Negotiated, negotiated: &Negotiated) -> Result<(), NtStatus> {
    if first.signing != negotiated.signing {
        match SigningAlgorithm::AES_GMAC {
            gmac if first.signing == gmac => return Err(NtStatus::REQUEST_OUT_OF_SEQUENCE),
            gmac if negotiated.signing == gmac => return Err(NtStatus::NOT_SUPPORTED),
            _ => {}
        }
    }
    if negotiated.dialect == Dialect::SMB210 {
        return Err(NtStatus::REQUEST_NOT_ACCEPTED);
    }
    let is_same = first.dialect == negotiated.dialect && first.cipher == negotiated.cipher;
    if is_same { Ok(()) } else { Err(NtStatus::INVALID_PARAMETER) }
}

/// Removes the remains of a failed authentication: the unbound channel, or the new or reauthenticated session (MS-SMB2
/// §3.3.5.5.3).
fn abandon_setup(cx: &RequestContext<'_, '_>, channel: &Channel) {
    let session_id = channel.session.id;
    if is_binding(channel) {
        cx.message.connection.remove_channel(session_id);
    } else {
        cx.message.connection.end_session(session_id);
    }
}

/// Whether the session must sign: always, unless neither side requires it (MS-SMB2 §3.3.5.4, §3.3.5.5.3).
fn must_sign(negotiated: &Negotiated, args: &SessionSetupRequest<'_>) -> bool {
    negotiated.security_mode.contains(SecurityMode::SIGNING_REQUIRED)
        || negotiated.client_security_mode.contains(SecurityMode::SIGNING_REQUIRED)
        || args.security_mode.contains(SessionSecurityMode::SIGNING_REQUIRED)
}

fn establish(
    cx: &RequestContext<'_, '_>,
    channel: &Arc<Channel>,
    negotiated: &Negotiated,
    accepted: &Accepted,
    must_sign: bool,
) -> Result<(), CommandError> {
    let identity = match &accepted.account {
        Account::Anonymous => None,
        Account::User(identity) => Some(identity.clone()),
    };
    let name = identity.as_ref().map(|identity| identity.name.clone()).unwrap_or_default();
    channel.establish(negotiated, identity, &accepted.session_key, must_sign)?;
    tracing::debug!(peer = %cx.message.endpoints.peer, user = name, dialect = ?negotiated.dialect, "a session has a channel");
    Ok(())
}

/// Ends the previous session that a reconnecting client names, if it belongs to the same user (MS-SMB2 §3.3.5.5.3).
fn end_previous(cx: &RequestContext<'_, '_>, session: &Arc<Session>, previous: u64) {
    let Some(replaced) = cx.message.service.session(previous).filter(|_| previous != session.id) else {
        return;
    };
    if replaced.is_same_user(session.identity()) {
        cx.message.service.end_session(&replaced);
    }
}

pub(crate) fn logoff(cx: &mut RequestContext<'_, '_>, request: &[u8], w: &mut Writer<'_>) -> CommandResult {
    let _: Empty = RequestContext::decode(request)?;
    let session = Arc::clone(cx.session()?);
    let trees = session.trees();
    cx.message.connection.end_session(session.id);
    trees.iter().filter_map(|tree| tree.disk()).for_each(|disk| disk.delete_closed());
    cx.respond(w, &Empty)
}

pub(crate) fn echo(cx: &mut RequestContext<'_, '_>, request: &[u8], w: &mut Writer<'_>) -> CommandResult {
    let _: Empty = RequestContext::decode(request)?;
    cx.respond(w, &Empty)
}

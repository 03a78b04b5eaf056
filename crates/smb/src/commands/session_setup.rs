//! SESSION_SETUP, LOGOFF and ECHO (MS-SMB2 §3.3.5.5, §3.3.5.6, §3.3.5.17).

use crate::limits::CONNECTION_SETUPS_MAX;
use crate::request::context::{Done, Ops, Stop};
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

/// MS-SMB2 §3.3.5.5.
pub(crate) fn setup(ops: &mut Ops<'_>, request: &[u8], w: &mut Writer<'_>) -> Done {
    let args: SessionSetupRequest<'_> = Ops::decode(request)?;
    let negotiated = ops.connection.negotiated().ok_or(NtStatus::INVALID_PARAMETER)?;
    let (address, tried_at) = (ops.ends.peer.ip(), Instant::now());
    if !ops.service.attempts.may_try(address, tried_at) {
        return Err(NtStatus::REQUEST_NOT_ACCEPTED.into());
    }
    let channel = if args.flags.contains(SessionSetupFlags::BINDING) {
        binding(ops, request, negotiated)?
    } else {
        match (ops.header.session_id, &ops.channel) {
            (0, _) => begin(ops, tried_at)?,
            (_, Some(channel)) if !is_binding(channel) => Arc::clone(channel),
            _ => return Err(NtStatus::USER_SESSION_DELETED.into()),
        }
    };
    ops.header.session_id = channel.session.id;
    ops.channel = Some(Arc::clone(&channel));
    let now = identity::FileTime(FileTime::from_unix(ops.now.seconds, ops.now.nanos).0);
    let random = &mut |bytes: &mut [u8]| (ops.service.random)(bytes);
    let authority = (&ops.service.authority, ops.ends.local);
    match channel.step(request, args.security_buffer, authority, now, random) {
        Step::Continue(token) => {
            let session_flags = SessionFlags::empty();
            ops.reply(w, &SessionSetupResponse { session_flags, security_buffer: &token })?;
            Ok(NtStatus::MORE_PROCESSING_REQUIRED)
        }
        Step::Done(accepted) => {
            let is_anonymous = accepted.account == Account::Anonymous;
            // Everybody knows the keys of such a session.
            let must_sign = !is_anonymous && must_sign(negotiated, &args);
            if let Err(stop) = establish(ops, &channel, negotiated, &accepted, must_sign) {
                give_up(ops, &channel);
                return Err(stop);
            }
            ops.connection.note_login(!is_anonymous);
            ops.signer = channel.signing().filter(|_| !is_anonymous).cloned();
            end_previous(ops, &channel.session, args.previous_session_id);
            let session_flags = if is_anonymous { SessionFlags::IS_NULL } else { SessionFlags::empty() };
            ops.reply(w, &SessionSetupResponse { session_flags, security_buffer: &accepted.token })
        }
        Step::Refused(refusal) => {
            tracing::info!(peer = %ops.ends.peer, %refusal, "a session was refused");
            ops.service.attempts.note_refused(address, tried_at);
            ops.service.counts.count_refused();
            give_up(ops, &channel);
            let status =
                if refusal.is_malformed() { NtStatus::INVALID_PARAMETER } else { NtStatus::LOGON_FAILURE };
            Err(status.into())
        }
    }
}

/// The channel of a new session.
fn begin(ops: &Ops<'_>, now: Instant) -> Result<Arc<Channel>, NtStatus> {
    let session = ops.service.new_session(ops.ends.peer.ip(), now).ok_or(NtStatus::INSUFFICIENT_RESOURCES)?;
    let channel = ops.connection.new_channel(session);
    if let Err(status) = ops.connection.add_channel(&channel, CONNECTION_SETUPS_MAX) {
        ops.service.end_session(&channel.session);
        return Err(status);
    }
    Ok(channel)
}

/// Whether a channel is being added to a session that has others.
fn is_binding(channel: &Channel) -> bool {
    !channel.is_bound() && channel.session.is_established()
}

/// Another channel of a session. Who adds one must have the session's key, besides its user's password, and have agreed on the
/// same over this connection.
fn binding(ops: &mut Ops<'_>, request: &[u8], negotiated: &Negotiated) -> Result<Arc<Channel>, NtStatus> {
    let known = ops.channel.as_ref().map(|channel| Arc::clone(&channel.session));
    let session = known.or_else(|| ops.service.session(ops.header.session_id));
    let session = session.filter(|session| !session.is_over()).ok_or(NtStatus::USER_SESSION_DELETED)?;
    // What others set up is theirs alone until it is.
    let (Some(first), Some(keys)) = (session.negotiated(), session.keys()) else {
        return Err(NtStatus::REQUEST_NOT_ACCEPTED);
    };
    let is_signed = ops.header.flags.contains(Flags::SIGNED);
    // A key of AES-GMAC signs on one connection: message ids, its nonces, begin anew on another.
    let is_shared = first.signing != SigningAlgorithm::AES_GMAC;
    if is_shared && is_signed && keys.signing().verify(request).is_ok() {
        ops.signer = Some(Arc::clone(keys.signing()));
    }
    check_binding(first, negotiated)?;
    if !session.has_channels() {
        return Err(NtStatus::REQUEST_NOT_ACCEPTED);
    }
    if !is_signed {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    if ops.channel.as_ref().is_some_and(|channel| channel.is_bound()) {
        return Err(NtStatus::REQUEST_NOT_ACCEPTED);
    }
    if ops.signer.is_none() {
        return Err(NtStatus::ACCESS_DENIED);
    }
    if session.identity().is_none() {
        return Err(NtStatus::NOT_SUPPORTED);
    }
    if let Some(channel) = &ops.channel {
        return Ok(Arc::clone(channel));
    }
    if !session.has_room_for_channel() {
        return Err(NtStatus::INSUFFICIENT_RESOURCES);
    }
    let channel = ops.connection.new_channel(session);
    ops.connection.add_channel(&channel, CONNECTION_SETUPS_MAX)?;
    Ok(channel)
}

/// Whether a connection has agreed on what the `first` one of a session has (MS-SMB2 §3.3.5.5). Signatures by GMAC are for sessions
/// that have it on every channel; Windows looks at that first.
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

/// What is left of an authentication that has failed: nothing of a channel that it was to add, and no session that it was to begin or
/// to prolong (MS-SMB2 §3.3.5.5.3).
fn give_up(ops: &Ops<'_>, channel: &Channel) {
    let session_id = channel.session.id;
    if is_binding(channel) {
        ops.connection.remove_channel(session_id);
    } else {
        ops.connection.end_session(session_id);
    }
}

/// Whether a session that is set up like this is signed: unless neither side asks for it (MS-SMB2 §3.3.5.4, §3.3.5.5.3).
fn must_sign(negotiated: &Negotiated, args: &SessionSetupRequest<'_>) -> bool {
    negotiated.security_mode.contains(SecurityMode::SIGNING_REQUIRED)
        || negotiated.client_security_mode.contains(SecurityMode::SIGNING_REQUIRED)
        || args.security_mode.contains(SessionSecurityMode::SIGNING_REQUIRED)
}

/// Gives a session its user and its keys, or a channel its key.
fn establish(
    ops: &Ops<'_>,
    channel: &Arc<Channel>,
    negotiated: &Negotiated,
    accepted: &Accepted,
    must_sign: bool,
) -> Result<(), Stop> {
    let identity = match &accepted.account {
        Account::Anonymous => None,
        Account::User(identity) => Some(identity.clone()),
    };
    let name = identity.as_ref().map(|identity| identity.name.clone()).unwrap_or_default();
    channel.establish(negotiated, identity, &accepted.session_key, must_sign)?;
    tracing::debug!(peer = %ops.ends.peer, user = name, dialect = ?negotiated.dialect, "a session has a channel");
    Ok(())
}

/// A client that comes back after its connection broke says which session it had: that one ends, if it is the same user's
/// (MS-SMB2 §3.3.5.5.3).
fn end_previous(ops: &Ops<'_>, session: &Arc<Session>, previous: u64) {
    let Some(before) = ops.service.session(previous).filter(|_| previous != session.id) else { return };
    if before.is_of(session.identity()) {
        ops.service.end_session(&before);
    }
}

/// MS-SMB2 §3.3.5.6.
pub(crate) fn logoff(ops: &mut Ops<'_>, request: &[u8], w: &mut Writer<'_>) -> Done {
    let _: Empty = Ops::decode(request)?;
    let session = Arc::clone(ops.session()?);
    let trees = session.trees();
    ops.connection.end_session(session.id);
    trees.iter().filter_map(|tree| tree.disk()).for_each(|disk| disk.delete_closed());
    ops.reply(w, &Empty)
}

/// MS-SMB2 §3.3.5.17.
pub(crate) fn echo(ops: &mut Ops<'_>, request: &[u8], w: &mut Writer<'_>) -> Done {
    let _: Empty = Ops::decode(request)?;
    ops.reply(w, &Empty)
}

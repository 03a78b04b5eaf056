//! Clients and sessions: EXCHANGE_ID to SEQUENCE, RFC 8881 §18.34 to §18.37, §18.46, §18.50, §18.51.

use super::compound_state::{CompoundState, OpError, OpResult, begin, reply};
use crate::limits::{
    CALLBACK_SLOTS_MAX, COMPOUND_OPERATIONS_MAX, RECORD_BYTES_MAX, SESSION_REPLY_CACHED_BYTES_MAX,
    SESSION_SLOTS_MAX,
};
use crate::state::nfs4::channel::{Agreement, Credential};
use crate::state::nfs4::client::{CreateSessionVerdict, Principal};
use crate::state::nfs4::client_name::{protection_of, registered_name};
use crate::state::nfs4::clients::Introduction;
use crate::state::nfs4::session::Session;
use crate::state::nfs4::slots::RequestFingerprint;
use nfs_wire::rpc::AuthFlavor;
use nfs_wire::v4::{
    BackchannelCtlArgs, BindConnToSessionArgs, BindConnToSessionOk, ChannelAttrs, ChannelDirFromClient,
    ChannelDirFromServer, CreateSessionArgs, CreateSessionFlags, CreateSessionOk, DestroyClientidArgs,
    DestroySessionArgs, ExchangeIdArgs, ExchangeIdFlags, ExchangeIdOk, ReclaimCompleteArgs, SequenceArgs,
    SequenceOk, ServerOwner, SessionId, StateProtect, StateProtectInfo, Status,
};
use std::sync::Arc;
use vfs::Proof;
use xdr::{Encode, Writer};

/// The least that requests and replies of a session must take, to be of any use.
const CHANNEL_BYTES_MIN: u32 = 256;
/// Bytes of a request that distinguish it from another with the same sequence number.
const FINGERPRINT_BYTES: usize = 64;
/// CB_SEQUENCE, and the operation.
const CALLBACK_OPERATIONS: u32 = 2;

pub(super) fn checksum(behind: &[u8]) -> u64 {
    // The checksum distinguishes requests and has no security purpose, so it may be fast.
    let (words, rest) = behind[..behind.len().min(FINGERPRINT_BYTES)].as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let mix = |sum: u64, word: &[u8; 8]| {
        (sum.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    words.iter().chain([&last]).fold(behind.len() as u64, mix)
}

pub(super) fn principal(cx: &CompoundState<'_, '_>) -> Principal {
    let credential = cx.call.credential;
    let flavor = if credential.proof == Proof::None { AuthFlavor::NONE } else { AuthFlavor::SYS };
    Principal { flavor, uid: credential.uid, address: cx.call.peer.ip().to_canonical() }
}

/// RFC 8881 §18.35.
pub(super) fn exchange_id(
    cx: &mut CompoundState<'_, '_>,
    args: &ExchangeIdArgs<'_>,
    w: &mut Writer<'_>,
) -> OpResult {
    let since_42 = if cx.request.minor >= 2 { ExchangeIdFlags::SUPP_FENCE_OPS } else { ExchangeIdFlags(0) };
    let known_flags = ExchangeIdFlags::SUPP_MOVED_REFER
        | ExchangeIdFlags::SUPP_MOVED_MIGR
        | since_42
        | ExchangeIdFlags::BIND_PRINC_STATEID
        | ExchangeIdFlags::MASK_PNFS
        | ExchangeIdFlags::UPD_CONFIRMED_REC_A;
    if args.flags.0 & !known_flags.0 != 0 {
        return Err(OpError::Status(Status::INVAL));
    }
    // Without RPCSEC_GSS there is no key to protect state with (RFC 8881 §2.10.8.3).
    if matches!(args.state_protect, StateProtect::Ssv(_)) {
        return Err(OpError::Status(Status::ENCR_ALG_UNSUPP));
    }
    let party = cx.call.party();
    let owner = registered_name(args.clientowner.ownerid, cx.call.protection, party.is_stranger);
    let who = Introduction {
        owner: &owner,
        verifier: args.clientowner.verifier,
        principal: principal(cx),
        party,
        updates: args.flags.contains(ExchangeIdFlags::UPD_CONFIRMED_REC_A),
    };
    let state = &cx.call.service.v4;
    let client = state.introduce(&who)?;
    // A client whose sessions have all ended is still confirmed.
    let is_confirmed = client.has_sessions() || client.next_creation() > 1;
    let confirmed = if is_confirmed { ExchangeIdFlags::CONFIRMED_R } else { ExchangeIdFlags(0) };
    reply(
        w,
        &ExchangeIdOk {
            clientid: client.id,
            sequenceid: client.next_creation(),
            flags: ExchangeIdFlags::USE_NON_PNFS | confirmed,
            state_protect: StateProtectInfo::None,
            server_owner: ServerOwner { minor_id: 0, major_id: &state.name },
            server_scope: &state.scope,
            server_impl_id: None,
        },
    )
}

/// RFC 8881 §18.36.
pub(super) fn create_session(
    cx: &mut CompoundState<'_, '_>,
    args: &CreateSessionArgs<'_>,
    w: &mut Writer<'_>,
) -> OpResult {
    let state = &cx.call.service.v4;
    let client = state.client(args.clientid)?;
    // Checked first: a repetition returns the session id.
    if !client.may_create_session(&principal(cx)) || protection_of(&client.owner) != cx.call.protection {
        return Err(OpError::Status(Status::CLID_INUSE));
    }
    let _creating = match client.begin_creation(args.sequence)? {
        CreateSessionVerdict::Replay(result) => {
            w.buffer().extend_from_slice(&result);
            return Ok(());
        }
        CreateSessionVerdict::New(creating) => creating,
    };
    let known_flags =
        CreateSessionFlags::PERSIST | CreateSessionFlags::CONN_BACK_CHAN | CreateSessionFlags::CONN_RDMA;
    if args.flags.0 & !known_flags.0 != 0 {
        return Err(OpError::Status(Status::INVAL));
    }
    let fore = fore_channel(&args.fore_chan_attrs)?;
    let back = back_channel(&args.back_chan_attrs)?;
    let credential = Credential::choose(&args.sec_parms);
    let calls_back = args.flags.contains(CreateSessionFlags::CONN_BACK_CHAN)
        && credential.is_some()
        && back.maxoperations >= CALLBACK_OPERATIONS;
    let agreement = Agreement {
        minor: cx.request.minor,
        slots: if back.maxoperations < CALLBACK_OPERATIONS { 0 } else { back.maxrequests },
        program: args.cb_program,
        credential: credential.unwrap_or_default(),
    };
    let session = state.add_session(&client, fore, agreement)?;
    cx.binding.bind(&session);
    if calls_back {
        client.callbacks.bind(&session.id, &cx.binding.wire);
    }
    let ok = CreateSessionOk {
        sessionid: session.id,
        sequence: args.sequence,
        flags: if calls_back { CreateSessionFlags::CONN_BACK_CHAN } else { CreateSessionFlags(0) },
        fore_chan_attrs: fore,
        back_chan_attrs: back,
    };
    let start = w.len();
    ok.encode(w);
    client.end_creation(args.sequence, &w.buffer()[start..]);
    Ok(())
}

fn fore_channel(wanted: &ChannelAttrs) -> Result<ChannelAttrs, Status> {
    check_size(wanted)?;
    if wanted.maxoperations == 0 || wanted.maxrequests == 0 {
        return Err(Status::INVAL);
    }
    let record = u32::try_from(RECORD_BYTES_MAX).unwrap_or(u32::MAX);
    Ok(ChannelAttrs {
        headerpadsize: 0,
        maxrequestsize: wanted.maxrequestsize.min(record),
        maxresponsesize: wanted.maxresponsesize.min(record),
        maxresponsesize_cached: wanted.maxresponsesize_cached.min(SESSION_REPLY_CACHED_BYTES_MAX),
        maxoperations: wanted.maxoperations.min(COMPOUND_OPERATIONS_MAX),
        maxrequests: wanted.maxrequests.min(SESSION_SLOTS_MAX),
        rdma_ird: None,
    })
}

fn back_channel(wanted: &ChannelAttrs) -> Result<ChannelAttrs, Status> {
    check_size(wanted)?;
    Ok(ChannelAttrs { maxrequests: wanted.maxrequests.min(CALLBACK_SLOTS_MAX), rdma_ird: None, ..*wanted })
}

/// [`Status::TOOSMALL`] unless a channel takes messages of any use.
fn check_size(wanted: &ChannelAttrs) -> Result<(), Status> {
    let least = wanted.maxrequestsize.min(wanted.maxresponsesize);
    if least < CHANNEL_BYTES_MIN { Err(Status::TOOSMALL) } else { Ok(()) }
}

/// RFC 8881 §18.46.
pub(super) fn sequence(cx: &mut CompoundState<'_, '_>, args: &SequenceArgs, w: &mut Writer<'_>) -> OpResult {
    let state = &cx.call.service.v4;
    let session = match cx.binding.session(&args.sessionid) {
        Some(session) => session,
        None => {
            let session = session(cx, &args.sessionid)?;
            cx.binding.bind(&session);
            session
        }
    };
    let highest_slot = session.highest_slot();
    if args.slotid > highest_slot {
        return Err(OpError::Status(Status::BADSLOT));
    }
    if args.highest_slotid > highest_slot {
        return Err(OpError::Status(Status::BAD_HIGH_SLOT));
    }
    let fingerprint = RequestFingerprint { uid: cx.call.credential.uid, checksum: cx.checksum };
    let begun = session.begin(args.slotid, args.sequenceid, fingerprint, args.cachethis)?;
    let (operations, bytes) = (cx.request.operations, cx.request.args.len());
    let session = begin(cx, begun)?;
    // Checked after the slot is taken, so that a repetition gets the same error.
    if operations > session.fore.maxoperations {
        return Err(OpError::Status(Status::TOO_MANY_OPS));
    }
    if bytes > session.fore.maxrequestsize as usize {
        return Err(OpError::Status(Status::REQ_TOO_BIG));
    }
    let client = &session.client;
    state.renew_lease(client);
    let status_flags = session.back_status() | client.process_revoked_claims();
    reply(
        w,
        &SequenceOk {
            sessionid: args.sessionid,
            sequenceid: args.sequenceid,
            slotid: args.slotid,
            highest_slotid: highest_slot,
            target_highest_slotid: highest_slot,
            status_flags,
        },
    )
}

/// The session with this id. Over a connection with less protection it does not exist: its requests could be forged.
fn session(cx: &CompoundState<'_, '_>, id: &SessionId) -> Result<Arc<Session>, Status> {
    let session = cx.call.service.v4.session(id)?;
    let is_weaker = cx.call.protection < protection_of(&session.client.owner);
    if is_weaker { Err(Status::BADSESSION) } else { Ok(session) }
}

/// RFC 8881 §18.34. Every connection may carry requests of every session.
pub(super) fn bind_conn_to_session(
    cx: &mut CompoundState<'_, '_>,
    args: &BindConnToSessionArgs,
    w: &mut Writer<'_>,
) -> OpResult {
    let session = session(cx, &args.sessid)?;
    check_user(cx, &session)?;
    cx.binding.bind(&session);
    let dir = match args.dir {
        ChannelDirFromClient::Fore => ChannelDirFromServer::Fore,
        ChannelDirFromClient::Back => ChannelDirFromServer::Back,
        ChannelDirFromClient::ForeOrBoth | ChannelDirFromClient::BackOrBoth => ChannelDirFromServer::Both,
    };
    let (client, wire) = (&session.client, &cx.binding.wire);
    if dir == ChannelDirFromServer::Fore {
        client.callbacks.unbind(&session.id, wire);
    } else {
        client.callbacks.bind(&session.id, wire);
    }
    reply(w, &BindConnToSessionOk { sessid: args.sessid, dir, use_conn_in_rdma_mode: false })
}

/// RFC 8881 §18.33.
pub(super) fn backchannel_ctl(cx: &mut CompoundState<'_, '_>, args: &BackchannelCtlArgs<'_>) -> OpResult {
    let slot = cx.state.slot.as_ref().ok_or(OpError::Status(Status::OP_NOT_IN_SESSION))?;
    let session = slot.session();
    let credential = Credential::choose(&args.sec_parms).ok_or(OpError::Status(Status::ENCR_ALG_UNSUPP))?;
    session.client.callbacks.set_caller(&session.id, args.cb_program, credential);
    Ok(())
}

/// RFC 8881 §18.37.
pub(super) fn destroy_session(cx: &mut CompoundState<'_, '_>, args: &DestroySessionArgs) -> OpResult {
    let session = session(cx, &args.sessionid)?;
    check_user(cx, &session)?;
    cx.binding.unbind(&args.sessionid);
    Ok(cx.call.service.v4.remove_session(&args.sessionid)?)
}

/// [`Status::WRONG_CRED`] unless the caller is the user that introduced the client.
fn check_user(cx: &CompoundState<'_, '_>, session: &Session) -> Result<(), Status> {
    let is_user = principal(cx).user() == session.client.principal.user();
    if is_user { Ok(()) } else { Err(Status::WRONG_CRED) }
}

/// RFC 8881 §18.50.
pub(super) fn destroy_clientid(cx: &mut CompoundState<'_, '_>, args: &DestroyClientidArgs) -> OpResult {
    Ok(cx.call.service.v4.remove_client(args.clientid, &principal(cx))?)
}

/// RFC 8881 §18.51.
pub(super) fn reclaim_complete(cx: &mut CompoundState<'_, '_>, args: &ReclaimCompleteArgs) -> OpResult {
    if args.one_fs {
        // Concerns one migrated file system; there are none.
        cx.current_filehandle()?;
        return Ok(());
    }
    let client = Arc::clone(&cx.client()?);
    if cx.call.service.v4.complete_reclaim(&client) {
        Ok(())
    } else {
        Err(OpError::Status(Status::COMPLETE_ALREADY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::SESSIONS_MAX;
    use crate::testing::v4::Client;
    use crate::testing::{TestEnv, export, rule};
    use nfs_wire::v4::Argument;
    use vfs::Protection;

    fn name(number: usize) -> [u8; 8] {
        number.to_be_bytes()
    }

    /// A client with a session, among a thousand behind its address that have one each.
    fn crowd() -> Client {
        let client = Client::new(TestEnv::new([export("/e", 1, vec![rule(&[])])], vec![]), 1);
        (1..1000).for_each(|number| _ = client.try_session(&name(number)).unwrap());
        client
    }

    #[test]
    fn session_made_under_protection_is_none_without() {
        for made in [Protection::Encrypted, Protection::Verified] {
            let mut client = Client::new(TestEnv::new([export("/e", 1, vec![rule(&[])])], vec![]), 1);
            client.env.protection = made;
            client.be(b"secure");
            let sessid = client.session_id();
            assert_eq!(client.status(&[Argument::Putrootfh]), Status::OK);
            // Another connection, in clear.
            client.reconnect("10.1.0.9:701");
            client.env.protection = Protection::Plain;
            let dir = ChannelDirFromClient::ForeOrBoth;
            let bind = BindConnToSessionArgs { sessid, dir, use_conn_in_rdma_mode: false };
            let destroy = DestroySessionArgs { sessionid: sessid };
            for alone in [Argument::BindConnToSession(bind), Argument::DestroySession(destroy)] {
                assert_eq!(client.run_alone(&alone).status(), Status::BADSESSION, "{alone:?} by {made:?}");
            }
            assert_eq!(client.status(&[Argument::Putrootfh]), Status::BADSESSION);
            // A connection with more protection.
            client.reconnect("10.1.0.9:702");
            client.env.protection = Protection::Verified;
            assert_eq!(client.run_alone(&Argument::BindConnToSession(bind)).status(), Status::OK);
            assert_eq!(client.run_alone(&Argument::DestroySession(destroy)).status(), Status::OK);
        }
    }

    #[test]
    fn a_thousand_clients_of_one_address_come_back_while_they_are_still_known() {
        let client = crowd();
        for number in 1..1000 {
            let again = client.try_session(&name(number));
            assert!(again.is_ok(), "client {number} has a second session: {again:?}");
        }
    }

    #[test]
    fn sessions_are_bounded_and_no_address_takes_all() {
        let mut client = crowd();
        let fill = |client: &Client, name: &[u8]| {
            let made = (0..SESSIONS_MAX).take_while(|_| client.try_session(name).is_ok()).count();
            assert_eq!(client.try_session(name), Err(Status::DELAY));
            made
        };
        fill(&client, &name(1));
        assert_eq!(client.try_session(&name(2)), Err(Status::DELAY));
        client.env.user = (7, 7);
        let of_user = fill(&client, b"user");
        assert!(of_user > 100, "{of_user}: one user leaves some to another one of its host");
        for host in 1..9 {
            client.reconnect(&format!("10.2.0.{host}:700"));
            let made = fill(&client, &[host]);
            assert!(made > 20, "{made} of host {host}");
        }
        assert!(client.env.service.v4.tables.sessions.used() < SESSIONS_MAX);
    }

    #[test]
    fn a_client_that_has_restarted_needs_no_room_beside_what_it_had() {
        let mut client = crowd();
        while client.try_session(&name(1)).is_ok() {}
        client.lose_memory();
        assert!(client.try_session(&name(2)).is_ok(), "one for one");
        assert_eq!(client.try_session(&name(2)), Err(Status::DELAY));
        assert!(client.try_session(&name(1)).is_ok(), "one for more than a thousand");
        assert!(client.try_session(&name(2)).is_ok());
    }
}

//! Anonymous sessions.

use crate::rig::{ALICE, Client, Offer, Opening, Rig, SHARE, name};
use smb::limits::{ANONYMOUS_PIPES_MAX, ANONYMOUS_TREES_MAX, CONNECTION_SETUPS_MAX};
use smb_wire::create::CreateDisposition;
use smb_wire::header::{Command, Flags, Header};
use smb_wire::session::Empty;
use smb_wire::tree::{TreeConnectFlags, TreeConnectRequest, TreeConnectResponse};
use smb_wire::types::{AccessMask, Dialect};
use smb_wire::{FileId, NtStatus, Utf16};

fn connected(rig: &Rig, offer: &Offer) -> Client {
    let mut client = rig.connect();
    client.negotiate(offer);
    client
}

/// An anonymous session at IPC$, signing or not.
fn nobody(rig: &Rig, offer: &Offer, signs: bool) -> Client {
    let mut client = connected(rig, offer);
    client.try_log_on_as_nobody().unwrap();
    client.signs = signs;
    client.mount("IPC$");
    client
}

fn open_pipe(client: &mut Client, pipe: &str) -> Result<FileId, NtStatus> {
    let access = AccessMask::READ_DATA | AccessMask::WRITE_DATA;
    let reply = client.create(pipe, Opening { access, ..Opening::by(CreateDisposition::OPEN) });
    if reply.status().is_error() {
        return Err(reply.status());
    }
    Ok(reply.body::<smb_wire::create::CreateResponse<'_>>().file_id)
}

#[test]
fn anonymous_login_needs_permission() {
    let rig = Rig::new();
    for dialect in [Dialect::SMB210, Dialect::SMB300, Dialect::SMB311] {
        let mut client = connected(&rig, &Offer::of(dialect));
        assert_eq!(client.try_log_on_as_nobody(), Err(NtStatus::LOGON_FAILURE));
    }
}

#[test]
fn anonymous_session_reaches_only_pipes() {
    let rig = Rig::anonymous();
    for dialect in [Dialect::SMB210, Dialect::SMB300, Dialect::SMB302, Dialect::SMB311] {
        for signs in [false, true] {
            let mut client = nobody(&rig, &Offer::of(dialect), signs);
            for share in [SHARE, crate::rig::OTHER, "none"] {
                client.tree_connect(share).assert_refused(NtStatus::ACCESS_DENIED);
            }
            open_pipe(&mut client, "srvsvc").unwrap();
            open_pipe(&mut client, "wkssvc").unwrap();
            for pipe in ["lsarpc", "samr", "SAMR"] {
                assert_eq!(open_pipe(&mut client, pipe), Err(NtStatus::ACCESS_DENIED), "who the users are");
            }
            assert_eq!(client.call(Command::LOGOFF, &Empty).status(), NtStatus::SUCCESS);
        }
    }
}

/// Opens of a user are unreachable, whatever ID the anonymous client guesses.
#[test]
fn anonymous_session_cannot_use_ids_of_users() {
    let rig = Rig::anonymous();
    let mut alice = rig.alice();
    let file = alice.open("file", Opening::default());
    let (of_session, of_tree) = (alice.session_id, alice.tree_id);
    // Over its own connection, and over alice's.
    let mut client = nobody(&rig, &Offer::default(), true);
    client.read(file, 0, 1).assert_refused(NtStatus::FILE_CLOSED);
    client.tree_id = of_tree + 1;
    client.read(file, 0, 1).assert_refused(NtStatus::NETWORK_NAME_DELETED);
    client.session_id = of_session;
    client.read(file, 0, 1).assert_refused(NtStatus::USER_SESSION_DELETED);
    let keys = alice.keys();
    alice.forget_session();
    alice.try_log_on_as_nobody().unwrap();
    alice.tree_id = of_tree;
    alice.read(file, 0, 1).assert_refused(NtStatus::NETWORK_NAME_DELETED);
    // With anonymous keys, requests for the user's session fail verification.
    alice.session_id = of_session;
    alice.checks = false;
    alice.read(file, 0, 1).assert_refused(NtStatus::ACCESS_DENIED);
    (alice.checks, alice.signs) = (true, true);
    alice.set_keys(keys);
    assert_eq!(alice.write(file, 0, b"x").status(), NtStatus::SUCCESS);
}

/// A session never changes its user, and an anonymous session gets no channels.
#[test]
fn session_never_changes_its_user() {
    let rig = Rig::anonymous();
    let mut alice = rig.alice();
    alice.open("mine", Opening::alone());
    alice.checks = false;
    assert_eq!(alice.try_log_on_as_nobody(), Err(NtStatus::LOGON_FAILURE));
    rig.alice().open("mine", Opening::alone());
    let mut client = nobody(&rig, &Offer::default(), true);
    let mut second = connected(&rig, &Offer::default());
    assert_eq!(second.bind(&client, ALICE), Err(NtStatus::NOT_SUPPORTED));
    client.checks = false;
    assert_eq!(client.try_log_on(ALICE, 0), Err(NtStatus::LOGON_FAILURE));
    client.call_unprotected(Command::LOGOFF, &Empty).assert_refused(NtStatus::USER_SESSION_DELETED);
}

/// Anonymous keys are publicly known and protect nothing, but a wrong signature is still an error.
#[test]
fn anonymous_signature_is_checked() {
    let rig = Rig::anonymous();
    let mut client = nobody(&rig, &Offer::default(), false);
    let reply = client.call(Command::ECHO, &Empty);
    assert_eq!((reply.status(), reply.header.flags.contains(Flags::SIGNED)), (NtStatus::SUCCESS, false));
    let mut request = client.signed(Command::ECHO, &Empty);
    *request.last_mut().unwrap() ^= 1;
    client.send(&request);
    assert_eq!(client.reply().status(), NtStatus::ACCESS_DENIED);
    let path = name("\\\\files.example.org\\IPC$");
    let path = Utf16::new(&path).unwrap();
    let mut bad =
        client.signed(Command::TREE_CONNECT, &TreeConnectRequest { flags: TreeConnectFlags::empty(), path });
    bad[48] ^= 1;
    client.send(&bad);
    assert_eq!(client.reply().status(), NtStatus::ACCESS_DENIED);
    client.mount("IPC$");
}

/// An anonymous encrypted message is invalid unless a user shares the connection (MS-SMB2 §3.3.1.7).
#[test]
fn anonymous_encrypted_message_ends_the_connection() {
    let rig = Rig::anonymous();
    let mut client = connected(&rig, &Offer::default());
    client.try_log_on_as_nobody().unwrap();
    let sealed = client.sealed(Command::ECHO, &Empty);
    client.send(&sealed);
    client.assert_ended();
    let mut client = rig.alice();
    let of_alice = client.session_id;
    client.forget_session();
    client.try_log_on_as_nobody().unwrap();
    client.seals = true;
    // An envelope with public keys must not carry a user's commands.
    let of_nobody = client.session_id;
    let header = Header { session_id: of_alice, ..client.header(Command::LOGOFF, 1) };
    client.send_protected(crate::rig::message(&header, &Empty));
    client.reply().assert_refused(NtStatus::ACCESS_DENIED);
    assert_eq!(client.session_id, of_nobody);
    let reply = client.tree_connect("IPC$");
    let _: TreeConnectResponse = reply.body();
    client.tree_connect(SHARE).assert_refused(NtStatus::ACCESS_DENIED);
}

/// Anonymous sessions share the small limits of unauthenticated clients.
#[test]
fn anonymous_sessions_are_limited() {
    let rig = Rig::anonymous();
    let mut client = nobody(&rig, &Offer::default(), false);
    for _ in 1..ANONYMOUS_TREES_MAX {
        client.mount("IPC$");
    }
    client.tree_connect("IPC$").assert_refused(NtStatus::INSUFFICIENT_RESOURCES);
    for _ in 0..ANONYMOUS_PIPES_MAX {
        open_pipe(&mut client, "srvsvc").unwrap();
    }
    assert_eq!(open_pipe(&mut client, "srvsvc"), Err(NtStatus::INSUFFICIENT_RESOURCES));
    for _ in 1..CONNECTION_SETUPS_MAX {
        client.forget_session();
        client.try_log_on_as_nobody().unwrap();
    }
    client.forget_session();
    assert_eq!(client.try_log_on_as_nobody(), Err(NtStatus::INSUFFICIENT_RESOURCES));
    let mut other = rig.alice();
    let file = other.open("file", Opening::default());
    assert_eq!(other.write(file, 0, b"x").status(), NtStatus::SUCCESS);
}

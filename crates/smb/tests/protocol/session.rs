//! SESSION_SETUP, signatures, encryption, LOGOFF, and isolation of sessions.

use crate::rig::{ALICE, BOB, OTHER, Offer, Opening, Rig, SHARE, name};
use smb::limits::REFUSED_AT_ONCE_MAX;
use smb_wire::create::CreateDisposition;
use smb_wire::header::{Command, Flags, SIGNATURE_OFFSET};
use smb_wire::negotiate::{Cipher, SigningAlgorithm};
use smb_wire::session::{Empty, SessionSetupFlags};
use smb_wire::tree::{ShareFlags, ShareType, TreeConnectResponse};
use smb_wire::types::{AccessMask, Dialect};
use smb_wire::{FileId, NtStatus};

/// Every signing algorithm.
fn signings() -> Vec<Offer> {
    let of = |algorithm| Offer { signing: vec![algorithm], ..Offer::of(Dialect::SMB311) };
    let mut offers: Vec<Offer> =
        [Dialect::SMB210, Dialect::SMB300, Dialect::SMB302, Dialect::SMB311].map(Offer::of).to_vec();
    offers.extend([SigningAlgorithm::HMAC_SHA256, SigningAlgorithm::AES_CMAC].map(of));
    offers.push(Offer { signing: Vec::new(), ..Offer::of(Dialect::SMB311) });
    offers
}

#[test]
fn login_works_with_every_dialect_and_signing() {
    let rig = Rig::new();
    for offer in signings() {
        let mut client = rig.alice_with(&offer);
        client.put("file", b"signed");
        assert_eq!(client.get("FILE"), b"signed", "{offer:?}");
    }
}

/// After too many attempts even a correct password is refused.
#[test]
fn login_attempts_are_throttled() {
    let rig = Rig::new();
    let try_log_on = |user| {
        let mut client = rig.connect();
        client.negotiate(&Offer::default());
        client.try_log_on(user, 0)
    };
    // The number of the first attempt that is refused unchecked.
    let guess = || {
        for number in 1..100 {
            let tried = try_log_on((ALICE.0, "guess"));
            if tried != Err(NtStatus::LOGON_FAILURE) {
                assert_eq!(tried, Err(NtStatus::REQUEST_NOT_ACCEPTED));
                return number;
            }
        }
        panic!("guesses do not run out")
    };
    assert!(guess() > REFUSED_AT_ONCE_MAX);
    // One attempt becomes available each second, possibly before the next attempt.
    let is_not_told = || {
        let tried = try_log_on(ALICE);
        if tried == Ok(()) {
            guess();
            return false;
        }
        assert_eq!(tried, Err(NtStatus::REQUEST_NOT_ACCEPTED));
        true
    };
    assert!((0..10).any(|_| is_not_told()));
}

#[test]
fn wrong_password_is_refused() {
    let rig = Rig::new();
    for user in [(ALICE.0, "Secret"), (ALICE.0, ""), ("nobody", "secret"), (ALICE.0, BOB.1)] {
        let mut client = rig.connect();
        client.negotiate(&Offer::default());
        assert_eq!(client.try_log_on(user, 0), Err(NtStatus::LOGON_FAILURE), "{user:?}");
        // The unfinished session is gone.
        client.call(Command::LOGOFF, &Empty).assert_refused(NtStatus::USER_SESSION_DELETED);
        client.session_id = 0;
        client.log_on(ALICE);
    }
}

#[test]
fn malformed_token_is_refused() {
    let rig = Rig::new();
    for token in [&b""[..], b"NTLMSSP\0", &[0x60; 200]] {
        let mut client = rig.connect();
        client.negotiate(&Offer::default());
        let request = client.setup_request(token, 0, SessionSetupFlags::empty());
        client.send(&request);
        client.reply().assert_refused(NtStatus::INVALID_PARAMETER);
    }
}

#[test]
fn unfinished_session_refuses_commands() {
    let rig = Rig::new();
    let mut client = rig.connect();
    client.negotiate(&Offer::default());
    client.start_log_on();
    assert_ne!(client.session_id, 0);
    client.tree_connect(SHARE).assert_refused(NtStatus::USER_SESSION_DELETED);
    client.call(Command::LOGOFF, &Empty).assert_refused(NtStatus::USER_SESSION_DELETED);
}

#[test]
fn unfinished_sessions_are_limited() {
    let rig = Rig::new();
    let mut client = rig.connect();
    client.negotiate(&Offer::default());
    for _ in 0..smb::limits::CONNECTION_SETUPS_MAX {
        client.session_id = 0;
        assert_eq!(client.start_log_on(), NtStatus::MORE_PROCESSING_REQUIRED);
    }
    client.session_id = 0;
    assert_eq!(client.start_log_on(), NtStatus::INSUFFICIENT_RESOURCES);
}

#[test]
fn unsigned_or_forged_requests_are_refused() {
    let rig = Rig::new();
    for offer in signings() {
        let mut client = rig.alice_with(&offer);
        client.signs = false;
        client.create("file", Opening::default()).assert_refused(NtStatus::ACCESS_DENIED);
        client.call(Command::ECHO, &Empty).assert_refused(NtStatus::ACCESS_DENIED);
        // The request has the flag but no signature.
        let mut request = client.request(Command::LOGOFF, &Empty);
        request[16] |= 8;
        client.send(&request);
        client.reply().assert_refused(NtStatus::ACCESS_DENIED);
        client.signs = true;
        // One bit of the signature, and one of the body.
        for at in [SIGNATURE_OFFSET, 66] {
            let mut request = client.signed(Command::LOGOFF, &Empty);
            request[at] ^= 1;
            client.send(&request);
            client.reply().assert_refused(NtStatus::ACCESS_DENIED);
        }
        // The command had no effect.
        let missing = client.create("file", Opening::by(CreateDisposition::OPEN));
        missing.assert_refused(NtStatus::OBJECT_NAME_NOT_FOUND);
    }
}

#[test]
fn unsigned_command_of_compound_fails_alone() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let wire = name("made");
    let create = client.request(Command::CREATE, &Opening::default().request(&wire));
    let echo = client.signed(Command::ECHO, &Empty);
    client.send(&crate::rig::chained(vec![create, echo]));
    let replies = client.replies();
    assert_eq!(replies.len(), 2);
    replies[0].assert_refused(NtStatus::ACCESS_DENIED);
    assert_eq!(replies[1].status(), NtStatus::SUCCESS);
}

#[test]
fn session_encrypts_with_every_cipher() {
    let rig = Rig::new();
    let new = |cipher| Offer { ciphers: vec![cipher], ..Offer::of(Dialect::SMB311) };
    let ciphers = [Cipher::AES_128_GCM, Cipher::AES_128_CCM, Cipher::AES_256_GCM, Cipher::AES_256_CCM];
    let old = [Dialect::SMB300, Dialect::SMB302].map(Offer::of);
    for offer in ciphers.map(new).into_iter().chain(old) {
        let mut client = rig.alice_with(&offer);
        client.seals = true;
        client.put("sealed", &[5; 300_000]);
        let file = client.open("sealed", Opening::default());
        assert_eq!(client.data(file, 299_990, 100), [5; 10], "{offer:?}");
        assert_eq!(client.call(Command::ECHO, &Empty).status(), NtStatus::SUCCESS);
    }
}

#[test]
fn changed_encrypted_message_ends_the_connection() {
    let rig = Rig::new();
    // Protocol, signature, nonce, flags, session, text; and a wrong length.
    for at in [4, 20, 42, 44, 60, 36] {
        let mut client = rig.alice();
        client.seals = true;
        let mut sealed = client.sealed(Command::ECHO, &Empty);
        sealed[at] ^= 1;
        client.send(&sealed);
        client.assert_ended();
    }
}

#[test]
fn encrypted_message_for_another_session_is_refused() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.seals = true;
    let own = client.session_id;
    let mut request = client.request(Command::LOGOFF, &Empty);
    request[40..48].copy_from_slice(&(own ^ 1).to_le_bytes());
    client.send_protected(request);
    client.reply().assert_refused(NtStatus::ACCESS_DENIED);
    assert_eq!(client.call(Command::ECHO, &Empty).status(), NtStatus::SUCCESS);
}

#[test]
fn ids_of_other_sessions_are_refused() {
    let rig = Rig::new();
    let mut alice = rig.alice();
    let file = alice.open("file", Opening::default());
    let mut bob = rig.connect();
    bob.negotiate(&Offer::default());
    bob.log_on(BOB);
    bob.mount(SHARE);
    // A file of another session.
    bob.read(file, 0, 10).assert_refused(NtStatus::FILE_CLOSED);
    bob.close(file).assert_refused(NtStatus::FILE_CLOSED);
    // A session of another connection.
    let (own, bobs_tree) = (bob.session_id, bob.tree_id);
    bob.session_id = alice.session_id;
    bob.read(file, 0, 10).assert_refused(NtStatus::USER_SESSION_DELETED);
    bob.session_id = own;
    // An unknown tree connect.
    for tree_id in [0, bobs_tree + 1, u32::MAX] {
        bob.tree_id = tree_id;
        bob.create("file", Opening::default()).assert_refused(NtStatus::NETWORK_NAME_DELETED);
    }
    // A file of another tree connect of the session, and one with a changed id.
    let of_docs = alice.tree_id;
    alice.mount(OTHER);
    alice.read(file, 0, 10).assert_refused(NtStatus::FILE_CLOSED);
    alice.tree_id = of_docs;
    for altered in [
        FileId { volatile: file.volatile + 1, ..file },
        FileId { persistent: file.persistent ^ 1, ..file },
        FileId::PREVIOUS,
    ] {
        alice.read(altered, 0, 10).assert_refused(NtStatus::FILE_CLOSED);
    }
    alice.read(file, 0, 10).assert_refused(NtStatus::END_OF_FILE);
}

#[test]
fn share_name_ignores_case() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let reply = client.tree_connect("DoCs");
    let tree: TreeConnectResponse = reply.body();
    assert_eq!((tree.share_type, tree.share_flags), (ShareType::DISK, ShareFlags::NO_CACHING));
    assert_eq!(tree.maximal_access, AccessMask::FILE_ALL);
    assert_ne!(reply.header.tree_id(), client.tree_id, "each connect has an id of its own");
    for unknown in ["doc", "docs\\", "", "docs$"] {
        client.tree_connect(unknown).assert_refused(NtStatus::BAD_NETWORK_NAME);
    }
    let pipes: TreeConnectResponse = client.tree_connect("ipc$").body();
    assert_eq!(pipes.share_type, ShareType::PIPE);
}

#[test]
fn tree_disconnect_closes_its_opens() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let alone = Opening { share: smb_wire::create::ShareAccess::empty(), ..Opening::default() };
    let file = client.open("mine", alone);
    let of_docs = client.tree_id;
    client.mount(OTHER);
    let other = client.open("stays", Opening::default());
    let of_spare = std::mem::replace(&mut client.tree_id, of_docs);
    assert_eq!(client.call(Command::TREE_DISCONNECT, &Empty).status(), NtStatus::SUCCESS);
    client.read(file, 0, 1).assert_refused(NtStatus::NETWORK_NAME_DELETED);
    client.call(Command::TREE_DISCONNECT, &Empty).assert_refused(NtStatus::NETWORK_NAME_DELETED);
    client.tree_id = of_spare;
    assert_eq!(client.write(other, 0, b"x").status(), NtStatus::SUCCESS);
    client.mount(SHARE);
    client.read(file, 0, 1).assert_refused(NtStatus::FILE_CLOSED);
    client.open("mine", alone);
}

#[test]
fn logoff_closes_opens() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let alone = Opening { share: smb_wire::create::ShareAccess::empty(), ..Opening::default() };
    client.open("mine", alone);
    let mut other = rig.alice();
    other.create("mine", Opening::default()).assert_refused(NtStatus::SHARING_VIOLATION);
    let reply = client.call(Command::LOGOFF, &Empty);
    assert_eq!(reply.status(), NtStatus::SUCCESS);
    assert!(reply.header.flags.contains(Flags::SIGNED));
    other.open("mine", Opening::default());
    let gone = client.call_unprotected(Command::TREE_DISCONNECT, &Empty);
    gone.assert_refused(NtStatus::USER_SESSION_DELETED);
}

#[test]
fn previous_session_id_ends_that_session() {
    let rig = Rig::new();
    let mut before = rig.alice();
    let alone = Opening { share: smb_wire::create::ShareAccess::empty(), ..Opening::default() };
    before.open("mine", alone);
    // Another user does not end it.
    let mut bob = rig.connect();
    bob.negotiate(&Offer::default());
    bob.try_log_on(BOB, before.session_id).unwrap();
    assert_eq!(before.call(Command::ECHO, &Empty).status(), NtStatus::SUCCESS);
    let mut after = rig.connect();
    after.negotiate(&Offer::default());
    after.try_log_on(ALICE, before.session_id).unwrap();
    after.mount(SHARE);
    after.open("mine", alone);
    let gone = before.call_unprotected(Command::TREE_DISCONNECT, &Empty);
    gone.assert_refused(NtStatus::USER_SESSION_DELETED);
}

#[test]
fn reauthentication_needs_the_same_user() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    client.try_log_on(ALICE, 0).unwrap();
    assert_eq!(client.write(file, 0, b"still there").status(), NtStatus::SUCCESS);
    assert_eq!(client.try_log_on(BOB, 0), Err(NtStatus::LOGON_FAILURE));
}

#[test]
fn delete_on_close_runs_at_session_or_tree_end() {
    let rig = Rig::new();
    let mut other = rig.alice();
    let goes = Opening { options: smb_wire::create::CreateOptions::DELETE_ON_CLOSE, ..Opening::default() };
    for command in [Command::LOGOFF, Command::TREE_DISCONNECT] {
        let mut client = rig.alice();
        client.open("file", goes);
        assert_eq!(client.call(command, &Empty).status(), NtStatus::SUCCESS);
        let missing = other.create("file", Opening::by(CreateDisposition::OPEN));
        missing.assert_refused(NtStatus::OBJECT_NAME_NOT_FOUND);
    }
}

#[test]
fn sessions_ended_by_others_free_their_slots() {
    let rig = Rig::new();
    let mut kept = rig.connect();
    kept.negotiate(&Offer::default());
    for _ in 0..smb::limits::CONNECTION_SETUPS_MAX + 2 {
        kept.forget_session();
        kept.log_on(ALICE);
        let mut after = rig.connect();
        after.negotiate(&Offer::default());
        after.try_log_on(ALICE, kept.session_id).unwrap();
    }
}

/// Clients that sign require the flag in replies, even from a server without the key.
#[test]
fn refusal_of_ended_session_keeps_signed_flag() {
    let rig = Rig::new();
    let mut client = rig.alice();
    assert_eq!(client.call(Command::LOGOFF, &Empty).status(), NtStatus::SUCCESS);
    let gone = client.call(Command::LOGOFF, &Empty);
    gone.assert_refused(NtStatus::USER_SESSION_DELETED);
    assert!(gone.header.flags.contains(Flags::SIGNED));
    assert_eq!(gone.header.signature, [0; 16]);
    let gone = client.call_unprotected(Command::LOGOFF, &Empty);
    gone.assert_refused(NtStatus::USER_SESSION_DELETED);
    assert!(!gone.header.flags.contains(Flags::SIGNED));
}

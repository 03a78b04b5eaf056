//! An attacker between client and server: changes, relays and replays.

use crate::rig::{ALICE, Client, INVALID_SIGNATURE, Offer, Opening, Rig, SHARE};
use identity::{Credentials, FileTime, Initiator, NtHash};
use smb_wire::header::{Command, HEADER_SIZE, Header, SIGNATURE_OFFSET};
use smb_wire::negotiate::{Cipher, SigningAlgorithm};
use smb_wire::session::{Empty, SessionSetupFlags, SessionSetupResponse};
use smb_wire::types::Dialect;
use smb_wire::{FileId, NtStatus};
use std::time::SystemTime;

/// Alice's initiator, which answers challenges of the supposed server.
fn initiator() -> Initiator {
    initiator_of("files")
}

/// Alice's initiator for this host.
fn initiator_of(host: &str) -> Initiator {
    let (user, password) = ALICE;
    let nt_hash = NtHash::from_password(password);
    Initiator::new(Credentials { user: user.to_owned(), domain: "FILES".to_owned(), nt_hash }, host)
}

/// Sends SESSION_SETUP with this token. Returns the status and the server's token.
fn setup(client: &mut Client, token: &[u8]) -> (NtStatus, Vec<u8>) {
    let request = client.setup_request(token, 0, SessionSetupFlags::empty());
    client.send(&request);
    let reply = client.reply();
    client.session_id = reply.header.session_id;
    let is_refused = reply.status().is_error() && reply.status() != NtStatus::MORE_PROCESSING_REQUIRED;
    let token = match is_refused {
        true => Vec::new(),
        false => reply.read::<SessionSetupResponse<'_>>().security_buffer.to_vec(),
    };
    (reply.status(), token)
}

/// Alice's answer to a challenge.
fn answer(alice: &mut Initiator, challenge: &[u8]) -> Vec<u8> {
    let now = FileTime::from_unix(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap());
    alice.step(challenge, now, &mut |bytes: &mut [u8]| bytes.fill(5)).unwrap()
}

fn connected(rig: &Rig, offer: &Offer) -> Client {
    let mut client = rig.connect();
    client.negotiate(offer);
    client
}

#[test]
fn authenticate_matches_one_challenge() {
    let rig = Rig::new();
    let (mut victim, mut thief) = (connected(&rig, &Offer::default()), connected(&rig, &Offer::default()));
    let (mut alice, other) = (initiator(), initiator());
    let (_, challenge) = setup(&mut victim, &alice.start());
    let token = answer(&mut alice, &challenge);
    // On another connection, in a session of its own.
    let (begun, _) = setup(&mut thief, &other.start());
    assert_eq!(begun, NtStatus::MORE_PROCESSING_REQUIRED);
    assert_eq!(setup(&mut thief, &token).0, NtStatus::LOGON_FAILURE);
    // On another connection, in the intended session.
    thief.session_id = victim.session_id;
    assert_eq!(setup(&mut thief, &token).0, NtStatus::USER_SESSION_DELETED);
    // On the intended connection, once.
    assert_eq!(setup(&mut victim, &token).0, NtStatus::SUCCESS);
    let again = victim.setup_request(&token, 0, SessionSetupFlags::empty());
    victim.send(&again);
    victim.reply().assert_refused(NtStatus::ACCESS_DENIED);
}

/// An attacker that relays an entire authentication has a session without its keys: its requests fail verification.
#[test]
fn relayed_authentication_gives_no_keys() {
    let rig = Rig::new();
    for offer in [Dialect::SMB210, Dialect::SMB300, Dialect::SMB302, Dialect::SMB311].map(Offer::of) {
        let mut thief = connected(&rig, &offer);
        let mut alice = initiator();
        let (_, challenge) = setup(&mut thief, &alice.start());
        assert_eq!(setup(&mut thief, &answer(&mut alice, &challenge)).0, NtStatus::SUCCESS);
        thief.tree_connect(SHARE).assert_refused(NtStatus::ACCESS_DENIED);
        thief.call(Command::LOGOFF, &Empty).assert_refused(NtStatus::ACCESS_DENIED);
        // The attacker cannot bind a channel either.
        let session_id = thief.session_id;
        let mut second = connected(&rig, &offer);
        second.session_id = session_id;
        let binds = second.setup_request(&initiator().start(), 0, SessionSetupFlags::BINDING);
        second.send(&binds);
        assert!(second.reply().status().is_error());
    }
}

/// The proof covers the target name.
#[test]
fn authenticate_for_another_host_is_refused() {
    let named = Rig::called(&["files.example.org"]);
    let anybody = Rig::new();
    for (host, is_ours) in [
        ("FILES.example.org", true),
        ("127.0.0.1", true),
        ("127.0.0.2", false),
        ("files", false),
        ("other.example.org", false),
    ] {
        for (rig, is_let_in) in [(&named, is_ours), (&anybody, true)] {
            let mut client = connected(rig, &Offer::default());
            let mut alice = initiator_of(host);
            let (_, challenge) = setup(&mut client, &alice.start());
            let status = if is_let_in { NtStatus::SUCCESS } else { NtStatus::LOGON_FAILURE };
            assert_eq!(setup(&mut client, &answer(&mut alice, &challenge)).0, status, "{host}");
        }
    }
}

/// The keys of 3.1.1 depend on all negotiation messages: after a change the two sides have different keys.
#[test]
fn changed_negotiation_gives_different_keys() {
    let rig = Rig::new();
    let strong = Offer {
        ciphers: vec![Cipher::AES_128_GCM, Cipher::AES_128_CCM],
        signing: vec![SigningAlgorithm::AES_CMAC, SigningAlgorithm::HMAC_SHA256],
        ..Offer::of(Dialect::SMB311)
    };
    // The client's capabilities, its GUID, and the last algorithm of the last context, which becomes another.
    let changes: [fn(&mut Vec<u8>); 3] = [
        |sent| sent[HEADER_SIZE + 8] ^= 0x40,
        |sent| sent[HEADER_SIZE + 12] ^= 1,
        |sent| {
            let last = sent.len() - 2;
            sent[last] ^= 2;
        },
    ];
    for change in changes {
        let mut client = rig.connect();
        client.negotiate_changed(&strong, change);
        client.checks = false;
        assert_eq!(client.try_log_on(ALICE, 0), Err(INVALID_SIGNATURE));
        client.tree_connect(SHARE).assert_refused(NtStatus::ACCESS_DENIED);
    }
}

/// Removing the preauth context, or all contexts, ends the negotiation.
#[test]
fn negotiation_without_preauth_context_is_refused() {
    let rig = Rig::new();
    let changes: [fn(&mut Vec<u8>); 3] = [
        // NegotiateContextCount of zero, and one too low.
        |sent| sent[HEADER_SIZE + 32..][..2].fill(0),
        // The type of the first context is unknown.
        |sent| {
            let at = u32::from_le_bytes(sent[HEADER_SIZE + 28..][..4].try_into().unwrap());
            sent[usize::try_from(at).unwrap()] = 0x77;
        },
        // The context offers no known algorithm.
        |sent| {
            let at = u32::from_le_bytes(sent[HEADER_SIZE + 28..][..4].try_into().unwrap());
            sent[usize::try_from(at).unwrap() + 8 + 4] = 9;
        },
    ];
    for change in changes {
        let mut client = rig.connect();
        let mut request = client.request(Command::NEGOTIATE, &Offer::of(Dialect::SMB311).request());
        change(&mut request);
        client.send(&request);
        assert!(client.reply().status().is_error());
        let mut other = rig.alice();
        other.open("file", Opening::default());
    }
}

/// An encrypted share refuses plain commands, anywhere in a message, and commands in another session's envelope.
#[test]
fn plain_requests_cannot_use_encrypted_opens() {
    let mut rule = vfs::ExportRule::everybody();
    rule.protection = vfs::Protection::Encrypted;
    let rig = Rig::with_rule(rule);
    let mut client = rig.alice();
    client.seals = true;
    let file = client.open("file", Opening::default());
    assert_eq!(client.write(file, 0, b"secret").status(), NtStatus::SUCCESS);
    client.seals = false;
    client.read(file, 0, 6).assert_refused(NtStatus::ACCESS_DENIED);
    client.write(file, 0, b"public").assert_refused(NtStatus::ACCESS_DENIED);
    client.create("other", Opening::default()).assert_refused(NtStatus::ACCESS_DENIED);
    // Behind a command that needs no encryption.
    let echo = client.request(Command::ECHO, &Empty);
    let read = client.request(Command::READ, &crate::rig::read(file, 0, 6));
    let replies = client.chain(vec![echo, read]);
    assert_eq!(replies[0].status(), NtStatus::SUCCESS);
    replies[1].assert_refused(NtStatus::ACCESS_DENIED);
    // In the envelope of another session of the same user.
    let mut other = rig.alice();
    other.seals = true;
    let header = Header { session_id: client.session_id, ..other.header(Command::READ, 1) };
    let header = Header { routing: client.header(Command::READ, 1).routing, ..header };
    other.send_protected(crate::rig::message(&header, &crate::rig::read(file, 0, 6)));
    other.reply().assert_refused(NtStatus::ACCESS_DENIED);
    client.seals = true;
    assert_eq!(client.data(file, 0, 6), b"secret");
    assert_ne!(file, FileId::default());
}

/// The preauth hash does not cover the last SESSION_SETUP reply. Its signature lets the client detect changes.
#[test]
fn changed_final_session_setup_reply_is_detected() {
    let rig = Rig::new();
    let changes: [fn(&mut Vec<u8>); 6] = [
        // Unsigned, as if the server could not sign; and with the flag alone.
        |reply| {
            reply[16] &= !8;
            reply[SIGNATURE_OFFSET..HEADER_SIZE].fill(0);
        },
        |reply| reply[SIGNATURE_OFFSET..HEADER_SIZE].fill(0),
        // The session flags, which would make the user a guest or enable encryption.
        |reply| reply[HEADER_SIZE + 2] ^= 1,
        |reply| reply[HEADER_SIZE + 2] ^= 4,
        // The credits, and the session id.
        |reply| reply[14] ^= 1,
        |reply| reply[40] ^= 1,
    ];
    for offer in [Dialect::SMB210, Dialect::SMB300, Dialect::SMB302, Dialect::SMB311].map(Offer::of) {
        for change in changes {
            let mut client = connected(&rig, &offer);
            client.forges = Some(change);
            assert_eq!(client.try_log_on(ALICE, 0), Err(INVALID_SIGNATURE), "{offer:?}");
        }
        let mut client = connected(&rig, &offer);
        client.forges = Some(|_| ());
        assert_eq!(client.try_log_on(ALICE, 0), Ok(()), "{offer:?}");
        // The same for a reauthentication and for a binding.
        assert_eq!(client.try_log_on(ALICE, 0), Ok(()));
        client.forges = Some(changes[0]);
        assert_eq!(client.try_log_on(ALICE, 0), Err(INVALID_SIGNATURE));
        if offer.dialects != [Dialect::SMB210] {
            let mut second = connected(&rig, &offer);
            second.forges = Some(changes[0]);
            assert_eq!(second.bind(&client, ALICE), Err(INVALID_SIGNATURE));
        }
    }
}

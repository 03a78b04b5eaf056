//! AES-GMAC: sessions with one connection, and single use of nonces.

use crate::channels::{alice, connected, query_interfaces};
use crate::rig::{ALICE, Client, Offer, Opening, Rig, SHARE, chained, lease, message};
use smb_wire::compound;
use smb_wire::create::OplockLevel;
use smb_wire::header::{Command, Flags, HEADER_SIZE, Header};
use smb_wire::lock::{LockElement, LockFlags, LockRequest, LockSequence};
use smb_wire::negotiate::{Capabilities, NegotiateContext, NegotiateResponse, SigningAlgorithm};
use smb_wire::session::{Empty, SessionSetupFlags};
use smb_wire::types::Dialect;
use smb_wire::{Decode, FileId, NtStatus};
use std::collections::BTreeSet;
use std::ops::Range;

/// The attacker's connections.
const CONNECTIONS: usize = 6;
/// Message ids that the attacker uses on each connection. The session has used all of them.
const IDS: Range<u64> = 2..18;
const FAILS: LockFlags = LockFlags(LockFlags::EXCLUSIVE_LOCK.0 | LockFlags::FAIL_IMMEDIATELY.0);

fn signed(algorithm: SigningAlgorithm) -> Offer {
    Offer { signing: vec![algorithm], ..Offer::default() }
}

#[test]
fn gmac_is_used_without_multichannel_only() {
    let rig = Rig::single();
    let (gmac, cmac) = (SigningAlgorithm::AES_GMAC, SigningAlgorithm::AES_CMAC);
    let of_3_1_1 = [
        (Offer::default(), gmac),
        (Offer::single(), gmac),
        (signed(cmac), cmac),
        (signed(SigningAlgorithm::HMAC_SHA256), SigningAlgorithm::HMAC_SHA256),
    ];
    let older = [Dialect::SMB300, Dialect::SMB302].map(|dialect| (Offer::of(dialect), cmac));
    for (offer, algorithm) in of_3_1_1.into_iter().chain(older) {
        let mut client = rig.connect();
        let reply = client.negotiate(&offer);
        let agreed: NegotiateResponse<'_> = reply.body();
        assert!(!agreed.capabilities.contains(Capabilities::MULTI_CHANNEL), "{offer:?}");
        let chosen = NegotiateContext::Signing(vec![algorithm]);
        assert!(agreed.dialect != Dialect::SMB311 || agreed.contexts.contains(&chosen), "{offer:?}");
        client.log_on(ALICE);
        client.mount(SHARE);
        query_interfaces(&mut client, 65_536).assert_refused(NtStatus::NOT_SUPPORTED);
        let refused = connected(&rig, &offer).bind(&client, ALICE);
        assert_eq!(refused, Err(NtStatus::REQUEST_NOT_ACCEPTED), "{offer:?}");
        client.open("file", Opening::default());
    }
}

/// Message ids, the source of nonces, begin at zero on each connection.
#[test]
fn binding_refusal_of_gmac_session_is_unsigned() {
    let rig = Rig::new();
    for offer in [signed(SigningAlgorithm::AES_GMAC), Offer::single()] {
        let mut first = rig.alice_with(&offer);
        // An attacker replays one recorded request on two connections.
        for _ in 0..2 {
            let mut second = connected(&rig, &offer);
            second.borrow_session(&first);
            let mut binds = second.setup_request(&alice().start(), 0, SessionSetupFlags::BINDING);
            second.sign(&mut binds);
            second.send(&binds);
            let reply = second.reply();
            reply.assert_refused(NtStatus::REQUEST_NOT_ACCEPTED);
            assert!(!reply.header.flags.contains(Flags::SIGNED), "{offer:?}");
        }
        first.open("file", Opening::default());
    }
}

/// Samba's client accepts this refusal unsigned, but only with the flag.
#[test]
fn binding_refusal_with_another_algorithm_has_flag_only() {
    let rig = Rig::new();
    let cmac = signed(SigningAlgorithm::AES_CMAC);
    for other in [cmac, Offer::of(Dialect::SMB302), Offer::of(Dialect::SMB210)] {
        let mut first = rig.alice_with(&signed(SigningAlgorithm::AES_GMAC));
        let mut second = connected(&rig, &other);
        second.borrow_session(&first);
        for is_signed in [true, false] {
            let mut binds = second.setup_request(&alice().start(), 0, SessionSetupFlags::BINDING);
            if is_signed {
                second.sign(&mut binds);
            }
            second.send(&binds);
            let reply = second.reply();
            reply.assert_refused(NtStatus::REQUEST_OUT_OF_SEQUENCE);
            assert_eq!(reply.header.flags.contains(Flags::SIGNED), is_signed, "{other:?}");
            assert_eq!(reply.header.signature, [0; 16]);
        }
        first.open("file", Opening::default());
    }
}

/// Calls, another login, a refused binding, and an encrypted request.
fn calls(client: &mut Client) {
    let file = client.open("file", Opening::default());
    assert_eq!(client.write(file, 0, b"x").status(), NtStatus::SUCCESS);
    assert_eq!(client.data(file, 0, 1), b"x");
    client.close(file);
    client.log_on(ALICE);
    let binds = client.setup_request(&alice().start(), 0, SessionSetupFlags::BINDING);
    client.send_protected(binds);
    client.reply().assert_refused(NtStatus::REQUEST_NOT_ACCEPTED);
    let mut forged = client.signed(Command::ECHO, &Empty);
    *forged.last_mut().unwrap() ^= 1;
    client.send(&forged);
    client.reply().assert_refused(NtStatus::ACCESS_DENIED);
    client.seals = true;
    client.assert_quiet();
    client.seals = false;
}

/// Breaks of a lease and of an oplock, each acknowledged.
fn breaks(client: &mut Client, other: &mut Client) {
    let pends = |other: &mut Client, name| {
        other.ask(name, Opening::default(), OplockLevel::NONE, None);
        assert_eq!(other.reply().status(), NtStatus::PENDING);
    };
    let mine = client.open_lease("leased", Opening::default(), lease(1, "RWH"));
    pends(other, "leased");
    client.assert_lease_break(1, "RWH", "RH", true);
    assert_eq!(client.acknowledge_lease(1, "RH"), NtStatus::SUCCESS);
    let theirs = crate::rig::granted(&other.reply()).file_id;
    client.close(mine.file_id);
    other.close(theirs);
    let mine = client.open_oplock("locked", Opening::default(), OplockLevel::BATCH);
    pends(other, "locked");
    client.oplock_break();
    assert_eq!(client.acknowledge_oplock(mine.file_id, OplockLevel::II), NtStatus::SUCCESS);
    let theirs = crate::rig::granted(&other.reply()).file_id;
    client.close(mine.file_id);
    other.close(theirs);
}

fn range(flags: LockFlags, file_id: FileId) -> LockRequest {
    let locks = vec![LockElement { offset: 0, length: 1, flags }];
    LockRequest { lock_sequence: LockSequence(0), file_id, locks }
}

/// Pending requests: one cancelled twice, one completed later, each after an interim reply; and a compound.
fn waits(client: &mut Client, other: &mut Client) {
    let (mine, theirs) = (client.open("file", Opening::default()), other.open("file", Opening::default()));
    assert_eq!(other.call(Command::LOCK, &range(FAILS, theirs)).status(), NtStatus::SUCCESS);
    let pends = |client: &mut Client| {
        let lock = client.request(Command::LOCK, &range(LockFlags::EXCLUSIVE_LOCK, mine));
        client.send_protected(lock);
        assert_eq!(client.reply().status(), NtStatus::PENDING);
    };
    pends(client);
    let (id, session_id) = (client.next_id - 1, client.session_id);
    let cancel = Header { credit_charge: 0, ..Header::request(Command::CANCEL, id, session_id, 0) };
    for _ in 0..2 {
        client.send_protected(message(&cancel, &Empty));
    }
    assert_eq!(client.reply().status(), NtStatus::CANCELLED);
    pends(client);
    let two = [client.request(Command::ECHO, &Empty), client.request(Command::ECHO, &Empty)];
    client.send_protected(chained(two.into()));
    assert_eq!(client.replies().len(), 2);
    assert_eq!(other.call(Command::LOCK, &range(LockFlags::UNLOCK, theirs)).status(), NtStatus::SUCCESS);
    assert_eq!(client.reply().status(), NtStatus::SUCCESS);
    client.close(mine);
    other.close(theirs);
}

/// An attacker's request with a chosen id and the signature of another request.
fn forged(attacker: &mut Client, id: u64, kind: usize, captured: &[u8]) -> Vec<u8> {
    attacker.next_id = id;
    let mut request = match kind % 4 {
        0 => attacker.request(Command::ECHO, &Empty),
        1 => attacker.request(Command::LOGOFF, &Empty),
        2 => attacker.setup_request(&alice().start(), 0, SessionSetupFlags::empty()),
        _ => attacker.setup_request(&alice().start(), 0, SessionSetupFlags::BINDING),
    };
    let [header, captured] = [&request[..], captured].map(|bytes| Header::from_bytes(bytes).unwrap());
    let header = Header { flags: header.flags | Flags::SIGNED, signature: captured.signature, ..header };
    request[..HEADER_SIZE].copy_from_slice(&header.to_array());
    request
}

/// Sends a recorded binding and forged requests over another connection. Returns all messages.
fn attack(mut attacker: Client, first: &Client, kind: usize, captured: &[u8]) -> Vec<Vec<u8>> {
    attacker.borrow_session(first);
    attacker.checks = false;
    attacker.log = Some(Vec::new());
    attacker.send(captured);
    attacker.reply();
    for (kind, id) in (kind..).zip(IDS) {
        let request = forged(&mut attacker, id, kind, captured);
        attacker.send(&request);
        attacker.reply();
    }
    attacker.log.unwrap()
}

/// The unencrypted messages.
fn plain(log: &[Vec<u8>]) -> impl Iterator<Item = (Header, &[u8])> {
    let plain = log.iter().filter(|message| message[0] == 0xfe);
    plain.flat_map(|message| compound::messages(message)).map(|message| {
        let message = message.unwrap();
        (message.header, message.bytes)
    })
}

/// Asserts that the session has signed no two messages with the same nonce: id, direction, and whether it is a CANCEL
/// (MS-SMB2 §3.1.4.1). Returns the number of messages that the server signed.
fn count_signed(first: &Client, log: &[Vec<u8>]) -> usize {
    let (mut nonces, mut contents) = (BTreeSet::new(), BTreeSet::new());
    for (header, bytes) in plain(log).filter(|(_, bytes)| first.verifies(bytes)) {
        let is_reply = header.flags.contains(Flags::SERVER_TO_REDIR);
        // A message sent twice discloses nothing.
        if contents.insert(bytes) {
            let nonce = (is_reply, header.command == Command::CANCEL, header.message_id);
            assert!(nonces.insert(nonce), "{header:?} has a nonce that was used before");
        }
    }
    nonces.iter().filter(|(is_reply, ..)| *is_reply).count()
}

/// The last step of a session.
type Ending = fn(&mut Client);

fn end_by_wrong_password(client: &mut Client) {
    assert_eq!(client.try_log_on((ALICE.0, "wrong"), 0), Err(NtStatus::LOGON_FAILURE));
    client.call_unprotected(Command::LOGOFF, &Empty).assert_refused(NtStatus::USER_SESSION_DELETED);
}

fn end_by_logoff(client: &mut Client) {
    assert_eq!(client.call(Command::LOGOFF, &Empty).status(), NtStatus::SUCCESS);
    client.call(Command::LOGOFF, &Empty).assert_refused(NtStatus::USER_SESSION_DELETED);
}

fn end_by_used_id(client: &mut Client) {
    let log = client.log.clone().unwrap();
    let (_, last) =
        plain(&log).filter(|(header, _)| !header.flags.contains(Flags::SERVER_TO_REDIR)).last().unwrap();
    client.send(last);
    client.assert_ended();
}

/// The session provokes replies of all kinds. Meanwhile an attacker sends a recorded binding and forged requests over
/// further connections, with the same negotiation or another, and with the session's message ids.
#[test]
fn gmac_nonce_never_repeats_under_attack() {
    let gmac = signed(SigningAlgorithm::AES_GMAC);
    let sessions: [(Rig, Offer, Ending); 3] = [
        (Rig::new(), gmac, end_by_wrong_password),
        (Rig::new(), Offer::single(), end_by_logoff),
        (Rig::single(), Offer::default(), end_by_used_id),
    ];
    for (rig, offer, end) in sessions {
        let (mut first, mut other) = (connected(&rig, &offer), rig.alice_at(2));
        first.log = Some(Vec::new());
        first.log_on(ALICE);
        first.mount(SHARE);
        let mut second = connected(&rig, &offer);
        second.borrow_session(&first);
        let mut captured = second.setup_request(&alice().start(), 0, SessionSetupFlags::BINDING);
        second.sign(&mut captured);
        let others = [offer, signed(SigningAlgorithm::AES_CMAC), Offer::of(Dialect::SMB302)];
        for number in 0..CONNECTIONS {
            calls(&mut first);
            breaks(&mut first, &mut other);
            waits(&mut first, &mut other);
            assert!(first.next_id >= IDS.end);
            let attacker = connected(&rig, &others[number % others.len()]);
            let heard = attack(attacker, &first, number, &captured);
            assert_eq!(plain(&heard).count(), 2 * (1 + IDS.count()));
            let replies = plain(&heard).filter(|(header, _)| header.flags.contains(Flags::SERVER_TO_REDIR));
            replies.for_each(|(header, bytes)| assert!(!first.verifies(bytes), "{header:?}"));
        }
        let log = first.log.clone().unwrap();
        let is_answered = |header: &Header| {
            !header.flags.contains(Flags::SERVER_TO_REDIR) && header.command != Command::CANCEL
        };
        let asked = plain(&log).filter(|(header, _)| is_answered(header)).count();
        // The reply to the first login step has no key yet.
        assert_eq!(count_signed(&first, &log), asked - 1, "all replies are signed");
        end(&mut first);
        count_signed(&first, &first.log.clone().unwrap());
    }
}

//! Sessions over several connections.

use crate::rig::{
    ALICE, BOB, Client, Offer, Opening, Rig, SHARE, key, lease, read, state, wait_until, write,
};
use identity::{Credentials, Initiator, NtHash};
use smb::limits::SESSION_CHANNELS_MAX;
use smb_wire::create::OplockLevel;
use smb_wire::fsctl::InterfaceCapabilities;
use smb_wire::header::Command;
use smb_wire::ioctl::{CtlCode, IoctlFlags, IoctlRequest, IoctlResponse};
use smb_wire::lock::{LockElement, LockFlags, LockRequest, LockSequence};
use smb_wire::negotiate::{Capabilities, Cipher, NegotiateResponse, SigningAlgorithm};
use smb_wire::session::{Empty, SessionSetupFlags, SessionSetupResponse};
use smb_wire::types::Dialect;
use smb_wire::{FileId, Guid, NtStatus};
use std::time::SystemTime;

/// More than the socket buffers hold.
const LONG: u64 = 24 << 20;

/// A connection after NEGOTIATE.
pub(crate) fn connected(rig: &Rig, offer: &Offer) -> Client {
    let mut client = rig.connect();
    client.negotiate(offer);
    client
}

/// Another channel of a session.
pub(crate) fn channel_of(rig: &Rig, first: &Client, offer: &Offer) -> Client {
    let mut second = connected(rig, offer);
    second.bind(first, ALICE).unwrap();
    second
}

/// One client's session over two channels.
pub(crate) fn two_channels(rig: &Rig) -> [Client; 2] {
    let first = rig.alice_at(1);
    let second = second_of(rig, &first);
    [first, second]
}

/// Another channel of the first client's session.
pub(crate) fn second_of(rig: &Rig, first: &Client) -> Client {
    channel_of(rig, first, &Offer { client_guid: Guid([1; 16]), ..Offer::default() })
}

fn offers() -> Vec<Offer> {
    let signed = |algorithm| Offer { signing: vec![algorithm], ..Offer::default() };
    let mut offers = [Dialect::SMB300, Dialect::SMB302].map(Offer::of).to_vec();
    offers.extend([SigningAlgorithm::AES_CMAC, SigningAlgorithm::HMAC_SHA256].map(signed));
    offers
}

#[test]
fn session_is_shared_by_all_channels() {
    let rig = Rig::new();
    for offer in offers() {
        let mut first = rig.alice_with(&offer);
        let mut second = channel_of(&rig, &first, &offer);
        let file = first.open("file", Opening::default());
        assert_eq!(second.write(file, 0, b"by the second").status(), NtStatus::SUCCESS, "{offer:?}");
        assert_eq!(first.get("file"), b"by the second");
        (first.seals, second.seals) = (true, true);
        assert_eq!(second.write(file, 0, b"sealed").status(), NtStatus::SUCCESS);
        assert_eq!(first.write(file, 0, b"sealed").status(), NtStatus::SUCCESS);
        (first.seals, second.seals) = (false, false);
        assert_eq!(second.close(file).status(), NtStatus::SUCCESS);
        first.read(file, 0, 1).assert_refused(NtStatus::FILE_CLOSED);
    }
}

#[test]
fn session_lasts_until_its_last_channel_ends() {
    let rig = Rig::new();
    let first = rig.alice();
    let of_session = first.keys();
    let mut second = channel_of(&rig, &first, &Offer::default());
    let file = second.open("mine", Opening::alone());
    drop(first);
    wait_until(|| rig.connections() == 1);
    assert_eq!(second.write(file, 0, b"x").status(), NtStatus::SUCCESS);
    // A binding is always signed with the key of the first channel, even after that channel is gone.
    second.set_keys(of_session);
    let third = channel_of(&rig, &second, &Offer::default());
    drop(second);
    wait_until(|| rig.connections() == 1);
    let mut other = rig.alice();
    other.create("mine", Opening::default()).assert_refused(NtStatus::SHARING_VIOLATION);
    drop(third);
    wait_until(|| other.create("mine", Opening::default()).status() == NtStatus::SUCCESS);
}

#[test]
fn logoff_and_wrong_password_end_session_on_all_channels() {
    let rig = Rig::new();
    for fails in [false, true] {
        let mut first = rig.alice();
        let mut second = channel_of(&rig, &first, &Offer::default());
        first.open("mine", Opening::alone());
        if fails {
            assert_eq!(second.try_log_on((ALICE.0, "wrong"), 0), Err(NtStatus::LOGON_FAILURE));
        } else {
            assert_eq!(second.call(Command::LOGOFF, &Empty).status(), NtStatus::SUCCESS);
        }
        for client in [&mut first, &mut second] {
            client.create("mine", Opening::alone()).assert_refused(NtStatus::USER_SESSION_DELETED);
        }
        let mut other = rig.alice();
        other.open("mine", Opening::alone());
        assert_eq!(
            connected(&rig, &Offer::default()).bind(&first, ALICE),
            Err(NtStatus::USER_SESSION_DELETED)
        );
        assert_eq!(other.call(Command::LOGOFF, &Empty).status(), NtStatus::SUCCESS);
    }
}

#[test]
fn each_channel_has_its_own_key() {
    let rig = Rig::new();
    let mut first = rig.alice();
    let mut second = channel_of(&rig, &first, &Offer::default());
    let own = second.keys();
    second.borrow_session(&first);
    first.set_keys(own);
    for client in [&mut first, &mut second] {
        client.checks = false;
        client.create("file", Opening::default()).assert_refused(NtStatus::ACCESS_DENIED);
    }
}

#[test]
fn unbound_channel_refuses_commands() {
    let rig = Rig::new();
    let mut first = rig.alice();
    let file = first.open("file", Opening::default());
    let mut second = connected(&rig, &Offer::default());
    second.borrow_session(&first);
    second.tree_id = first.tree_id;
    second.read(file, 0, 1).assert_refused(NtStatus::USER_SESSION_DELETED);
    assert_eq!(second.start_binding(), NtStatus::MORE_PROCESSING_REQUIRED);
    second.read(file, 0, 1).assert_refused(NtStatus::USER_SESSION_DELETED);
    second.call(Command::LOGOFF, &Empty).assert_refused(NtStatus::USER_SESSION_DELETED);
    // The session cannot be set up anew either.
    assert_eq!(second.try_log_on(ALICE, 0), Err(NtStatus::USER_SESSION_DELETED));
    assert_eq!(first.write(file, 0, b"x").status(), NtStatus::SUCCESS);
}

#[test]
fn binding_needs_the_sessions_user_and_key() {
    let rig = Rig::new();
    let mut first = rig.alice();
    let file = first.open("file", Opening::default());
    let bind = |user| connected(&rig, &Offer::default()).bind(&first, user);
    assert_eq!(bind(BOB), Err(NtStatus::ACCESS_DENIED));
    assert_eq!(bind((ALICE.0, "wrong")), Err(NtStatus::LOGON_FAILURE));
    // The key of another session of the same user.
    let mut other = rig.alice();
    other.session_id = first.session_id;
    assert_eq!(connected(&rig, &Offer::default()).bind(&other, ALICE), Err(NtStatus::ACCESS_DENIED));
    let mut unsigned = connected(&rig, &Offer::default());
    unsigned.signs = false;
    assert_eq!(unsigned.bind(&first, ALICE), Err(NtStatus::INVALID_PARAMETER));
    other.session_id ^= 1;
    assert_eq!(connected(&rig, &Offer::default()).bind(&other, ALICE), Err(NtStatus::USER_SESSION_DELETED));
    other.session_id = 0;
    assert_eq!(connected(&rig, &Offer::default()).bind(&other, ALICE), Err(NtStatus::USER_SESSION_DELETED));
    assert_eq!(first.write(file, 0, b"x").status(), NtStatus::SUCCESS, "the session is as it was");
}

/// A refused binding leaves no state: the right user may retry over the same connection.
#[test]
fn failed_binding_can_be_retried() {
    let rig = Rig::new();
    let first = rig.alice();
    let mut second = connected(&rig, &Offer::default());
    assert_eq!(second.bind(&first, BOB), Err(NtStatus::ACCESS_DENIED));
    second.create("file", Opening::default()).assert_refused(NtStatus::USER_SESSION_DELETED);
    second.bind(&first, ALICE).unwrap();
    second.open("file", Opening::default());
}

#[test]
fn binding_needs_the_same_negotiation() {
    let rig = Rig::new();
    let signed = |algorithm| Offer { signing: vec![algorithm], ..Offer::default() };
    let (gmac, cmac) = (signed(SigningAlgorithm::AES_GMAC), signed(SigningAlgorithm::AES_CMAC));
    let hmac = signed(SigningAlgorithm::HMAC_SHA256);
    let ccm = Offer { ciphers: vec![Cipher::AES_128_CCM], ..Offer::default() };
    let plain = Offer { ciphers: Vec::new(), ..Offer::default() };
    let [old, middle, newer] = [Dialect::SMB210, Dialect::SMB300, Dialect::SMB302].map(Offer::of);
    let elsewhere = Offer { client_guid: Guid([8; 16]), ..Offer::default() };
    let refused = [
        (&old, &old, NtStatus::REQUEST_NOT_ACCEPTED),
        (&middle, &old, NtStatus::REQUEST_NOT_ACCEPTED),
        (&old, &middle, NtStatus::INVALID_PARAMETER),
        (&middle, &newer, NtStatus::INVALID_PARAMETER),
        (&cmac, &newer, NtStatus::INVALID_PARAMETER),
        (&gmac, &newer, NtStatus::REQUEST_OUT_OF_SEQUENCE),
        (&gmac, &old, NtStatus::REQUEST_OUT_OF_SEQUENCE),
        (&gmac, &cmac, NtStatus::REQUEST_OUT_OF_SEQUENCE),
        (&cmac, &gmac, NtStatus::NOT_SUPPORTED),
        (&newer, &gmac, NtStatus::NOT_SUPPORTED),
        (&gmac, &gmac, NtStatus::REQUEST_NOT_ACCEPTED),
        (&cmac, &ccm, NtStatus::INVALID_PARAMETER),
        (&cmac, &plain, NtStatus::INVALID_PARAMETER),
    ];
    for (of_first, of_second, status) in refused {
        let first = rig.alice_with(of_first);
        let mut second = connected(&rig, of_second);
        assert_eq!(second.bind(&first, ALICE), Err(status), "{of_first:?} {of_second:?}");
    }
    // The client GUID is not a secret and proves nothing; Windows does not compare it either.
    for (of_first, of_second) in [(&cmac, &hmac), (&hmac, &cmac), (&cmac, &elsewhere)] {
        let first = rig.alice_with(of_first);
        let mut second = connected(&rig, of_second);
        second.bind(&first, ALICE).unwrap();
        second.open("file", Opening::default());
    }
}

#[test]
fn second_binding_of_a_connection_is_refused() {
    let rig = Rig::new();
    let mut first = rig.alice();
    let mut second = channel_of(&rig, &first, &Offer::default());
    let own = second.keys();
    // A signature by the session's key is invalid on a bound channel.
    second.checks = false;
    assert_eq!(second.bind(&first, ALICE), Err(NtStatus::ACCESS_DENIED));
    second.checks = true;
    second.set_keys(own);
    assert_eq!(second.start_binding(), NtStatus::REQUEST_NOT_ACCEPTED);
    assert_eq!(first.start_binding(), NtStatus::REQUEST_NOT_ACCEPTED);
    // A session during setup cannot be bound either.
    let mut begun = connected(&rig, &Offer::default());
    begun.start_log_on();
    assert_eq!(begun.start_binding(), NtStatus::REQUEST_NOT_ACCEPTED);
    second.open("file", Opening::default());
}

#[test]
fn channels_are_limited() {
    let rig = Rig::new();
    let first = rig.alice();
    let mut channels: Vec<Client> =
        (1..SESSION_CHANNELS_MAX).map(|_| channel_of(&rig, &first, &Offer::default())).collect();
    let mut beyond = connected(&rig, &Offer::default());
    assert_eq!(beyond.bind(&first, ALICE), Err(NtStatus::INSUFFICIENT_RESOURCES));
    channels.pop();
    wait_until(|| beyond.bind(&first, ALICE).is_ok());
}

#[test]
fn unfinished_bindings_are_limited() {
    let rig = Rig::new();
    let mut client = connected(&rig, &Offer::default());
    let firsts: Vec<Client> = (0..=smb::limits::CONNECTION_SETUPS_MAX).map(|_| rig.alice()).collect();
    let started = firsts.iter().map(|first| {
        client.borrow_session(first);
        client.start_binding()
    });
    let started: Vec<NtStatus> = started.collect();
    let (last, others) = started.split_last().unwrap();
    assert!(others.iter().all(|&status| status == NtStatus::MORE_PROCESSING_REQUIRED));
    assert_eq!(*last, NtStatus::INSUFFICIENT_RESOURCES);
}

pub(crate) fn query_interfaces(client: &mut Client, room: u32) -> crate::rig::Reply {
    let request = IoctlRequest {
        ctl_code: CtlCode::QUERY_NETWORK_INTERFACE_INFO,
        file_id: FileId::NONE,
        max_input_response: 0,
        max_output_response: room,
        flags: IoctlFlags::IS_FSCTL,
        input: &[],
        output: &[],
    };
    client.call(Command::IOCTL, &request)
}

#[test]
fn interfaces_include_the_connected_address() {
    let rig = Rig::new();
    let mut client = rig.connect();
    let reply = client.negotiate(&Offer::default());
    let agreed: NegotiateResponse<'_> = reply.body();
    assert!(agreed.capabilities.contains(Capabilities::MULTI_CHANNEL));
    client.log_on(ALICE);
    client.mount(SHARE);
    let reply = query_interfaces(&mut client, 65_536);
    let told: IoctlResponse<'_> = reply.body();
    assert_eq!((told.output.len(), &told.output[..4]), (152, &[0; 4][..]));
    assert_eq!(told.output[8..12], InterfaceCapabilities::RSS_CAPABLE.0.to_le_bytes());
    assert_eq!(told.output[24..32], [2, 0, 0, 0, 127, 0, 0, 1]);
    query_interfaces(&mut client, 151).assert_refused(NtStatus::BUFFER_TOO_SMALL);
}

#[test]
fn interfaces_need_multichannel() {
    let rig = Rig::new();
    let single = Offer { capabilities: Capabilities::LARGE_MTU, ..Offer::default() };
    for offer in [single, Offer::of(Dialect::SMB210)] {
        let mut client = rig.alice_with(&offer);
        query_interfaces(&mut client, 65_536).assert_refused(NtStatus::NOT_SUPPORTED);
    }
}

/// No channel is left to send the reply to.
#[test]
fn pending_request_ends_with_its_channel() {
    let rig = Rig::new();
    let (mut first, mut other) = (rig.alice(), rig.alice());
    let (file, theirs) = (first.open("file", Opening::default()), other.open("file", Opening::default()));
    let mut second = channel_of(&rig, &first, &Offer::default());
    let range = |flags, file_id| LockRequest {
        lock_sequence: LockSequence(0),
        file_id,
        locks: vec![LockElement { offset: 0, length: 1, flags }],
    };
    let now = LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY;
    assert_eq!(other.call(Command::LOCK, &range(now, theirs)).status(), NtStatus::SUCCESS);
    let waits = second.request(Command::LOCK, &range(LockFlags::EXCLUSIVE_LOCK, file));
    second.send_protected(waits);
    assert_eq!(second.reply().status(), NtStatus::PENDING);
    drop(second);
    wait_until(|| rig.connections() == 2);
    assert_eq!(other.call(Command::LOCK, &range(LockFlags::UNLOCK, theirs)).status(), NtStatus::SUCCESS);
    assert_eq!(other.call(Command::LOCK, &range(now, theirs)).status(), NtStatus::SUCCESS);
    assert_eq!(first.write(file, 10, b"x").status(), NtStatus::SUCCESS, "the session goes on");
}

/// Data sent over a lost connection may not have arrived.
#[test]
fn break_is_repeated_on_another_channel() {
    let rig = Rig::new();
    let ([mut first, mut second], mut other) = (two_channels(&rig), rig.alice_at(2));
    first.open_lease("file", Opening::default(), lease(1, "RWH")).assert_state("RWH");
    other.ask("file", Opening::default(), OplockLevel::NONE, None);
    assert_eq!(other.reply().status(), NtStatus::PENDING);
    second.assert_quiet();
    drop(first);
    second.assert_lease_break(1, "RWH", "RH", true);
    assert_eq!(second.acknowledge_lease(1, "RH"), NtStatus::SUCCESS);
    assert_eq!(other.reply().status(), NtStatus::SUCCESS);
}

/// A client that stops reading does not end its connection. Unacknowledged breaks move to another channel, even if no
/// request waits for them.
#[test]
fn unconfirmed_break_moves_to_another_channel() {
    let rig = Rig::new();
    let ([mut first, mut second], mut other) = (two_channels(&rig), rig.alice_at(2));
    first.open_lease("written", Opening::default(), lease(1, "RWH")).assert_state("RWH");
    first.open_lease("read", Opening::default(), lease(2, "R")).assert_state("R");
    let long = second.open("long", Opening::default());
    second.write(long, LONG - 1, b"the end");
    for offset in (0..LONG).step_by(1 << 16) {
        let request = first.request(Command::READ, &read(long, offset, 1 << 16));
        first.send_protected(request);
    }
    let theirs = other.open("read", Opening::default());
    assert_eq!(other.write(theirs, 0, b"new").status(), NtStatus::SUCCESS);
    other.ask("written", Opening::default(), OplockLevel::NONE, None);
    assert_eq!(other.reply().status(), NtStatus::PENDING);
    let mut told = [second.lease_break(), second.lease_break()];
    told.sort_by_key(|told| told.lease_key);
    assert_eq!(
        told.map(|told| (told.lease_key, told.new_lease_state)),
        [(key(1), state("RH")), (key(2), state(""))]
    );
    assert_eq!(second.acknowledge_lease(1, "RH"), NtStatus::SUCCESS);
    assert_eq!(other.reply().status(), NtStatus::SUCCESS);
    second.assert_quiet();
}

/// Encryption does not cover the connection, and message ids are per connection, so a replay on another channel must be
/// detected by its nonce.
#[test]
fn replayed_encrypted_message_on_another_channel_is_refused() {
    let rig = Rig::new();
    for offer in [Offer::default(), Offer::of(Dialect::SMB300)] {
        let mut first = rig.alice_with(&offer);
        let mut again = [channel_of(&rig, &first, &offer), channel_of(&rig, &first, &offer)];
        let file = first.open("file", Opening::default());
        first.seals = true;
        let captured = first.sealed(Command::WRITE, &write(file, 0, b"before"));
        first.send(&captured);
        assert_eq!(first.reply().status(), NtStatus::SUCCESS);
        assert_eq!(first.write(file, 0, b"behind").status(), NtStatus::SUCCESS);
        for channel in &mut again {
            assert!(channel.next_id <= first.next_id - 2, "they have the message's id unused");
            channel.send(&captured);
            channel.assert_ended();
        }
        assert_eq!(first.data(file, 0, 6), b"behind", "{offer:?}");
        first.send(&captured);
        first.assert_ended();
    }
}

pub(crate) fn alice() -> Initiator {
    let nt_hash = NtHash::from_password(ALICE.1);
    Initiator::new(Credentials { user: ALICE.0.to_owned(), domain: "FILES".to_owned(), nt_hash }, "files")
}

/// An attacker that replays both steps gets a new challenge and cannot answer it. The session continues.
#[test]
fn replayed_binding_adds_no_channel() {
    let rig = Rig::new();
    let mut first = rig.alice();
    let mut second = connected(&rig, &Offer::default());
    second.borrow_session(&first);
    second.tree_id = first.tree_id;
    let mut alice = alice();
    let mut begins = second.setup_request(&alice.start(), 0, SessionSetupFlags::BINDING);
    second.sign(&mut begins);
    second.send(&begins);
    let challenge = second.reply().read::<SessionSetupResponse<'_>>().security_buffer.to_vec();
    let now =
        identity::FileTime::from_unix(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap());
    let answer = alice.step(&challenge, now, &mut |bytes: &mut [u8]| bytes.fill(5)).unwrap();
    let mut ends = second.setup_request(&answer, 0, SessionSetupFlags::BINDING);
    second.sign(&mut ends);
    second.send(&ends);
    second.checks = false;
    assert_eq!(second.reply().status(), NtStatus::SUCCESS);
    for _ in 0..3 {
        let mut thief = connected(&rig, &Offer::default());
        thief.borrow_session(&first);
        thief.send(&begins);
        let reply = thief.reply();
        assert_eq!(reply.status(), NtStatus::MORE_PROCESSING_REQUIRED);
        assert_ne!(reply.read::<SessionSetupResponse<'_>>().security_buffer, challenge);
        thief.send(&ends);
        thief.reply().assert_refused(NtStatus::LOGON_FAILURE);
        thief.next_id += 2;
        thief.tree_id = first.tree_id;
        thief.create("file", Opening::default()).assert_refused(NtStatus::USER_SESSION_DELETED);
    }
    first.open("file", Opening::default());
}

/// Without SMB2_GLOBAL_CAP_MULTI_CHANNEL a client gets no channels, and nonces are not recorded for other connections.
#[test]
fn binding_needs_multichannel() {
    let rig = Rig::new();
    let single = Offer { signing: vec![SigningAlgorithm::AES_CMAC], ..Offer::single() };
    let mut first = rig.alice_with(&single);
    let refused = connected(&rig, &Offer::default()).bind(&first, ALICE);
    assert_eq!(refused, Err(NtStatus::REQUEST_NOT_ACCEPTED));
    first.open("file", Opening::default());
}

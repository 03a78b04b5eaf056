//! Asynchronous requests: interim replies, CANCEL, and the end of a wait.

use crate::rig::{Client, Opening, Reply, Rig, wait_until};
use smb_wire::header::{Command, Flags, Header, Routing};
use smb_wire::lock::{LockElement, LockFlags, LockRequest, LockSequence};
use smb_wire::session::Empty;
use smb_wire::{FileId, NtStatus};

const ALONE: LockFlags = LockFlags(LockFlags::EXCLUSIVE_LOCK.0 | LockFlags::FAIL_IMMEDIATELY.0);
const WAITS: LockFlags = LockFlags::EXCLUSIVE_LOCK;

fn request(file_id: FileId, offset: u64, flags: LockFlags) -> LockRequest {
    let locks = vec![LockElement { offset, length: 1, flags }];
    LockRequest { lock_sequence: LockSequence(0), file_id, locks }
}

fn lock(client: &mut Client, file_id: FileId, offset: u64, flags: LockFlags) -> NtStatus {
    client.call(Command::LOCK, &request(file_id, offset, flags)).status()
}

/// The `AsyncId` of an interim reply.
#[track_caller]
fn async_id(reply: &Reply) -> u64 {
    assert_eq!(reply.status(), NtStatus::PENDING);
    assert!(!reply.header.flags.contains(Flags::SIGNED), "it would share the nonce of the reply");
    reply.header.async_id().expect("an asynchronous reply")
}

/// Sends a LOCK that waits, and returns its interim reply.
#[track_caller]
fn waiting_lock(client: &mut Client, file_id: FileId, offset: u64) -> Reply {
    let lock = client.request(Command::LOCK, &request(file_id, offset, WAITS));
    client.send_protected(lock);
    client.reply()
}

/// Cancels a pending request by its message id or its async id.
fn cancel(client: &mut Client, interim: &Header, by_async_id: bool) {
    let routing = if by_async_id { interim.routing } else { Routing::Sync { process_id: 0, tree_id: 0 } };
    let header =
        Header { routing, ..Header::request(Command::CANCEL, interim.message_id, client.session_id, 0) };
    client.send_protected(crate::rig::message(&header, &Empty));
}

/// One client with a locked byte, and another that waits for it.
fn with_a_waiter(test: impl FnOnce(&Rig, (&mut Client, FileId), (&mut Client, FileId), Reply)) {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice(), rig.alice());
    let (mine, theirs) = (one.open("file", Opening::default()), two.open("file", Opening::default()));
    assert_eq!(lock(&mut one, mine, 3, ALONE), NtStatus::SUCCESS);
    let interim = waiting_lock(&mut two, theirs, 3);
    test(&rig, (&mut one, mine), (&mut two, theirs), interim);
}

#[test]
fn lock_waits_for_its_turn() {
    with_a_waiter(|_, (one, mine), (two, theirs), interim| {
        let id = async_id(&interim);
        assert!(interim.header.credits > 0, "credits come with the interim reply");
        assert_eq!(two.call(Command::ECHO, &Empty).status(), NtStatus::SUCCESS, "its connection goes on");
        assert_eq!(lock(one, mine, 3, LockFlags::UNLOCK), NtStatus::SUCCESS);
        let granted = two.reply();
        assert_eq!((granted.status(), granted.header.async_id()), (NtStatus::SUCCESS, Some(id)));
        assert_eq!((granted.header.credits, granted.header.message_id), (0, interim.header.message_id));
        assert!(granted.header.flags.contains(Flags::SIGNED));
        assert_eq!(lock(one, mine, 3, ALONE), NtStatus::LOCK_NOT_GRANTED, "it has the byte");
        assert_eq!(lock(two, theirs, 3, LockFlags::UNLOCK), NtStatus::SUCCESS);
    });
}

#[test]
fn free_lock_is_granted_immediately() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    let reply = waiting_lock(&mut client, file, 3);
    assert_eq!((reply.status(), reply.header.async_id()), (NtStatus::SUCCESS, None));
}

#[test]
fn cancel_works_by_message_id_and_async_id() {
    for by_async_id in [true, false] {
        with_a_waiter(|_, (one, mine), (two, theirs), interim| {
            cancel(two, &interim.header, by_async_id);
            let reply = two.reply();
            reply.assert_refused(NtStatus::CANCELLED);
            assert_eq!(reply.header.async_id(), Some(async_id(&interim)));
            assert!(reply.header.flags.contains(Flags::SIGNED));
            // A second CANCEL has no effect, and the range is free after the unlock.
            cancel(two, &interim.header, by_async_id);
            assert_eq!(lock(one, mine, 3, LockFlags::UNLOCK), NtStatus::SUCCESS);
            assert_eq!(lock(one, mine, 3, ALONE), NtStatus::SUCCESS);
            assert_eq!(lock(two, theirs, 3, ALONE), NtStatus::LOCK_NOT_GRANTED);
        });
    }
}

#[test]
fn cancel_needs_the_same_session() {
    with_a_waiter(|rig, (one, mine), (two, _), interim| {
        // Another session, with guessed ids.
        cancel(one, &interim.header, true);
        cancel(&mut rig.alice(), &interim.header, false);
        // Its own, unsigned, and signed with an unknown key.
        let routing = interim.header.routing;
        let unsigned = Header { routing, ..Header::request(Command::CANCEL, 0, two.session_id, 0) };
        two.send(&crate::rig::message(&unsigned, &Empty));
        let forged = Header { flags: Flags::SIGNED, signature: [7; 16], ..unsigned };
        two.send(&crate::rig::message(&forged, &Empty));
        assert_eq!(one.call(Command::ECHO, &Empty).status(), NtStatus::SUCCESS);
        assert_eq!(two.call(Command::ECHO, &Empty).status(), NtStatus::SUCCESS);
        assert_eq!(lock(one, mine, 3, LockFlags::UNLOCK), NtStatus::SUCCESS);
        assert_eq!(two.reply().status(), NtStatus::SUCCESS);
    });
}

#[test]
fn pending_lock_ends_with_its_file() {
    let ends: [fn(&mut Client, FileId) -> NtStatus; 3] = [
        |client, file| {
            let close =
                smb_wire::file::CloseRequest { flags: smb_wire::file::CloseFlags::empty(), file_id: file };
            let close = client.request(Command::CLOSE, &close);
            client.send_protected(close);
            client.reply().status()
        },
        |client, _| {
            let disconnect = client.request(Command::TREE_DISCONNECT, &Empty);
            client.send_protected(disconnect);
            client.reply().status()
        },
        |client, _| {
            let logoff = client.request(Command::LOGOFF, &Empty);
            client.send_protected(logoff);
            client.reply().status()
        },
    ];
    for end in ends {
        with_a_waiter(|_, (one, mine), (two, theirs), interim| {
            assert_eq!(end(two, theirs), NtStatus::RANGE_NOT_LOCKED);
            assert_eq!(two.reply().status(), NtStatus::SUCCESS);
            async_id(&interim);
            assert_eq!(lock(one, mine, 3, LockFlags::UNLOCK), NtStatus::SUCCESS);
            assert_eq!(lock(one, mine, 3, ALONE), NtStatus::SUCCESS, "no request waits before it");
        });
    }
}

#[test]
fn pending_lock_ends_with_its_connection() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice(), rig.alice());
    let (mine, theirs) = (one.open("file", Opening::default()), two.open("file", Opening::default()));
    assert_eq!(lock(&mut one, mine, 3, ALONE), NtStatus::SUCCESS);
    async_id(&waiting_lock(&mut two, theirs, 3));
    drop(two);
    wait_until(|| rig.connections() == 1);
    assert_eq!(lock(&mut one, mine, 3, LockFlags::UNLOCK), NtStatus::SUCCESS);
    assert_eq!(lock(&mut one, mine, 3, ALONE), NtStatus::SUCCESS);
}

#[test]
fn pending_requests_per_connection_are_limited() {
    with_a_waiter(|_, (one, mine), (two, theirs), _| {
        for _ in 1..smb::limits::CONNECTION_WAITING_MAX {
            async_id(&waiting_lock(two, theirs, 3));
        }
        waiting_lock(two, theirs, 3).assert_refused(NtStatus::INSUFFICIENT_RESOURCES);
        let last = two.next_id - 2;
        let header = Header::request(Command::LOCK, last, two.session_id, 0);
        cancel(two, &header, false);
        two.reply().assert_refused(NtStatus::CANCELLED);
        async_id(&waiting_lock(two, theirs, 3));
        assert_eq!(lock(one, mine, 3, LockFlags::UNLOCK), NtStatus::SUCCESS);
        assert_eq!(two.reply().status(), NtStatus::SUCCESS, "the first of them has its turn");
    });
}

#[test]
fn only_last_lock_of_a_compound_waits() {
    with_a_waiter(|_, (one, mine), (two, theirs), _| {
        let waits = two.request(Command::LOCK, &request(theirs, 3, WAITS));
        let echo = two.request(Command::ECHO, &Empty);
        let statuses: Vec<NtStatus> = two.chain(vec![waits, echo]).iter().map(Reply::status).collect();
        assert_eq!(statuses, [NtStatus::INTERNAL_ERROR, NtStatus::SUCCESS]);
        let echo = two.request(Command::ECHO, &Empty);
        let waits = two.request(Command::LOCK, &request(theirs, 3, WAITS));
        let replies = two.chain(vec![echo, waits]);
        assert_eq!(replies[0].status(), NtStatus::SUCCESS);
        let id = async_id(&replies[1]);
        // The first waiter is granted first.
        assert_eq!(lock(one, mine, 3, LockFlags::UNLOCK), NtStatus::SUCCESS);
        assert_eq!(two.reply().status(), NtStatus::SUCCESS);
        cancel(two, &replies[1].header, true);
        let reply = two.reply();
        assert_eq!((reply.status(), reply.header.async_id()), (NtStatus::CANCELLED, Some(id)));
    });
}

#[test]
fn async_reply_is_encrypted_like_its_request() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice(), rig.alice());
    let (mine, theirs) = (one.open("file", Opening::default()), two.open("file", Opening::default()));
    two.seals = true;
    assert_eq!(lock(&mut one, mine, 3, ALONE), NtStatus::SUCCESS);
    // The client fails on every unencrypted message.
    let interim = waiting_lock(&mut two, theirs, 3);
    async_id(&interim);
    cancel(&mut two, &interim.header, true);
    two.reply().assert_refused(NtStatus::CANCELLED);
    async_id(&waiting_lock(&mut two, theirs, 3));
    assert_eq!(lock(&mut one, mine, 3, LockFlags::UNLOCK), NtStatus::SUCCESS);
    assert_eq!(two.reply().status(), NtStatus::SUCCESS);
}

/// Thousands of requests wait for one byte, and all connections end at once, beginning with the owner's. Each newly
/// granted open is already closed and passes the lock on.
#[test]
fn thousands_of_pending_locks_end_with_their_connections() {
    const CONNECTIONS: usize = 16;
    const EACH: usize = 500;
    let rig = Rig::new();
    let mut one = rig.alice();
    let mine = one.open("file", Opening::default());
    assert_eq!(lock(&mut one, mine, 3, ALONE), NtStatus::SUCCESS);
    let mut others: Vec<Client> = (0..CONNECTIONS).map(|_| rig.alice()).collect();
    for other in &mut others {
        // Half of them through one open, half through several.
        let mut theirs = other.open("file", Opening::default());
        for number in 0..EACH {
            async_id(&waiting_lock(other, theirs, 3));
            if number > EACH / 2 && number % 16 == 0 {
                theirs = other.open("file", Opening::default());
            }
        }
    }
    drop(one);
    drop(others);
    wait_until(|| rig.connections() == 0);
    let mut last = rig.alice();
    let theirs = last.open("file", Opening::default());
    assert_eq!(lock(&mut last, theirs, 3, ALONE), NtStatus::SUCCESS);
}

//! Locks that clients wait for.

use super::*;
use crate::limits::CLIENT_WAITING_LOCKS_MAX;
use crate::testing::v4::back::{LEASE_S, Rig, SECOND};
use crate::testing::v4::{at, opening, put};
use nfs_wire::v4::callback::{self, NotifyLockArgs, OpReply as CallbackReply};
use nfs_wire::v4::{
    Argument, ExistLockOwner, FileHandle, FreeStateidArgs, OpReply, OpenArgs, OpenClaim, OpenResult,
    OpenToLockOwner, Reply, SequenceStatus, ShareAccess, ShareDeny, Stateid,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::claims::{Effect, Holder};
use xdr::Encode;

/// Locks bytes of `f` with an owner that has no lock in the open file yet.
fn lock(rig: &Rig, open: Stateid, range: (u64, u64), kind: LockType) -> Result<Stateid, Status> {
    lock_in(rig, b"f", open, range, kind)
}

fn lock_in(
    rig: &Rig,
    name: &[u8],
    open_stateid: Stateid,
    range: (u64, u64),
    kind: LockType,
) -> Result<Stateid, Status> {
    let lock_owner = StateOwner { clientid: 0, owner: b"l" };
    let new = OpenToLockOwner { open_seqid: 0, open_stateid, lock_seqid: 0, lock_owner };
    let args = LockArgs {
        locktype: kind,
        reclaim: false,
        offset: range.0,
        length: range.1,
        locker: Locker::New(new),
    };
    let handle = rig.client.handle(&[b"e", name]);
    let results = rig.client.ask(&[put(&handle), Argument::Lock(args)]);
    match results.all().last() {
        Some(OpReply::Lock(nfs_wire::v4::LockReply::Ok(ok))) => Ok(*ok),
        _ => Err(results.status()),
    }
}

/// Locks bytes with an owner that had some in the open file.
fn lock_again(rig: &Rig, states: Stateid, range: (u64, u64)) -> Status {
    let lock_stateid = Stateid { seqid: 0, other: states.other };
    let locker = Locker::Existing(ExistLockOwner { lock_stateid, lock_seqid: 0 });
    let args =
        LockArgs { locktype: LockType::Write, reclaim: false, offset: range.0, length: range.1, locker };
    let handle = rig.client.handle(&[b"e", b"f"]);
    rig.client.status(&[put(&handle), Argument::Lock(args)])
}

fn unlock(rig: &Rig, lock_stateid: Stateid, range: (u64, u64)) -> Status {
    let args =
        LockuArgs { locktype: LockType::Write, seqid: 0, lock_stateid, offset: range.0, length: range.1 };
    let handle = rig.client.handle(&[b"e", b"f"]);
    rig.client.status(&[put(&handle), Argument::Locku(args)])
}

/// A client that waits for the bytes from 0 to 9 of `f`, which the other one has; stateids of the open of the one and of the lock
/// of the other.
fn waiting() -> (Rig, Stateid, Stateid) {
    let mut rig = Rig::new();
    let states = rig.as_writer(|rig| {
        let (open, result) = rig.opened(b"f", ShareAccess::BOTH);
        assert_eq!(result.0 & OpenResult::MAY_NOTIFY_LOCK.0, 0, "it cannot be called");
        lock(rig, open, (0, 9), LockType::Write).unwrap()
    });
    let (open, result) = rig.opened(b"f", ShareAccess::BOTH);
    assert!(result.contains(OpenResult::MAY_NOTIFY_LOCK));
    assert_eq!(lock(&rig, open, (0, 9), LockType::WriteWait), Err(Status::DENIED));
    (rig, open, states)
}

fn next_notified_owner(rig: &Rig) -> Vec<u8> {
    let handle = rig.client.handle(&[b"e", b"f"]);
    let lock_owner = StateOwner { clientid: rig.reader().id, owner: b"l" };
    callback::Argument::NotifyLock(NotifyLockArgs { fh: FileHandle(&handle), lock_owner }).to_bytes()
}

#[test]
fn waiting_client_is_notified_and_has_the_lock_reserved() {
    let (mut rig, open, states) = waiting();
    assert_eq!(lock(&rig, open, (0, 9), LockType::WriteWait), Err(Status::DENIED), "it asks now and then");
    assert!(rig.is_silent());
    assert_eq!(rig.as_writer(|rig| unlock(rig, states, (0, 9))), Status::OK);
    let call = rig.next_call();
    assert_eq!(call.operation, next_notified_owner(&rig));
    rig.reply(&call.reply(Status::OK, &[call.sequence_reply(), CallbackReply::NotifyLock(Status::OK)]));
    let of_other = rig.as_writer(|rig| lock_again(rig, states, (0, 1)));
    assert_eq!(of_other, Status::DENIED, "it is kept");
    let own = lock(&rig, open, (0, 9), LockType::WriteWait).unwrap();
    assert!(rig.is_silent(), "one notification only");
    rig.pass(2 * RESERVED_S);
    assert_eq!(unlock(&rig, own, (0, 9)), Status::OK, "it is held, not kept");
    assert!(rig.reader().states().has_room_to_wait());
}

#[test]
fn a_lock_is_kept_for_seconds_and_nothing_is_lost_with_it() {
    let (mut rig, open, states) = waiting();
    let other = lock(&rig, open, (20, 5), LockType::Write).unwrap();
    assert_eq!(rig.as_writer(|rig| unlock(rig, states, (0, 9))), Status::OK);
    assert_eq!(rig.next_call().operation, next_notified_owner(&rig));
    rig.pass(RESERVED_S + 2);
    assert_eq!(rig.as_writer(|rig| lock_again(rig, states, (0, 9))), Status::OK, "somebody else's turn");
    assert!(!rig.flags().contains(SequenceStatus::EXPIRED_SOME_STATE_REVOKED));
    assert_eq!(unlock(&rig, other, (20, 5)), Status::OK);
}

#[test]
fn a_lock_that_is_not_asked_for_again_is_waited_for_no_longer() {
    let (mut rig, _, states) = waiting();
    rig.pass(WAIT_S + RESERVED_S + 1);
    assert_eq!(rig.as_writer(|rig| unlock(rig, states, (0, 9))), Status::OK);
    assert!(rig.is_silent());
}

#[test]
fn waiting_locks_are_bounded_and_end_with_their_open() {
    let (rig, open, _) = waiting();
    // Each is another lock on the same first byte.
    for length in 10..9 + CLIENT_WAITING_LOCKS_MAX as u64 {
        assert!(rig.reader().states().has_room_to_wait());
        assert_eq!(lock(&rig, open, (0, length), LockType::ReadWait), Err(Status::DENIED));
    }
    assert!(!rig.reader().states().has_room_to_wait());
    assert_eq!(lock(&rig, open, (0, 5000), LockType::ReadWait), Err(Status::DENIED));
    let close = Argument::Close(nfs_wire::v4::CloseArgs { seqid: 0, open_stateid: open });
    let handle = rig.client.handle(&[b"e", b"f"]);
    assert_eq!(rig.client.status(&[put(&handle), close]), Status::OK);
    assert!(rig.reader().states().has_room_to_wait() && rig.reader().states().is_empty());
}

struct Stranger;

impl Holder for Stranger {
    fn deliver(&self, _: Effect) {}
}

#[test]
fn locks_of_other_protocols_that_end_are_told_too() {
    let rig = Rig::new();
    let (open, _) = rig.opened(b"f", ShareAccess::BOTH);
    let (claims, now) = (rig.volume.claims(), rig.volume.now());
    let owner = LockOwner { holder: claims.attach(Arc::new(Stranger)), owner: 1 };
    let request = Request::Lock(lock_request(owner, None, Span::to_end(0), true));
    let reader = rig.reader();
    let states = reader.states();
    let key = states.open(states.find(&open).unwrap()).unwrap().file.1;
    drop(states);
    assert!(matches!(claims.request(now, &key, &request), Verdict::Granted(_)));
    assert_eq!(lock(&rig, open, (0, 9), LockType::ReadWait), Err(Status::DENIED));
    let span = Span::to_end(0);
    claims.request(
        now,
        &key,
        &Request::Unlock { owner, stream: Stream::default(), span, enforced: false, is_exclusive: None },
    );
    assert_eq!(rig.next_call().operation, next_notified_owner(&rig));
    assert!(lock(&rig, open, (0, 9), LockType::ReadWait).is_ok());
}

/// Lets the client's lease expire while the other client renews its own.
fn fall_silent(rig: &mut Rig) {
    for _ in 0..LEASE_S + 2 {
        rig.clock.fetch_add(SECOND, Ordering::Relaxed);
        rig.client.env.service.v4.tick();
        assert_eq!(rig.as_writer(|rig| rig.client.status(&[Argument::Putrootfh])), Status::OK);
    }
}

fn free(rig: &Rig, stateid: Stateid) -> Status {
    rig.client.status(&[Argument::FreeStateid(FreeStateidArgs { stateid })])
}

#[test]
fn revoked_states_are_reported_until_freed() {
    let mut rig = Rig::new();
    let [f, g] = [b"f", b"g"].map(|name| rig.opened(name, ShareAccess::BOTH).0);
    let retained = lock_in(&rig, b"g", g, (0, 9), LockType::Write).unwrap();
    let expired = lock(&rig, f, (0, 9), LockType::Write).unwrap();
    assert_eq!(lock_again(&rig, expired, (50, 5)), Status::OK);
    fall_silent(&mut rig);
    let of_other = rig.as_writer(|rig| {
        let (open, _) = rig.opened(b"f", ShareAccess::BOTH);
        lock(rig, open, (0, 9), LockType::Write).unwrap()
    });
    for _ in 0..2 {
        assert!(rig.flags().contains(SequenceStatus::EXPIRED_SOME_STATE_REVOKED));
        let states = [retained, f, g, expired].map(|stateid| rig.state_of(Stateid { seqid: 0, ..stateid }));
        assert_eq!(states, [Status::OK, Status::EXPIRED, Status::OK, Status::EXPIRED], "with its open");
    }
    assert_eq!(lock_again(&rig, expired, (90, 5)), Status::EXPIRED);
    let others = rig.as_writer(|rig| lock_again(rig, of_other, (50, 5)));
    assert_eq!(others, Status::OK, "what else its owner had there is free");
    assert_eq!(free(&rig, expired), Status::OK);
    assert!(rig.flags().contains(SequenceStatus::EXPIRED_SOME_STATE_REVOKED));
    assert_eq!(free(&rig, f), Status::OK);
    assert!(!rig.flags().contains(SequenceStatus::EXPIRED_SOME_STATE_REVOKED));
    assert_eq!(rig.state_of(expired), Status::BAD_STATEID);
    assert_eq!(lock_in(&rig, b"g", g, (20, 5), LockType::Write).err(), None, "what nobody wanted is its own");
}

#[test]
fn an_open_that_was_taken_takes_its_locks_along() {
    let mut rig = Rig::new();
    let access = ShareAccess(ShareAccess::BOTH.0 | ShareAccess::WANT_NO_DELEG.0);
    let args = OpenArgs { share_deny: ShareDeny::WRITE, ..opening(OpenClaim::Null(b"f"), access) };
    let results = rig.client.ask(&at(&[b"e"], [Argument::Open(args)]));
    let open = match results.all().last() {
        Some(OpReply::Open(Reply::Ok(ok))) => ok.stateid,
        other => panic!("{other:?}"),
    };
    drop(results);
    let locked = lock(&rig, open, (0, 9), LockType::Write).unwrap();
    fall_silent(&mut rig);
    assert!(rig.write(b"f").is_ok());
    assert!(rig.flags().contains(SequenceStatus::EXPIRED_SOME_STATE_REVOKED));
    assert_eq!([open, locked].map(|stateid| rig.state_of(stateid)), [Status::EXPIRED; 2]);
    assert!(rig.reader().states().is_empty(), "what is lost keeps nobody from going");
    assert_eq!(free(&rig, open), Status::OK);
    assert!(rig.flags().contains(SequenceStatus::EXPIRED_SOME_STATE_REVOKED));
    assert_eq!(free(&rig, locked), Status::OK);
    assert!(!rig.flags().contains(SequenceStatus::EXPIRED_SOME_STATE_REVOKED));
}

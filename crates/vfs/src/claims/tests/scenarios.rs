//! Deletion, names, opens without a connection, courtesy, the time after a restart, and threads.

use super::*;
use crate::claims::entries::CLAIMS_MAX;
use crate::sync::Mutex;
use crate::{FsError, Wait};
use std::sync::Arc;

fn link() -> Link {
    Link { parent: key(9), name: Box::from(&b"name"[..]), listing: None }
}

fn removed(stream: u32) -> Effect {
    Effect::Remove { file: key(1), stream: Stream(stream), link: link() }
}

fn deleting() -> Access {
    Access { rights: Rights::READ | Rights::DELETE, deny: Rights::NONE }
}

#[test]
fn the_last_close_deletes() {
    let mut rig = Rig::new();
    let [first, second] = [1, 2].map(|holder| rig.open(opening(holder, deleting())));
    let reader = rig.open(opening(3, read_write()));
    let delete = |open, link| Request::SetDelete { open, link, waits: true };
    assert_eq!(rig.refused(&delete(reader, Some(link()))), Conflict::Denied);
    rig.granted(&delete(first, Some(link())));
    assert_eq!(rig.decided(0), (true, Some(link())));
    assert_eq!(rig.refused(&Request::Open(opening(4, read_write()))), Conflict::DeletePending);
    rig.granted(&delete(second, None));
    assert_eq!(rig.decided(0), (false, None), "a later decision replaces an earlier one");
    let fourth = rig.open(opening(4, read_write()));
    rig.granted(&delete(second, Some(link())));
    for open in [first, second, reader] {
        rig.granted(&Request::Close(open));
        assert_eq!(rig.take(), []);
    }
    rig.granted(&Request::Close(fourth));
    assert_eq!(rig.take(), [removed(0)]);
    // The file is to be deleted: a new open would lose it.
    assert_eq!(rig.refused(&Request::Open(opening(4, read_write()))), Conflict::DeletePending);
    assert_eq!(rig.take(), [], "it is removed once");
    rig.removed(1);
    assert_eq!(rig.refused(&Request::Open(opening(4, read_write()))), Conflict::DeletePending);
    rig.removed(0);
    assert!(rig.table.is_empty());
    rig.removed(0);
    let again = rig.open(opening(4, deleting()));
    rig.granted(&delete(again, Some(link())));
    rig.removed(0);
    assert_eq!(
        rig.refused(&Request::Open(opening(4, read_write()))),
        Conflict::DeletePending,
        "it is another"
    );
}

#[test]
fn an_open_that_deletes_does_so_when_it_is_closed() {
    let mut rig = Rig::new();
    let [first, other] = [1, 1].map(|holder| rig.open(opening(holder, deleting())));
    let delete = |open| Request::DeleteOnClose { open, link: link() };
    rig.granted(&delete(first));
    assert_eq!(rig.refused(&Request::Open(opening(2, read_write()))), Conflict::DeletePending, "lost");
    let second = rig.open(OpenRequest { is_mandatory: true, ..opening(2, read_write()) });
    assert_eq!(rig.refused(&delete(second)), Conflict::Denied);
    rig.granted(&Request::Close(other));
    assert_eq!(rig.decided(0), (false, None));
    rig.granted(&Request::Close(first));
    assert_eq!(rig.decided(0), (true, Some(link())));
    assert_eq!(rig.refused(&delete(first)), Conflict::NotHeld);
    assert_eq!(rig.refused(&Request::Open(opening(3, read_write()))), Conflict::DeletePending);
    rig.granted(&Request::Close(second));
    assert_eq!(rig.take(), [removed(0)]);
}

#[test]
fn the_file_waits_for_its_streams_but_not_they_for_it() {
    let mut rig = Rig::new();
    let of_stream = |number| OpenRequest { stream: Stream(number), ..opening(1, deleting()) };
    let [data, stream, other] = [0, 1, 2].map(|number| rig.open(of_stream(number)));
    rig.granted(&Request::SetDelete { open: stream, link: Some(link()), waits: true });
    assert_eq!([0, 1, 2].map(|number| rig.decided(number).0), [false, true, false]);
    rig.granted(&Request::Close(stream));
    assert_eq!(rig.take(), [removed(1)]);
    rig.removed(1);
    rig.granted(&Request::SetDelete { open: data, link: Some(link()), waits: true });
    assert_eq!([0, 1, 2].map(|number| rig.decided(number).0), [true; 3]);
    assert_eq!(rig.decided(2).1, None, "it has no name of its own that goes");
    rig.granted(&Request::Close(data));
    assert_eq!(rig.refused(&Request::Open(of_stream(1))), Conflict::DeletePending);
    rig.granted(&Request::Close(other));
    assert_eq!(rig.take(), [removed(0)]);
}

#[test]
fn a_name_that_is_to_go_is_the_one_that_there_is() {
    let named = |name: &[u8]| Link { parent: key(8), name: name.into(), listing: None };
    let relink = |from, to| Request::Relink { from, to };
    let mut rig = Rig::new();
    assert_eq!(rig.granted(&relink(link(), named(b"new"))), Granted::default());
    let [first, second] = [1, 2].map(|holder| rig.open(opening(holder, deleting())));
    for open in [first, second] {
        rig.granted(&Request::DeleteOnClose { open, link: link() });
    }
    rig.granted(&relink(named(b"name"), named(b"other")));
    rig.granted(&relink(link(), named(b"new")));
    rig.open(opening(3, Access::default()));
    rig.granted(&Request::Close(first));
    assert_eq!(rig.refused(&Request::Open(opening(4, read_write()))), Conflict::DeletePending);
    rig.granted(&relink(named(b"new"), named(b"last")));
    rig.granted(&Request::Close(second));
    let removed = Effect::Remove { file: key(1), stream: Stream::default(), link: named(b"last") };
    assert_eq!(rig.table.drop_holder(rig.now, HolderId(3)), [removed]);
}

#[test]
fn silent_holder_does_not_keep_a_deleted_file() {
    let delete = |open| Request::SetDelete { open, link: Some(link()), waits: true };
    for is_gone_before in [false, true] {
        let mut rig = Rig::new();
        let left = rig.open(opening(1, read_write()));
        let [first, second] = [2, 3].map(|holder| rig.open(opening(holder, deleting())));
        let lapse = |rig: &mut Rig| {
            let effects = rig.table.lapse(rig.now, HolderId(1));
            rig.effects.extend(effects);
        };
        if is_gone_before {
            lapse(&mut rig);
        }
        rig.granted(&delete(first));
        for open in [first, second] {
            assert_eq!(rig.take(), [], "somebody is there");
            rig.granted(&Request::Close(open));
        }
        if !is_gone_before {
            assert_eq!(rig.take(), []);
            lapse(&mut rig);
        }
        assert_eq!(rig.take(), [revoked(1, left), removed(0)]);
        rig.table.assert_tidy();
    }
}

#[test]
fn deleted_file_of_a_disconnected_open_goes_on_conflict() {
    let mut rig = Rig::new();
    let open = rig.open(OpenRequest { lease: shared(1, "RWH"), ..opening(1, deleting()) });
    rig.granted(&Request::SetDelete { open, link: Some(link()), waits: true });
    rig.granted(&disconnect(open, false));
    assert_eq!(rig.take(), []);
    rig.granted(&Request::Reconnect { open, holder: HolderId(2) });
    assert_eq!(rig.refused(&Request::Open(opening(3, read_write()))), Conflict::DeletePending);
    assert_eq!(rig.take(), []);
    rig.granted(&disconnect(open, false));
    assert_eq!(rig.refused(&Request::Open(opening(3, Access::default()))), Conflict::DeletePending);
    assert_eq!(rig.take(), [revoked(2, open), removed(0)]);
}

#[test]
fn handles_are_let_go_before_a_name_goes() {
    let mut rig = Rig::new();
    rig.open(OpenRequest { lease: shared(1, "RH"), ..opening(1, read_write()) });
    let unlink = |by| Request::Unlink { by, waits: true };
    assert_eq!(rig.refused(&unlink(Requester::Anonymous)), Conflict::Recalling);
    assert_eq!(rig.recalls(), [(HolderId(1), caching("RH"), caching("R"), true)]);
    let ticket = rig.waits(&unlink(Requester::Holder(HolderId(2))));
    rig.acknowledge(shared_key(1), caching("R"));
    assert_eq!(rig.outcomes(), [(ticket, Outcome::Again)]);
    rig.granted(&unlink(Requester::Anonymous));
}

#[test]
fn listings_end_but_for_who_changed_them() {
    let mut rig = Rig::new();
    let reading = Access { rights: Rights::READ, deny: Rights::NONE };
    for holder in [1, 2] {
        rig.open(OpenRequest { lease: shared(holder.into(), "RH"), ..opening(holder, reading) });
    }
    rig.granted(&Request::ListingChanged { except: Some(shared_key(1)) });
    assert_eq!(rig.recalls(), [(HolderId(2), caching("RH"), caching(""), true)]);
}

fn revoked(holder: u64, open: OpenId) -> Effect {
    Effect::Revoked { holder: HolderId(holder), file: key(1), what: RevokedClaim::Open(open) }
}

#[test]
fn durable_opens_yield_and_persistent_ones_do_not() {
    let alone = Access { rights: Rights::WRITE, deny: Rights::WRITE };
    for is_persistent in [false, true] {
        let mut rig = Rig::new();
        let first = rig.open(OpenRequest { lease: shared(1, "RWH"), ..opening(1, alone) });
        rig.granted(&disconnect(first, is_persistent));
        let second = Request::Open(opening(2, alone));
        if is_persistent {
            rig.waits(&second);
            rig.pass(60);
            assert!(rig.take().contains(&revoked(1, first)));
        }
        rig.granted(&second);
        assert_eq!(rig.take().contains(&revoked(1, first)), !is_persistent);
        assert_eq!(rig.refused(&Request::Reconnect { open: first, holder: HolderId(3) }), Conflict::NotHeld);
    }
}

#[test]
fn a_durable_open_without_a_conflict_comes_back_with_all_it_had() {
    let mut rig = Rig::new();
    let lease = shared(1, "RH");
    let open = rig.open(OpenRequest { lease, is_mandatory: true, ..opening(1, read_write()) });
    let range = LockRequest { open: Some(open), is_enforced: true, ..locking(1, 0, 10, true) };
    rig.granted(&Request::Lock(range));
    rig.granted(&disconnect(open, false));
    // Sharing and caching go together.
    let reading = Access { rights: Rights::READ, deny: Rights::NONE };
    rig.open(opening(2, reading));
    let granted = rig.granted(&Request::Reconnect { open, holder: HolderId(3) });
    assert_eq!((granted.lease, granted.caching), (Some(shared_key(1)), caching("RH")));
    assert_eq!(rig.table.next_deadline(), None);
    assert_eq!(rig.refused(&Request::Reconnect { open, holder: HolderId(3) }), Conflict::NotHeld);
    assert_eq!(rig.table.drop_holder(rig.now, HolderId(1)), []);
    rig.granted(&io(Requester::Open(open), IoKind::Write));
    // A writer with dirty data whose client is gone loses its lease.
    rig.granted(&disconnect(open, false));
    assert_eq!(rig.apply(1, &io(Requester::Anonymous, IoKind::Write)), Verdict::Granted(Granted::default()));
    assert!(rig.take().contains(&revoked(3, open)));
}

#[test]
fn nobody_opens_what_goes_with_an_open_that_gives_way() {
    let mut rig = Rig::new();
    let alone = Access { rights: Rights::WRITE | Rights::DELETE, deny: Rights::WRITE };
    let open = rig.open(OpenRequest { lease: shared(1, "RWH"), ..opening(1, alone) });
    rig.granted(&Request::DeleteOnClose { open, link: link() });
    let granted = rig.table.granted_of(&key(1), open).unwrap();
    assert_eq!((granted.open, granted.lease), (Some(open), Some(shared_key(1))));
    assert_eq!(granted.caching, caching("RWH"));
    rig.granted(&disconnect(open, false));
    assert_eq!(rig.refused(&Request::Open(opening(2, alone))), Conflict::DeletePending);
    assert_eq!(rig.take(), [revoked(1, open), removed(0)]);
    assert_eq!(rig.table.granted_of(&key(1), open), None);
    rig.removed(0);
    rig.open(opening(2, alone));
}

#[test]
fn expired_holders_keep_what_nobody_wants() {
    let mut rig = Rig::new();
    let alone = Access { rights: Rights::WRITE, deny: Rights::WRITE };
    let open = rig.open(opening(1, alone));
    rig.granted(&Request::Lock(locking(2, 0, 10, true)));
    let ticket = rig.waits(&queued_lock(3, 0));
    rig.table.lapse(rig.now, HolderId(1));
    let effects = rig.table.lapse(rig.now, HolderId(2));
    rig.effects.extend(effects);
    assert_eq!(
        rig.take(),
        [
            Effect::Revoked {
                holder: HolderId(2),
                file: key(1),
                what: RevokedClaim::Range(LockOwner { holder: HolderId(2), owner: 0 }, Span::clamped(0, 10)),
            },
            Effect::Resume { holder: HolderId(3), file: key(1), ticket, outcome: Outcome::Granted },
        ]
    );
    rig.table.renew(HolderId(1));
    assert_eq!(rig.refused(&Request::Open(opening(4, alone))), Conflict::Share);
    rig.table.lapse(rig.now, HolderId(1));
    rig.open(opening(4, alone));
    assert_eq!(rig.take(), [revoked(1, open)]);
    rig.table.assert_tidy();
}

fn queued_lock(holder: u64, start: u64) -> Request {
    let queueing = Queueing::Until(Nanos(100 * SECOND));
    Request::Lock(LockRequest { queueing, ..locking(holder, start, 5, true) })
}

#[test]
fn an_expired_delegation_does_not_hold_others_up() {
    let mut rig = Rig::new();
    let lease = Some(LeaseRequest {
        kind: LeaseKind::Delegation,
        want: caching("RW"),
        answers_within: None,
        epoch: 0,
    });
    let open = rig.open(OpenRequest { lease, ..opening(1, read_write()) });
    rig.granted(&Request::Close(open));
    let ticket = rig.waits(&Request::Open(opening(2, read_write())));
    let effects = rig.table.lapse(rig.now, HolderId(1));
    assert!(matches!(effects[..], [Effect::Resume { ticket: over, .. }] if over == ticket));
    rig.open(opening(2, read_write()));
    assert_eq!(
        rig.take().last(),
        Some(&Effect::Revoked {
            holder: HolderId(1),
            file: key(1),
            what: RevokedClaim::Lease(LeaseKey::Delegation(HolderId(1)))
        })
    );
}

#[test]
fn a_holder_that_goes_takes_all_with_it() {
    let mut rig = Rig::new();
    let open = rig.open(opening(1, deleting()));
    rig.granted(&Request::DeleteOnClose { open, link: link() });
    rig.granted(&Request::Lock(locking(1, 0, 10, true)));
    let own = rig.waits(&Request::Lock(LockRequest {
        owner: LockOwner { holder: HolderId(1), owner: 7 },
        queueing: Queueing::Until(Nanos(100 * SECOND)),
        ..locking(1, 0, 10, true)
    }));
    let other = rig.waits(&queued_lock(2, 0));
    rig.effects = rig.table.drop_holder(rig.now, HolderId(1));
    assert!(rig.effects.contains(&removed(0)));
    assert_eq!(rig.outcomes(), [(own, Outcome::Canceled), (other, Outcome::Granted)]);
    rig.table.drop_holder(rig.now, HolderId(2));
    rig.removed(0);
    assert!(rig.table.is_empty());
    rig.table.assert_tidy();
}

#[test]
fn a_file_has_no_more_than_so_many_claims() {
    let mut rig = Rig::new();
    let stacked = |holder| Request::Lock(LockRequest { is_enforced: true, ..locking(holder, 0, 1, false) });
    let (mut all, mut holders) = (0, 0);
    while all < CLAIMS_MAX {
        holders += 1;
        let taken = until_refused(|| rig.apply(1, &stacked(holders)));
        assert_eq!(taken, (CLAIMS_MAX - all).div_ceil(2), "one leaves as many to others as it has");
        all += taken;
    }
    assert_eq!((rig.refused(&stacked(holders + 1)), holders), (Conflict::TooMany, 15));
}

/// Returns the number of requests that are granted or wait before one is refused.
fn until_refused(mut request: impl FnMut() -> Verdict) -> usize {
    (0..=CLAIMS_MAX).take_while(|_| request() != Verdict::Refused(Conflict::TooMany)).count()
}

/// Covers opens, ranges and waiting requests of one file.
#[test]
fn one_user_leaves_claims_on_a_file_to_others() {
    let users = Arc::new(HolderUsers::default());
    for holder in [1, 2] {
        users.add(HolderId(holder), 1000);
    }
    users.add(HolderId(3), 1001);
    let requests: [fn(u64) -> Request; 3] = [
        |holder| Request::Open(opening(holder, read_write())),
        |holder| Request::Lock(LockRequest { is_enforced: true, ..locking(holder, 0, 1, false) }),
        |holder| queued_lock(holder, 0),
    ];
    for request in requests {
        let mut rig = Rig::new();
        rig.table = Table::new(Timeouts::default(), 1, 1).of_users(Arc::clone(&users));
        if matches!(request(1), Request::Lock(LockRequest { queueing: Queueing::Until(_), .. })) {
            rig.granted(&Request::Lock(locking(9, 0, 10, true)));
        }
        let mut turn = 0;
        let taken = until_refused(|| {
            turn += 1;
            rig.apply(1, &request(1 + turn % 2))
        });
        assert_eq!(taken, CLAIMS_MAX / 2);
        assert_eq!(until_refused(|| rig.apply(1, &request(2))), 0, "another session is the same user's");
        assert_eq!(until_refused(|| rig.apply(1, &request(3))), CLAIMS_MAX / 4);
        assert_eq!(until_refused(|| rig.apply(1, &request(4))), CLAIMS_MAX / 8);
    }
}

#[test]
fn ranges_that_are_given_back_in_part_count_too() {
    let mut rig = Rig::new();
    // One user has half of the limit.
    let most = CLAIMS_MAX as u64 / 2;
    rig.granted(&Request::Lock(locking(1, 0, 4 * most, true)));
    let owner = locking(1, 0, 0, true).owner;
    let unlock = |start, len| Request::Unlock {
        owner,
        stream: Stream::default(),
        span: Span::clamped(start, len),
        enforced: false,
        is_exclusive: None,
    };
    let splits = |rig: &Rig, start, len| {
        rig.table.is_split_by(&key(1), owner, Stream::default(), &Span::clamped(start, len))
    };
    assert!(splits(&rig, 1, 1) && !splits(&rig, 0, 1) && !splits(&rig, 4 * most - 1, 9));
    for hole in 0..most - 1 {
        rig.granted(&unlock(2 * hole + 1, 1));
    }
    assert_eq!(rig.table.ranges_of(&key(1), owner), CLAIMS_MAX / 2);
    assert_eq!(rig.refused(&unlock(3 * most, 1)), Conflict::TooMany);
    rig.granted(&unlock(2 * most, 2 * most));
    rig.granted(&unlock(0, 4 * most));
    assert_eq!(rig.table.ranges_of(&key(1), owner), 0);
    assert!(rig.table.is_empty());
}

fn claims(grace: Grace) -> Claims {
    Claims::new(Timeouts::default(), grace)
}

#[derive(Default)]
struct Inbox(Mutex<Vec<Effect>>);

impl Holder for Inbox {
    fn deliver(&self, effect: Effect) {
        self.0.lock().push(effect);
    }
}

const NOW: Nanos = Nanos(SECOND);

#[test]
fn after_a_restart_only_old_claims_are_taken() {
    let grace = Grace::new(Nanos(45 * SECOND), [RecordId(1), RecordId(2)]);
    let claims = claims(grace.clone());
    let apply = |request| claims.apply(NOW, &key(1), &request).0;
    let open = |reclaims| Request::Open(OpenRequest { reclaims, ..opening(1, read_write()) });
    let lock = |reclaims| Request::Lock(LockRequest { reclaims, ..locking(1, 0, 1, true) });
    assert!(claims.is_in_grace());
    for request in [open(false), lock(false)] {
        assert_eq!(apply(request), Verdict::Refused(Conflict::Grace));
    }
    for request in [open(true), lock(true), io(Requester::Anonymous, IoKind::Read)] {
        assert!(matches!(apply(request), Verdict::Granted(_)));
    }
    grace.complete(RecordId(1));
    assert!(claims.is_in_grace());
    grace.complete(RecordId(2));
    assert!(!claims.is_in_grace());
    assert_eq!(apply(lock(true)), Verdict::Refused(Conflict::NoGrace));
    assert!(matches!(apply(open(false)), Verdict::Granted(_)));
}

#[test]
fn the_time_after_a_restart_ends() {
    assert!(!claims(Grace::default()).is_in_grace(), "nobody is recorded");
    let claims = claims(Grace::new(Nanos(45 * SECOND), [RecordId(1)]));
    assert_eq!(claims.next_deadline(), Some(Nanos(45 * SECOND)));
    assert_eq!(claims.expire(Nanos(44 * SECOND)), []);
    assert!(claims.is_in_grace());
    assert_eq!(claims.expire(Nanos(45 * SECOND)), []);
    assert!(!claims.is_in_grace());
    assert_eq!(claims.next_deadline(), None);
}

#[test]
fn callers_without_state_reach_holders() {
    let claims = claims(Grace::default());
    let inbox = Arc::new(Inbox::default());
    let holder = claims.attach(inbox.clone());
    let write = |file| {
        let io = Io {
            by: Requester::Anonymous,
            stream: Stream::default(),
            kind: IoKind::Write,
            span: Span::ALL,
            waits: false,
        };
        claims.io(|| NOW, &key(file), io)
    };
    assert_eq!(write(1), Ok(()));
    let request = OpenRequest { holder, lease: shared(1, "RWH"), ..opening(0, deleting()) };
    let (verdict, effects) = claims.apply(NOW, &key(1), &Request::Open(request));
    let Verdict::Granted(Granted { open: Some(open), .. }) = verdict else { panic!("{verdict:?}") };
    assert_eq!(claims.deliver_effects(effects), []);
    assert_eq!(write(1), Err(FsError::Wait(Wait::Recall)));
    claims.apply(NOW, &key(1), &Request::DeleteOnClose { open, link: link() });
    assert_eq!(write(1), Err(FsError::DeletePending), "it would go with the open");
    assert_eq!(claims.unlink(Requester::Anonymous, || NOW, &key(1)), Err(FsError::Wait(Wait::Recall)));
    assert_eq!(write(2), Ok(()));
    assert!(matches!(inbox.0.lock()[..], [Effect::Recall { acknowledge: true, .. }]));
    assert_eq!(claims.next_deadline(), Some(Nanos(36 * SECOND)));
    // An open that gives way to a caller without state may have been the last one of a file to be deleted.
    claims.apply(NOW, &key(1), &disconnect(open, false));
    assert_eq!(write(1), Err(FsError::DeletePending));
    assert_eq!(claims.next_deadline(), Some(Nanos(0)));
    assert_eq!(claims.expire(NOW), [removed(0)]);
    assert!(!claims.is_empty() && claims.next_deadline().is_none());
    claims.removed(NOW, &key(1), Stream::default());
    assert!(claims.is_empty());
}

#[test]
fn a_volume_is_empty_again_after_many_threads() {
    let claims = claims(Grace::default());
    std::thread::scope(|scope| {
        for holder in 1..=4 {
            let claims = &claims;
            scope.spawn(move || {
                for file in 0..=255 {
                    claims.apply(NOW, &key(file), &Request::Open(opening(holder, read_write())));
                    claims.apply(NOW, &key(file), &queued_lock(holder, 0));
                }
                claims.drop_holder(NOW, HolderId(holder));
            });
        }
    });
    assert!(claims.is_empty() && claims.next_deadline().is_none());
    let (verdict, _) = claims.apply(NOW, &key(1), &Request::Open(opening(1, read_write())));
    assert!(matches!(verdict, Verdict::Granted(_)) && !claims.is_empty());
}

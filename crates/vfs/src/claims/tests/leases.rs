//! Leases: breaks, grants, and the recalls of operations.

use super::super::lease::{legal, next_step};
use super::*;

/// (rights, rights that must end, rights after the next step): shared leases, oplocks, delegations.
const STEPS: [(&str, &str, [&str; 3]); 14] = [
    ("RWH", "W", ["RH", "R", ""]),
    ("RWH", "H", ["RW", "R", ""]),
    ("RWH", "RW", ["", "", ""]),
    ("RW", "W", ["R", "R", ""]),
    ("RW", "H", ["RW", "RW", "RW"]),
    ("RW", "RW", ["", "", ""]),
    ("RH", "W", ["RH", "RH", "RH"]),
    ("RH", "H", ["R", "R", ""]),
    ("RH", "RW", ["", "", ""]),
    ("R", "W", ["R", "R", "R"]),
    ("R", "H", ["R", "R", "R"]),
    ("R", "RW", ["", "", ""]),
    ("", "RW", ["", "", ""]),
    ("", "H", ["", "", ""]),
];

#[test]
fn steps_of_a_break() {
    let keys = [shared_key(1), LeaseKey::Oplock(OpenId(1)), LeaseKey::Delegation(HolderId(1))];
    for (have, go, left) in STEPS {
        for (key, left) in keys.into_iter().zip(left) {
            assert_eq!(next_step(key, caching(have), caching(go)), caching(left), "{key:?} {have} {go}");
        }
    }
}

#[test]
fn states_that_exist() {
    let kinds = [LeaseKind::Shared { client: 1, key: 1 }, LeaseKind::Oplock, LeaseKind::Delegation];
    let rows = [
        ("", ["", "", ""]),
        ("W", ["", "", ""]),
        ("H", ["", "", ""]),
        ("WH", ["", "", ""]),
        ("R", ["R", "R", "RH"]),
        ("RW", ["RW", "RW", "RWH"]),
        ("RH", ["RH", "R", "RH"]),
        ("RWH", ["RWH", "RWH", "RWH"]),
    ];
    for (allowed, states) in rows {
        for (kind, state) in kinds.into_iter().zip(states) {
            assert_eq!(legal(kind, caching(allowed)), caching(state), "{kind:?} {allowed}");
        }
    }
}

fn with_lease(rig: &mut Rig, holder: u64, lease: Option<LeaseRequest>) -> Granted {
    rig.granted(&Request::Open(OpenRequest { lease, ..opening(holder, read_write()) }))
}

#[test]
fn a_second_open_breaks_writing_and_shares_the_rest() {
    let mut rig = Rig::new();
    let first = with_lease(&mut rig, 1, shared(1, "RWH"));
    assert_eq!((first.caching, first.epoch), (caching("RWH"), 1));
    let again = with_lease(&mut rig, 1, shared(1, "RWH"));
    assert_eq!((again.caching, again.epoch), (caching("RWH"), 1), "the same key is exempt");
    let second = Request::Open(OpenRequest { lease: shared(2, "RWH"), ..opening(2, read_write()) });
    let ticket = rig.waits(&second);
    assert_eq!(rig.recalls(), [(HolderId(1), caching("RWH"), caching("RH"), true)]);
    assert_eq!(rig.acknowledge(shared_key(1), caching("RWH")), Verdict::Refused(Conflict::Denied));
    rig.acknowledge(shared_key(1), caching("RH"));
    assert_eq!(rig.outcomes(), [(ticket, Outcome::Again)]);
    assert_eq!(rig.granted(&second).caching, caching("RH"));
    assert_eq!(rig.acknowledge(shared_key(1), caching("R")), Verdict::Refused(Conflict::NotHeld));
}

#[test]
fn a_write_ends_reading_and_handles_at_once() {
    let mut rig = Rig::new();
    with_lease(&mut rig, 1, shared(1, "RH"));
    with_lease(&mut rig, 2, shared(2, "R"));
    let writer = with_lease(&mut rig, 3, shared(3, "RH")).open.unwrap();
    let ticket = rig.waits(&io(Requester::Open(writer), IoKind::Write));
    assert_eq!(
        rig.recalls(),
        [(HolderId(1), caching("RH"), caching(""), true), (HolderId(2), caching("R"), caching(""), false)]
    );
    rig.acknowledge(shared_key(1), Caching::NONE);
    assert_eq!(rig.outcomes(), [(ticket, Outcome::Again)]);
    rig.granted(&io(Requester::Open(writer), IoKind::Write));
    assert_eq!(rig.take(), [], "its own lease stays");
}

#[test]
fn oplocks_are_not_exempt_for_their_client() {
    let mut rig = Rig::new();
    let batch =
        Some(LeaseRequest { kind: LeaseKind::Oplock, want: caching("RWH"), answers_within: None, epoch: 0 });
    let first = with_lease(&mut rig, 1, batch);
    assert_eq!(first.caching, caching("RWH"));
    rig.waits(&Request::Open(OpenRequest { lease: batch, ..opening(1, read_write()) }));
    assert_eq!(rig.recalls(), [(HolderId(1), caching("RWH"), caching("R"), true)]);
    rig.acknowledge(first.lease.unwrap(), caching("R"));
    assert_eq!(with_lease(&mut rig, 1, batch).caching, caching("R"));
}

#[test]
fn delegations_count_in_full_until_returned() {
    let mut rig = Rig::new();
    let reading = Access { rights: Rights::READ, deny: Rights::NONE };
    let want = |want| {
        Some(LeaseRequest {
            kind: LeaseKind::Delegation,
            want: caching(want),
            answers_within: None,
            epoch: 0,
        })
    };
    let open = |holder, access, lease| Request::Open(OpenRequest { lease, ..opening(holder, access) });
    let first = rig.granted(&open(1, reading, want("R")));
    assert_eq!(first.caching, caching("RH"));
    assert_eq!(rig.granted(&open(2, reading, want("RW"))).caching, caching("RH"));
    // Its own holder writes, the other is asked to return it.
    let ticket = rig.waits(&open(1, read_write(), None));
    assert_eq!(rig.recalls(), [(HolderId(2), caching("RH"), caching(""), true)]);
    assert_eq!(rig.granted(&open(3, reading, want("R"))).caching, caching("RH"), "readers go on");
    rig.acknowledge(LeaseKey::Delegation(HolderId(2)), Caching::NONE);
    assert_eq!(rig.outcomes(), [(ticket, Outcome::Again)]);
    rig.waits(&open(1, read_write(), None));
    rig.acknowledge(LeaseKey::Delegation(HolderId(3)), Caching::NONE);
    rig.granted(&open(1, read_write(), None));
    assert_eq!(rig.granted(&open(2, reading, want("R"))).caching, Caching::NONE, "there is a writer");
}

/// A client with a delegation may have the file open without an open on the server that would keep it.
#[test]
fn a_delegation_ends_before_a_file_is_opened_to_be_deleted() {
    let mut rig = Rig::new();
    let lease = Some(LeaseRequest {
        kind: LeaseKind::Delegation,
        want: caching("R"),
        answers_within: None,
        epoch: 0,
    });
    let none = Request::Open(OpenRequest { lease, ..opening(1, Access::default()) });
    assert_eq!(rig.granted(&none).caching, caching("RH"));
    let deleting = Access { rights: Rights::DELETE, deny: Rights::NONE };
    let ticket = rig.waits(&Request::Open(opening(2, deleting)));
    assert_eq!(rig.recalls(), [(HolderId(1), caching("RH"), caching(""), true)]);
    rig.acknowledge(LeaseKey::Delegation(HolderId(1)), Caching::NONE);
    assert_eq!(rig.outcomes(), [(ticket, Outcome::Again)]);
    rig.granted(&Request::Open(opening(2, deleting)));
    assert_eq!(rig.granted(&none).caching, Caching::NONE, "it may go at any time");
}

#[test]
fn unanswered_break_revokes_the_lease() {
    let mut rig = Rig::new();
    with_lease(&mut rig, 1, shared(1, "RWH"));
    let second = Request::Open(opening(2, read_write()));
    let ticket = rig.waits(&second);
    assert_eq!(rig.table.next_deadline(), Some(Nanos(36 * SECOND)));
    rig.pass(34);
    assert_eq!(rig.outcomes(), []);
    rig.pass(1);
    let revoked =
        Effect::Revoked { holder: HolderId(1), file: key(1), what: RevokedClaim::Lease(shared_key(1)) };
    assert!(rig.effects.contains(&revoked));
    assert_eq!(rig.outcomes(), [(ticket, Outcome::Again)]);
    rig.granted(&second);
    assert_eq!(rig.table.next_deadline(), None);
}

#[test]
fn recall_passes_to_the_holder_that_continues_the_lease() {
    let mut rig = Rig::new();
    let first = with_lease(&mut rig, 1, shared(1, "RWH")).open.unwrap();
    with_lease(&mut rig, 2, shared(1, "R"));
    rig.waits(&Request::Open(opening(3, read_write())));
    assert_eq!(rig.recalls(), [(HolderId(1), caching("RWH"), caching("RH"), true)]);
    // The first may have been gone before it heard that.
    rig.granted(&Request::Close(first));
    assert_eq!(rig.recalls(), [(HolderId(2), caching("RWH"), caching("RH"), true)]);
    assert_eq!(rig.table.resend_recalls(rig.now, HolderId(3)), []);
    let again = rig.table.resend_recalls(rig.now, HolderId(2));
    assert!(matches!(again[..], [Effect::Recall { holder: HolderId(2), acknowledge: true, .. }]));
    assert!(matches!(rig.acknowledge(shared_key(1), caching("RH")), Verdict::Granted(_)));
    assert_eq!(rig.table.resend_recalls(rig.now, HolderId(2)), [], "it has answered");
}

#[test]
fn a_lease_is_with_a_client_that_is_there() {
    let mut rig = Rig::new();
    let first = with_lease(&mut rig, 1, shared(1, "RH")).open.unwrap();
    let second = with_lease(&mut rig, 2, shared(1, "RH")).open.unwrap();
    rig.granted(&disconnect(first, false));
    rig.waits(&Request::Open(OpenRequest { truncates: true, ..opening(3, read_write()) }));
    assert_eq!(rig.recalls(), [(HolderId(2), caching("RH"), Caching::NONE, true)]);
    // Without a connected holder there is no recall.
    rig.granted(&disconnect(second, false));
    assert_eq!(rig.recalls(), []);
}

#[test]
fn a_lease_comes_to_who_opens_the_file_anew_after_a_disconnect() {
    let mut rig = Rig::new();
    let first = with_lease(&mut rig, 1, shared(1, "RWH")).open.unwrap();
    rig.granted(&disconnect(first, false));
    assert_eq!(with_lease(&mut rig, 2, shared(1, "RWH")).caching, caching("RWH"));
    let ticket = rig.waits(&Request::Open(opening(3, read_write())));
    assert_eq!(rig.recalls(), [(HolderId(2), caching("RWH"), caching("RH"), true)]);
    rig.acknowledge(shared_key(1), caching("RH"));
    assert_eq!(rig.outcomes(), [(ticket, Outcome::Again)]);
    rig.granted(&Request::Reconnect { open: first, holder: HolderId(2) });
}

#[test]
fn open_under_a_breaking_lease_reports_the_break() {
    let mut rig = Rig::new();
    let first = with_lease(&mut rig, 1, shared(1, "RWH")).open.unwrap();
    rig.waits(&Request::Open(opening(3, read_write())));
    assert_eq!(rig.recalls(), [(HolderId(1), caching("RWH"), caching("RH"), true)]);
    rig.granted(&disconnect(first, true));
    let again = with_lease(&mut rig, 2, shared(1, "RWH"));
    assert_eq!((again.caching, again.is_breaking), (caching("RWH"), true));
    assert_eq!(rig.recalls(), [(HolderId(2), caching("RWH"), caching("RH"), true)]);
}

#[test]
fn a_lease_that_is_taken_away_is_not_spoken_of_before() {
    let mut rig = Rig::new();
    let opens = [2, 1, 1].map(|holder| with_lease(&mut rig, holder, shared(1, "RWH")).open.unwrap());
    let [_, back, gone] = opens;
    for open in [back, gone] {
        rig.granted(&disconnect(open, false));
    }
    rig.granted(&Request::Reconnect { open: back, holder: HolderId(3) });
    rig.waits(&Request::Open(opening(4, read_write())));
    assert_eq!(rig.recalls(), [(HolderId(3), caching("RWH"), caching("RH"), true)]);
    rig.pass(35);
    assert_eq!(rig.recalls(), [], "nobody has time for an answer any more");
    assert_eq!(rig.table.granted_of(&key(1), gone), None);
}

#[test]
fn a_lease_may_have_its_own_time_for_the_answer() {
    let mut rig = Rig::new();
    let lease = LeaseRequest {
        kind: LeaseKind::Delegation,
        want: caching("R"),
        answers_within: Some(Nanos(7 * SECOND)),
        epoch: 0,
    };
    with_lease(&mut rig, 1, Some(lease));
    let ticket = rig.waits(&Request::Open(opening(2, read_write())));
    rig.pass(6);
    assert_eq!(rig.outcomes(), []);
    rig.pass(1);
    let what = RevokedClaim::Lease(LeaseKey::Delegation(HolderId(1)));
    assert!(rig.effects.contains(&Effect::Revoked { holder: HolderId(1), file: key(1), what }));
    assert_eq!(rig.outcomes(), [(ticket, Outcome::Again)]);
}

#[test]
fn opens_of_attributes_break_nothing() {
    let mut rig = Rig::new();
    with_lease(&mut rig, 1, shared(1, "RWH"));
    rig.open(opening(2, Access::default()));
    assert_eq!(rig.take(), []);
    rig.waits(&Request::Open(OpenRequest { truncates: true, ..opening(2, Access::default()) }));
    assert_eq!(rig.recalls().len(), 1);
}

#[test]
fn callers_without_state_are_refused_and_nothing_is_stored() {
    let mut rig = Rig::new();
    let first = with_lease(&mut rig, 1, shared(1, "RWH")).open.unwrap();
    assert_eq!(rig.refused(&io(Requester::Anonymous, IoKind::Read)), Conflict::Recalling);
    assert_eq!(rig.recalls(), [(HolderId(1), caching("RWH"), caching("RH"), true)]);
    rig.acknowledge(shared_key(1), caching("RH"));
    rig.granted(&io(Requester::Anonymous, IoKind::Read));
    assert_eq!(rig.refused(&io(Requester::Anonymous, IoKind::Write)), Conflict::Recalling);
    assert_eq!(rig.recalls(), [(HolderId(1), caching("RH"), caching(""), true)]);
    rig.granted(&Request::Close(first));
    rig.granted(&io(Requester::Anonymous, IoKind::Write));
    assert!(rig.table.is_empty());
}

#[test]
fn attributes_are_cached_with_delegations_alone() {
    let mut rig = Rig::new();
    with_lease(&mut rig, 1, shared(1, "RWH"));
    rig.granted(&io(Requester::Anonymous, IoKind::SetAttrs));
    assert_eq!(rig.take(), []);
    let mut rig = Rig::new();
    with_lease(
        &mut rig,
        1,
        Some(LeaseRequest {
            kind: LeaseKind::Delegation,
            want: caching("RW"),
            answers_within: None,
            epoch: 0,
        }),
    );
    assert_eq!(rig.refused(&io(Requester::Anonymous, IoKind::SetAttrs)), Conflict::Recalling);
    rig.granted(&io(Requester::Holder(HolderId(1)), IoKind::SetAttrs));
}

#[test]
fn getattr_recalls_writers() {
    let want = |want| {
        let want = caching(want);
        Some(LeaseRequest { kind: LeaseKind::Delegation, want, answers_within: None, epoch: 0 })
    };
    let mut rig = Rig::new();
    with_lease(&mut rig, 1, shared(1, "RWH"));
    rig.granted(&io(Requester::Anonymous, IoKind::ReadAttrs));
    assert_eq!(rig.take(), [], "shared leases keep no attributes");
    let mut rig = Rig::new();
    assert_eq!(with_lease(&mut rig, 1, want("RH")).caching, caching("RH"));
    rig.granted(&io(Requester::Anonymous, IoKind::ReadAttrs));
    let mut rig = Rig::new();
    assert_eq!(with_lease(&mut rig, 1, want("RWH")).caching, caching("RWH"));
    rig.granted(&io(Requester::Holder(HolderId(1)), IoKind::ReadAttrs));
    assert_eq!(rig.refused(&io(Requester::Anonymous, IoKind::ReadAttrs)), Conflict::Recalling);
    assert_eq!(rig.recalls(), [(HolderId(1), caching("RWH"), caching(""), true)]);
}

#[test]
fn eof_query_recalls_like_a_read() {
    for is_oplock in [false, true] {
        let mut rig = Rig::new();
        let kind = if is_oplock { LeaseKind::Oplock } else { LeaseKind::Shared { client: 7, key: 1 } };
        let wish = LeaseRequest { kind, want: caching("RWH"), answers_within: None, epoch: 0 };
        let granted = with_lease(&mut rig, 1, Some(wish));
        rig.granted(&io(Requester::Open(granted.open.unwrap()), IoKind::ReadEnd));
        assert_eq!(rig.refused(&io(Requester::Anonymous, IoKind::ReadEnd)), Conflict::Recalling);
        let left = caching(if is_oplock { "R" } else { "RH" });
        assert_eq!(rig.recalls(), [(HolderId(1), caching("RWH"), left, true)]);
        rig.acknowledge(granted.lease.unwrap(), left);
        rig.granted(&io(Requester::Anonymous, IoKind::ReadEnd));
        assert_eq!(rig.take(), []);
    }
}

#[test]
fn eof_query_leaves_read_leases_alone() {
    let mut rig = Rig::new();
    let reading = Access { rights: Rights::READ, deny: Rights::NONE };
    let open = OpenRequest { lease: shared(1, "RWH"), ..opening(1, reading) };
    assert_eq!(rig.granted(&Request::Open(open)).caching, caching("RWH"));
    rig.granted(&io(Requester::Anonymous, IoKind::ReadEnd));
    with_lease(&mut rig, 1, shared(1, "RWH"));
    assert_eq!(rig.refused(&io(Requester::Anonymous, IoKind::ReadEnd)), Conflict::Recalling);
}

#[test]
fn eof_query_leaves_disconnected_opens_alone() {
    let mut rig = Rig::new();
    let open = with_lease(&mut rig, 1, shared(1, "RWH")).open.unwrap();
    rig.granted(&disconnect(open, false));
    rig.granted(&io(Requester::Anonymous, IoKind::ReadEnd));
    let granted = rig.granted(&Request::Reconnect { open, holder: HolderId(3) });
    assert_eq!(granted.caching, caching("RWH"));
}

#[test]
fn a_test_for_a_range_asks_who_may_hold_ranges_that_nobody_knows_of() {
    let lease = Some(LeaseRequest {
        kind: LeaseKind::Delegation,
        want: caching("RWH"),
        answers_within: None,
        epoch: 0,
    });
    let mut rig = Rig::new();
    with_lease(&mut rig, 1, lease);
    rig.granted(&Request::TestLock(locking(1, 0, 9, true)));
    assert_eq!(rig.take(), [], "its own");
    assert_eq!(rig.refused(&Request::TestLock(locking(2, 0, 9, false))), Conflict::Recalling);
    assert_eq!(rig.recalls(), [(HolderId(1), caching("RWH"), caching(""), true)]);
    rig.acknowledge(LeaseKey::Delegation(HolderId(1)), Caching::NONE);
    rig.granted(&Request::TestLock(locking(2, 0, 9, false)));
}

#[test]
fn nobody_caches_writing_where_another_holds_a_range() {
    for kind in [LeaseKind::Delegation, LeaseKind::Oplock, LeaseKind::Shared { client: 1, key: 1 }] {
        let mut rig = Rig::new();
        rig.granted(&Request::Lock(locking(2, 0, 9, false)));
        let lease = Some(LeaseRequest { kind, want: caching("RWH"), answers_within: None, epoch: 0 });
        assert!(!with_lease(&mut rig, 1, lease).caching.contains(Caching::WRITE), "{kind:?}");
    }
}

#[test]
fn a_lease_grows_to_all_that_is_wanted_or_not_at_all() {
    let mut rig = Rig::new();
    with_lease(&mut rig, 1, shared(1, "R"));
    with_lease(&mut rig, 2, shared(2, "RH"));
    let same = with_lease(&mut rig, 1, shared(1, "RWH"));
    assert_eq!((same.caching, same.epoch), (caching("R"), 1), "another keeps it from writing");
    let more = with_lease(&mut rig, 1, shared(1, "RH"));
    assert_eq!((more.caching, more.epoch), (caching("RH"), 2));
}

#[test]
fn an_oplock_stands_beside_no_handle() {
    let oplock = |want| {
        let want = caching(want);
        Some(LeaseRequest { kind: LeaseKind::Oplock, want, answers_within: None, epoch: 0 })
    };
    let mut rig = Rig::new();
    with_lease(&mut rig, 1, shared(1, "RH"));
    assert_eq!(with_lease(&mut rig, 2, oplock("R")).caching, Caching::NONE);
    let mut rig = Rig::new();
    with_lease(&mut rig, 1, oplock("R"));
    assert_eq!(with_lease(&mut rig, 2, shared(2, "RH")).caching, caching("R"));
}

#[test]
fn a_lease_that_is_broken_is_shown_as_it_is() {
    let mut rig = Rig::new();
    with_lease(&mut rig, 1, shared(1, "RWH"));
    rig.waits(&Request::Open(OpenRequest { truncates: true, ..opening(2, read_write()) }));
    assert_eq!(rig.recalls(), [(HolderId(1), caching("RWH"), caching(""), true)]);
    let shown = with_lease(&mut rig, 1, shared(1, "R"));
    assert_eq!((shown.caching, shown.is_breaking, shown.epoch), (caching("RWH"), true, 2));
    rig.acknowledge(shared_key(1), Caching::NONE);
    let shown = with_lease(&mut rig, 1, shared(1, ""));
    assert_eq!((shown.caching, shown.is_breaking), (Caching::NONE, false));
}

#[test]
fn pending_delete_recalls_handle_leases() {
    let mut rig = Rig::new();
    with_lease(&mut rig, 1, shared(1, "RH"));
    let link = Link { parent: key(9), name: Box::from(&b"x"[..]), listing: None };
    let access = Access { rights: Rights::DELETE, deny: Rights::NONE };
    let open = rig.open(opening(2, access));
    rig.granted(&Request::DeleteOnClose { open, link });
    assert_eq!(rig.take(), []);
    rig.granted(&Request::Close(open));
    assert_eq!(rig.recalls(), [(HolderId(1), caching("RH"), caching("R"), true)]);
}

#[test]
fn an_oplock_that_allows_reading_is_in_the_way_of_its_own_writes() {
    let mut rig = Rig::new();
    let oplock =
        |want| LeaseRequest { kind: LeaseKind::Oplock, want: caching(want), answers_within: None, epoch: 0 };
    let first = with_lease(&mut rig, 1, Some(oplock("R"))).open.unwrap();
    rig.granted(&io(Requester::Open(first), IoKind::Read));
    assert_eq!(rig.take(), []);
    rig.granted(&io(Requester::Open(first), IoKind::Write));
    assert_eq!(rig.recalls(), [(HolderId(1), caching("R"), caching(""), false)]);
    rig.granted(&Request::Close(first));
    let second = with_lease(&mut rig, 1, Some(oplock("RWH"))).open.unwrap();
    rig.granted(&io(Requester::Open(second), IoKind::Write));
    assert_eq!(rig.take(), []);
}

//! Byte ranges: against a map of bytes, and in line.

use super::*;
use proptest::prelude::*;

const BYTES: u64 = 12;
const OWNERS: u64 = 3;

/// Advisory ranges as they are defined: what each owner has of each byte.
#[derive(Default)]
struct Bytes([[Option<bool>; 12]; 3]);

impl Bytes {
    fn lock(&mut self, owner: usize, bytes: std::ops::Range<usize>, is_exclusive: bool) -> bool {
        for other in (0..self.0.len()).filter(|&other| other != owner) {
            let meets = |byte: &Option<bool>| byte.is_some_and(|held| held || is_exclusive);
            if self.0[other][bytes.clone()].iter().any(meets) {
                return false;
            }
        }
        self.0[owner][bytes].fill(Some(is_exclusive));
        true
    }
}

fn held(rig: &Rig) -> Bytes {
    let mut bytes = Bytes::default();
    for range in rig.table.claims(&key(1)).into_iter().flat_map(|claims| claims.ranges.iter()) {
        let owner = usize::try_from(range.owner.holder.0).unwrap();
        let start = usize::try_from(range.span.start()).unwrap();
        let len = usize::try_from(range.span.len().min(BYTES - range.span.start())).unwrap();
        for byte in &mut bytes.0[owner][start..start + len] {
            assert_eq!(byte.replace(range.is_exclusive), None, "a byte is held twice");
        }
    }
    bytes
}

/// No two ranges could be one.
fn assert_merged(rig: &Rig) {
    let ranges: Vec<_> =
        rig.table.claims(&key(1)).into_iter().flat_map(|claims| claims.ranges.iter()).collect();
    for (at, one) in ranges.iter().enumerate() {
        for other in &ranges[at + 1..] {
            let same = one.owner == other.owner && one.is_exclusive == other.is_exclusive;
            assert!(!same || !one.span.touches(&other.span), "{one:?} {other:?}");
        }
    }
}

proptest! {
    #[test]
    fn advisory_ranges_are_sets_of_bytes(
        steps in prop::collection::vec((0..OWNERS, 0..BYTES, 1..=BYTES, 0..3_u8), 1..60)
    ) {
        let mut rig = Rig::new();
        let mut model = Bytes::default();
        for (owner, start, len, what) in steps {
            let end = usize::try_from((start + len).min(BYTES)).unwrap();
            let bytes = usize::try_from(start).unwrap()..end;
            let len = if end as u64 == BYTES { u64::MAX } else { len };
            let request = locking(owner, start, len, what == 1);
            let at = usize::try_from(owner).unwrap();
            if what == 2 {
                let LockRequest { owner, stream, span, .. } = request;
                rig.granted(&Request::Unlock { owner, stream, span, enforced: false, is_exclusive: None });
                model.0[at][bytes].fill(None);
            } else {
                let tested = rig.apply(1, &Request::TestLock(request));
                let verdict = rig.apply(1, &Request::Lock(request));
                prop_assert_eq!(&tested, &verdict);
                prop_assert_eq!(matches!(verdict, Verdict::Granted(_)), model.lock(at, bytes, what == 1));
            }
            prop_assert_eq!(held(&rig).0, model.0);
            assert_merged(&rig);
        }
    }

    #[test]
    fn spans_overlap_where_bytes_do(a in 0..8_u64, b in 1..8_u64, c in 0..8_u64, d in 1..8_u64) {
        let (one, other) = (Span::new(a, b).unwrap(), Span::new(c, d).unwrap());
        prop_assert_eq!(one.overlaps(&other), (a..a + b).any(|byte| (c..c + d).contains(&byte)));
        let left: Vec<u64> = (a..a + b).filter(|byte| !(c..c + d).contains(byte)).collect();
        let rest = one.without(&other).into_iter().flatten();
        let rest: Vec<u64> = rest.flat_map(|span| span.start()..span.start() + span.len()).collect();
        prop_assert_eq!(if one.overlaps(&other) { rest } else { left.clone() }, left);
    }
}

#[test]
fn the_last_byte_and_none() {
    assert_eq!(Span::new(u64::MAX, 2), None);
    let last = Span::new(u64::MAX, 1).unwrap();
    assert!(last.overlaps(&Span::to_end(0)) && last.overlaps(&Span::to_end(u64::MAX)));
    assert!(!last.overlaps(&Span::new(0, u64::MAX).unwrap()));
    assert_eq!(Span::clamped(5, u64::MAX), Span::to_end(5));
    let none = Span::new(5, 0).unwrap();
    assert!(none.is_empty() && !none.overlaps(&none));
    assert!(none.overlaps(&Span::new(4, 2).unwrap()));
    assert!(!none.overlaps(&Span::new(5, 2).unwrap()) && !none.overlaps(&Span::new(3, 2).unwrap()));
}

fn enforced(open: OpenId, holder: u64, start: u64, len: u64, is_exclusive: bool) -> LockRequest {
    LockRequest { open: Some(open), is_enforced: true, ..locking(holder, start, len, is_exclusive) }
}

#[test]
fn enforced_ranges_stack_and_end_exactly() {
    let mut rig = Rig::new();
    let [one, two] =
        [1, 2].map(|holder| rig.open(OpenRequest { is_mandatory: true, ..opening(holder, read_write()) }));
    let exclusive = enforced(one, 1, 0, 8, true);
    rig.granted(&Request::Lock(exclusive));
    assert!(matches!(rig.refused(&Request::Lock(exclusive)), Conflict::Range { .. }), "not converted");
    rig.granted(&Request::Lock(enforced(one, 1, 0, 8, false)));
    assert!(matches!(rig.refused(&Request::Lock(enforced(two, 2, 7, 1, false))), Conflict::Range { .. }));
    let LockRequest { owner, stream, span, .. } = exclusive;
    let unlock = |span| Request::Unlock { owner, stream, span, enforced: true, is_exclusive: None };
    assert_eq!(rig.refused(&unlock(Span::new(0, 7).unwrap())), Conflict::NotHeld);
    rig.granted(&unlock(span));
    rig.granted(&Request::Lock(enforced(two, 2, 7, 1, false)));
    rig.granted(&unlock(span));
    assert_eq!(rig.refused(&unlock(span)), Conflict::NotHeld);
}

#[test]
fn a_range_of_a_stack_ends_by_its_kind() {
    let mut rig = Rig::new();
    let open = rig.open(OpenRequest { is_mandatory: true, ..opening(1, read_write()) });
    let [exclusive, shared] = [true, false].map(|is_exclusive| enforced(open, 1, 0, 8, is_exclusive));
    let LockRequest { owner, stream, span, .. } = exclusive;
    for request in [exclusive, shared] {
        rig.granted(&Request::Lock(request));
    }
    let unlock = |is_exclusive| {
        let is_exclusive = Some(is_exclusive);
        Request::Unlock { owner, stream, span, enforced: true, is_exclusive }
    };
    rig.granted(&unlock(false));
    assert_eq!(rig.table.ranges_with(&key(1), open), [(span, true)]);
    assert_eq!(rig.refused(&unlock(false)), Conflict::NotHeld);
    rig.granted(&unlock(true));
}

#[test]
fn ranges_and_io() {
    let mut rig = Rig::new();
    let [one, two] =
        [1, 2].map(|holder| rig.open(OpenRequest { is_mandatory: true, ..opening(holder, read_write()) }));
    let plain = rig.open(opening(3, read_write()));
    let at = |by, kind, start| {
        let span = Span::new(start, 1).unwrap();
        Request::Io(Io { by, stream: Stream::default(), kind, span, waits: true })
    };
    // 0..4 enforced and exclusive, 4..8 enforced and shared, 8..12 advisory and exclusive.
    rig.granted(&Request::Lock(enforced(one, 1, 0, 4, true)));
    rig.granted(&Request::Lock(enforced(one, 1, 4, 4, false)));
    rig.granted(&Request::Lock(LockRequest { open: Some(plain), ..locking(3, 8, 4, true) }));
    let rows = [
        (Requester::Open(one), [".", "."], [".", "x"], ["x", "x"]),
        (Requester::Open(two), ["x", "x"], [".", "x"], ["x", "x"]),
        (Requester::Open(plain), ["x", "x"], [".", "x"], [".", "."]),
        (Requester::Anonymous, ["x", "x"], [".", "x"], [".", "."]),
    ];
    for (by, exclusive, shared, advisory) in rows {
        for (start, row) in [(0, exclusive), (4, shared), (8, advisory)] {
            for (kind, outcome) in [IoKind::Read, IoKind::Write].into_iter().zip(row) {
                let verdict = rig.apply(1, &at(by, kind, start + 3));
                assert_eq!(matches!(verdict, Verdict::Granted(_)), outcome == ".", "{by:?} {kind:?} {start}");
            }
        }
    }
    rig.granted(&Request::Close(one));
    rig.granted(&at(Requester::Open(two), IoKind::Write, 0));
}

fn queued(holder: u64, start: u64, len: u64, is_exclusive: bool) -> Request {
    let queueing = Queueing::Until(Nanos(100 * SECOND));
    Request::Lock(LockRequest { queueing, ..locking(holder, start, len, is_exclusive) })
}

fn unlock(holder: u64, start: u64, len: u64) -> Request {
    let LockRequest { owner, stream, span, .. } = locking(holder, start, len, true);
    Request::Unlock { owner, stream, span, enforced: false, is_exclusive: None }
}

#[test]
fn first_come_first_served() {
    let mut rig = Rig::new();
    rig.granted(&Request::Lock(locking(1, 0, 10, false)));
    let writer = rig.waits(&queued(2, 0, 10, true));
    let reader = rig.waits(&queued(3, 0, 10, false));
    let elsewhere = rig.waits(&queued(4, 5, 10, false));
    let late = rig.waits(&queued(5, 0, 1, true));
    rig.granted(&Request::Lock(locking(6, 0, 1, false)));
    rig.granted(&unlock(6, 0, 1));
    assert_eq!(rig.take(), [], "who does not wait may pass where nobody holds anything");
    rig.granted(&unlock(1, 0, 10));
    assert_eq!(rig.outcomes(), [(writer, Outcome::Granted)]);
    rig.granted(&unlock(2, 0, 10));
    assert_eq!(rig.outcomes(), [(reader, Outcome::Granted), (elsewhere, Outcome::Granted)]);
    rig.granted(&Request::Cancel(late));
    assert_eq!(rig.refused(&Request::Cancel(late)), Conflict::NotHeld);
    rig.granted(&unlock(3, 0, 10));
    rig.granted(&unlock(4, 0, 20));
    assert_eq!(rig.take(), []);
    assert!(rig.table.is_empty());
}

#[test]
fn waiting_ends_in_time_and_lets_others_by() {
    let mut rig = Rig::new();
    rig.granted(&Request::Lock(locking(1, 0, 4, false)));
    let writer = rig.waits(&queued(2, 0, 10, true));
    let behind = Queueing::Until(Nanos(500 * SECOND));
    let reader = rig.waits(&Request::Lock(LockRequest { queueing: behind, ..locking(3, 0, 10, false) }));
    rig.pass(100);
    assert_eq!(rig.outcomes(), [(writer, Outcome::TimedOut), (reader, Outcome::Granted)]);
}

#[test]
fn a_range_is_kept_for_a_while_for_who_was_told() {
    let mut rig = Rig::new();
    let queueing = Queueing::Reserved { until: Nanos(100 * SECOND), kept: Nanos(5 * SECOND) };
    rig.granted(&Request::Lock(locking(1, 0, 10, true)));
    let told = rig.waits(&Request::Lock(LockRequest { queueing, ..locking(2, 0, 10, true) }));
    let next = rig.waits(&Request::Lock(LockRequest { queueing, ..locking(3, 0, 10, true) }));
    let notify = |ticket, holder| Effect::Notify {
        holder: HolderId(holder),
        file: key(1),
        ticket,
        owner: LockOwner { holder: HolderId(holder), owner: 0 },
    };
    rig.granted(&unlock(1, 0, 10));
    assert_eq!(rig.take(), [notify(told, 2)]);
    assert!(matches!(rig.refused(&Request::Lock(locking(1, 0, 1, false))), Conflict::Range { .. }));
    rig.pass(5);
    assert_eq!(rig.take(), [notify(next, 3)], "nobody has lost anything");
    rig.granted(&Request::Lock(locking(3, 0, 10, true)));
    rig.pass(100);
    assert_eq!(rig.take(), [], "what was asked for is held");
}

#[test]
fn who_has_some_of_it_does_not_stand_in_line() {
    let mut rig = Rig::new();
    rig.granted(&Request::Lock(locking(1, 0, 10, false)));
    rig.waits(&queued(2, 0, 10, true));
    rig.granted(&queued(1, 0, 10, true));
    rig.granted(&queued(1, 0, 10, false));
}

/// Two adjacent ranges of one owner are not one where another owner holds the place between them.
#[test]
fn adjacent_ranges_do_not_swallow_what_has_no_bytes() {
    let mut rig = Rig::new();
    let open = rig.open(opening(3, read_write()));
    rig.granted(&queued(2, 1, 4, true));
    rig.granted(&Request::Lock(enforced(open, 3, 5, 0, true)));
    rig.granted(&queued(2, 5, 6, true));
    let spans = |rig: &Rig| -> Vec<(u64, u64)> {
        let claims = rig.table.claims(&key(1)).unwrap();
        claims.ranges.iter().map(|range| (range.span.start(), range.span.len())).collect()
    };
    assert_eq!(spans(&rig), [(1, 4), (5, 0), (5, 6)]);
}

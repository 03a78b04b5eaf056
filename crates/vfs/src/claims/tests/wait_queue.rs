//! Byte ranges and waiting requests against the same rules over lists, and the number of steps that they take.

use super::super::spans::STEPS;
use super::*;
use proptest::prelude::*;

const HOLDERS: u64 = 4;

#[derive(Clone, Debug)]
enum Step {
    Lock { holder: u64, enforced: bool, open: bool, span: Span, exclusive: bool, waits: bool },
    Unlock { holder: u64, enforced: bool, span: Span, exclusive: Option<bool> },
    Io { holder: Option<u64>, span: Span, writes: bool },
    Cancel(usize),
    Reopen(u64),
    Drop(u64),
}

/// A step at the first bytes, at the last ones, or at all from one of them on. One in `ends` steps ends a holder.
fn step(bytes: u64, ends: u32) -> impl Strategy<Value = Step> {
    let span = move || {
        prop_oneof![
            12 => (0..bytes, 0..6_u64).prop_map(|(start, len)| Span::clamped(start, len)),
            3 => (0..6_u64, 0..6_u64).prop_map(|(back, len)| Span::clamped(u64::MAX - back, len)),
            1 => (0..bytes).prop_map(Span::to_end),
        ]
    };
    let holder = || 1..=HOLDERS;
    prop_oneof![
        8 * ends => (holder(), any::<bool>(), any::<bool>(), span(), any::<bool>(), any::<bool>()).prop_map(
            |(holder, enforced, open, span, exclusive, waits)| Step::Lock {
                holder, enforced, open, span, exclusive, waits,
            }
        ),
        6 * ends => (holder(), any::<bool>(), span(), prop::option::of(any::<bool>())).prop_map(
            |(holder, enforced, span, exclusive)| Step::Unlock { holder, enforced, span, exclusive }
        ),
        3 * ends => (prop::option::of(holder()), span(), any::<bool>())
            .prop_map(|(holder, span, writes)| Step::Io { holder, span, writes }),
        ends => (0..16_usize).prop_map(Step::Cancel),
        1 => holder().prop_map(Step::Reopen),
        1 => holder().prop_map(Step::Drop),
    ]
}

#[derive(Default)]
struct Lists {
    held: Vec<LockRequest>,
    waiting: Vec<(Ticket, LockRequest)>,
    outcomes: Vec<(Ticket, Outcome)>,
}

fn blocks(held: &LockRequest, request: &LockRequest) -> bool {
    held.span.overlaps(&request.span)
        && (held.is_exclusive || request.is_exclusive)
        && (held.owner != request.owner || request.is_enforced && request.is_exclusive)
}

impl Lists {
    fn is_held(&self, request: &LockRequest) -> bool {
        self.held.iter().any(|held| blocks(held, request))
    }

    fn must_wait(&self, request: &LockRequest, waiting: &[(Ticket, LockRequest)]) -> bool {
        let has_some =
            self.held.iter().any(|held| held.owner == request.owner && held.span.overlaps(&request.span));
        let behind = |other: &LockRequest| other.owner != request.owner && blocks(other, request);
        self.is_held(request) || (!has_some && waiting.iter().any(|(_, other)| behind(other)))
    }

    fn carve(&mut self, owner: LockOwner, span: &Span) {
        let is_met =
            |held: &mut LockRequest| held.owner == owner && !held.is_enforced && held.span.overlaps(span);
        let met: Vec<LockRequest> = self.held.extract_if(.., is_met).collect();
        for held in met {
            let rest = held.span.without(span).into_iter().flatten();
            self.held.extend(rest.map(|span| LockRequest { span, ..held }));
        }
    }

    fn hold(&mut self, mut request: LockRequest) {
        if !request.is_enforced {
            self.carve(request.owner, &request.span);
            let empty = |held: &&LockRequest| held.owner != request.owner && held.span.is_empty();
            let between: Vec<Span> = self.held.iter().filter(empty).map(|held| held.span).collect();
            let joins = |held: &mut LockRequest| {
                let hull = held.span.hull(&request.span);
                (held.owner, held.open) == (request.owner, request.open)
                    && (held.is_exclusive, held.is_enforced) == (request.is_exclusive, false)
                    && held.span.touches(&request.span)
                    && !between.iter().any(|between| between.overlaps(&hull))
            };
            let joined: Vec<LockRequest> = self.held.extract_if(.., joins).collect();
            request.span = joined.iter().fold(request.span, |span, held| span.hull(&held.span));
        }
        self.held.push(request);
    }

    /// Rechecks all waiting requests in order until nothing changes.
    fn grant(&mut self) {
        let mut at = 0;
        while let Some(&(ticket, request)) = self.waiting.get(at) {
            if self.must_wait(&request, &self.waiting[..at]) {
                at += 1;
                continue;
            }
            self.waiting.remove(at);
            self.hold(request);
            self.outcomes.push((ticket, Outcome::Granted));
            at = 0;
        }
    }

    fn may_do(&self, by: Option<(OpenId, u64)>, span: &Span, writes: bool) -> bool {
        let is_against = |held: &LockRequest| {
            let is_own = held.open.is_some() && held.open == by.map(|by| by.0)
                || held.open.is_none() && by.is_some_and(|by| held.owner.holder.0 == by.1);
            let is_against = if held.is_exclusive { !is_own } else { writes && (!is_own || by.is_some()) };
            is_against && (held.is_enforced || by.is_some()) && held.span.overlaps(span)
        };
        span.is_empty() || !self.held.iter().any(is_against)
    }
}

/// Both, which must agree.
struct Both {
    rig: Rig,
    lists: Lists,
    opens: Vec<OpenId>,
}

impl Both {
    fn new() -> Self {
        let mut rig = Rig::new();
        let open = |holder| OpenRequest { is_mandatory: true, ..opening(holder, read_write()) };
        let opens = (1..=HOLDERS).map(|holder| rig.open(open(holder))).collect();
        Self { rig, lists: Lists::default(), opens }
    }

    fn open(&mut self, holder: u64) -> &mut OpenId {
        &mut self.opens[usize::try_from(holder).unwrap() - 1]
    }

    fn owner(&mut self, holder: u64, enforced: bool) -> LockOwner {
        let open = self.open(holder).0;
        LockOwner { holder: HolderId(holder), owner: if enforced { open } else { 0 } }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Lock { holder, enforced, open, span, exclusive, waits } => {
                let (owner, of) = (self.owner(holder, enforced), *self.open(holder));
                let queueing = if waits { Queueing::Until(Nanos(u64::MAX)) } else { Queueing::Never };
                let request = LockRequest {
                    owner,
                    open: (enforced || open).then_some(of),
                    span,
                    is_enforced: enforced,
                    queueing,
                    ..locking(holder, 0, 1, exclusive)
                };
                if enforced || !span.is_empty() {
                    self.lock(request);
                }
            }
            Step::Unlock { holder, enforced, span, exclusive } => {
                let owner = self.owner(holder, enforced);
                let stream = Stream::default();
                let verdict = self
                    .rig
                    .apply(1, &Request::Unlock { owner, stream, span, enforced, is_exclusive: exclusive });
                self.unlocked(owner, enforced, span, exclusive, &verdict);
            }
            Step::Io { holder, span, writes } => {
                let by = holder.map(|holder| (*self.open(holder), holder));
                let kind = if writes { IoKind::Write } else { IoKind::Read };
                let io = Io {
                    by: by.map_or(Requester::Anonymous, |by| Requester::Open(by.0)),
                    stream: Stream::default(),
                    kind,
                    span,
                    waits: false,
                };
                let verdict = self.rig.apply(1, &Request::Io(io));
                let may = self.lists.may_do(by, &span, writes);
                assert_eq!(matches!(verdict, Verdict::Granted(_)), may, "{verdict:?}");
            }
            Step::Cancel(pick) => {
                let Some(&(ticket, _)) = self.lists.waiting.get(pick) else { return };
                self.rig.granted(&Request::Cancel(ticket));
                self.lists.waiting.remove(pick);
            }
            Step::Reopen(holder) => self.reopen(holder),
            Step::Drop(holder) => {
                let own = |request: &LockRequest| request.owner.holder == HolderId(holder);
                let gone = self.lists.waiting.extract_if(.., |(_, request)| own(request));
                let canceled = gone.map(|(ticket, _)| (ticket, Outcome::Canceled));
                self.lists.outcomes.extend(canceled);
                self.lists.held.retain(|held| !own(held));
                let effects = self.rig.table.drop_holder(self.rig.now, HolderId(holder));
                self.rig.effects.extend(effects);
                let again = OpenRequest { is_mandatory: true, ..opening(holder, read_write()) };
                *self.open(holder) = self.rig.open(again);
            }
        }
    }

    fn lock(&mut self, request: LockRequest) {
        let verdict = self.rig.apply(1, &Request::Lock(request));
        let is_held = self.lists.is_held(&request);
        match (verdict, request.queueing) {
            (Verdict::Refused(Conflict::Range { .. }), Queueing::Never) => assert!(is_held),
            (Verdict::Granted(_), Queueing::Never) => {
                assert!(!is_held);
                self.lists.hold(request);
            }
            (Verdict::Granted(_), _) => {
                assert!(!self.lists.must_wait(&request, &self.lists.waiting));
                self.lists.hold(request);
            }
            (Verdict::Wait(ticket), _) => {
                assert!(self.lists.must_wait(&request, &self.lists.waiting));
                self.lists.waiting.push((ticket, request));
            }
            other => panic!("{other:?}"),
        }
    }

    fn unlocked(
        &mut self,
        owner: LockOwner,
        enforced: bool,
        span: Span,
        exclusive: Option<bool>,
        verdict: &Verdict,
    ) {
        if !enforced {
            assert!(matches!(verdict, Verdict::Granted(_)));
            return self.lists.carve(owner, &span);
        }
        let held = &mut self.lists.held;
        let of = |is: bool| {
            held.iter().rposition(|held| {
                (held.owner, held.span, held.is_enforced, held.is_exclusive) == (owner, span, true, is)
            })
        };
        let found = exclusive.map_or_else(|| of(true).or_else(|| of(false)), of);
        assert_eq!(matches!(verdict, Verdict::Granted(_)), found.is_some());
        found.into_iter().for_each(|at| _ = held.remove(at));
    }

    /// Closes an open with its ranges, and opens another. Requests that wait with it are repeated.
    fn reopen(&mut self, holder: u64) {
        let before = *self.open(holder);
        if self.lists.waiting.iter().any(|(_, request)| request.open == Some(before)) {
            return;
        }
        self.rig.granted(&Request::Close(before));
        self.lists.held.retain(|held| held.open != Some(before));
        let again = OpenRequest { is_mandatory: true, ..opening(holder, read_write()) };
        *self.open(holder) = self.rig.open(again);
    }

    fn compare(&mut self) {
        self.lists.grant();
        self.rig.table.assert_tidy();
        let claims = self.rig.table.claims(&key(1)).unwrap();
        let waiting: Vec<Ticket> = claims.line.tickets().collect();
        assert_eq!(waiting, self.lists.waiting.iter().map(|(ticket, _)| *ticket).collect::<Vec<_>>());
        let place = |owner: LockOwner, open: Option<OpenId>, span: Span, kind: (bool, bool)| {
            (owner, open, span.start(), span.len(), kind)
        };
        let mut held: Vec<_> = claims
            .ranges
            .iter()
            .map(|range| place(range.owner, range.open, range.span, (range.is_exclusive, range.is_enforced)))
            .collect();
        let mut listed: Vec<_> = self
            .lists
            .held
            .iter()
            .map(|held| place(held.owner, held.open, held.span, (held.is_exclusive, held.is_enforced)))
            .collect();
        held.sort_unstable();
        listed.sort_unstable();
        assert_eq!(held, listed);
        for (_, owner, open) in (1..=HOLDERS).flat_map(|holder| {
            let (open, owners) = (*self.open_of(holder), [0, self.open_of(holder).0]);
            owners.map(|owner| (holder, LockOwner { holder: HolderId(holder), owner }, open))
        }) {
            let of_owner = self.lists.held.iter().filter(|held| held.owner == owner).count();
            assert_eq!(self.rig.table.ranges_of(&key(1), owner), of_owner);
            let with_open = self.lists.held.iter().filter(|held| held.open == Some(open)).count();
            assert_eq!(self.rig.table.ranges_with(&key(1), open).len(), with_open);
        }
        assert_eq!(self.rig.outcomes(), std::mem::take(&mut self.lists.outcomes));
    }

    fn open_of(&self, holder: u64) -> &OpenId {
        &self.opens[usize::try_from(holder).unwrap() - 1]
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_line_is_served_as_a_list_would_be(steps in prop::collection::vec(step(12, 1), 1..80)) {
        let mut both = Both::new();
        for step in &steps {
            both.run(step);
            both.compare();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    /// Enough ranges that the trees rotate at each level.
    #[test]
    fn hundreds_of_ranges_are_those_of_a_list(steps in prop::collection::vec(step(2000, 60), 1500)) {
        let mut both = Both::new();
        for (number, step) in steps.iter().enumerate() {
            both.run(step);
            both.lists.grant();
            if number % 50 == 0 {
                both.compare();
            }
        }
        both.compare();
    }
}

const RANGES: u64 = 8040;
const WAITERS: u64 = 6000;

fn enforced(open: OpenId, holder: u64, start: u64, len: u64, waits: bool) -> Request {
    let queueing = if waits { Queueing::Until(Nanos(u64::MAX)) } else { Queueing::Never };
    let owner = LockOwner { holder: HolderId(holder), owner: open.0 };
    let request = locking(holder, start, len, true);
    Request::Lock(LockRequest { owner, open: Some(open), is_enforced: true, queueing, ..request })
}

fn release(open: OpenId, holder: u64, start: u64) -> Request {
    let owner = LockOwner { holder: HolderId(holder), owner: open.0 };
    let span = Span::new(start, 1).unwrap();
    Request::Unlock { owner, stream: Stream::default(), span, enforced: true, is_exclusive: None }
}

/// The number of tree nodes that this looks at.
fn steps(act: impl FnOnce()) -> u64 {
    let before = STEPS.get();
    act();
    STEPS.get() - before
}

/// Holder 1 has one byte of each two, and as many wait for the first of them, each with an open of its own.
fn crowd(spread: bool) -> (Rig, OpenId, Vec<(OpenId, Ticket)>) {
    let mut rig = Rig::new();
    let mandatory = |holder| OpenRequest { is_mandatory: true, ..opening(holder, read_write()) };
    let owner = rig.open(mandatory(1));
    for number in 0..RANGES {
        rig.granted(&enforced(owner, 1, 2 * number, 1, false));
    }
    let waiters = (0..WAITERS).map(|number| {
        let open = rig.open(mandatory(2));
        (open, rig.waits(&enforced(open, 2, if spread { 2 * number } else { 0 }, 1, true)))
    });
    let waiters = waiters.collect();
    (rig, owner, waiters)
}

#[test]
fn an_unlock_beside_thousands_of_ranges_and_waiters_takes_few_steps() {
    for spread in [true, false] {
        let (mut rig, owner, waiters) = crowd(spread);
        for number in [17, RANGES - 1, 5000, 0] {
            let taken = steps(|| _ = rig.granted(&release(owner, 1, 2 * number)));
            assert!(taken < 600, "{taken} steps");
        }
        let granted: Vec<Ticket> = rig.outcomes().into_iter().map(|(ticket, _)| ticket).collect();
        let due = |number: usize| waiters[number].1;
        let expected = if spread { vec![due(17), due(5000), due(0)] } else { vec![due(0)] };
        assert_eq!(granted, expected);
        let lock = enforced(owner, 1, 2 * RANGES, 1, false);
        let taken = steps(|| _ = rig.granted(&lock));
        assert!(taken < 600, "{taken} steps for a range that nobody has");
    }
}

#[test]
fn a_holder_with_thousands_of_ranges_and_waiters_ends_in_few_steps_each() {
    for (spread, holder) in [(true, 1), (false, 1), (true, 2), (false, 2)] {
        let (mut rig, ..) = crowd(spread);
        let taken = steps(|| drop(rig.table.drop_holder(rig.now, HolderId(holder))));
        assert!(taken < (RANGES + WAITERS) * 200, "{taken} steps");
        rig.table.assert_tidy();
    }
}

#[test]
fn a_file_with_few_ranges_and_waiters_keeps_no_memory_of_thousands() {
    let (mut rig, owner, waiters) = crowd(true);
    for number in WAITERS..RANGES {
        rig.granted(&release(owner, 1, 2 * number));
    }
    for &(_, ticket) in &waiters[3..] {
        rig.granted(&Request::Cancel(ticket));
    }
    for number in 3..WAITERS {
        rig.granted(&release(owner, 1, 2 * number));
    }
    let claims = rig.table.claims(&key(1)).unwrap();
    assert_eq!((claims.ranges.len(), claims.line.len()), (3, 3));
    rig.table.assert_tidy();
    rig.granted(&release(owner, 1, 0));
    let granted: Vec<Ticket> = rig.outcomes().into_iter().map(|(ticket, _)| ticket).collect();
    assert_eq!(granted, [waiters[0].1]);
}

#[test]
fn a_holder_ends_in_bounded_steps() {
    let (mut rig, ..) = crowd(true);
    let (mut effects, mut rounds) = (Vec::new(), 0);
    let most = steps(|| {
        while !rig.table.drop_some(rig.now, HolderId(1), 256, &mut effects) {
            rounds += 1;
            if rounds == 1 {
                // Others have their turn meanwhile.
                assert!(matches!(
                    rig.table.apply(rig.now, &key(2), &Request::Open(opening(3, read_write()))).0,
                    Verdict::Granted(_)
                ));
            }
        }
    });
    assert!(rounds > 0 && most / (rounds + 1) < 256 * 600, "{most} steps in {rounds} rounds");
    assert_eq!(effects.len() as u64, WAITERS);
    rig.table.assert_tidy();
}

/// Each owner of the byte passes it to the next, with one open or with many.
#[test]
fn thousands_who_wait_for_one_byte_are_served_in_few_steps_each() {
    for opens in [1, 8000] {
        let mut rig = Rig::new();
        let opened: Vec<OpenId> = (0..=opens).map(|_| rig.open(opening(1, read_write()))).collect();
        rig.granted(&enforced(opened[opens], 1, 5, 1, false));
        let taken = steps(|| {
            for number in 0..8000 {
                rig.waits(&enforced(opened[number % opens], 1, 5, 1, true));
            }
            rig.granted(&release(opened[opens], 1, 5));
            for number in 0..8000 {
                rig.granted(&release(opened[number % opens], 1, 5));
            }
        });
        assert_eq!(rig.outcomes().len(), 8000);
        assert!(taken < 8000 * 600, "{taken} steps");
    }
}

#[test]
fn input_and_output_beside_thousands_of_ranges_take_few_steps() {
    let (mut rig, owner, waiters) = crowd(true);
    let io = |by, start, len, kind| {
        let span = Span::new(start, len).unwrap();
        Request::Io(Io { by, stream: Stream::default(), kind, span, waits: false })
    };
    let own = io(Requester::Open(owner), 0, 2 * RANGES, IoKind::Write);
    let free = io(Requester::Open(waiters[0].0), 7001, 1, IoKind::Write);
    let taken = steps(|| {
        rig.granted(&own);
        rig.granted(&free);
    });
    assert!(taken < 200, "{taken} steps");
    let all = io(Requester::Anonymous, 0, 2 * RANGES, IoKind::Read);
    let taken = steps(|| assert!(matches!(rig.refused(&all), Conflict::Range { .. })));
    assert!(taken < 200, "{taken} steps");
}

#[test]
fn an_open_that_meets_thousands_of_leases_and_one_open_without_is_refused_and_asks_nobody() {
    let mut rig = Rig::new();
    for number in 0..4000 {
        let lease = shared(number, "RH");
        rig.open(OpenRequest { lease, ..opening(1, Access { rights: Rights::READ, deny: Rights::NONE }) });
    }
    // This one has no lease that could be asked for.
    rig.open(opening(2, Access { rights: Rights::READ, deny: Rights::NONE }));
    let alone =
        OpenRequest { waits: false, ..opening(3, Access { rights: Rights::READ, deny: Rights::READ }) };
    assert_eq!(rig.refused(&Request::Open(alone)), Conflict::Share);
    assert_eq!(rig.take(), []);
    rig.table.assert_tidy();
}

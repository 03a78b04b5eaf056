//! Random traces, with invariants after every step and at the end.

use super::super::entries::Open;
use super::super::file::FileClaims;
use super::*;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

const FILES: u8 = 2;
const HOLDERS: u64 = 4;

#[derive(Clone, Debug)]
enum Step {
    Open { file: u8, holder: u64, rights: usize, deny: usize, lease: u8, want: usize, truncates: bool },
    Close(usize),
    Upgrade(usize, usize),
    Disconnect(usize, bool),
    Reconnect(usize, u64),
    Delete(usize, bool),
    Lock { file: u8, holder: u64, open: Option<usize>, start: u64, len: u64, exclusive: bool, queue: u8 },
    Unlock { file: u8, holder: u64, start: u64, len: u64 },
    Io { file: u8, by: u8, open: usize, kind: IoKind },
    Unlink(u8),
    Acknowledge(usize, usize),
    Cancel(usize),
    Lapse(u64),
    Renew(u64),
    Drop(u64),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let (file, holder, pick) = (1..=FILES, 1..=HOLDERS, 0..64_usize);
    let kinds = prop::sample::select(vec![
        IoKind::Read,
        IoKind::Write,
        IoKind::SetAttrs,
        IoKind::ReadAttrs,
        IoKind::ReadEnd,
    ]);
    prop_oneof![
        6 => (file.clone(), holder.clone(), 0..8_usize, 0..8_usize, 0..6_u8, 0..8_usize, 0..8_u8).prop_map(
            |(file, holder, rights, deny, lease, want, rare)| Step::Open {
                file, holder, rights, deny: if rare < 4 { 0 } else { deny }, lease, want, truncates: rare == 7,
            }
        ),
        2 => pick.clone().prop_map(Step::Close),
        1 => (pick.clone(), 0..8_usize).prop_map(|(open, rights)| Step::Upgrade(open, rights)),
        1 => (pick.clone(), any::<bool>()).prop_map(|(open, firm)| Step::Disconnect(open, firm)),
        1 => (pick.clone(), holder.clone()).prop_map(|(open, holder)| Step::Reconnect(open, holder)),
        1 => (pick.clone(), any::<bool>()).prop_map(|(open, set)| Step::Delete(open, set)),
        4 => (file.clone(), holder.clone(), prop::option::of(pick.clone()), 0..8_u64, 0..8_u64, any::<bool>(), 0..4_u8)
            .prop_map(|(file, holder, open, start, len, exclusive, queue)| Step::Lock {
                file, holder, open, start, len, exclusive, queue,
            }),
        2 => (file.clone(), holder.clone(), 0..8_u64, 0..8_u64)
            .prop_map(|(file, holder, start, len)| Step::Unlock { file, holder, start, len }),
        3 => (file.clone(), 0..3_u8, pick.clone(), kinds)
            .prop_map(|(file, by, open, kind)| Step::Io { file, by, open, kind }),
        1 => file.prop_map(Step::Unlink),
        4 => (pick.clone(), 0..8_usize).prop_map(|(lease, keeps)| Step::Acknowledge(lease, keeps)),
        1 => pick.prop_map(Step::Cancel),
        1 => holder.clone().prop_map(Step::Lapse),
        1 => holder.clone().prop_map(Step::Renew),
        1 => holder.prop_map(Step::Drop),
        1 => (1..40_u64).prop_map(Step::Pass),
    ]
}

/// The state of the clients, derived from answers and effects alone.
#[derive(Default)]
struct Clients {
    opens: Vec<(OpenId, u8)>,
    leases: HashMap<(u8, Stream, LeaseKey), Caching>,
    waiting: HashMap<Ticket, u8>,
    to_remove: usize,
}

struct World {
    rig: Rig,
    clients: Clients,
}

impl World {
    fn apply(&mut self, file: u8, request: &Request) -> Verdict {
        let is_free = self.is_free(file, request);
        let verdict = self.rig.apply(file, request);
        // Others' claims do not stop a request with an open that the file does not have either.
        let had_no_say = matches!(verdict, Verdict::Granted(_) | Verdict::Refused(Conflict::NotHeld))
            && self.rig.effects.is_empty();
        assert!(!is_free || had_no_say, "{request:?} would not have been asked about: {verdict:?}");
        if let Verdict::Wait(ticket) = verdict {
            assert_eq!(self.clients.waiting.insert(ticket, file), None, "a ticket comes twice");
        }
        if let Verdict::Granted(Granted { open: Some(open), lease, caching, is_breaking, .. }) = verdict {
            if matches!(request, Request::Open(_)) {
                self.clients.opens.push((open, file));
            }
            // A reconnected client receives its former rights, and then the break.
            let is_back = matches!(request, Request::Reconnect { .. });
            if let Some(key) = lease.filter(|_| !is_breaking || is_back) {
                self.clients.leases.insert((file, Stream::default(), key), caching);
            }
        }
        self.hear();
        verdict
    }

    /// Whether the counters admit the request without a look at the claims.
    fn is_free(&self, file: u8, request: &Request) -> bool {
        let blocked = self.rig.table.claims(&key(file)).map(FileClaims::blocked).unwrap_or_default();
        match request {
            Request::Io(Io { kind: IoKind::Read, .. }) => !blocked.read,
            Request::Io(Io { kind: IoKind::ReadAttrs, .. }) => !blocked.getattr,
            Request::Io(Io { kind: IoKind::ReadEnd, .. }) => !blocked.eof,
            Request::Io(_) | Request::Unlink { .. } => !blocked.change,
            _ => false,
        }
    }

    fn hear(&mut self) {
        let clients = &mut self.clients;
        for effect in self.rig.take() {
            match effect {
                Effect::Recall { file, stream, key, from, to, .. } => {
                    let believed = clients.leases.insert((file.bytes()[0], stream, key), to);
                    // A client that joins a breaking lease receives the break once more.
                    let is_known = [Some(from), Some(to)].contains(&believed);
                    assert!(is_known, "{key:?} is recalled from {from:?}, and was {believed:?}");
                }
                Effect::Revoked { what: RevokedClaim::Open(open), .. } => {
                    let before = clients.opens.len();
                    clients.opens.retain(|(id, _)| *id != open);
                    assert_eq!(clients.opens.len() + 1, before, "{open:?} is revoked twice");
                }
                Effect::Revoked { what: RevokedClaim::Lease(key), file, .. } => {
                    clients.leases.insert((file.bytes()[0], Stream::default(), key), Caching::NONE);
                }
                Effect::Revoked { what: RevokedClaim::Range(..), .. } => {}
                Effect::Resume { ticket, .. } | Effect::Notify { ticket, .. } => {
                    assert!(clients.waiting.remove(&ticket).is_some(), "{ticket:?} is over twice");
                }
                Effect::Remove { file, stream, .. } => {
                    clients.to_remove += 1;
                    assert_eq!(self.rig.table.removed(self.rig.now, &file, stream), []);
                }
            }
        }
    }

    fn some_open(&self, pick: usize) -> Option<(OpenId, u8)> {
        self.clients.opens.get(pick % self.clients.opens.len().max(1)).copied()
    }

    fn run(&mut self, step: &Step) {
        let now = self.rig.now;
        match *step {
            Step::Open { file, holder, rights, deny, lease, want, truncates } => {
                let kind = match lease {
                    0 => None,
                    1 => Some(LeaseKind::Oplock),
                    2 => Some(LeaseKind::Delegation),
                    key => Some(LeaseKind::Shared { client: holder.into(), key: (key % 2).into() }),
                };
                let lease = kind.map(|kind| LeaseRequest {
                    kind,
                    want: Caching::ALL_SETS[want],
                    answers_within: None,
                    epoch: 0,
                });
                let access = Access { rights: Rights::ALL_SETS[rights], deny: Rights::ALL_SETS[deny] };
                let request = OpenRequest { lease, truncates, ..opening(holder, access) };
                self.apply(file, &Request::Open(request));
            }
            Step::Lock { file, holder, open, start, len, exclusive, queue } => {
                self.lock(file, holder, open, Span::new(start, len).unwrap(), exclusive, queue);
            }
            Step::Unlock { file, holder, start, len } => {
                let LockRequest { owner, stream, span, .. } = locking(holder, start, len, true);
                self.apply(
                    file,
                    &Request::Unlock { owner, stream, span, enforced: false, is_exclusive: None },
                );
            }
            Step::Io { file, by, open, kind } => {
                let by = match by {
                    0 => Requester::Anonymous,
                    1 => Requester::Holder(HolderId(1)),
                    _ => self.some_open(open).map_or(Requester::Anonymous, |(open, _)| Requester::Open(open)),
                };
                let verdict = self.apply(file, &io(by, kind));
                assert!(by != Requester::Anonymous || !matches!(verdict, Verdict::Wait(_)));
            }
            Step::Unlink(file) => {
                _ = self.apply(file, &Request::Unlink { by: Requester::Anonymous, waits: true });
            }
            Step::Acknowledge(pick, keeps) => self.answer(pick, keeps),
            Step::Cancel(pick) => self.cancel(pick),
            Step::Lapse(holder) => self.rig.effects = self.rig.table.lapse(now, HolderId(holder)),
            Step::Renew(holder) => self.rig.table.renew(HolderId(holder)),
            Step::Drop(holder) => self.drop_holder(HolderId(holder)),
            Step::Pass(seconds) => self.rig.pass(seconds),
            Step::Close(pick) | Step::Upgrade(pick, _) | Step::Disconnect(pick, _) => {
                self.with_open(step, pick)
            }
            Step::Reconnect(pick, _) | Step::Delete(pick, _) => self.with_open(step, pick),
        }
        self.hear();
    }

    fn with_open(&mut self, step: &Step, pick: usize) {
        let Some((open, file)) = self.some_open(pick) else { return };
        let until = Nanos(self.rig.now.0 + 60 * SECOND);
        let request = match *step {
            Step::Close(_) => Request::Close(open),
            Step::Upgrade(_, rights) => {
                let access = Access { rights: Rights::ALL_SETS[rights], deny: Rights::NONE };
                Request::Upgrade { open, access, reclaims: false, waits: true }
            }
            Step::Disconnect(_, is_persistent) => {
                Request::Disconnect { open, durable: Durable { until, is_persistent } }
            }
            Step::Reconnect(_, holder) => Request::Reconnect { open, holder: HolderId(holder) },
            Step::Delete(_, set) => {
                let link = set.then(|| Link { parent: key(9), name: Box::from(&b"x"[..]), listing: None });
                Request::SetDelete { open, link, waits: true }
            }
            _ => unreachable!(),
        };
        if self.apply(file, &request) == Verdict::Granted(Granted::default())
            && matches!(step, Step::Close(_))
        {
            self.clients.opens.retain(|(id, _)| *id != open);
        }
    }

    fn lock(&mut self, file: u8, holder: u64, open: Option<usize>, span: Span, exclusive: bool, queue: u8) {
        let open = open.and_then(|pick| self.some_open(pick)).filter(|(_, of)| *of == file);
        let until = Nanos(self.rig.now.0 + 50 * SECOND);
        let queueing = match queue {
            0 => Queueing::Never,
            1 => Queueing::Reserved { until, kept: Nanos(5 * SECOND) },
            _ => Queueing::Until(until),
        };
        let mut request = LockRequest { span, queueing, ..locking(holder, 0, 1, exclusive) };
        if let Some((id, _)) = open {
            let claims = self.rig.table.claims(&key(file)).unwrap();
            let holder = claims.open_of(id).unwrap().holder;
            let owner = LockOwner { holder, owner: id.0 };
            request = LockRequest { owner, open: Some(id), is_enforced: true, ..request };
        }
        if request.is_enforced || !span.is_empty() {
            self.apply(file, &Request::Lock(request));
        }
    }

    fn answer(&mut self, pick: usize, keeps: usize) {
        let breaking = |file: u8| {
            let leases =
                self.rig.table.claims(&key(file)).into_iter().flat_map(|claims| claims.leases.iter());
            leases.filter(|lease| lease.deadline.is_some()).map(move |lease| (file, lease.key, lease.target))
        };
        let breaking: Vec<_> = (1..=FILES).flat_map(breaking).collect();
        let Some(&(file, key, target)) = breaking.get(pick % breaking.len().max(1)) else { return };
        let keeps = target.and(Caching::ALL_SETS[keeps]);
        let acknowledge = Request::Acknowledge { key, stream: Stream::default(), keeps };
        self.clients.leases.insert((file, Stream::default(), key), keeps);
        assert_eq!(self.apply(file, &acknowledge), Verdict::Granted(Granted::default()));
    }

    fn cancel(&mut self, pick: usize) {
        let mut waiting: Vec<_> =
            self.clients.waiting.iter().map(|(ticket, file)| (*ticket, *file)).collect();
        waiting.sort_unstable();
        let Some(&(ticket, file)) = waiting.get(pick % waiting.len().max(1)) else { return };
        self.clients.waiting.remove(&ticket);
        assert_eq!(self.apply(file, &Request::Cancel(ticket)), Verdict::Granted(Granted::default()));
        assert_eq!(self.apply(file, &Request::Cancel(ticket)), Verdict::Refused(Conflict::NotHeld));
    }

    fn drop_holder(&mut self, holder: HolderId) {
        let own = |(id, file): &(OpenId, u8)| {
            let claims = self.rig.table.claims(&key(*file)).unwrap();
            claims.open_of(*id).unwrap().holder == holder
        };
        let gone: HashSet<OpenId> =
            self.clients.opens.iter().filter(|open| own(open)).map(|(id, _)| *id).collect();
        self.clients.opens.retain(|(id, _)| !gone.contains(id));
        let effects = self.rig.table.drop_holder(self.rig.now, holder);
        self.rig.effects.extend(effects);
    }

    fn check(&mut self) {
        let World { rig, clients } = self;
        rig.table.assert_tidy();
        let mut opens = 0;
        let mut tickets = HashSet::new();
        let mut leases = HashMap::new();
        for file in 1..=FILES {
            let Some(claims) = rig.table.claims(&key(file)) else { continue };
            opens += claims.opens.len();
            assert!(claims.opens.iter().all(|open| clients.opens.contains(&(open.id, file))));
            tickets.extend(claims.line.tickets());
            check_sharing(&claims.opens.iter().collect::<Vec<_>>());
            let ranges: Vec<_> = claims.ranges.iter().collect();
            for (at, one) in ranges.iter().enumerate() {
                for other in ranges[at + 1..].iter().filter(|other| other.owner != one.owner) {
                    let is_exclusive = one.is_exclusive || other.is_exclusive;
                    assert!(!is_exclusive || !one.span.overlaps(&other.span), "{one:?} {other:?}");
                }
            }
            for lease in &*claims.leases {
                leases.insert((file, lease.stream, lease.key), lease.target);
                assert_eq!(lease.have == lease.target, lease.deadline.is_none(), "{lease:?}");
            }
            let writers = claims.leases.iter().filter(|lease| lease.have.contains(Caching::WRITE));
            assert!(writers.count() <= 1, "{:?}", claims.leases);
            let writes = claims.leases.iter().any(|lease| lease.target.contains(Caching::WRITE));
            let cached = claims.leases.iter().filter(|lease| !lease.target.is_none()).count();
            assert!(!writes || cached == 1, "{:?}", claims.leases);
        }
        assert_eq!(opens, clients.opens.len());
        assert_eq!(tickets, clients.waiting.keys().copied().collect());
        // A client may believe in a lease that went with its last open, but in no other than the table has.
        clients.leases.retain(|key, _| leases.contains_key(key));
        assert_eq!(clients.leases, leases, "an effect was lost");
    }
}

fn check_sharing(opens: &[&Open]) {
    for (at, one) in opens.iter().enumerate() {
        for other in &opens[at + 1..] {
            assert!(!one.access.conflicts(other.access), "{one:?} {other:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World { rig: Rig::new(), clients: Clients::default() };
        for step in &steps {
            world.run(step);
            world.check();
        }
        for holder in 1..=HOLDERS {
            world.drop_holder(HolderId(holder));
            world.hear();
            world.check();
        }
        prop_assert!(world.rig.table.is_empty());
        prop_assert_eq!(world.rig.table.next_deadline(), None);
        prop_assert!(world.clients.waiting.is_empty());
    }
}

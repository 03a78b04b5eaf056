//! A slow and plain model of the rules: words instead of bits, lists instead of indexes, one file, no waiting.

use super::*;
use proptest::prelude::*;

/// The effect of others' operations on a lease of each kind: (kind, rights, operation, remaining rights). Missing rows
/// change nothing. Kinds: Shared, Oplock, Delegation.
const BREAKS: [(char, &str, &str, &str); 24] = [
    ('S', "RWH", "touch", "RH"),
    ('S', "RW", "touch", "R"),
    ('S', "RWH", "change", ""),
    ('S', "RW", "change", ""),
    ('S', "RH", "change", ""),
    ('S', "R", "change", ""),
    ('S', "RWH", "unlink", "RW"),
    ('S', "RH", "unlink", "R"),
    ('O', "RWH", "touch", "R"),
    ('O', "RW", "touch", "R"),
    ('O', "RWH", "change", ""),
    ('O', "RW", "change", ""),
    ('O', "R", "change", ""),
    ('O', "RWH", "unlink", "R"),
    ('D', "RWH", "touch", ""),
    ('D', "RWH", "change", ""),
    ('D', "RH", "change", ""),
    ('D', "RWH", "unlink", ""),
    ('D', "RH", "unlink", ""),
    ('D', "RWH", "attributes", ""),
    ('D', "RH", "attributes", ""),
    ('D', "RWH", "look", ""),
    ('D', "RWH", "open to write", ""),
    ('D', "RH", "open to write", ""),
];

#[derive(Clone, Debug)]
struct Lease {
    kind: char,
    key: u64,
    has: &'static str,
    asked: Option<&'static str>,
    due: u64,
}

struct Open {
    id: u64,
    holder: u64,
    access: Access,
    lease: Option<(char, u64)>,
}

struct Range {
    holder: u64,
    bytes: Vec<u64>,
    exclusive: bool,
}

#[derive(Default)]
struct Model {
    opens: Vec<Open>,
    leases: Vec<Lease>,
    ranges: Vec<Range>,
    now: u64,
}

/// The requester: holder, open, and the lease of the open.
type Who = (u64, u64, Option<(char, u64)>);

const NOBODY: Who = (0, 0, None);

impl Model {
    /// Breaks others' leases; returns whether one must be answered first.
    fn deed(&mut self, who: Who, deed: &str) -> bool {
        let mut waits = false;
        for lease in &mut self.leases {
            // Who cannot write has nothing that is not sent.
            let key = Some((lease.kind, lease.key));
            let mut writers = self.opens.iter().filter(|open| open.access.rights.contains(Rights::WRITE));
            if deed == "end" && lease.kind != 'D' && !writers.any(|open| open.lease == key) {
                continue;
            }
            let own = match lease.kind {
                'S' => who.2 == Some(('S', lease.key)),
                // What it may only read, its own changes end too.
                'O' => who.1 == lease.key && lease.has != "R",
                _ => who.0 == lease.key,
            };
            // To others than delegations, every open that touches the data is the same.
            let deed = match deed {
                "open to write" if lease.kind != 'D' => "touch",
                "end" => "touch",
                deed => deed,
            };
            let row = BREAKS.iter().find(|row| (row.0, row.1, row.2) == (lease.kind, lease.has, deed));
            let Some((.., keeps)) = row.filter(|_| !own) else { continue };
            if lease.has == "R" {
                lease.has = keeps;
                continue;
            }
            waits = true;
            if lease.asked.is_none() {
                lease.asked = Some(keeps);
                lease.due = self.now + if lease.kind == 'D' { 45 } else { 35 };
            }
        }
        waits
    }

    fn open(
        &mut self,
        holder: u64,
        access: Access,
        lease: Option<(char, u64, &str)>,
        truncates: bool,
    ) -> Result<(), Conflict> {
        let key = lease.map(|(kind, key, _)| (kind, key)).filter(|(kind, _)| *kind == 'S');
        let who = (holder, 0, key);
        for right in [Rights::READ, Rights::WRITE, Rights::DELETE] {
            for open in &self.opens {
                let one = open.access.rights.contains(right) && access.deny.contains(right);
                let other = open.access.deny.contains(right) && access.rights.contains(right);
                if (one || other) && !open.access.rights.is_none() && !access.rights.is_none() {
                    return Err(Conflict::Share);
                }
            }
        }
        let changes = Rights::WRITE | Rights::DELETE;
        let writes = access.rights.intersects(changes) || access.deny.contains(Rights::READ);
        let deed = match (truncates, access.rights.is_none(), writes) {
            (true, ..) => "change",
            (_, true, _) => "",
            (.., true) => "open to write",
            _ => "touch",
        };
        if self.deed(who, deed) { Err(Conflict::Recalling) } else { Ok(()) }
    }

    fn grant(
        &mut self,
        id: u64,
        holder: u64,
        access: Access,
        lease: (char, u64, &'static str),
    ) -> &'static str {
        let (kind, key, want) = lease;
        let key = match kind {
            'O' => id,
            'D' => holder,
            _ => key,
        };
        let other_data = |open: &&Open| {
            let own = match kind {
                'S' => open.lease == Some(('S', key)),
                'D' => open.holder == holder,
                _ => false,
            };
            !own && !open.access.rights.is_none()
        };
        let others: Vec<&Open> = self.opens.iter().filter(other_data).collect();
        let leases = || self.leases.iter().filter(|other| (other.kind, other.key) != (kind, key));
        let counts =
            |other: &Lease| if other.kind == 'D' { other.has } else { other.asked.unwrap_or(other.has) };
        let written = leases().any(|other| counts(other).contains('W'));
        let locked = self.ranges.iter().any(|range| range.exclusive && range.holder != holder);
        let contested = others.iter().any(|open| {
            let changes = Rights::WRITE | Rights::DELETE;
            open.access.rights.intersects(changes) || open.access.deny.contains(Rights::READ)
        });
        let beside =
            |kind, bit: char| leases().any(|other| other.kind == kind && counts(other).contains(bit));
        let crowded = kind == 'O' && beside('S', 'H');
        let none = written || locked || crowded || (kind == 'D' && contested) || !want.contains('R');
        let unlocked = self.ranges.iter().all(|range| range.holder == holder);
        let alone = others.is_empty() && leases().all(|other| other.has.is_empty()) && unlocked;
        let handle = want.contains('H') && !(kind == 'S' && beside('O', 'R'));
        let has = match (none, want.contains('W') && alone, handle, kind) {
            (true, ..) => "",
            (_, true, _, 'D') | (_, true, true, _) => "RWH",
            (_, true, false, _) => "RW",
            (_, false, _, 'D') | (_, false, true, 'S') => "RH",
            _ => "R",
        };
        let lease = (kind != 'D').then_some((kind, key));
        self.opens.push(Open { id, holder, access, lease });
        let known = self.leases.iter_mut().find(|other| (other.kind, other.key) == (kind, key));
        let Some(known) = known else {
            if kind != 'D' || !has.is_empty() {
                self.leases.push(Lease { kind, key, has, asked: None, due: 0 });
            }
            return has;
        };
        let all = has.len() == want.len() || known.has.is_empty();
        if kind == 'S' && known.asked.is_none() && all && known.has.chars().all(|bit| has.contains(bit)) {
            known.has = has;
        }
        if kind == 'D' { known.asked.unwrap_or(known.has) } else { known.has }
    }

    fn close(&mut self, id: u64) {
        let at = self.opens.iter().position(|open| open.id == id).unwrap();
        let lease = self.opens.remove(at).lease;
        if lease.is_some() && !self.opens.iter().any(|open| open.lease == lease) {
            self.leases.retain(|other| Some((other.kind, other.key)) != lease);
        }
    }

    fn is_free(&self, holder: u64, bytes: &[u64], exclusive: bool) -> bool {
        let meets = |range: &Range| {
            range.holder != holder
                && (range.exclusive || exclusive)
                && range.bytes.iter().any(|byte| bytes.contains(byte))
        };
        !self.ranges.iter().any(meets)
    }

    fn hold(&mut self, holder: u64, bytes: Vec<u64>, exclusive: Option<bool>) {
        for range in self.ranges.iter_mut().filter(|range| range.holder == holder) {
            range.bytes.retain(|byte| !bytes.contains(byte));
        }
        self.ranges.retain(|range| !range.bytes.is_empty());
        self.ranges.extend(exclusive.map(|exclusive| Range { holder, bytes, exclusive }));
    }

    fn pass(&mut self, seconds: u64) {
        self.now += seconds;
        let now = self.now;
        for lease in self.leases.iter_mut().filter(|lease| lease.asked.is_some() && lease.due <= now) {
            lease.has = "";
            lease.asked = None;
        }
        self.leases.retain(|lease| lease.kind != 'D' || !lease.has.is_empty());
    }
}

#[derive(Clone, Debug)]
enum Step {
    Open(u64, usize, usize, char, u64, &'static str, bool),
    Close(usize),
    Lock(u64, u64, u64, Option<bool>),
    Io(Option<usize>, IoKind),
    Unlink,
    Answer(usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let wants = prop::sample::select(vec!["", "R", "RH", "RW", "RWH"]);
    let kinds = prop::sample::select(vec!['-', 'S', 'S', 'O', 'D']);
    let ios = prop::sample::select(vec![
        IoKind::Read,
        IoKind::Write,
        IoKind::SetAttrs,
        IoKind::ReadAttrs,
        IoKind::ReadEnd,
    ]);
    let exclusive = prop::option::of(any::<bool>());
    prop_oneof![
        5 => (1..4_u64, 0..8_usize, 0..24_usize, kinds, 0..3_u64, wants, 0..8_u8).prop_map(
            |(holder, rights, deny, kind, key, want, rare)| {
                // Mostly nothing is denied, and seldom is anything cut off.
                Step::Open(holder, rights, if deny < 8 { deny } else { 0 }, kind, key, want, rare == 0)
            }
        ),
        2 => (0..64_usize).prop_map(Step::Close),
        2 => (1..4_u64, 0..8_u64, 1..8_u64, exclusive).prop_map(|(h, s, l, e)| Step::Lock(h, s, l, e)),
        3 => (prop::option::of(0..64_usize), ios).prop_map(|(open, kind)| Step::Io(open, kind)),
        1 => Just(Step::Unlink),
        3 => (0..8_usize).prop_map(Step::Answer),
        1 => (1..30_u64).prop_map(Step::Pass),
    ]
}

fn lease_key(kind: char, key: u64) -> LeaseKey {
    match kind {
        'S' => shared_key(key.into()),
        'O' => LeaseKey::Oplock(OpenId(key)),
        _ => LeaseKey::Delegation(HolderId(key)),
    }
}

fn expect(verdict: &Verdict, conflict: Option<Conflict>) {
    match (verdict, conflict) {
        (Verdict::Granted(_), None) => {}
        (Verdict::Refused(Conflict::Range { .. }), Some(Conflict::Range { .. })) => {}
        (Verdict::Refused(got), Some(wanted)) => assert_eq!(*got, wanted),
        other => panic!("{other:?}"),
    }
}

fn run(rig: &mut Rig, model: &mut Model, step: &Step) {
    match *step {
        Step::Open(..) => open_step(rig, model, step),
        Step::Close(pick) => {
            let Some(open) = model.opens.get(pick % model.opens.len().max(1)) else { return };
            let id = open.id;
            model.close(id);
            expect(&rig.apply(1, &Request::Close(OpenId(id))), None);
        }
        Step::Lock(holder, start, len, Some(exclusive)) => {
            let bytes: Vec<u64> = (start..start + len).collect();
            let free = model.is_free(holder, &bytes, exclusive);
            let waits = free && model.deed((holder, 0, None), if exclusive { "change" } else { "touch" });
            let request = locking(holder, start, len, exclusive);
            let taken = Conflict::Range { owner: request.owner, span: request.span, is_exclusive: exclusive };
            let conflict = if free { waits.then_some(Conflict::Recalling) } else { Some(taken) };
            expect(&rig.apply(1, &Request::Lock(request)), conflict);
            if conflict.is_none() {
                model.hold(holder, bytes, Some(exclusive));
            }
        }
        Step::Lock(holder, start, len, None) => {
            let LockRequest { owner, stream, span, .. } = locking(holder, start, len, true);
            model.hold(holder, (start..start + len).collect(), None);
            let verdict =
                rig.apply(1, &Request::Unlock { owner, stream, span, enforced: false, is_exclusive: None });
            expect(&verdict, None);
        }
        Step::Io(pick, kind) => io_step(rig, model, pick, kind),
        Step::Unlink => {
            let conflict = model.deed(NOBODY, "unlink").then_some(Conflict::Recalling);
            expect(&rig.apply(1, &Request::Unlink { by: Requester::Anonymous, waits: false }), conflict);
        }
        Step::Answer(pick) => {
            let mut asked: Vec<&mut Lease> =
                model.leases.iter_mut().filter(|lease| lease.asked.is_some()).collect();
            let count = asked.len().max(1);
            let Some(lease) = asked.get_mut(pick % count) else { return };
            lease.has = lease.asked.take().unwrap();
            let (key, keeps) = (lease_key(lease.kind, lease.key), caching(lease.has));
            model.leases.retain(|lease| lease.kind != 'D' || !lease.has.is_empty());
            expect(&rig.acknowledge(key, keeps), None);
        }
        Step::Pass(seconds) => {
            model.pass(seconds);
            rig.pass(seconds);
        }
    }
}

fn open_step(rig: &mut Rig, model: &mut Model, step: &Step) {
    let Step::Open(holder, rights, deny, kind, key, want, truncates) = *step else { return };
    let access = Access { rights: Rights::ALL_SETS[rights], deny: Rights::ALL_SETS[deny] };
    let wanted = match kind {
        'S' => Some(LeaseKind::Shared { client: 1, key: key.into() }),
        'O' => Some(LeaseKind::Oplock),
        'D' => Some(LeaseKind::Delegation),
        _ => None,
    };
    let lease = wanted.map(|kind| LeaseRequest { kind, want: caching(want), answers_within: None, epoch: 0 });
    let words = wanted.map(|_| (kind, key, want));
    let request = OpenRequest { lease, truncates, waits: false, ..opening(holder, access) };
    // A kept handle would be asked for before a refusal: `shares.rs` has that.
    let refused = model.opens.iter().any(|open| open.access.conflicts(access));
    if refused && model.leases.iter().any(|lease| lease.has.contains('H')) {
        return;
    }
    let conflict = model.open(holder, access, words, truncates).err();
    let verdict = rig.apply(1, &Request::Open(request));
    expect(&verdict, conflict);
    let Verdict::Granted(Granted { open: Some(OpenId(id)), caching: got, .. }) = verdict else {
        return;
    };
    match words {
        Some(words) => {
            let granted = model.grant(id, holder, access, words);
            assert!(kind == 'D' || got == caching(granted), "{step:?}: {got:?} {granted}");
        }
        None => model.opens.push(Open { id, holder, access, lease: None }),
    }
}

fn io_step(rig: &mut Rig, model: &mut Model, pick: Option<usize>, kind: IoKind) {
    let open = pick.and_then(|pick| model.opens.get(pick % model.opens.len().max(1)));
    let who = open.map_or(NOBODY, |open| (open.holder, open.id, open.lease));
    let by = open.map_or(Requester::Anonymous, |open| Requester::Open(OpenId(open.id)));
    let (deed, right) = match kind {
        IoKind::Read => ("touch", Rights::READ),
        // The only ranges in this model are those that others may conflict with.
        IoKind::Write | IoKind::Replace => ("change", Rights::WRITE),
        IoKind::SetAttrs => ("attributes", Rights::NONE),
        IoKind::ReadAttrs => ("look", Rights::NONE),
        IoKind::ReadEnd => ("end", Rights::NONE),
    };
    let denies = |open: &Open| !open.access.rights.is_none() && open.access.deny.intersects(right);
    let conflict = if who == NOBODY && model.opens.iter().any(denies) {
        Some(Conflict::Share)
    } else {
        model.deed(who, deed).then_some(Conflict::Recalling)
    };
    let io = Io { by, stream: Stream::default(), kind, span: Span::clamped(0, 10), waits: false };
    expect(&rig.apply(1, &Request::Io(io)), conflict);
}

fn compare(rig: &Rig, model: &Model) {
    let claims = rig.table.claims(&key(1));
    let leases = claims.map_or(&[][..], |claims| &claims.leases);
    assert_eq!(leases.len(), model.leases.len(), "{leases:?} {:?}", model.leases);
    for lease in &model.leases {
        let key = lease_key(lease.kind, lease.key);
        let real = leases.iter().find(|real| real.key == key).unwrap();
        assert_eq!(real.have, caching(lease.has), "{lease:?}");
        assert_eq!(real.target, caching(lease.asked.unwrap_or(lease.has)), "{lease:?}");
    }
    assert_eq!(claims.map_or(0, |claims| claims.opens.len()), model.opens.len());
    for byte in 0..16 {
        let span = Span::new(byte, 1).unwrap();
        let mut held: Vec<(u64, bool)> = claims
            .into_iter()
            .flat_map(|claims| claims.ranges.iter())
            .filter(|range| range.span.overlaps(&span))
            .map(|range| (range.owner.holder.0, range.is_exclusive))
            .collect();
        let of_byte = model.ranges.iter().filter(|range| range.bytes.contains(&byte));
        let mut modeled: Vec<(u64, bool)> = of_byte.map(|range| (range.holder, range.exclusive)).collect();
        held.sort_unstable();
        modeled.sort_unstable();
        assert_eq!(held, modeled);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn answers_as_the_model_does(steps in prop::collection::vec(step(), 1..80)) {
        let mut rig = Rig::new();
        let mut model = Model::default();
        for step in &steps {
            run(&mut rig, &mut model, step);
            compare(&rig, &model);
        }
    }
}

//! The limiter in virtual time: simulated clients and a clock that jumps.

mod adversary;

use super::*;
use std::collections::BinaryHeap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU64;
use std::slice;
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

/// The identity of a call in the simulation.
#[derive(Clone, Copy, Debug)]
struct Ticket {
    load: usize,
    demand: Demand,
    since: u64,
    /// Bytes that are moved in the end.
    moved: Transferred,
    is_gone: bool,
}

/// A call that moves other bytes than it asks for.
#[derive(Clone, Copy, Debug)]
struct Trick {
    demand: Demand,
    moved: Transferred,
    is_dropped: bool,
}

/// A client's load on a volume: a number of calls in flight, each repeated as soon as it is answered.
#[derive(Clone, Debug)]
struct Load {
    volume: usize,
    client: Client,
    in_flight: u32,
    bytes: u32,
    /// Percentage of reads; the rest is written.
    read: u32,
    /// When it begins and ends, in nanoseconds.
    active: std::ops::Range<u64>,
    /// Tricks to use instead of honest requests, one after the other.
    tricks: Vec<Trick>,
}

impl Load {
    fn new(volume: usize, client: u8, in_flight: u32, bytes: u32) -> Self {
        let client = Ipv4Addr::new(10, 0, 0, client).into();
        Self { volume, client, in_flight, bytes, read: 100, active: 0..u64::MAX, tricks: Vec::new() }
    }

    fn reading(self, read: u32) -> Self {
        Self { read, ..self }
    }

    fn active(self, active: std::ops::Range<u64>) -> Self {
        Self { active, ..self }
    }
}

/// A service without storage: a passed call is answered after a moment.
struct Bench {
    scheduler: Scheduler<Ticket>,
    loads: Vec<Load>,
    /// (time, load) of calls to come.
    arrivals: BinaryHeap<std::cmp::Reverse<(u64, usize)>>,
    now: u64,
    visit: Option<u64>,
    /// (time, load, demand, moved bytes, waiting time) of each call that has passed.
    passed: Vec<(u64, usize, Demand, Transferred, u64)>,
    issued: u64,
}

const ANSWER: u64 = 20_000;
const STEP: u64 = 500_000;

impl Bench {
    fn new(pool: impl Into<PoolLimits>, volumes: &[VolumeLimits]) -> Self {
        let mut scheduler = Scheduler::new(&pool.into(), Nanos(0));
        for limits in volumes {
            scheduler.add(limits, Nanos(0));
        }
        Self {
            scheduler,
            loads: Vec::new(),
            arrivals: BinaryHeap::new(),
            now: 0,
            visit: None,
            passed: Vec::new(),
            issued: 0,
        }
    }

    fn load(&mut self, load: Load) -> usize {
        for i in 0..u64::from(load.in_flight) {
            self.arrivals.push(std::cmp::Reverse((self.now.max(load.active.start) + i, self.loads.len())));
        }
        self.loads.push(load);
        self.loads.len() - 1
    }

    fn run_until(&mut self, end: u64) {
        loop {
            let arrival = self.arrivals.peek().map(|next| next.0.0);
            let Some(at) = [arrival, self.visit].into_iter().flatten().min().filter(|&at| at < end) else {
                break;
            };
            self.now = at;
            if self.visit == Some(at) {
                self.visit = None;
                self.release();
            } else if let Some(std::cmp::Reverse((_, load))) = self.arrivals.pop() {
                self.arrive(load);
            }
        }
        self.now = end;
    }

    fn arrive(&mut self, load: usize) {
        let Load { volume, client, bytes, read, ref active, .. } = self.loads[load];
        if self.now >= active.end {
            return;
        }
        self.issued += 1;
        // Spread evenly, and not in step with the loads.
        let reads = (self.issued * 61) % 100 < u64::from(read);
        let demand = if reads { Demand::read(bytes) } else { Demand::write(bytes) };
        let honest = Trick { demand, moved: demand.transferred(), is_dropped: false };
        let tricks = &self.loads[load].tricks;
        let at = usize::try_from(self.issued).unwrap() % tricks.len().max(1);
        let Trick { demand, moved, is_dropped } = tricks.get(at).copied().unwrap_or(honest);
        let ticket = Ticket { load, demand, since: self.now, moved, is_gone: is_dropped };
        match self.scheduler.admit(volume, client, ticket.demand, Nanos(self.now)) {
            Decision::Passed => return self.answer(ticket, false),
            Decision::Owing => {
                self.answer(ticket, false);
                return self.release();
            }
            Decision::Refused => {}
        }
        if self.scheduler.is_full(volume, client) || is_dropped {
            self.arrivals.push(std::cmp::Reverse((self.now + self.pause(load), load)));
        }
        if !self.scheduler.is_full(volume, client) {
            self.scheduler.wait(volume, client, ticket.demand, ticket, Nanos(self.now)).unwrap();
        }
        self.release();
    }

    fn release(&mut self) {
        let Release { passed, next, .. } = self.scheduler.release(Nanos(self.now), &|ticket| ticket.is_gone);
        if let Some(next) = next {
            let visit = next.0.max(self.now + STEP);
            self.visit = Some(self.visit.map_or(visit, |before| before.min(visit)));
        }
        if passed.is_empty() {
            return;
        }
        passed.into_iter().for_each(|(_, ticket)| self.answer(ticket, true));
        // What they did not use may let others pass.
        self.release();
    }

    fn answer(&mut self, ticket: Ticket, has_waited: bool) {
        let Ticket { load, demand, since, moved, .. } = ticket;
        let Load { volume, client, .. } = self.loads[load];
        self.scheduler.refund_unused(volume, client, demand, moved, has_waited, Nanos(self.now));
        self.passed.push((self.now, load, demand, moved, self.now - since));
        self.arrivals.push(std::cmp::Reverse((self.now + self.pause(load), load)));
    }

    /// Returns the pause of a load before its next call. Tricks need no haste, and would be many.
    fn pause(&self, load: usize) -> u64 {
        if self.loads[load].tricks.is_empty() { ANSWER } else { 50 * ANSWER }
    }

    /// Bytes for each second that passed in a time, of the loads and kinds that `counts`.
    fn rate(&self, time: std::ops::Range<u64>, counts: impl Fn(usize, Kind) -> bool) -> f64 {
        self.sum(time, |load, _, moved| {
            let of = |kind, bytes: u32| if counts(load, kind) { u64::from(bytes) } else { 0 };
            of(Kind::Read, moved.read) + of(Kind::Write, moved.written)
        })
    }

    /// A count of each call that passed in a time, for each second.
    fn sum(&self, time: std::ops::Range<u64>, count: impl Fn(usize, Demand, Transferred) -> u64) -> f64 {
        let passed = self.passed.iter().filter(|(at, ..)| time.contains(at));
        let sum: u64 = passed.map(|(_, load, demand, moved, _)| count(*load, *demand, *moved)).sum();
        sum as f64 * SECOND as f64 / (time.end - time.start) as f64
    }
}

fn rate(rate: u64) -> Option<NonZeroU64> {
    NonZeroU64::new(rate)
}

fn bytes_limit(bytes: u64) -> VolumeLimits {
    VolumeLimits { all: Limits { bytes: rate(bytes), ..Limits::NONE }, ..VolumeLimits::default() }
}

fn assert_near(value: f64, wanted: f64, part: f64, what: &str) {
    let off = (value - wanted).abs() / wanted;
    assert!(off <= part, "{what}: {value:.0} instead of {wanted:.0}, {:.2} % off", off * 100.0);
}

/// Jain's fairness index: 1 if all are equal, 1/n if one has everything.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>())
}

#[test]
fn every_window_keeps_to_the_limit_whatever_the_load() {
    for limit in [MIB, 16 * MIB, 128 * MIB, 4096 * MIB] {
        for (in_flight, bytes) in [(1, 4096), (16, 4096), (64, 65_536), (8, 1 << 20)] {
            if limit == MIB && bytes == 1 << 20
                || limit / u64::from(bytes) * ANSWER > u64::from(in_flight) * SECOND
            {
                continue;
            }
            let mut bench = Bench::new(Limits::NONE, &[bytes_limit(limit)]);
            bench.load(Load::new(0, 1, in_flight, bytes));
            bench.run_until(11 * SECOND);
            for start in [0, 1, 3, 6] {
                let got = bench.rate(start * SECOND..(start + 5) * SECOND, |_, _| true);
                assert_near(got, limit as f64, 0.02, &format!("{in_flight} × {bytes} from {start} s"));
            }
        }
    }
}

#[test]
fn operations_are_limited_like_bytes() {
    let all = Limits { ops: rate(10_000), ..Limits::NONE };
    let mut bench = Bench::new(Limits::NONE, &[VolumeLimits { all, ..VolumeLimits::default() }]);
    bench.load(Load::new(0, 1, 16, 4096).reading(50));
    bench.run_until(6 * SECOND);
    assert_near(bench.rate(SECOND..6 * SECOND, |_, _| true) / 4096.0, 10_000.0, 0.01, "operations");
}

#[test]
fn a_write_may_cost_more_operations_than_a_read() {
    let all = Limits { ops: rate(10_000), write_op_milli: 3333, ..Limits::NONE };
    let mut bench = Bench::new(Limits::NONE, &[VolumeLimits { all, ..VolumeLimits::default() }]);
    bench.load(Load::new(0, 1, 16, 4096).reading(0));
    bench.run_until(6 * SECOND);
    assert_near(bench.rate(SECOND..6 * SECOND, |_, _| true) / 4096.0, 10_000.0 / 3.333, 0.01, "writes");
}

#[test]
fn reads_and_writes_have_limits_of_their_own() {
    let all = Limits { read_bytes: rate(100 * MIB), write_bytes: rate(25 * MIB), ..Limits::NONE };
    let mut bench = Bench::new(Limits::NONE, &[VolumeLimits { all, ..VolumeLimits::default() }]);
    bench.load(Load::new(0, 1, 32, 65_536));
    bench.load(Load::new(0, 1, 32, 65_536).reading(0));
    bench.run_until(6 * SECOND);
    let time = SECOND..6 * SECOND;
    assert_near(bench.rate(time.clone(), |_, kind| kind == Kind::Read), (100 * MIB) as f64, 0.02, "reads");
    assert_near(bench.rate(time, |_, kind| kind == Kind::Write), (25 * MIB) as f64, 0.02, "writes");
}

#[test]
fn many_connections_earn_no_more_than_one() {
    let mut bench = Bench::new(Limits::NONE, &[bytes_limit(100 * MIB)]);
    for client in 0..16 {
        bench.load(Load::new(0, client, 16 * (1 + u32::from(client)), 65_536));
    }
    bench.run_until(6 * SECOND);
    let shares: Vec<f64> = (0..16).map(|of| bench.rate(SECOND..6 * SECOND, |load, _| load == of)).collect();
    assert!(jain(&shares) >= 0.99, "{} {shares:?}", jain(&shares));
    assert_near(shares.iter().sum(), (100 * MIB) as f64, 0.02, "all together");
}

#[test]
fn small_calls_are_not_pushed_aside_by_large_ones() {
    let mut bench = Bench::new(Limits::NONE, &[bytes_limit(100 * MIB)]);
    bench.load(Load::new(0, 1, 64, 1 << 20));
    bench.load(Load::new(0, 2, 64, 4096).reading(50));
    bench.run_until(6 * SECOND);
    let shares = [0, 1].map(|of| bench.rate(SECOND..6 * SECOND, |load, _| load == of));
    assert!(jain(&shares) >= 0.98, "{shares:?}");
}

#[test]
fn small_calls_wait_no_longer_than_a_turn_of_large_ones() {
    let bytes = Limits { bytes: rate(8 * MIB), ..Limits::NONE };
    let ops = Limits { ops: rate(100), ..Limits::NONE };
    let large = Demand { others: 64, ..Demand::NOTHING };
    let compounds = vec![Trick { demand: large, moved: Transferred::default(), is_dropped: false }];
    for (limits, tricks) in [(bytes, Vec::new()), (ops, compounds)] {
        let volume = VolumeLimits { all: limits, ..VolumeLimits::default() };
        for (pool, volume) in [(Limits::NONE, volume), (limits, VolumeLimits::default())] {
            let mut bench = Bench::new(pool, &[volume]);
            bench.load(Load { tricks: tricks.clone(), ..Load::new(0, 1, 16, 1 << 20) });
            let small = bench.load(Load::new(0, 2, 1, 4096));
            bench.run_until(6 * SECOND);
            let waits = bench.passed.iter().filter(|&&(at, load, ..)| load == small && at > SECOND);
            let waits: Vec<u64> = waits.map(|passed| passed.4).collect();
            assert!(waits.len() > 100, "{} small calls", waits.len());
            // The turn that is paid when one comes, and the one that came before it.
            let turn = if tricks.is_empty() { SECOND / 200 } else { SECOND / 100 };
            let longest = *waits.iter().max().unwrap();
            assert!(longest <= 2 * turn + SECOND / 1000, "{longest} ns");
        }
    }
}

#[test]
fn client_that_is_alone_does_not_wait_for_what_it_does_not_move() {
    let moved = Transferred::read(4096);
    let tricks = vec![Trick { demand: Demand::read(1 << 20), moved, is_dropped: false }];
    let limit = 64 * 4096;
    let mut bench = Bench::new(Limits::NONE, &[bytes_limit(limit)]);
    bench.load(Load { tricks, ..Load::new(0, 1, 1, 0) });
    bench.run_until(11 * SECOND);
    assert_near(bench.rate(SECOND..11 * SECOND, |_, _| true), limit as f64, 0.02, "of what is moved");
}

#[test]
fn demand_that_is_paid_in_turns_is_paid_once() {
    for demand in [
        Demand::read(1 << 20),
        Demand { reads: 3, others: 7, ..Demand::write(1_000_003) },
        Demand { others: 64, ..Demand::NOTHING },
    ] {
        let all = Limits { bytes: rate(MIB), ops: rate(200), write_ops: rate(25), ..Limits::NONE };
        let mut bench = Bench::new(Limits::NONE, &[VolumeLimits { all, ..VolumeLimits::default() }]);
        let tricks = vec![Trick { demand, moved: demand.transferred(), is_dropped: false }];
        bench.load(Load { tricks, ..Load::new(0, 1, 8, 0) });
        bench.run_until(101 * SECOND);
        let time = SECOND..101 * SECOND;
        let each = |of: fn(Demand) -> u32| bench.sum(time.clone(), |_, demand, _| of(demand).into());
        let used = [
            each(|demand| demand.read_bytes + demand.write_bytes) / MIB as f64,
            each(|demand| demand.reads + demand.writes + demand.others) / 200.0,
            each(|demand| demand.writes) / 25.0,
        ];
        assert_near(
            used.into_iter().fold(0.0, f64::max) * 1000.0,
            1000.0,
            0.02,
            "of 1000 at its tightest limit",
        );
    }
}

#[test]
fn demand_that_is_paid_in_turns_ends_whatever_the_limits_become() {
    let mut random = 0x9e37_79b9_u64;
    // Small numbers as often as large ones.
    let mut any = |bits: u32| -> u64 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let width = random % u64::from(bits + 1);
        (random >> 32) & ((1 << width) - 1)
    };
    for _ in 0..2000 {
        let mut limits = || {
            let mut one = || rate(any(24));
            let (ops, bytes, read_bytes, write_bytes) = (one(), one(), one(), one());
            let all = Limits {
                ops,
                bytes,
                read_bytes,
                write_bytes,
                read_ops: one(),
                write_ops: one(),
                ..Limits::NONE
            };
            let steps = std::array::from_fn(|_| any(20));
            let mix =
                (any(2) == 0).then(|| Arc::new(Mix { picoseconds_per_byte: steps, op_bytes_min: 4096 }));
            VolumeLimits { all, mix, ..VolumeLimits::default() }
        };
        let mut scheduler: Scheduler<()> = Scheduler::new(&limits().all.into(), Nanos(0));
        let volume = scheduler.add(&limits(), Nanos(0));
        let others = [limits(), limits()];
        let mut count = |bits| u32::try_from(any(bits)).unwrap();
        let mut most = 2;
        // With two, neither passes before it has paid, until the other is done.
        for client in [1, 2] {
            let (read_bytes, write_bytes) = (count(22), count(22));
            let demand =
                Demand { read_bytes, write_bytes, reads: count(8), writes: count(8), others: count(8) };
            let client = Ipv4Addr::new(10, 0, 0, client).into();
            scheduler.wait(volume, client, demand, (), Nanos(0)).unwrap();
            most += demand.reads + demand.writes + demand.others + (read_bytes + write_bytes).div_ceil(4096);
        }
        let (mut now, mut visits) = (0, 0);
        while let Some(next) = scheduler.release(Nanos(now), &|()| false).next {
            now = next.0;
            visits += 1;
            scheduler.set_volume_limits(volume, &others[visits as usize % 2], Nanos(now));
            assert!(visits <= 2 * most, "{visits} turns");
        }
        assert_eq!(scheduler.throttled(volume).1, 0);
    }
}

#[test]
fn waiting_grows_smoothly() {
    let mut bench = Bench::new(Limits::NONE, &[bytes_limit(64 * MIB)]);
    for client in 0..8 {
        bench.load(Load::new(0, client, 8, 65_536).reading(70));
    }
    bench.run_until(6 * SECOND);
    let mut waits: Vec<u64> =
        bench.passed.iter().filter(|passed| passed.0 > SECOND).map(|passed| passed.4).collect();
    waits.sort_unstable();
    let mean = waits.iter().sum::<u64>() / waits.len() as u64;
    let p99 = waits[waits.len() * 99 / 100];
    assert!(p99 <= 3 * mean, "p99 {p99} ns, mean {mean} ns");
    assert_near(mean as f64, 64.0 * 65_536.0 / (64 * MIB) as f64 * 1e9, 0.05, "the mean by Little's law");
}

#[test]
fn a_pool_is_shared_and_an_idle_share_is_used_by_others() {
    let pool = Limits { bytes: rate(90 * MIB), ..Limits::NONE };
    let volumes = vec![VolumeLimits::default(); 3];
    let mut bench = Bench::new(pool, &volumes);
    bench.load(Load::new(0, 1, 16, 65_536));
    bench.load(Load::new(1, 2, 64, 65_536));
    // Comes later and gets its share within 200 ms.
    bench.load(Load::new(2, 3, 16, 65_536).active(3 * SECOND..u64::MAX));
    bench.run_until(6 * SECOND);
    let of = |which: usize, time| bench.rate(time, |load, _| load == which) / MIB as f64;
    for (which, before) in [(0, 45.0), (1, 45.0)] {
        assert_near(of(which, SECOND..3 * SECOND), before, 0.03, "two of them");
        assert_near(of(which, 3 * SECOND + SECOND / 5..6 * SECOND), 30.0, 0.03, "three of them");
    }
    assert_near(of(2, 3 * SECOND + SECOND / 5..4 * SECOND), 30.0, 0.03, "the new one");
}

#[test]
fn a_volume_at_its_limit_leaves_the_pool_to_others() {
    let pool = Limits { bytes: rate(100 * MIB), ..Limits::NONE };
    let mut bench = Bench::new(pool, &[bytes_limit(10 * MIB), VolumeLimits::default()]);
    bench.load(Load::new(0, 1, 64, 65_536));
    bench.load(Load::new(1, 2, 64, 65_536));
    bench.run_until(6 * SECOND);
    let of = |which: usize| bench.rate(SECOND..6 * SECOND, |load, _| load == which) / MIB as f64;
    assert_near(of(0), 10.0, 0.02, "the limited volume");
    assert_near(of(1), 90.0, 0.02, "the other");
}

#[test]
fn each_client_may_be_limited() {
    let per_client = Limits { bytes: rate(20 * MIB), ..Limits::NONE };
    let mut bench = Bench::new(Limits::NONE, &[VolumeLimits { per_client, ..bytes_limit(50 * MIB) }]);
    bench.load(Load::new(0, 1, 32, 65_536));
    bench.load(Load::new(0, 2, 4, 65_536));
    bench.load(Load::new(0, 3, 32, 65_536).active(3 * SECOND..u64::MAX));
    bench.run_until(6 * SECOND);
    let of = |which: usize, time| bench.rate(time, |load, _| load == which) / MIB as f64;
    assert_near(of(0, SECOND..3 * SECOND), 20.0, 0.02, "a client alone with its limit");
    assert_near(of(1, SECOND..3 * SECOND), 20.0, 0.02, "the other");
    for which in 0..3 {
        assert_near(of(which, 4 * SECOND..6 * SECOND), 50.0 / 3.0, 0.03, "the volume's limit binds");
    }
}

#[test]
fn each_client_may_be_limited_over_all_volumes_of_a_pool() {
    let per_client = Limits { read_bytes: rate(20 * MIB), ..Limits::NONE };
    let pool = PoolLimits { all: Limits { bytes: rate(50 * MIB), ..Limits::NONE }, per_client };
    let mut bench = Bench::new(pool, &[VolumeLimits::default(), bytes_limit(5 * MIB)]);
    bench.load(Load::new(0, 1, 32, 65_536));
    bench.load(Load::new(1, 1, 32, 65_536));
    bench.load(Load::new(0, 2, 8, 65_536).reading(0));
    bench.run_until(3 * SECOND);
    let of = |bench: &Bench, which: usize, time| bench.rate(time, |load, _| load == which) / MIB as f64;
    let time = SECOND..3 * SECOND;
    assert_near(of(&bench, 0, time.clone()) + of(&bench, 1, time.clone()), 20.0, 0.02, "both volumes");
    assert!(of(&bench, 1, time.clone()) > 4.0, "neither starves");
    assert_near(of(&bench, 2, time), 30.0, 0.02, "writes are not limited for each");
    let wider = Limits { read_bytes: rate(35 * MIB), ..Limits::NONE };
    bench.scheduler.set_limits(&PoolLimits { per_client: wider, ..pool }, Nanos(bench.now));
    bench.release();
    bench.run_until(5 * SECOND);
    let time = 3 * SECOND + SECOND / 10..5 * SECOND;
    assert!(of(&bench, 0, time.clone()) + of(&bench, 1, time) > 22.0, "a new limit holds for who waits");
}

#[test]
fn removed_volumes_leave_nothing_behind() {
    let mut scheduler: Scheduler<u32> = Scheduler::new(&PoolLimits::default(), Nanos(0));
    let client = Ipv4Addr::LOCALHOST.into();
    let demand = Demand::read(4096);
    let mut numbers = std::collections::HashSet::new();
    for round in 0..10_000 {
        let volume = scheduler.add(&bytes_limit(1), Nanos(0));
        assert!(numbers.insert(volume), "a number is given once");
        assert_eq!(scheduler.admit(volume, client, demand, Nanos(0)), Decision::Passed);
        scheduler.wait(volume, client, demand, round, Nanos(0)).unwrap();
        assert_eq!(scheduler.remove(volume).len(), 1);
        // Who still has the number of a removed volume does nothing to the one that has its slot.
        let next = scheduler.add(&bytes_limit(1), Nanos(0));
        assert!(scheduler.wait(volume, client, demand, round, Nanos(0)).is_err());
        scheduler.refund_unused(volume, client, demand, Transferred::default(), true, Nanos(0));
        assert!(scheduler.remove(volume).is_empty() && scheduler.throttled(next).1 == 0);
        scheduler.remove(next);
        numbers.insert(next);
    }
    assert_eq!(scheduler.slots(), 1);
}

#[test]
fn one_client_does_not_fill_the_queue_for_others() {
    let mut scheduler: Scheduler<u32> = Scheduler::new(&PoolLimits::default(), Nanos(0));
    let volume = scheduler.add(&bytes_limit(1), Nanos(0));
    let (greedy, modest) = (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into());
    let demand = Demand::read(1);
    while !scheduler.is_full(volume, greedy) {
        scheduler.wait(volume, greedy, demand, 0, Nanos(0)).unwrap();
    }
    assert!(!scheduler.is_full(volume, modest));
}

#[test]
fn clients_that_fill_the_queue_leave_room_for_those_that_have_little_in_it() {
    let mut scheduler: Scheduler<()> = Scheduler::new(&PoolLimits::default(), Nanos(0));
    let volume = scheduler.add(&bytes_limit(1), Nanos(0));
    let client = |number: u16| Client::from(Ipv4Addr::from_bits(number.into()));
    let mut fill = |client| {
        let fits = (0..).take_while(|_| {
            let fits = !scheduler.is_full(volume, client);
            if fits {
                scheduler.wait(volume, client, Demand::read(4096), (), Nanos(0)).unwrap();
            }
            fits
        });
        fits.count()
    };
    assert!((0..32).map(|greedy| fill(client(greedy))).sum::<usize>() > 40_000);
    for newcomer in 32..512 {
        assert!(fill(client(newcomer)) >= 16, "{newcomer}");
    }
    // A network of IPv6 has as much as an address of IPv4.
    let host = |network: u128, host: u128| Client::from(Ipv6Addr::from_bits(network << 64 | host));
    for network in 0..64 {
        let all: usize = (0..64).map(|number| fill(host(network, number))).sum();
        assert_eq!(all, 16, "{network}");
    }
    let all: usize = (512..4096).map(|more| fill(client(more))).sum();
    assert!(all < 1 << 14, "the reserve is bounded as well");
}

#[test]
fn a_new_limit_is_felt_at_once() {
    let mut bench = Bench::new(Limits::NONE, &[bytes_limit(10 * MIB)]);
    bench.load(Load::new(0, 1, 64, 65_536));
    bench.run_until(2 * SECOND);
    bench.scheduler.set_volume_limits(0, &bytes_limit(200 * MIB), Nanos(bench.now));
    bench.release();
    bench.run_until(4 * SECOND);
    bench.scheduler.set_volume_limits(0, &bytes_limit(20 * MIB), Nanos(bench.now));
    bench.release();
    bench.run_until(6 * SECOND);
    assert_near(bench.rate(2 * SECOND..4 * SECOND, |_, _| true), (200 * MIB) as f64, 0.02, "more");
    assert_near(
        bench.rate(4 * SECOND + SECOND / 10..6 * SECOND, |_, _| true),
        (20 * MIB) as f64,
        0.02,
        "less",
    );
    bench.scheduler.set_volume_limits(0, &VolumeLimits::default(), Nanos(bench.now));
    bench.release();
    assert_eq!(bench.scheduler.throttled(0).1, 0, "without a limit nobody waits");
}

#[test]
fn a_ceiling_follows_the_mix() {
    // 100 MiB/s if all is read, 25 if all is written, harmonic between.
    let time =
        |read: u64| (read * SECOND * 1000 / (100 * MIB) + (100 - read) * SECOND * 1000 / (25 * MIB)) / 100;
    let table: Vec<u64> = (0..=100).map(time).collect();
    let mix = Mix { picoseconds_per_byte: table.try_into().unwrap(), op_bytes_min: 4096 };
    for read in [100, 75, 50, 25, 0] {
        let limits = VolumeLimits { mix: Some(mix.clone().into()), ..VolumeLimits::default() };
        let mut bench = Bench::new(Limits::NONE, &[limits]);
        bench.load(Load::new(0, 1, 32, 8192).reading(read));
        bench.run_until(6 * SECOND);
        let share = f64::from(read) / 100.0;
        let wanted = 1.0 / (share / 100.0 + (1.0 - share) / 25.0);
        assert_near(
            bench.rate(SECOND..6 * SECOND, |_, _| true) / MIB as f64,
            wanted,
            0.02,
            &format!("{read} % read"),
        );
    }
}

#[test]
fn names_and_attributes_pass_where_only_bytes_are_limited() {
    let mut bench = Bench::new(Limits::NONE, &[bytes_limit(MIB)]);
    bench.load(Load::new(0, 1, 64, 65_536));
    bench.run_until(SECOND);
    let demand = Demand::OTHER;
    let moved = Transferred::default();
    let ticket = Ticket { load: 0, demand, since: bench.now, moved, is_gone: false };
    let client = Ipv4Addr::new(10, 0, 0, 9).into();
    let number = bench.scheduler.wait(0, client, demand, ticket, Nanos(bench.now)).unwrap();
    assert!(
        bench
            .scheduler
            .release(Nanos(bench.now), &|_| false)
            .passed
            .iter()
            .any(|(passed, _)| *passed == number)
    );
}

#[test]
fn demand_of_several_operations_counts_each() {
    let ops = Limits { ops: NonZeroU64::new(100), ..Limits::NONE };
    let mut bench = Bench::new(Limits::NONE, &[VolumeLimits { all: ops, ..VolumeLimits::default() }]);
    let fifty = (0..24).fold(Demand::NOTHING, |all, _| all.and(Demand::read(4096)).and(Demand::OTHER));
    let fifty = fifty.and(Demand::write(10)).and(Demand::list(20));
    let all = Demand { read_bytes: 24 * 4096 + 20, write_bytes: 10, reads: 24, writes: 1, others: 25 };
    assert_eq!(fifty, all);
    // Half a second's worth, of which a burst is there at once.
    let client: Client = Ipv4Addr::LOCALHOST.into();
    assert_eq!(bench.scheduler.admit(0, client, fifty, Nanos(SECOND)), Decision::Owing);
    let (demand, moved) = (Demand::OTHER, Transferred::default());
    let ticket = Ticket { load: 0, demand, since: SECOND, moved, is_gone: false };
    bench.scheduler.wait(0, client, demand, ticket, Nanos(SECOND)).unwrap();
    let mut passed =
        |at| !bench.scheduler.release(Nanos(SECOND + at * SECOND / 1000), &|_| false).passed.is_empty();
    assert!((0..440).step_by(10).all(|at| !passed(at)));
    assert!((440..460).step_by(10).any(passed));
}

#[test]
fn each_limit_is_charged_and_refunded_for_its_own_component() {
    let client = Ipv4Addr::LOCALHOST.into();
    let all = Limits { read_bytes: rate(MIB), write_bytes: rate(1000 * MIB), ..Limits::NONE };
    let mut bench = Bench::new(Limits::NONE, &[VolumeLimits { all, ..VolumeLimits::default() }]);
    let scheduler = &mut bench.scheduler;
    let both = Demand::read(4096).and(Demand::write(4096));
    // A burst, and a little more.
    let calls = 13;
    assert!((0..calls).all(|_| scheduler.admit(0, client, both, Nanos(SECOND)) == Decision::Passed));
    assert_eq!(
        scheduler.admit(0, client, Demand::read(1), Nanos(SECOND)),
        Decision::Refused,
        "it has read as well"
    );
    assert_eq!(scheduler.admit(0, client, Demand::write(1), Nanos(SECOND)), Decision::Passed);
    // The WRITEs have failed: the READs are not paid back for it.
    let moved = Transferred { read: 4096, written: 0 };
    (0..calls).for_each(|_| scheduler.refund_unused(0, client, both, moved, false, Nanos(SECOND)));
    assert_eq!(scheduler.admit(0, client, Demand::read(1), Nanos(SECOND)), Decision::Refused);
    assert_eq!(scheduler.admit(0, client, Demand::list(0), Nanos(SECOND)), Decision::Passed);
    // More than was asked for is a debt.
    scheduler.refund_unused(0, client, Demand::list(0), Transferred::read(1 << 20), false, Nanos(2 * SECOND));
    assert_eq!(
        scheduler.admit(0, client, Demand::read(1), Nanos(2 * SECOND + SECOND / 2)),
        Decision::Refused
    );
    assert_eq!(scheduler.admit(0, client, Demand::read(1), Nanos(3 * SECOND + SECOND / 2)), Decision::Passed);
}

#[test]
fn demand_that_moves_less_than_it_may_costs_no_more_of_its_share() {
    let mut bench = Bench::new(Limits::NONE, &[bytes_limit(100 * MIB)]);
    bench.load(Load::new(0, 1, 16, 65_536));
    // Listings whose clients have room for much more than there is.
    let listing =
        Trick { demand: Demand::list(1 << 20), moved: Transferred::read(65_536), is_dropped: false };
    bench.load(Load { tricks: vec![listing], ..Load::new(0, 2, 64, 0) });
    bench.run_until(6 * SECOND);
    let shares = [0, 1].map(|of| bench.rate(SECOND..6 * SECOND, |load, _| load == of));
    assert!(jain(&shares) >= 0.98, "{shares:?}");
}

/// Large demands of 40 clients in one volume or in 40: no window exceeds the limit, and none is below its share.
fn assert_large_demands_pass_in_turn(what: &str, limit: u64, pool: PoolLimits, volumes: &[VolumeLimits]) {
    let window = 5 * SECOND;
    let mut bench = Bench::new(pool, volumes);
    for client in 1..=40 {
        let volume = usize::from(client - 1).min(volumes.len() - 1);
        bench.load(Load::new(volume, client, 1 + u32::from(client % 2), 1 << 20));
    }
    bench.run_until(60 * SECOND);
    for start in (0..110).map(|half| half * SECOND / 2) {
        let got = bench.rate(start..start + window, |_, _| true) * window as f64 / SECOND as f64;
        let allowed = 1.05 * (5 * limit) as f64 + MIB as f64;
        assert!(got <= allowed, "{what}: {got} of {allowed} bytes from {start} ns");
    }
    let all = bench.rate(0..60 * SECOND, |_, _| true);
    assert!(all >= 0.95 * limit as f64, "{what}: {all} of {limit}");
    let each: Vec<f64> = (0..40).map(|of| bench.rate(0..60 * SECOND, |load, _| load == of)).collect();
    assert!(jain(&each) >= 0.95, "{what}: {each:?}");
}

#[test]
fn large_demands_of_many_clients_pass_one_after_the_other() {
    let limit = 4 * MIB;
    let (own, pool) = (bytes_limit(limit), PoolLimits::from(bytes_limit(limit).all));
    let assert = |what, pool, volumes: &[VolumeLimits]| {
        assert_large_demands_pass_in_turn(what, limit, pool, volumes);
    };
    assert("a volume", PoolLimits::default(), slice::from_ref(&own));
    assert("a pool's volume", pool, &[VolumeLimits::default()]);
    assert("volumes of a pool", pool, &vec![VolumeLimits::default(); 40]);
    let mix = Mix { picoseconds_per_byte: [1000 * SECOND / limit; 101], op_bytes_min: 4096 };
    let ceiling = VolumeLimits { mix: Some(mix.into()), ..VolumeLimits::default() };
    assert("a volume with a ceiling", PoolLimits::default(), &[ceiling]);
    // What takes turns because of smaller limits cannot use all of the larger one by itself.
    for smaller in [MIB / 5, MIB, 2 * MIB] {
        let smaller = bytes_limit(smaller);
        assert("limited volumes of a pool", pool, &vec![smaller.clone(); 40]);
        let per_client = smaller.all;
        let clients = VolumeLimits { per_client, ..own.clone() };
        assert("limited clients of a volume", PoolLimits::default(), &[clients]);
        assert("limited clients of a pool", PoolLimits { per_client, ..pool }, &[VolumeLimits::default()]);
    }
}

#[test]
fn demands_that_move_nothing_leave_others_their_share() {
    for (limit, bytes) in [(8 * MIB, 1 << 20), (8 * MIB, 2 << 20), (MIB, 1 << 20), (64 * MIB, 1 << 20)] {
        for in_flight in [1, 4] {
            // One in which the volume's limit binds, and one in which the pool's does.
            let own = (PoolLimits::default(), [bytes_limit(limit), VolumeLimits::default()], 0);
            let shared =
                (bytes_limit(limit).all.into(), [VolumeLimits::default(), VolumeLimits::default()], 1);
            for (pool, volumes, volume) in [own, shared] {
                let mut bench = Bench::new(pool, &volumes);
                let fair = bench.load(Load::new(0, 2, in_flight, 65_536));
                // Reads behind the end of a file.
                let trick =
                    Trick { demand: Demand::read(bytes), moved: Transferred::default(), is_dropped: false };
                bench.load(Load { tricks: vec![trick], ..Load::new(volume, 1, 8, 0) });
                bench.run_until(21 * SECOND);
                let got = bench.rate(SECOND..21 * SECOND, |load, _| load == fair) / limit as f64;
                assert!(got >= 0.475, "{bytes} at {limit}, {in_flight} in flight: {got:.3} of the limit");
            }
        }
    }
}

#[test]
fn waiters_of_a_removed_volume_return_in_order() {
    let mut bench = Bench::new(Limits::NONE, &[bytes_limit(MIB)]);
    bench.load(Load::new(0, 1, 8, 1 << 20));
    bench.load(Load::new(0, 2, 8, 1 << 20));
    bench.run_until(SECOND / 10);
    let numbers: Vec<u64> = bench.scheduler.remove(0).iter().map(|waiting| waiting.number).collect();
    assert!(numbers.len() > 10 && numbers.is_sorted(), "{numbers:?}");
    assert!(bench.scheduler.release(Nanos(10 * SECOND), &|_| false).passed.is_empty());
    let admission = bench.scheduler.admit(0, Ipv4Addr::LOCALHOST.into(), Demand::read(1), Nanos(0));
    assert_eq!(admission, Decision::Passed);
}

/// Notes that its turn came, or fails at it.
struct Turn {
    fails: bool,
    came: std::sync::mpsc::Sender<()>,
}

impl Waiter for Turn {
    fn pass(self: Box<Self>) {
        assert!(!self.fails, "the panic that a test wants");
        self.came.send(()).unwrap();
    }
}

#[test]
fn a_panic_at_one_turn_takes_no_other() {
    let gate = Arbiter::new(&PoolLimits::default(), &Pacer::start().unwrap()).gate(bytes_limit(MIB));
    let client = Ipv4Addr::LOCALHOST.into();
    let demand = Demand::read(64 << 10);
    let caught = crate::panics::caught();
    while gate.admit(client, demand) {}
    let (came, turns) = std::sync::mpsc::channel();
    for fails in [true, false, true, false] {
        assert_eq!(
            gate.wait(client, demand, Box::new(Turn { fails, came: came.clone() })),
            QueueResult::Queued
        );
    }
    for _ in 0..2 {
        turns.recv_timeout(std::time::Duration::from_secs(10)).expect("a turn behind one that failed");
    }
    assert!(crate::panics::caught() >= caught + 2);
}

//! Whatever a client does, it gets what its limits say and no more, and leaves others theirs.

use super::*;
use proptest::prelude::*;

const LIMIT: u64 = 64 * MIB;
const OPS: u64 = 4000;
const TIME: u64 = 2 * SECOND;

/// Compounds that mix operations of all kinds, and move any part of what they ask for, or more.
fn trick() -> impl Strategy<Value = Trick> {
    let bytes = || prop_oneof![Just(0), Just(1), Just(4096), Just(1 << 20), 0..=(1u32 << 20)];
    let part = || prop_oneof![Just(0), Just(1000), 0..=1000u32];
    let operations = (0..3u32, 0..3u32, 0..3u32);
    (operations, bytes(), bytes(), part(), part(), proptest::bool::weighted(0.3)).prop_map(
        |((reads, writes, others), read_bytes, write_bytes, read, written, is_dropped)| {
            let read_bytes = if reads + others == 0 { 0 } else { read_bytes };
            let write_bytes = if writes + others == 0 { 0 } else { write_bytes };
            let others = if reads + writes == 0 { others.max(1) } else { others };
            let of = |bytes: u32, part| bytes / 1000 * part + bytes % 1000 * part / 1000;
            let moved = Transferred { read: of(read_bytes, read), written: of(write_bytes, written) };
            Trick { demand: Demand { read_bytes, write_bytes, reads, writes, others }, moved, is_dropped }
        },
    )
}

fn tricks() -> impl Strategy<Value = Vec<Trick>> {
    proptest::collection::vec(trick(), 1..40)
}

fn tricky(volume: usize, client: u8, in_flight: u32, tricks: &[Trick]) -> Load {
    Load { tricks: tricks.to_vec(), ..Load::new(volume, client, in_flight, 0) }
}

/// A call more than the limit may have passed at the beginning, and what an idle time earns.
fn assert_within(got: f64, limit: u64, of_call: u64) -> Result<(), TestCaseError> {
    let allowed = limit as f64 * 1.05 + of_call as f64 * SECOND as f64 / TIME as f64;
    prop_assert!(got <= allowed, "{:.3} times the limit", got / limit as f64);
    Ok(())
}

/// The limits that a volume or a client can have, of each component.
fn limits(bytes: u64, ops: u64) -> Limits {
    Limits {
        bytes: rate(bytes),
        read_bytes: rate(bytes / 2),
        write_bytes: rate(bytes / 4),
        ops: rate(ops),
        read_ops: rate(ops / 2),
        write_ops: rate(ops / 4),
        write_op_milli: 1000,
    }
}

/// Checks that the loads that `counts` keep to all limits.
fn keep(bench: &Bench, limits: &Limits, counts: impl Fn(usize) -> bool) -> Result<(), TestCaseError> {
    let sum = |count: fn(Demand, Transferred) -> u64| {
        bench.sum(0..TIME, |load, demand, moved| if counts(load) { count(demand, moved) } else { 0 })
    };
    let read = |_, moved: Transferred| u64::from(moved.read);
    let written = |_, moved: Transferred| u64::from(moved.written);
    let operations =
        |demand: Demand, _| u64::from(demand.reads) + u64::from(demand.writes) + u64::from(demand.others);
    let all = [
        (limits.bytes, sum(read) + sum(written), 2 * MIB),
        (limits.read_bytes, sum(read), MIB),
        (limits.write_bytes, sum(written), MIB),
        (limits.ops, sum(operations), 6),
        (limits.read_ops, sum(|demand, _| u64::from(demand.reads)), 2),
        (limits.write_ops, sum(|demand, _| u64::from(demand.writes)), 2),
    ];
    for (limit, got, of_call) in all {
        if let Some(limit) = limit {
            assert_within(got, limit.get(), of_call)?;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn nobody_gets_more_than_the_volume_the_pool_or_the_client_may(
        one in tricks(), two in tricks(), in_flight in 1..24u32,
    ) {
        let pool = PoolLimits { all: limits(LIMIT, OPS), per_client: limits(LIMIT / 4, OPS / 4) };
        let volume = limits(LIMIT / 2, OPS / 2);
        let limited = VolumeLimits { all: volume, ..VolumeLimits::default() };
        let mut bench = Bench::new(pool, &[limited, VolumeLimits::default()]);
        for (volume, client, tricks) in [(0, 1, &one), (0, 2, &two), (1, 1, &two), (1, 3, &one)] {
            bench.load(tricky(volume, client, in_flight, tricks));
        }
        bench.run_until(TIME);
        keep(&bench, &pool.all, |_| true)?;
        keep(&bench, &volume, |load| load < 2)?;
        keep(&bench, &pool.per_client, |load| matches!(load, 0 | 2))?;
    }

    #[test]
    fn fair_client_gets_its_half(tricks in tricks(), in_flight in 1..24u32) {
        let mut bench = Bench::new(Limits::NONE, &[bytes_limit(LIMIT)]);
        let fair = bench.load(Load::new(0, 1, 16, 65_536).reading(50));
        bench.load(tricky(0, 2, in_flight, &tricks));
        bench.run_until(TIME);
        let got = bench.rate(SECOND / 4..TIME, |load, _| load == fair);
        prop_assert!(got >= 0.475 * LIMIT as f64, "{:.3} of the limit", got / LIMIT as f64);
    }
}

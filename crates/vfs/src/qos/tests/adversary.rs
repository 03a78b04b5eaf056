//! Whatever a client does, it gets what its limits say and no more, and leaves others theirs.

use super::*;
use proptest::prelude::*;

const LIMIT: u64 = 64 * MIB;
const TIME: u64 = 2 * SECOND;

fn trick() -> impl Strategy<Value = Trick> {
    let kind = prop_oneof![Just(Kind::Read), Just(Kind::Write), Just(Kind::Other)];
    let bytes = prop_oneof![Just(0), Just(1), Just(4096), Just(1 << 20), 0..=(1u32 << 20)];
    (kind, bytes, prop_oneof![Just(0), Just(1000), 0..=1000u32], proptest::bool::weighted(0.3)).prop_map(
        |(kind, bytes, part, is_dropped)| {
            let bytes = if kind == Kind::Other { 0 } else { bytes };
            let used = bytes / 1000 * part + bytes % 1000 * part / 1000;
            Trick { kind, bytes, used, is_dropped }
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
fn assert_within(got: f64, limit: u64) -> Result<(), TestCaseError> {
    let allowed = limit as f64 * 1.05 + MIB as f64 * SECOND as f64 / TIME as f64;
    prop_assert!(got <= allowed, "{:.3} times the limit", got / limit as f64);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn nobody_gets_more_than_the_volume_the_pool_or_the_client_may(
        one in tricks(), two in tricks(), in_flight in 1..24u32,
    ) {
        let read_bytes = rate(LIMIT / 4);
        let pool = PoolLimits {
            all: Limits { bytes: rate(LIMIT), ..Limits::NONE },
            per_client: Limits { read_bytes, ..Limits::NONE },
        };
        let volume = bytes_limit(LIMIT / 2);
        let mut bench = Bench::new(pool, &[volume, VolumeLimits::default()]);
        for (volume, client, tricks) in [(0, 1, &one), (0, 2, &two), (1, 1, &two), (1, 3, &one)] {
            bench.load(tricky(volume, client, in_flight, tricks));
        }
        bench.run_until(TIME);
        assert_within(bench.rate(0..TIME, |_, _| true), LIMIT)?;
        assert_within(bench.rate(0..TIME, |load, _| load < 2), LIMIT / 2)?;
        let of_one = |load: usize, kind| kind == Kind::Read && matches!(load, 0 | 2);
        assert_within(bench.rate(0..TIME, of_one), LIMIT / 4)?;
    }

    #[test]
    fn who_plays_fair_gets_its_half(tricks in tricks(), in_flight in 1..24u32) {
        let mut bench = Bench::new(Limits::NONE, &[bytes_limit(LIMIT)]);
        let fair = bench.load(Load::new(0, 1, 16, 65_536).reading(50));
        bench.load(tricky(0, 2, in_flight, &tricks));
        bench.run_until(TIME);
        let got = bench.rate(SECOND / 4..TIME, |load, _| load == fair);
        prop_assert!(got >= 0.45 * LIMIT as f64, "{:.3} of the limit", got / LIMIT as f64);
    }
}

use super::*;
use crate::document::sample::Sample;
use crate::result::{Caveat, CaveatKind, Summary};
use crate::scenario::{Cache, Depth, Point, Scenario, Series};

/// Five mixes and two depths: ten cells.
fn scenario() -> Scenario {
    let series = Series {
        name: "8 KiB random".to_owned(),
        reads: vec![100, 75, 50, 25, 0],
        depths: Depth::Fixed(vec![4, 16]),
        ..Series::default()
    };
    Scenario {
        name: "s".into(),
        title: "S".into(),
        about: String::new(),
        page: None,
        series: vec![series],
        pairs: Vec::new(),
    }
}

fn run(seed: u64, noise: f64, factor: f64) -> Run {
    let model = |_: &Series, point: &Point| {
        let rate = 1000.0 * point.depth as f64 + 40.0 * f64::from(point.read_percent);
        (rate, (point.depth * 8) as f64 / rate * 1e3)
    };
    Sample { seed, noise, factor, repetitions: 3, seconds: 5 }.run(scenario(), &model)
}

fn verdicts(comparison: &Comparison, figure: Figure) -> Vec<Verdict> {
    comparison.rows.iter().filter(|row| row.figure == figure).map(|row| row.verdict).collect()
}

#[test]
fn loss_of_a_tenth_is_worse() {
    let comparison = compare(&run(1, 0.01, 1.0), &run(2, 0.01, 0.9), None, 0.03);
    assert_eq!(comparison.verdict, Verdict::Worse);
    assert_eq!(verdicts(&comparison, Figure::Iops), [Verdict::Worse; 10], "{}", comparison.markdown());
    assert!(verdicts(&comparison, Figure::P99Ms).iter().all(|one| *one == Verdict::Worse));
    for row in comparison.rows.iter().filter(|row| row.figure == Figure::Iops) {
        let [low, high] = row.interval.unwrap();
        assert!(low < 0.9 + 0.02 && high > 0.9 - 0.02 && high < 1.0, "{row:?}");
        assert!((row.ratio.unwrap() - 0.9).abs() < 0.03, "{row:?}");
    }
    let gain = compare(&run(1, 0.01, 1.0), &run(2, 0.01, 1.1), None, 0.03);
    assert_eq!(gain.verdict, Verdict::Better);
}

#[test]
fn noise_is_rarely_a_change() {
    for noise in [0.005, 0.02, 0.05] {
        let pairs = (0..40).map(|pair| (run(2 * pair + 10, noise, 1.0), run(2 * pair + 11, noise, 1.0)));
        let changed = pairs.filter(|(a, b)| {
            let comparison = compare(a, b, None, 0.03);
            comparison.rows.iter().any(|row| matches!(row.verdict, Verdict::Better | Verdict::Worse))
        });
        let changed = changed.count();
        // Of 40 pairs with 20 figures each.
        assert!(changed <= 5, "{changed} of 40 pairs at {noise}");
    }
}

#[test]
fn loss_of_a_tenth_is_found_in_noise_of_two_percent() {
    let comparison = (0..30).filter(|pair| {
        let comparison = compare(&run(2 * pair + 10, 0.02, 1.0), &run(2 * pair + 11, 0.02, 0.9), None, 0.03);
        comparison.verdict == Verdict::Worse
    });
    assert!(comparison.count() >= 29);
}

#[test]
fn single_repetition_needs_aa_pair() {
    let single = |seed, factor| {
        let mut run = run(seed, 0.01, factor);
        for cell in &mut run.cells {
            cell.measurements.truncate(1);
            cell.summary = Summary::of(&cell.measurements);
        }
        run
    };
    let (a, again, b) = (single(1, 1.0), single(2, 1.0), single(3, 0.8));
    let alone = compare(&a, &b, None, 0.03);
    assert_eq!(alone.verdict, Verdict::NotComparable);
    assert!(alone.rows[0].why.as_ref().unwrap().contains("A/A pair"), "{:?}", alone.rows[0]);
    assert_eq!(compare(&a, &b, Some(&again), 0.03).verdict, Verdict::Worse);
    assert_eq!(compare(&a, &single(4, 1.0), Some(&again), 0.03).verdict, Verdict::Same);
}

#[test]
fn aa_pair_raises_noise_floor() {
    // Repetitions within a run agree, but runs differ by 4 %.
    let (a, again, b) = (run(1, 0.002, 1.0), run(2, 0.002, 1.04), run(3, 0.002, 0.92));
    assert_eq!(compare(&a, &b, None, 0.03).verdict, Verdict::Worse);
    assert_eq!(compare(&a, &b, Some(&again), 0.03).verdict, Verdict::Same);
}

#[test]
fn different_setups_are_not_compared() {
    let a = run(1, 0.01, 1.0);
    let why = |change: &dyn Fn(&mut Run)| {
        let mut b = run(2, 0.01, 0.5);
        change(&mut b);
        let comparison = compare(&a, &b, None, 0.03);
        let row = comparison.rows.into_iter().find(|row| row.verdict == Verdict::NotComparable).unwrap();
        row.why.unwrap()
    };
    for (change, text) in [
        (
            &(|run: &mut Run| run.target.co_located = true) as &dyn Fn(&mut Run),
            "hosts of their own against co-located",
        ),
        (&|run| run.target.generator = "fio-3.33".into(), "built-in NFSv3 client against fio-3.33"),
        (
            &|run| run.scenario.series[0].stability = crate::scenario::Stability::FileSync,
            "stability unstable against",
        ),
        (&|run| run.scenario.series[0].cache = Cache::Warm, "cache any against warm"),
        (&|run| run.scenario.series[0].rate = Some(900.0), "rate without limit against 900/s"),
        (&|run| run.cells.iter_mut().for_each(|cell| cell.point.block = 4096), "8 KiB against 4 KiB"),
        (&|run| run.cells[3].caveats.push(Caveat::new(CaveatKind::Void, "x")), "void in B"),
        (
            &|run| run.cells[3].caveats.push(Caveat::new(CaveatKind::CacheMixed, "x")),
            "the cache was mixed in B",
        ),
        (&|run| run.scenario.series[0].name = "other".into(), "B has no such series"),
        (&|run| run.cells.clear(), "B ended before this series"),
    ] {
        let comparison = why(change);
        assert!(comparison.contains(text), "{comparison:?} instead of {text:?}");
    }
}

#[test]
fn unmatched_cell_is_not_comparable_unless_another_is_worse() {
    let (a, mut same, mut worse) = (run(1, 0.01, 1.0), run(2, 0.01, 1.0), run(2, 0.01, 0.8));
    same.cells.truncate(9);
    worse.cells.truncate(9);
    assert_eq!(compare(&a, &same, None, 0.03).verdict, Verdict::NotComparable);
    assert_eq!(compare(&a, &worse, None, 0.03).verdict, Verdict::Worse);
}

#[test]
fn excessive_noise_is_not_comparable() {
    let comparison = compare(&run(1, 0.2, 1.0), &run(2, 0.2, 1.0), None, 0.03);
    assert_eq!(comparison.verdict, Verdict::NotComparable);
    assert!(
        comparison.rows[0].why.as_ref().unwrap().starts_with("chance alone could make"),
        "{:?}",
        comparison.rows[0]
    );
}

#[test]
fn searched_depths_may_differ_without_comparing_latencies() {
    let searched = |depth| {
        let mut run = run(1, 0.01, 1.0);
        run.scenario.series[0].depths = Depth::Search(crate::scenario::Search::Search);
        run.cells.retain(|cell| cell.point.depth == 16);
        run.cells.iter_mut().for_each(|cell| cell.point.depth = depth);
        run
    };
    let comparison = compare(&searched(16), &searched(32), None, 0.03);
    assert_eq!(verdicts(&comparison, Figure::Iops), [Verdict::Same; 5]);
    assert_eq!(verdicts(&comparison, Figure::P99Ms), [Verdict::NotComparable; 5]);
    assert_eq!(comparison.verdict, Verdict::Same, "latencies alone leave nothing undecided");
}

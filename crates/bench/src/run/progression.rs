//! The time that a run still takes: estimated from its plan, and corrected by each window that ends.

use std::time::Duration;

use report::result::{Limits, Run};
use report::scenario::{Point, Series, Work};

use super::{Count, Phase, RunRequest, working_sets};
use crate::eda::search::STEPS;

/// Guess of the points of a load curve: its steps, and points between them.
const CURVE_POINTS: u32 = STEPS + 3;
/// Guess of the probes of one search.
const PROBES: f64 = 6.0;
/// Between windows: connecting, and the start of the load.
const OVERHEAD_S: f64 = 0.5;
/// Guess of the rate of filling files, in bytes a second, for a target without known limits.
const FILL_RATE: f64 = 200e6;

/// The cost of a run, known before it starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunPlan {
    /// Windows with a result, over all targets. An estimate if a load curve determines its points.
    pub measurements: u32,
    pub is_estimate: bool,
    /// Searches for the number of calls in flight, or for the largest load of a curve.
    pub searches: u32,
    /// With warm-up, filling and searches.
    pub duration: Duration,
    /// Size of all files, which are filled before the first measurement that uses them.
    pub file_bytes: u64,
    /// Time of measurements and probes with writes.
    pub writing: Duration,
    /// Bound of the bytes that they write. `None` if neither a rate nor a limit bounds a series.
    pub written: Option<Written>,
}

/// A bound of the bytes that a run writes while it measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Written {
    pub bytes: f64,
    /// Whether the rates of the scenario are the bound everywhere, and not the limits of the volume.
    pub at_rates: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WindowKind {
    /// Part of a search.
    Probe,
    Point,
    /// A point of a load curve.
    CurvePoint,
}

/// A mean that begins with a guess.
#[derive(Clone, Copy, Debug)]
struct Mean {
    sum: f64,
    count: f64,
    guess: f64,
}

impl Mean {
    fn new(guess: f64) -> Self {
        Self { sum: 0.0, count: 0.0, guess }
    }

    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1.0;
    }

    fn get(self) -> f64 {
        if self.count > 0.0 { self.sum / self.count } else { self.guess }
    }
}

/// The running window. Moments are seconds since the run's start.
#[derive(Clone, Copy, Debug)]
struct Window {
    kind: WindowKind,
    began: f64,
    /// Bytes to fill before it starts.
    bytes: f64,
    filled_share: f64,
    filled_at: Option<f64>,
}

#[derive(Debug)]
pub(super) struct Progression {
    done: u32,
    planned: u32,
    /// Windows that have not begun, without probes.
    points_left: u32,
    curve_points_left: u32,
    /// Searches that have not begun.
    searches_left: u32,
    /// Probes of the current search.
    probes: Option<u32>,
    probes_of_search: Mean,
    lengths: [Mean; 3],
    /// Bytes to fill for each series on each arm.
    unfilled: Vec<Vec<u64>>,
    fill_rate: Mean,
    current: Option<Window>,
    plan: RunPlan,
}

impl Progression {
    pub(super) fn new(request: &RunRequest, runs: &[Run]) -> Self {
        let thoroughness = &request.thoroughness;
        let (arms, all) = (runs.len(), &request.scenario.series);
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let curves = |series: &&Series| series.is_curve();
        let curves_all = count(all.iter().filter(curves).map(|one| one.points().len() * arms).sum());
        let points = count(all.iter().filter(|one| !one.is_curve()).map(|one| one.points().len()).sum());
        let points_left = points.saturating_mul(thoroughness.repetitions).saturating_mul(count(arms));
        let of_series = |series: &Series| match thoroughness.searches_each_point {
            _ if !series.is_searched() => 0,
            true => series.points().len(),
            false => 1,
        };
        let searches_left = count(all.iter().map(of_series).sum()).saturating_add(curves_all);
        let length = |warm_up: u64, time: u64| Mean::new((warm_up + time) as f64 + OVERHEAD_S);
        let planned = points_left.saturating_add(curves_all * CURVE_POINTS);
        let limit = runs.first().and_then(|run| run.target.volume.as_ref()?.limits.bytes_per_s);
        let mut progression = Self {
            done: 0,
            planned,
            points_left,
            curve_points_left: curves_all * CURVE_POINTS,
            searches_left,
            probes: None,
            probes_of_search: Mean::new(PROBES),
            lengths: [
                length(thoroughness.probe.0, thoroughness.probe.1),
                length(thoroughness.warm_up_min, thoroughness.time),
                length(thoroughness.curve.0, thoroughness.curve.1),
            ],
            unfilled: runs.iter().map(|run| unfilled(request, run)).collect(),
            fill_rate: Mean::new(limit.map_or(FILL_RATE, |limit| FILL_RATE.min(limit as f64))),
            current: None,
            plan: RunPlan {
                measurements: planned,
                is_estimate: curves_all > 0,
                searches: searches_left,
                duration: Duration::ZERO,
                file_bytes: 0,
                writing: Duration::ZERO,
                written: None,
            },
        };
        progression.plan.duration = Duration::from_secs_f64(progression.rest(0.0));
        progression.plan.file_bytes = progression.unfilled.iter().flatten().sum();
        let limits = runs.first().and_then(|run| Some(run.target.volume.as_ref()?.limits));
        let writing = progression.writing(request, count(arms));
        progression.plan.writing =
            Duration::from_secs_f64(writing.iter().map(|(_, _, seconds)| seconds).sum());
        progression.plan.written = written(&writing, &limits.unwrap_or_default());
        progression
    }

    pub(super) fn plan(&self) -> RunPlan {
        self.plan
    }

    /// The points with writes, and the seconds of each over all repetitions.
    fn writing<'r>(&self, request: &'r RunRequest, arms: u32) -> Vec<(&'r Series, Point, f64)> {
        let thoroughness = &request.thoroughness;
        let each = f64::from(thoroughness.repetitions) * f64::from(arms) * self.length(WindowKind::Point);
        let search = self.probes_of_search.get() * self.length(WindowKind::Probe);
        let mut all = Vec::new();
        for series in request.scenario.series.iter().filter(|series| series.work == Work::Transfers) {
            let is_searched = series.is_searched() && thoroughness.searches_each_point;
            let seconds = each + if is_searched { search } else { 0.0 };
            let points = series.points().into_iter().filter(|point| point.read_percent < 100);
            all.extend(points.map(|point| (series, point, seconds)));
        }
        all
    }

    pub(super) fn search_begins(&mut self) {
        self.searches_left = self.searches_left.saturating_sub(1);
        self.probes = Some(0);
    }

    pub(super) fn search_ends(&mut self) {
        if let Some(probes) = self.probes.take() {
            self.probes_of_search.add(f64::from(probes));
        }
    }

    /// The points of a curve end where the target does: the plan had a guess.
    pub(super) fn curve_ends(&mut self, measured: u32) {
        self.planned = (self.planned + measured).saturating_sub(CURVE_POINTS).max(self.done);
        self.curve_points_left = self.curve_points_left.saturating_sub(CURVE_POINTS.saturating_sub(measured));
    }

    pub(super) fn window_begins(&mut self, kind: WindowKind, arm: usize, series: usize, now: f64) {
        match kind {
            WindowKind::Probe => self.probes = self.probes.map(|probes| probes + 1),
            WindowKind::Point => self.points_left = self.points_left.saturating_sub(1),
            WindowKind::CurvePoint => self.curve_points_left = self.curve_points_left.saturating_sub(1),
        }
        let bytes = self.unfilled.get_mut(arm).and_then(|arm| arm.get_mut(series));
        let bytes = bytes.map_or(0, std::mem::take) as f64;
        self.current = Some(Window { kind, began: now, bytes, filled_share: 0.0, filled_at: None });
    }

    pub(super) fn phase(&mut self, phase: Phase, now: f64) {
        let Some(window) = &mut self.current else { return };
        match phase {
            Phase::Layout(layout) => window.filled_share = layout.done,
            Phase::WarmUp | Phase::Measuring(_) if window.filled_at.is_none() => {
                window.filled_at = Some(now);
                let took = now - window.began;
                // Files of an earlier run need no time at all, which says nothing about filling.
                if window.bytes > 0.0 && took > OVERHEAD_S {
                    self.fill_rate.add(window.bytes / took);
                }
            }
            Phase::WarmUp | Phase::Measuring(_) => {}
        }
    }

    pub(super) fn window_ends(&mut self, now: f64) {
        let Some(window) = self.current.take() else { return };
        let from = window.filled_at.unwrap_or(window.began);
        self.lengths[window.kind as usize].add(now - from);
        if window.kind != WindowKind::Probe {
            self.done += 1;
            self.planned = self.planned.max(self.done);
        }
    }

    pub(super) fn count(&self) -> Count {
        Count { done: self.done, planned: self.planned }
    }

    fn is_probe(&self) -> bool {
        self.current.is_some_and(|window| window.kind == WindowKind::Probe)
    }

    /// The share of the time that has passed, and the seconds that remain.
    pub(super) fn estimate(&self, now: f64) -> (f64, Duration) {
        let rest = self.rest(now);
        let share = if now + rest > 0.0 { now / (now + rest) } else { 0.0 };
        (share.clamp(0.0, 1.0), Duration::from_secs_f64(rest))
    }

    fn length(&self, kind: WindowKind) -> f64 {
        self.lengths[kind as usize].get()
    }

    fn rest(&self, now: f64) -> f64 {
        let probe = self.length(WindowKind::Probe);
        let searches = f64::from(self.searches_left) * self.probes_of_search.get() * probe;
        // A search that exceeds the guess has at least one more probe.
        let search = self.probes.map_or(0.0, |probes| {
            let begun = if self.is_probe() { probes } else { 0 };
            (self.probes_of_search.get() - f64::from(begun)).max(0.0) * probe
        });
        let points = f64::from(self.points_left) * self.length(WindowKind::Point)
            + f64::from(self.curve_points_left) * self.length(WindowKind::CurvePoint);
        let fill = self.unfilled.iter().flatten().sum::<u64>() as f64 / self.fill_rate.get();
        let current = self.current.map_or(0.0, |window| self.rest_of(window, now));
        searches + search + points + fill + current
    }

    fn rest_of(&self, window: Window, now: f64) -> f64 {
        let length = self.length(window.kind);
        let passed = now - window.began;
        match window.filled_at {
            Some(filled) => (length - (now - filled)).max(0.0),
            // Measured by what is filled, once that is more than noise.
            None if window.filled_share > 0.01 => {
                length + passed * (1.0 - window.filled_share).max(0.0) / window.filled_share
            }
            None => length + (window.bytes / self.fill_rate.get() - passed).max(0.0),
        }
    }
}

/// Series with files of the same size share them.
fn unfilled(request: &RunRequest, run: &Run) -> Vec<u64> {
    let sets = working_sets(request, run);
    let mut seen: Vec<u64> = Vec::new();
    let series = request.scenario.series.iter().enumerate();
    let bytes = |(index, series): (usize, &Series)| {
        let size = run.file_sizes.get(index).copied().unwrap_or(0);
        if series.work != Work::Transfers || seen.contains(&size) {
            return 0;
        }
        seen.push(size);
        sets.get(index).copied().unwrap_or(0)
    };
    series.map(bytes).collect()
}

fn written(writing: &[(&Series, Point, f64)], limits: &Limits) -> Option<Written> {
    let mut all = Written { bytes: 0.0, at_rates: true };
    for (series, point, seconds) in writing {
        let (block, share) = (point.block as f64, 1.0 - f64::from(point.read_percent) / 100.0);
        let least = |all: [Option<f64>; 4]| all.into_iter().flatten().reduce(f64::min);
        let limit = least([
            limits.bytes_per_s.map(|limit| limit as f64 * share),
            limits.write_bytes_per_s.map(|limit| limit as f64),
            limits.iops.map(|limit| limit as f64 * share * block),
            limits.write_iops.map(|limit| limit as f64 * block),
        ]);
        let rate = series.rate.map(|rate| rate * share * block);
        all.at_rates &= rate.is_some_and(|rate| limit.is_none_or(|limit| rate <= limit));
        all.bytes += least([limit, rate, None, None])? * seconds;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::LayoutProgress;
    use crate::run::Thoroughness;
    use report::result::{FORMAT, TargetFacts};
    use report::scenario::{Preset, Scenario};

    /// Two series of two points with 1 GiB of files in common. One is searched.
    fn progression(repetitions: u32) -> Progression {
        let scenario: Scenario =
            "name = \"a\"\ntitle = \"A\"\n[[series]]\nname = \"one\"\nreads = [100, 0]\n\
                                  [[series]]\nname = \"two\"\nreads = [100, 0]\ndepths = [4]\n"
                .parse()
                .unwrap();
        let thoroughness = Thoroughness { repetitions, ..Preset::Quick.into() };
        let request = RunRequest {
            scenario: scenario.clone(),
            preset: Preset::Quick,
            thoroughness,
            seed: 1,
            working_set_max: None,
        };
        let run = Run {
            format: FORMAT.to_owned(),
            version: String::new(),
            started: 0.0,
            finished: 0.0,
            ended_early: None,
            scenario,
            preset: Preset::Quick,
            seed: 1,
            target: TargetFacts::default(),
            machines: Vec::new(),
            file_sizes: vec![(1 << 30) / 8; 2],
            working_sets: Vec::new(),
            scaled: Vec::new(),
            cells: Vec::new(),
            verdict: None,
            caveats: Vec::new(),
        };
        Progression::new(&request, &[run])
    }

    #[test]
    fn plan_counts_warm_up_filling_and_search() {
        let plan = progression(3).plan();
        assert_eq!((plan.measurements, plan.searches, plan.is_estimate), (12, 1, false));
        assert_eq!(plan.file_bytes, 1 << 30);
        // 12 windows of 4.5 s, 6 probes of 2.5 s, 1 GiB at 200 MB/s.
        let expected = 12.0 * 4.5 + 6.0 * 2.5 + 1_073_741_824.0 / 200e6;
        assert!((plan.duration.as_secs_f64() - expected).abs() < 0.1, "{plan:?}");
        assert!((plan.writing.as_secs_f64() - 6.0 * 4.5).abs() < 0.1, "{plan:?}");
    }

    #[test]
    fn bytes_written_are_bounded_by_rates_and_limits() {
        let text = "name = \"a\"\ntitle = \"A\"\n[[series]]\nname = \"one\"\njobs = 1\ndepths = [1]\nblocks = [\"8k\"]\n\
                    reads = [70]\nrate = 500\n";
        let paced: Scenario = text.parse().unwrap();
        let free: Scenario = text.replace("rate = 500\n", "").parse().unwrap();
        let bound = |scenario: &Scenario, limits| {
            let series = &scenario.series[0];
            let point = series.points().remove(0);
            written(&[(series, point, 100.0)], &limits)
                .map(|written| (written.bytes.round(), written.at_rates))
        };
        let limits = |bytes: Option<u64>, iops| Limits { bytes_per_s: bytes, iops, ..Limits::default() };
        let of_rate = 500.0 * 0.3 * 8192.0 * 100.0;
        assert_eq!(bound(&paced, limits(None, None)), Some((of_rate, true)));
        assert_eq!(bound(&paced, limits(Some(1 << 30), Some(1000))), Some((of_rate, true)));
        assert_eq!(bound(&paced, limits(None, Some(50))), Some((of_rate / 10.0, false)));
        assert_eq!(bound(&free, limits(Some(1_000_000), None)), Some((30_000_000.0, false)));
        assert_eq!(bound(&free, limits(None, None)), None);
    }

    #[test]
    fn estimate_follows_measured_windows_and_ends_at_zero() {
        let mut all = progression(1);
        let mut now = 0.0;
        let rest = |all: &Progression, now: f64| all.estimate(now).1.as_secs_f64();
        all.search_begins();
        for probe in 0..3 {
            all.window_begins(WindowKind::Probe, 0, 0, now);
            if probe == 0 {
                // Filling is ten times as slow as the guess: half of it takes 27 s.
                all.phase(Phase::Layout(LayoutProgress::share(0.5)), now + 27.0);
                let left = rest(&all, now + 27.0);
                assert!((27.0..75.0).contains(&left), "{left}");
                now += 54.0;
            }
            all.phase(Phase::WarmUp, now);
            now += 2.0;
            all.window_ends(now);
        }
        all.search_ends();
        assert_eq!((all.done, all.planned), (0, 4));
        let before = rest(&all, now);
        assert!((before - 4.0 * 4.5).abs() < 0.1, "the second series has the same files: {before}");
        for _ in 0..4 {
            all.window_begins(WindowKind::Point, 0, 0, now);
            all.phase(Phase::WarmUp, now);
            now += 9.0;
            all.window_ends(now);
        }
        assert_eq!((all.done, rest(&all, now)), (4, 0.0));
        assert!((all.estimate(now).0 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn estimate_corrects_length_of_windows() {
        let mut all = progression(1);
        all.search_begins();
        all.search_ends();
        all.window_begins(WindowKind::Point, 0, 0, 0.0);
        all.phase(Phase::WarmUp, 0.0);
        all.window_ends(10.0);
        let left = all.estimate(10.0).1.as_secs_f64();
        assert!((left - 30.0).abs() < 0.1, "three more of 10 s: {left}");
    }
}

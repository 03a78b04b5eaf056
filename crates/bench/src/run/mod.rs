//! Running a scenario: every point several times, in a new random order each round.
//!
//! An [`Arm`] is a target with the generators of its load. One arm gives a [`Run`]; several arms are measured in turn,
//! point by point, for a comparison.

mod curve;
mod generator_group;
mod progression;
mod protocol;
mod search;
mod setup_match;
mod steady;
mod thoroughness;
mod validity;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use report::result::{Caveat, CaveatKind, Cell, FORMAT, Measurement, Run, Summary, Verdict};
use report::scenario::limits::BLOCK_MAX;
use report::scenario::{Point, Preset, Scenario, Series, Work};
use report::units::show_size;

use crate::eda::mix;
use crate::engine::built_in::SMALL_FILES;
use crate::error::Error;
use crate::job::{Job, Metadata};
use crate::observer::Observer;
use crate::pattern::Random;

use progression::{Progression, WindowKind};

pub use generator_group::{GeneratorGroup, Phase, PhaseStatus};
pub use progression::{RunPlan, Written};
pub use thoroughness::Thoroughness;

/// Sizes of data files are multiples of this, unless they are smaller.
const FILE_UNIT: u64 = 1 << 20;
/// A run ends after this many repetitions in a row without a result.
const FAILURES_MAX: usize = 3;

pub struct Arm {
    pub generators: GeneratorGroup,
    pub observer: Option<Box<dyn Observer>>,
}

#[derive(Clone, Debug)]
pub struct RunRequest {
    pub scenario: Scenario,
    pub preset: Preset,
    pub thoroughness: Thoroughness,
    pub seed: u64,
    pub working_set_max: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Progress<'a> {
    pub arm: usize,
    pub label: &'a str,
    /// Measurements that have ended.
    pub count: Count,
    /// Whether this is a probe of a search.
    pub is_probe: bool,
    /// Share of the time.
    pub done: f64,
    /// Estimated, until the end of the run.
    pub remaining: Duration,
    pub status: PhaseStatus,
}

/// Measurements of all arms that have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    pub done: u32,
    pub planned: u32,
}

/// A measurement that has just ended.
#[derive(Clone, Debug)]
pub struct Measured<'a> {
    pub arm: usize,
    pub label: &'a str,
    /// With this one.
    pub count: Count,
    pub measurement: &'a Measurement,
}

pub trait ProgressListener {
    /// Before anything is written to a target.
    fn planned(&mut self, _plan: &RunPlan) {}
    fn progress(&mut self, progress: &Progress<'_>);
    fn measured(&mut self, measured: &Measured<'_>);
}

/// Runs the scenario on every arm. `stop` ends the run early.
///
/// # Errors
/// The run cannot begin: a target is out of reach or read-only, or the scenario is impossible. The results
/// contain later faults.
pub fn run(
    request: &RunRequest,
    arms: &mut [Arm],
    stop: &AtomicBool,
    listener: &mut dyn ProgressListener,
) -> Result<Vec<Run>, Error> {
    let mut runs = Vec::new();
    for arm in &mut *arms {
        runs.push(new_run(request, arm)?);
    }
    let file_sizes: Vec<u64> =
        request.scenario.series.iter().map(|series| file_size(request, &runs, series)).collect();
    let scaled = scaled(request, &file_sizes);
    for run in &mut runs {
        (run.file_sizes, run.scaled) = (file_sizes.clone(), scaled.clone());
    }
    let progression = Progression::new(request, &runs);
    listener.planned(&progression.plan());
    let mut runner = Runner { request, arms, runs, stop, listener, progression, began: Instant::now() };
    let ended = runner.all_series();
    let mut runs = runner.runs;
    let is_valid = |cell: &Cell| cell.measurements.iter().any(Measurement::is_valid);
    let ended = match ended {
        // No point has a result, so the run has nothing but the denial to report.
        Err(denied @ Error::NoAccess { .. }) if !runs.iter().any(|run| run.cells.iter().any(is_valid)) => {
            return Err(denied);
        }
        ended => ended,
    };
    for run in &mut runs {
        run.finished = now();
        run.ended_early = ended.as_ref().err().map(ToString::to_string);
        run.working_sets = working_sets(request, run);
        validity::check_run(run);
        setup_match::check_setup(run);
        run.verdict = Verdict::of(run);
    }
    Ok(runs)
}

fn new_run(request: &RunRequest, arm: &mut Arm) -> Result<Run, Error> {
    if request.scenario.series.iter().any(|series| series.work == Work::EdaBlend) {
        arm.generators.check_clocks()?;
    }
    let mut target = arm.generators.facts()?;
    protocol::check(&request.scenario, &target)?;
    if let Some(observer) = &mut arm.observer {
        target.volume = Some(observer.facts()?);
    }
    Ok(Run {
        format: FORMAT.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: now(),
        finished: 0.0,
        ended_early: None,
        scenario: request.scenario.clone(),
        preset: request.preset,
        seed: request.seed,
        target,
        machines: arm.generators.machines(),
        file_sizes: Vec::new(),
        working_sets: Vec::new(),
        scaled: Vec::new(),
        cells: Vec::new(),
        verdict: None,
        caveats: Vec::new(),
    })
}

/// Bounded by the scenario, the space on every target, and the preset. 0 if the series has no such files.
fn file_size(request: &RunRequest, runs: &[Run], series: &Series) -> u64 {
    if series.work != Work::Transfers {
        return 0;
    }
    let room = runs.iter().filter_map(|run| run.target.free_bytes).map(|free| free / 2).min();
    let bounds =
        [Some(series.working_set), request.thoroughness.working_set_max, request.working_set_max, room];
    let all = bounds.into_iter().flatten().min().unwrap_or(0);
    let (each, block) = (all / series.jobs_max() as u64, block_max(series));
    // A multiple of every block size, and never zero.
    let unit = if each < FILE_UNIT { block } else { block.max(FILE_UNIT) };
    (each / unit).max(1) * unit
}

fn block_max(series: &Series) -> u64 {
    series.blocks.iter().copied().max().unwrap_or(1)
}

/// The least working set of the scenario: a block for each job of each series. `None` if no series has such files.
pub fn working_set_min(scenario: &Scenario) -> Option<u64> {
    let series = scenario.series.iter().filter(|series| series.work == Work::Transfers);
    series.map(|series| series.jobs_max() as u64 * block_max(series)).max()
}

fn working_sets(request: &RunRequest, run: &Run) -> Vec<u64> {
    let numbered = run.scenario.series.iter().enumerate();
    let series_bytes = |(index, series): (usize, &Series)| match series.work {
        Work::Metadata => 0,
        Work::Transfers => run.file_sizes.get(index).copied().unwrap_or(0) * series.jobs_max() as u64,
        Work::OpenRead => {
            SMALL_FILES * series.jobs_max() as u64 * series.blocks.iter().copied().max().unwrap_or(0)
        }
        Work::EdaBlend => {
            let cells = run.cells.iter().filter(|cell| cell.series == index);
            let most = cells.filter_map(|cell| cell.point.job_sets).max().unwrap_or(0);
            u64::from(most) * mix::bytes_per_set(request.thoroughness.file_scale_thousandths)
        }
    };
    numbered.map(series_bytes).collect()
}

/// Each deviation to a smaller size or a shorter time than the scenario or the method requires.
fn scaled(request: &RunRequest, file_sizes: &[u64]) -> Vec<String> {
    let mut scaled = request.thoroughness.deviations(&request.scenario);
    let mut sets: Vec<(String, Vec<&str>)> = Vec::new();
    for (series, file_size) in request.scenario.series.iter().zip(file_sizes) {
        let used = file_size * series.jobs_max() as u64;
        if used > 0 && used < series.working_set {
            let (has, wants) = (show_size(used), show_size(series.working_set));
            let text = format!("working set of {has} instead of {wants}");
            match sets.iter_mut().find(|(known, _)| *known == text) {
                Some((_, names)) => names.push(&series.name),
                None => sets.push((text, vec![&series.name])),
            }
        }
    }
    scaled.extend(sets.into_iter().map(|(text, names)| format!("{text} ({})", names.join(", "))));
    let scale = request.thoroughness.file_scale_thousandths;
    if scale < 1000 && request.scenario.series.iter().any(|series| series.work == Work::EdaBlend) {
        scaled.push(format!("{:.1} % of the files of a job set (file scale)", f64::from(scale) / 10.0));
    }
    scaled
}

struct Runner<'a> {
    request: &'a RunRequest,
    arms: &'a mut [Arm],
    runs: Vec<Run>,
    stop: &'a AtomicBool,
    listener: &'a mut dyn ProgressListener,
    progression: Progression,
    began: Instant,
}

impl Runner<'_> {
    fn all_series(&mut self) -> Result<(), Error> {
        let mut random = Random::new(self.request.seed);
        for (index, series) in self.request.scenario.series.iter().enumerate() {
            if series.is_curve() {
                self.curves(index, series)?;
                continue;
            }
            let points = self.with_depths(index, series)?;
            let mut failures = 0;
            for repetition in 0..self.request.thoroughness.repetitions {
                for at in shuffled(points.len(), &mut random) {
                    for arm in shuffled(self.arms.len(), &mut random) {
                        let measurement = self.measure(arm, series, &points[at], repetition)?;
                        failures = if measurement.is_valid() { 0 } else { failures + 1 };
                        // The cells of this series are the last; curves before it may have different points on
                        // each arm.
                        let cells = &mut self.runs[arm].cells;
                        let first = cells.len() - points.len();
                        let cell = &mut cells[first + at];
                        cell.measurements.push(measurement);
                        cell.summary = Summary::of(&cell.measurements);
                        cell.caveats = validity::cell_caveats(cell, &self.request.thoroughness);
                    }
                    // The count covers all arms, which alternate.
                    if failures >= FAILURES_MAX * self.arms.len() {
                        let text =
                            "several repetitions in a row had no result; see the errors of the last cells";
                        return Err(Error::Plan(text.to_owned()));
                    }
                }
            }
        }
        Ok(())
    }

    /// Creates the cells of a series, and searches for depths where needed.
    fn with_depths(&mut self, index: usize, series: &Series) -> Result<Vec<Point>, Error> {
        let mut points = series.points();
        let (mut found, mut probes) = (None, Vec::new());
        for point in &mut points {
            if series.is_searched() {
                // A quick run searches once, at the first point, which has the most reads.
                if found.is_none() || self.request.thoroughness.searches_each_point {
                    probes = self.search(series, point)?;
                    found = Some(search::best_depth(&probes));
                }
                // Every connection needs a call.
                point.depth = found.unwrap_or(1).max(point.connections.div_ceil(series.jobs));
            }
            let cell = Cell {
                series: index,
                point: point.clone(),
                search: std::mem::take(&mut probes),
                measurements: Vec::new(),
                summary: Summary::default(),
                caveats: Vec::new(),
            };
            self.runs.iter_mut().for_each(|run| run.cells.push(cell.clone()));
        }
        Ok(points)
    }

    /// Doubles the depth on the first arm until the rate stops rising.
    fn search(&mut self, series: &Series, point: &Point) -> Result<Vec<report::result::Probe>, Error> {
        let mut probes = Vec::new();
        self.progression.search_begins();
        while let Some(depth) = search::next(&probes, series, point) {
            let point = Point { depth, ..point.clone() };
            let measurement = self.measure_window(0, series, &point, 0, WindowKind::Probe)?;
            if !measurement.is_valid() {
                break;
            }
            probes.push(search::probe(depth, &measurement));
        }
        self.progression.search_ends();
        Ok(probes)
    }

    fn measure(
        &mut self,
        arm: usize,
        series: &Series,
        point: &Point,
        repetition: u32,
    ) -> Result<Measurement, Error> {
        let measurement = self.measure_window(arm, series, point, repetition, WindowKind::Point)?;
        self.announce(arm, series, point, &measurement);
        Ok(measurement)
    }

    fn announce(&mut self, arm: usize, series: &Series, point: &Point, measurement: &Measurement) {
        let label = series.label(point);
        let count = self.progression.count();
        self.listener.measured(&Measured { arm, label: &label, count, measurement });
    }

    fn times(&self, kind: WindowKind) -> (u64, u64, u64) {
        let all = &self.request.thoroughness;
        match kind {
            WindowKind::Probe => (all.probe.0, all.probe.0, all.probe.1),
            WindowKind::Point => (all.warm_up_min, all.warm_up_max, all.time),
            WindowKind::CurvePoint => (all.curve.0, all.curve.0, all.curve.1),
        }
    }

    /// An error gives a measurement without a result, except for a stop or a denied write.
    fn measure_window(
        &mut self,
        arm: usize,
        series: &Series,
        point: &Point,
        repetition: u32,
        kind: WindowKind,
    ) -> Result<Measurement, Error> {
        let times = self.times(kind);
        let job = self.job(series, point, repetition);
        let label = series.label(point);
        let Self { request, arms, stop, listener, progression, began, .. } = self;
        let passed = || began.elapsed().as_secs_f64();
        let index = request.scenario.series.iter().position(|one| std::ptr::eq(one, series));
        progression.window_begins(kind, arm, index.unwrap_or(0), passed());
        let mut notify = |status: PhaseStatus| {
            progression.phase(status.phase, passed());
            let (done, remaining) = progression.estimate(passed());
            let (count, is_probe) = (progression.count(), kind == WindowKind::Probe);
            let label = label.as_str();
            listener.progress(&Progress { arm, label, count, is_probe, done, remaining, status });
        };
        let measured =
            arms[arm].generators.measure(&job, times, arms[arm].observer.as_deref_mut(), stop, &mut notify);
        progression.window_ends(passed());
        let mut measurement = match measured {
            Ok(measurement) => measurement,
            Err(Error::Stopped) if stop.load(Ordering::Relaxed) => return Err(Error::Stopped),
            // The next point would fail in the same way.
            Err(denied) if denied.is_denied() => return Err(denied.at(&self.runs[arm].target.target)),
            Err(wrong) => Measurement {
                started: now(),
                seconds: times.2 as f64,
                caveats: vec![Caveat::new(CaveatKind::Void, wrong.to_string())],
                ..Measurement::default()
            },
        };
        if let Some(call) = measurement.errors.keys().find(|call| wire_client::is_denial(call)) {
            let target = self.runs[arm].target.target.clone();
            return Err(Error::NoAccess { target, wrong: call.clone() });
        }
        validity::check_measurement(
            &mut measurement,
            &job,
            &self.runs[arm].target,
            arms[arm].generators.is_one_machine(),
        );
        Ok(measurement)
    }

    fn job(&self, series: &Series, point: &Point, repetition: u32) -> Job {
        let eda = series.work == Work::EdaBlend;
        let directories = point.directories.unwrap_or(1);
        Job {
            work: series.work,
            protocol: point.protocol,
            block: point.block,
            pattern: series.pattern,
            read_percent: point.read_percent,
            transfer: if eda { BLOCK_MAX } else { point.transfer.unwrap_or(point.block) },
            attribute_cache: point.attribute_cache.unwrap_or(true),
            stability: series.stability,
            cache: series.cache,
            same_places: point.same_places,
            metadata: point.operation.map(|operation| Metadata { operation, directories }),
            gather: point.transfer.filter(|_| eda),
            clients_total: point.clients,
            first_client: 0,
            clients: point.clients,
            connections: point.connections,
            jobs: series.jobs,
            depth: point.depth,
            file_size: file_size(self.request, &self.runs, series),
            rate: series.rate,
            job_sets: point.job_sets.unwrap_or(0),
            file_scale_thousandths: self.request.thoroughness.file_scale_thousandths,
            repetition,
            seed: self.request.seed,
        }
    }
}

fn shuffled(count: usize, random: &mut Random) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for at in (1..count).rev() {
        order.swap(at, usize::try_from(random.below(at as u64 + 1)).unwrap_or(0));
    }
    order
}

fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

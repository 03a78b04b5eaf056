//! Running a scenario: every point several times, in an order of its own in each round.
//!
//! A [`Side`] is a target with what makes load for it. One side gives a [`Run`]; several sides are measured
//! in turn, point by point, so that they can be compared.

mod curve;
mod generator_group;
mod judge;
mod likeness;
mod protocol;
mod search;
mod steady;
mod thoroughness;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use report::result::{Caveat, CaveatKind, Cell, FORMAT, Measurement, Run, Summary};
use report::scenario::limits::BLOCK_MAX;
use report::scenario::{Point, Preset, Scenario, Series, Work};
use report::units::show_size;

use crate::eda::mix;
use crate::engine::built_in::SMALL_FILES;
use crate::engine::job::{Job, Metadata};
use crate::error::{Error, tells_denial};
use crate::observer::Observer;
use crate::pattern::Random;

pub use generator_group::{GeneratorGroup, Phase, PhaseStatus};
pub use thoroughness::Thoroughness;

/// So many repetitions in a row without any result end a run.
const FAILURES_MAX: usize = 3;

/// A target, and what makes load for it.
pub struct Side {
    /// Who makes the load.
    pub generators: GeneratorGroup,
    /// Who can ask the server.
    pub observer: Option<Box<dyn Observer>>,
}

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Order {
    /// The scenario.
    pub scenario: Scenario,
    /// How thoroughly.
    pub preset: Preset,
    /// In what the preset is deviated from.
    pub thoroughness: Thoroughness,
    /// Where the pseudo-random sequences begin.
    pub seed: u64,
    /// Most bytes of all files together.
    pub working_set_max: Option<u64>,
}

/// How far a run is.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// Which side, where there are several.
    pub side: usize,
    /// The point's series and what it is.
    pub label: &'a str,
    /// The share of the whole run that is done.
    pub done: f64,
    /// How long the rest should take.
    pub left: Duration,
    /// What is going on.
    pub status: PhaseStatus,
}

/// Follows a run.
pub trait ProgressListener {
    /// Something goes on.
    fn progress(&mut self, progress: &Progress<'_>);
    /// A repetition is over.
    fn measured(&mut self, side: usize, label: &str, measurement: &Measurement);
}

/// Runs the scenario on every side; `stop` ends it with what was measured so far.
///
/// # Errors
/// What makes it impossible to begin: a target out of reach or one that may not be written, a scenario that
/// cannot be. Later faults are in the results.
pub fn run(
    order: &Order,
    sides: &mut [Side],
    stop: &AtomicBool,
    listener: &mut dyn ProgressListener,
) -> Result<Vec<Run>, Error> {
    let mut runs = Vec::new();
    for side in &mut *sides {
        runs.push(begin(order, side)?);
    }
    let file_sizes: Vec<u64> =
        order.scenario.series.iter().map(|series| file_size(order, &runs, series)).collect();
    let scaled = scaled(order, &file_sizes);
    for run in &mut runs {
        (run.file_sizes, run.scaled) = (file_sizes.clone(), scaled.clone());
    }
    let sides_count = sides.len();
    let mut runner =
        Runner { order, sides, runs, stop, listener, clock: Progression::new(order, sides_count) };
    let ended = runner.all_series();
    let mut runs = runner.runs;
    let is_valid = |cell: &Cell| cell.measurements.iter().any(Measurement::is_valid);
    let ended = match ended {
        Err(denied @ Error::NoAccess { .. }) if !runs.iter().any(|run| run.cells.iter().any(is_valid)) => {
            return Err(denied);
        }
        ended => ended,
    };
    for run in &mut runs {
        run.finished = now();
        run.ended_early = ended.as_ref().err().map(ToString::to_string);
        run.working_sets = working_sets(order, run);
        judge::whole(run);
        likeness::judge(run);
    }
    Ok(runs)
}

fn begin(order: &Order, side: &mut Side) -> Result<Run, Error> {
    if order.scenario.series.iter().any(|series| series.work == Work::EdaBlend) {
        side.generators.check_clocks()?;
    }
    let mut target = side.generators.facts()?;
    protocol::check(&order.scenario, &target)?;
    if let Some(observer) = &mut side.observer {
        target.volume = Some(observer.facts()?);
    }
    Ok(Run {
        format: FORMAT.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: now(),
        finished: 0.0,
        ended_early: None,
        scenario: order.scenario.clone(),
        preset: order.preset,
        seed: order.seed,
        target,
        machines: side.generators.machines(),
        file_sizes: Vec::new(),
        working_sets: Vec::new(),
        scaled: Vec::new(),
        cells: Vec::new(),
        caveats: Vec::new(),
    })
}

/// Bytes of each job's file: what the scenario wants, every target holds, and the preset has time for; 0
/// where there are no such files.
fn file_size(order: &Order, runs: &[Run], series: &Series) -> u64 {
    if series.work != Work::Transfers {
        return 0;
    }
    let room = runs.iter().filter_map(|run| run.target.free_bytes).map(|free| free / 2).min();
    let bounds = [Some(series.working_set), order.thoroughness.working_set_max, order.working_set_max, room];
    let all = bounds.into_iter().flatten().min().unwrap_or(0);
    let block = series.blocks.iter().copied().max().unwrap_or(1).max(1 << 20);
    // Blocks of all sizes begin where files do, and a file is never empty.
    (all / series.jobs_max() as u64 / block).max(1) * block
}

/// Of each series, the bytes of all its files together.
fn working_sets(order: &Order, run: &Run) -> Vec<u64> {
    let numbered = run.scenario.series.iter().enumerate();
    let of_series = |(index, series): (usize, &Series)| match series.work {
        Work::Metadata => 0,
        Work::Transfers => run.file_sizes.get(index).copied().unwrap_or(0) * series.jobs_max() as u64,
        Work::OpenRead => {
            SMALL_FILES * series.jobs_max() as u64 * series.blocks.iter().copied().max().unwrap_or(0)
        }
        Work::EdaBlend => {
            let cells = run.cells.iter().filter(|cell| cell.series == index);
            let most = cells.filter_map(|cell| cell.point.job_sets).max().unwrap_or(0);
            u64::from(most) * mix::bytes_per_set(order.thoroughness.file_scale_thousandths)
        }
    };
    numbered.map(of_series).collect()
}

/// What is smaller or shorter than the scenario or the method says.
fn scaled(order: &Order, file_sizes: &[u64]) -> Vec<String> {
    let mut scaled = order.thoroughness.deviations(&order.scenario);
    let mut sets: Vec<(String, Vec<&str>)> = Vec::new();
    for (series, file_size) in order.scenario.series.iter().zip(file_sizes) {
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
    let scale = order.thoroughness.file_scale_thousandths;
    if scale < 1000 && order.scenario.series.iter().any(|series| series.work == Work::EdaBlend) {
        scaled.push(format!("{:.1} % of the files of a job set (file scale)", f64::from(scale) / 10.0));
    }
    scaled
}

struct Runner<'a> {
    order: &'a Order,
    sides: &'a mut [Side],
    runs: Vec<Run>,
    stop: &'a AtomicBool,
    listener: &'a mut dyn ProgressListener,
    clock: Progression,
}

impl Runner<'_> {
    fn all_series(&mut self) -> Result<(), Error> {
        let mut random = Random::new(self.order.seed);
        for (index, series) in self.order.scenario.series.iter().enumerate() {
            if series.is_curve() {
                self.curves(index, series)?;
                continue;
            }
            let points = self.with_depths(index, series)?;
            let mut failures = 0;
            for repetition in 0..self.order.thoroughness.repetitions {
                for at in shuffled(points.len(), &mut random) {
                    for side in shuffled(self.sides.len(), &mut random) {
                        let measurement = self.measure(side, series, &points[at], repetition)?;
                        failures = if measurement.is_valid() { 0 } else { failures + 1 };
                        // Those of this series are the last; curves before it may have other points on each
                        // side.
                        let cells = &mut self.runs[side].cells;
                        let first = cells.len() - points.len();
                        let cell = &mut cells[first + at];
                        cell.measurements.push(measurement);
                        cell.summary = Summary::of(&cell.measurements);
                        cell.caveats = judge::cell(cell, &self.order.thoroughness);
                    }
                    if failures >= FAILURES_MAX * self.sides.len() {
                        let text =
                            "several repetitions in a row had no result; see the errors of the last cells";
                        return Err(Error::Plan(text.to_owned()));
                    }
                }
            }
        }
        Ok(())
    }

    /// The points of a series with their numbers of calls in flight, which may have to be found first; makes
    /// their cells.
    fn with_depths(&mut self, index: usize, series: &Series) -> Result<Vec<Point>, Error> {
        let mut points = series.points();
        let (mut found, mut probes) = (None, Vec::new());
        for point in &mut points {
            if series.is_searched() {
                // A quick run looks once, where there is most to read.
                if found.is_none() || self.order.thoroughness.searches_each_point {
                    probes = self.search(series, point)?;
                    found = Some(search::chosen(&probes));
                }
                // No connection may be without a call.
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

    /// Doubles the number of calls in flight on the first side until that brings nothing any more.
    fn search(&mut self, series: &Series, point: &Point) -> Result<Vec<report::result::Probe>, Error> {
        let mut probes = Vec::new();
        while let Some(depth) = search::next(&probes, series, point) {
            let point = Point { depth, ..point.clone() };
            let (warm_up, time) = self.order.thoroughness.probe;
            let measurement = self.one(0, series, &point, 0, (warm_up, warm_up, time))?;
            if !measurement.is_valid() {
                break;
            }
            probes.push(search::probe(depth, &measurement));
        }
        Ok(probes)
    }

    fn measure(
        &mut self,
        side: usize,
        series: &Series,
        point: &Point,
        repetition: u32,
    ) -> Result<Measurement, Error> {
        let Thoroughness { warm_up_min, warm_up_max, time, .. } = self.order.thoroughness;
        let measurement = self.one(side, series, point, repetition, (warm_up_min, warm_up_max, time))?;
        self.clock.done += 1;
        self.listener.measured(side, &series.label(point), &measurement);
        Ok(measurement)
    }

    /// One window; a fault in it gives a measurement without a result. Being stopped is an error, and a
    /// target at which nothing may be written.
    fn one(
        &mut self,
        side: usize,
        series: &Series,
        point: &Point,
        repetition: u32,
        times: (u64, u64, u64),
    ) -> Result<Measurement, Error> {
        let job = self.job(series, point, repetition);
        let label = series.label(point);
        let Self { sides, stop, listener, clock, .. } = self;
        let mut tell = |status: PhaseStatus| {
            let (done, left) = clock.look();
            listener.progress(&Progress { side, label: &label, done, left, status });
        };
        let measured =
            sides[side].generators.measure(&job, times, sides[side].observer.as_deref_mut(), stop, &mut tell);
        let mut measurement = match measured {
            Ok(measurement) => measurement,
            Err(Error::Stopped) if stop.load(Ordering::Relaxed) => return Err(Error::Stopped),
            // It will not be otherwise at the next point.
            Err(denied) if denied.is_denied() => return Err(denied.at(&self.runs[side].target.target)),
            Err(wrong) => Measurement {
                started: now(),
                seconds: times.2 as f64,
                caveats: vec![Caveat::new(CaveatKind::Void, wrong.to_string())],
                ..Measurement::default()
            },
        };
        if let Some(call) = measurement.errors.keys().find(|call| tells_denial(call)) {
            let target = self.runs[side].target.target.clone();
            return Err(Error::NoAccess { target, wrong: call.clone() });
        }
        judge::measurement(
            &mut measurement,
            &job,
            &self.runs[side].target,
            sides[side].generators.is_one_machine(),
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
            file_size: file_size(self.order, &self.runs, series),
            rate: series.rate,
            job_sets: point.job_sets.unwrap_or(0),
            file_scale_thousandths: self.order.thoroughness.file_scale_thousandths,
            repetition,
            seed: self.order.seed,
        }
    }
}

/// How much of a run has passed.
struct Progression {
    began: Instant,
    done: u32,
    planned: u32,
    /// What one repetition takes at least.
    least: Duration,
}

impl Progression {
    fn new(order: &Order, sides: usize) -> Self {
        let points = order.scenario.series.iter().map(|series| series.points().len()).sum::<usize>();
        let repetitions = order.thoroughness.repetitions as usize;
        let planned = u32::try_from(points * repetitions * sides).unwrap_or(u32::MAX).max(1);
        let least = Duration::from_secs(order.thoroughness.warm_up_min + order.thoroughness.time);
        Self { began: Instant::now(), done: 0, planned, least }
    }

    /// The share done, and the time that the rest takes if it goes on so.
    fn look(&self) -> (f64, Duration) {
        let left = self.planned.saturating_sub(self.done);
        let each = self.began.elapsed().checked_div(self.done).unwrap_or(self.least);
        (f64::from(self.done) / f64::from(self.planned), each * left)
    }
}

/// The numbers below `count` in an order by chance.
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

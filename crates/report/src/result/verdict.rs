//! Whether a run delivered what its scenario asks for.

use serde::{Deserialize, Serialize};

use super::{CaveatKind, Cell, Distribution, Measurement, Run};
use crate::scenario::{Series, Targets};

/// A rate that misses its target by less than this share still meets it: schedules and windows cut the last operations.
const TOLERANCE: f64 = 0.01;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Met,
    Missed,
    /// A target is missed, and the load generator may be the reason.
    Undecided,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether every point meets its targets.
    pub is_met: bool,
    /// Whether points are undecided, and no other point misses a target.
    #[serde(default)]
    pub is_undecided: bool,
    pub points: Vec<PointVerdict>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointVerdict {
    /// Index of the cell in [`Run::cells`].
    pub cell: usize,
    /// The series, and the point's values.
    pub label: String,
    pub is_met: bool,
    /// A sign that the load generator was too slow, if a target is missed: the target may be missed for that reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undecided: Option<String>,
    /// Empty for a point without a result.
    pub checks: Vec<Check>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    pub figure: CheckedFigure,
    pub asked: f64,
    pub delivered: f64,
    pub is_met: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckedFigure {
    /// Operations a second, at least.
    Iops,
    /// 2^20 bytes a second, at least.
    MibPerS,
    /// Mean response time, at most.
    LatencyMs,
    /// 99th percentile of the response time, at most.
    LatencyP99Ms,
}

impl Verdict {
    /// `None` for a scenario without targets, and for a run that ended early.
    pub fn of(run: &Run) -> Option<Self> {
        if run.ended_early.is_some() {
            return None;
        }
        let judged = |(index, cell): (usize, &Cell)| {
            let series = run.scenario.series.get(cell.series)?;
            Some(PointVerdict::of(index, cell, series, series.targets.as_ref()?))
        };
        let points: Vec<PointVerdict> = run.cells.iter().enumerate().filter_map(judged).collect();
        // A series that was not measured has not delivered.
        let is_measured = |index: usize| run.cells.iter().any(|cell| cell.series == index);
        let mut series = run.scenario.series.iter().enumerate();
        let is_whole = series.all(|(index, series)| series.targets.is_none() || is_measured(index));
        let is_met = is_whole && points.iter().all(|point| point.is_met);
        let is_undecided =
            is_whole && !is_met && points.iter().all(|point| point.outcome() != Outcome::Missed);
        run.scenario.has_targets().then_some(Self { is_met, is_undecided, points })
    }

    pub fn outcome(&self) -> Outcome {
        match (self.is_met, self.is_undecided) {
            (true, _) => Outcome::Met,
            (false, true) => Outcome::Undecided,
            (false, false) => Outcome::Missed,
        }
    }
}

impl PointVerdict {
    fn of(index: usize, cell: &Cell, series: &Series, targets: &Targets) -> Self {
        let checks = if cell.has_result() { checks(cell, targets) } else { Vec::new() };
        let is_met = !checks.is_empty() && checks.iter().all(|check| check.is_met);
        let mut caveats = cell.measurements.iter().filter(|one| one.is_valid()).flat_map(|one| &one.caveats);
        let is_slow = !is_met && !checks.is_empty();
        let slow = caveats.find(|caveat| is_slow && caveat.kind == CaveatKind::ClientLimited);
        let undecided = slow.map(|caveat| caveat.text.clone());
        Self { cell: index, label: series.label(&cell.point), is_met, undecided, checks }
    }

    pub fn outcome(&self) -> Outcome {
        match (self.is_met, &self.undecided) {
            (true, _) => Outcome::Met,
            (false, Some(_)) => Outcome::Undecided,
            (false, None) => Outcome::Missed,
        }
    }
}

fn checks(cell: &Cell, targets: &Targets) -> Vec<Check> {
    let valid = cell.measurements.iter().filter(|one| one.is_valid());
    let latency = valid.map(Measurement::response).collect::<Distribution>().latency();
    let at_least = |figure, asked: Option<f64>, delivered: f64| {
        let check =
            |asked: f64| Check { figure, asked, delivered, is_met: delivered >= asked * (1.0 - TOLERANCE) };
        asked.map(check)
    };
    let at_most = |figure, asked: Option<f64>, delivered: f64| {
        asked.map(|asked| Check { figure, asked, delivered, is_met: delivered <= asked })
    };
    let mib = targets.throughput.map(|bytes| bytes as f64 / f64::from(1 << 20));
    let summary = &cell.summary;
    [
        at_least(CheckedFigure::Iops, targets.iops, summary.iops.median),
        at_least(CheckedFigure::MibPerS, mib, summary.mib_per_s.median),
        at_most(CheckedFigure::LatencyMs, targets.latency_ms, latency.mean_ms),
        at_most(CheckedFigure::LatencyP99Ms, targets.latency_p99_ms, latency.p99_ms),
    ]
    .into_iter()
    .flatten()
    .collect()
}

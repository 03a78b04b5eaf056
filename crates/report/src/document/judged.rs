//! Verdicts in words.

use super::content::Judged;
use super::table::Value;
use crate::result::{Cell, Check, CheckedFigure, Outcome, PointVerdict, Run, Verdict};

pub(super) fn of_run(run: &Run) -> Option<Judged> {
    // Files of earlier versions have a verdict on incomplete runs too.
    if let Some(why) = &run.ended_early {
        let summary = format!("No verdict: the run ended before every point was measured ({why}).");
        let is_judged = run.scenario.has_targets();
        return is_judged.then(|| Judged { outcome: Outcome::Undecided, summary, points: Vec::new() });
    }
    let verdict = run.verdict.clone().or_else(|| Verdict::of(run))?;
    let count = |outcome| verdict.points.iter().filter(|point| point.outcome() == outcome).count();
    let all = counted(verdict.points.len());
    let outcome = verdict.outcome();
    let summary = match (outcome, count(Outcome::Missed)) {
        (Outcome::Met, _) => format!("Pass: {all} delivered what was asked."),
        (Outcome::Undecided, _) => {
            let undecided = count(Outcome::Undecided);
            format!("Not decided: {undecided} of {all} missed a target, and the load generator was too slow.")
        }
        (Outcome::Missed, 0) => "Fail: not every point with a target was measured.".to_owned(),
        (Outcome::Missed, failed) => format!("Fail: {failed} of {all} did not deliver what was asked."),
    };
    Some(Judged { outcome, summary, points: verdict.points.iter().map(line).collect() })
}

/// Whether a cell meets its targets, if it has any.
pub(super) fn of_cell(run: &Run, cell: &Cell) -> Option<Outcome> {
    let points = &run.verdict.as_ref()?.points;
    let is_it = |point: &&PointVerdict| run.cells.get(point.cell).is_some_and(|one| std::ptr::eq(one, cell));
    points.iter().find(is_it).map(PointVerdict::outcome)
}

fn counted(points: usize) -> String {
    if points == 1 { "1 point".to_owned() } else { format!("{points} points") }
}

fn line(point: &PointVerdict) -> String {
    let word = word(point.outcome());
    let checks: Vec<String> = point.checks.iter().map(check).collect();
    let checks = if checks.is_empty() { "no result".to_owned() } else { checks.join("; ") };
    let undecided = point.undecided.as_ref();
    let slow = undecided.map_or_else(String::new, |why| format!("; the load generator was too slow: {why}"));
    format!("{word}: {}: {checks}{slow}", point.label)
}

pub(super) fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Met => "pass",
        Outcome::Missed => "fail",
        Outcome::Undecided => "not decided",
    }
}

fn check(check: &Check) -> String {
    let (what, unit, at_most) = match check.figure {
        CheckedFigure::Iops => ("", "IOPS", ""),
        CheckedFigure::MibPerS => ("", "MiB/s", ""),
        CheckedFigure::LatencyMs => ("mean ", "ms", "at most "),
        CheckedFigure::LatencyP99Ms => ("p99 ", "ms", "at most "),
    };
    let (asked, delivered) = (Value::figure(check.asked), Value::figure(check.delivered));
    format!("asked {what}{at_most}{asked} {unit}, delivered {delivered} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Report, html, markdown, sample};
    use crate::result::{Caveat, CaveatKind};
    use crate::scenario::Targets;

    #[test]
    fn verdict_names_asked_and_delivered_in_every_form() {
        let mut run = sample::depths();
        run.scenario.series[0].targets =
            Some(Targets { iops: Some(1e9), latency_ms: Some(1e6), ..Targets::default() });
        let report = Report::of(&run);
        let judged = report.verdict.clone().unwrap();
        assert_eq!(judged.summary, "Fail: 6 of 6 points did not deliver what was asked.");
        assert!(judged.points[0].starts_with("fail: "), "{judged:?}");
        assert!(judged.points[0].contains("asked 1,000,000,000 IOPS, delivered "), "{judged:?}");
        assert!(judged.points[0].contains("; asked mean at most 1,000,000 ms, delivered "), "{judged:?}");
        for point in &judged.points {
            let (rate, mean) = point.rsplit_once("; asked ").unwrap();
            assert!(rate.ends_with(" IOPS") && mean.contains(" ms") && mean.ends_with(" ms"), "{point}");
        }
        for text in [html(std::slice::from_ref(&report)), markdown(std::slice::from_ref(&report))] {
            assert!(text.contains("Fail: 6 of 6 points") && text.contains("asked 1,000,000,000 IOPS"));
        }
    }

    fn judged(targets: Targets) -> Verdict {
        let mut run = sample::gcnv();
        run.scenario.series.iter_mut().for_each(|series| series.targets = Some(targets));
        Verdict::of(&run).unwrap()
    }

    #[test]
    fn rate_within_one_percent_is_delivered() {
        let iops = sample::gcnv().cells[0].summary.iops.median;
        let first = |factor: f64| {
            judged(Targets { iops: Some(iops * factor), ..Targets::default() }).points[0].clone()
        };
        assert!(first(1.009).is_met && !first(1.02).is_met);
        let check = first(1.02).checks[0];
        assert_eq!((check.figure, check.delivered), (CheckedFigure::Iops, iops));
    }

    #[test]
    fn every_target_must_be_met() {
        let easy = Targets { iops: Some(1.0), throughput: Some(1), ..Targets::default() };
        let void = judged(easy);
        assert!(!void.is_met, "the sample has a point without a result");
        assert!(void.points.iter().any(|point| point.checks.is_empty() && !point.is_met));
        let late = judged(Targets { latency_ms: Some(0.001), iops: Some(1.0), ..Targets::default() });
        assert!(late.points.iter().all(|point| !point.is_met));
    }

    #[test]
    fn missed_target_of_a_slow_generator_is_not_decided() {
        let mut run = sample::depths();
        let iops = run.cells[0].summary.iops.median;
        let targets = |iops| Some(Targets { iops: Some(iops), ..Targets::default() });
        run.scenario.series[0].targets = targets(iops * 2.0);
        for cell in &mut run.cells {
            let late = Caveat::new(CaveatKind::ClientLimited, "3.0 % of the operations were sent late");
            cell.measurements[0].caveats.push(late);
        }
        run.cells.truncate(1);
        let judged = of_run(&run).unwrap();
        assert_eq!(judged.outcome, Outcome::Undecided);
        assert!(judged.summary.starts_with("Not decided: 1 of 1 point missed a target"), "{judged:?}");
        assert!(judged.points[0].starts_with("not decided: "), "{judged:?}");
        assert!(judged.points[0].ends_with(": 3.0 % of the operations were sent late"), "{judged:?}");
        run.scenario.series[0].targets = targets(iops / 2.0);
        assert_eq!(of_run(&run).unwrap().outcome, Outcome::Met, "a slow generator delivered it all the same");
        let mut missed = run.cells[0].clone();
        missed.measurements.iter_mut().for_each(|one| one.caveats.clear());
        run.cells.push(missed);
        run.scenario.series[0].targets = targets(iops * 2.0);
        assert_eq!(of_run(&run).unwrap().outcome, Outcome::Missed, "one point is decided");
    }

    #[test]
    fn run_that_ended_early_or_has_no_targets_has_no_verdict() {
        let mut run = sample::depths();
        assert_eq!(Verdict::of(&run), None);
        run.scenario.series[0].targets = Some(Targets { iops: Some(1.0), ..Targets::default() });
        assert!(Verdict::of(&run).unwrap().is_met);
        run.ended_early = Some("stopped".to_owned());
        assert_eq!(Verdict::of(&run), None);
        let judged = of_run(&run).unwrap();
        assert!(judged.points.is_empty(), "{judged:?}");
        assert_eq!(judged.summary, "No verdict: the run ended before every point was measured (stopped).");
        run.ended_early = None;
        run.cells[0].caveats.push(Caveat::new(CaveatKind::Void, "lost"));
        assert!(!Verdict::of(&run).unwrap().is_met);
    }
}

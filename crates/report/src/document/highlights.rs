//! A summary of a run: one line for each series.

use envelope::Direction;

use super::axes::{self, Axis, Form, Group};
use super::details::LimitUse;
use super::facts::Fact;
use super::table::Value;
use super::{details, eda, metadata, pairs, words};
use crate::curve::Curve;
use crate::result::{CaveatKind, Cell, Measurement, Run};
use crate::scenario::{Series, Work};

/// The target first, then every series that has cells.
pub(super) fn of_run(run: &Run) -> Vec<Fact> {
    let numbered = run.scenario.series.iter().enumerate();
    let of_series = |(index, series): (usize, &Series)| {
        let cells: Vec<&Cell> = run.cells_of(index).collect();
        (!cells.is_empty()).then(|| (series.name.clone(), of_series(run, series, &cells)))
    };
    let series = std::iter::once(("Measured".to_owned(), target(run))).chain(numbered.filter_map(of_series));
    series.chain(pairs::highlights(run)).collect()
}

pub(super) fn target(run: &Run) -> String {
    let target = &run.target.target;
    run.target.volume.as_ref().map_or_else(
        || target.clone(),
        |volume| format!("{target} at {}; {}", volume.level, words::limits_and_curve(volume)),
    )
}

/// Empty without cells.
pub(super) fn of_series(run: &Run, series: &Series, cells: &[&Cell]) -> String {
    if cells.is_empty() {
        return String::new();
    }
    let mut parts = vec![reached(series, cells)];
    parts.extend(series.rate.map(|rate| format!("{} operations a second requested", Value::figure(rate))));
    parts.extend(limit_uses(run, cells).first().map(|closest| closest.in_words() + COUNTED));
    parts.extend(caveats(cells));
    parts.join("; ")
}

/// The rates alone.
pub(super) fn reached(series: &Series, cells: &[&Cell]) -> String {
    let parts = if series.work == Work::EdaBlend {
        let headline = |(group, curve): &(Group<'_>, Curve)| {
            let name = if group.name.is_empty() { String::new() } else { format!("{}: ", group.name) };
            format!("{name}{}", eda::headline(curve))
        };
        eda::curves(series, cells).iter().map(headline).collect::<Vec<_>>()
    } else if series.work == Work::Metadata {
        vec![metadata::highlight(cells, &Axis::varying(series, cells))]
    } else {
        vec![rates(series, cells)]
    };
    parts.join("; ")
}

fn rates(series: &Series, cells: &[&Cell]) -> String {
    let varying = Axis::varying(series, cells);
    let best = |word: &str, direction| {
        let rate = |cell: &&&Cell| Form::of(series, &cell.point).rate(cell, direction);
        let valid = cells.iter().filter(|cell| cell.has_result());
        let cell = valid.max_by(|a, b| rate(a).total_cmp(&rate(b))).filter(|cell| rate(cell) > 0.0)?;
        let form = Form::of(series, &cell.point);
        // Most reads are at pure reads, most writes at pure writes: only another mix is news.
        let pure = if direction == Direction::Read { 100 } else { 0 };
        let is_pure = cell.point.read_percent == pure;
        let shown: Vec<Axis> =
            varying.iter().copied().filter(|axis| *axis != Axis::Mix || !is_pure).collect();
        let at = axes::name(&cell.point, &shown);
        let at = if at.is_empty() { at } else { format!(" ({at})") };
        Some(format!("{word} {} {}{at}", Value::figure(rate(&cell)), form.unit()))
    };
    let both = [best("reads up to", Direction::Read), best("writes up to", Direction::Write)];
    let both: Vec<String> = both.into_iter().flatten().collect();
    if both.is_empty() { "no result".to_owned() } else { both.join(", ") }
}

/// The uses of the limits in the measurement that came closest to one, the most used limit first.
pub(super) fn limit_uses(run: &Run, cells: &[&Cell]) -> Vec<LimitUse> {
    let measured = cells.iter().flat_map(|cell| &cell.measurements).filter(|one| one.is_valid());
    let uses = |one: &Measurement| Some(details::uses(run.target.volume.as_ref(), one.server.as_ref()?, one));
    let all = measured.filter_map(uses).filter(|uses| !uses.is_empty());
    all.max_by(|a, b| a[0].share.total_cmp(&b[0].share)).unwrap_or_default()
}

/// The counter behind the rates of [`limit_uses`]: other tables have the medians of the repetitions.
pub(super) const COUNTED: &str = ", by the service's count in the measurement that came closest";

fn caveats(cells: &[&Cell]) -> Vec<String> {
    let void = cells.iter().filter(|cell| !cell.has_result()).count();
    let void = (void > 0).then(|| format!("{void} of {} points without a result", cells.len()));
    let mut kinds: Vec<CaveatKind> =
        cells.iter().flat_map(|cell| words::caveats(cell)).map(|caveat| caveat.kind).collect();
    kinds.retain(|kind| !matches!(kind, CaveatKind::Void | CaveatKind::CoLocated));
    kinds.sort_unstable();
    kinds.dedup();
    let others: Vec<&str> = kinds.into_iter().map(words::kind).collect();
    let others = (!others.is_empty()).then(|| format!("doubtful: {}", others.join(", ")));
    void.into_iter().chain(others).collect()
}

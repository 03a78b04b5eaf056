//! Load curves side by side.

use super::pairs::Side;
use super::plot::{self, COLORS, Chart, Line, Lines, Plot};
use super::table::{Table, Value};
use crate::curve::{Curve, CurvePoint, MEAN_MAX_MS, Time};

const MEANS_MS: [f64; 2] = [1.0, MEAN_MAX_MS];

pub(super) fn table(sides: &[Side<'_>]) -> Table {
    let mut table = Table::new("Operations a second within a mean response time", &[""]);
    table.head.extend(MEANS_MS.map(|ms| format!("within {ms} ms")));
    table.head.extend(["at most", "overall response ms", "calls an operation"].map(str::to_owned));
    let first = sides.first().map_or("", |side| side.name.as_str());
    table.head.push(format!("within {MEAN_MAX_MS} ms, over {first}"));
    let of_first = sides.first().map(|side| within(&curve(side), MEAN_MAX_MS));
    for side in sides {
        let curve = curve(side);
        let mut row: Vec<Value> = MEANS_MS.iter().map(|ms| figure(within(&curve, *ms))).collect();
        row.push(figure(curve.valid().last().map(|point| point.achieved)));
        let overall = curve.overall_over_range(Time::Response);
        row.push(overall.map_or(Value::Nothing, |ms| Value::Number(ms, 2)));
        row.push(calls(side));
        let ratio = within(&curve, MEAN_MAX_MS).zip(of_first.flatten());
        row.push(ratio.map_or(Value::Nothing, |(rate, first)| Value::ratio(rate, first)));
        table.row(side.name.as_str(), row);
    }
    table
}

/// One line for each side: mean response time over achieved rate.
pub(super) fn plot(sides: &[Side<'_>]) -> Option<Plot> {
    let line = |(index, side): (usize, &Side<'_>)| {
        let point = |point: &CurvePoint| (point.achieved, point.response.mean_ms);
        let points = curve(side).valid().iter().map(point).collect();
        Line { name: side.name.clone(), color: index % COLORS, ideal: false, points }
    };
    let lines: Vec<Line> = sides.iter().enumerate().map(line).collect();
    let chart = Lines {
        x: plot::Axis::new("operations reached a second"),
        y: plot::Axis::logarithmic("ms"),
        levels: MEANS_MS.map(|ms| (ms, format!("{ms} ms"))).to_vec(),
        lines,
        ..Lines::default()
    };
    let title = "Mean response time over rate".to_owned();
    let is_there = chart.lines.iter().any(|line| !line.points.is_empty());
    is_there.then(|| Plot { title, note: "Valid points only.".to_owned(), chart: Chart::Lines(chart) })
}

pub(super) fn highlight(sides: &[Side<'_>]) -> Option<String> {
    let text = |side: &Side<'_>| {
        let rate = within(&curve(side), MEAN_MAX_MS);
        let rate = rate.map_or_else(|| "none".to_owned(), |rate| Value::figure(rate).to_string());
        format!("{} {rate}", side.name)
    };
    let all: Vec<String> = sides.iter().map(text).collect();
    Some(format!("operations a second within {MEAN_MAX_MS} ms: {}", all.join("; ")))
}

fn curve(side: &Side<'_>) -> Curve {
    Curve::of_cells(side.cells.iter().map(|(_, cell)| *cell))
}

fn within(curve: &Curve, mean_ms: f64) -> Option<f64> {
    curve.rate_within(mean_ms, Time::Response).map(|point| point.achieved)
}

fn figure(value: Option<f64>) -> Value {
    value.map_or_else(|| "none".into(), Value::figure)
}

/// Calls on the wire per operation of the application, over all valid points.
fn calls(side: &Side<'_>) -> Value {
    let all = || side.cells.iter().flat_map(|(_, cell)| &cell.measurements).filter(|one| one.is_valid());
    let ops: u64 = all().map(|one| one.ops(None)).sum();
    let calls: u64 = all().flat_map(|one| one.wire.values()).sum();
    if calls > 0 && ops > 0 { Value::ratio(calls as f64, ops as f64) } else { Value::Nothing }
}

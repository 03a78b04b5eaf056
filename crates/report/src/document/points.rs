//! Tables with a row for each point.

use envelope::{Direction, Published};

use super::axes::{self, Axis, Form};
use super::table::{Table, Value};
use super::{figures, published, words};
use crate::curve::Curve;
use crate::result::{Cell, Run};
use crate::scenario::Series;

pub(super) fn table(run: &Run, title: &str, series: &Series, axes: &[Axis], cells: &[&Cell]) -> Table {
    let unlike = published::unlike_page(run, series);
    let is_scheduled = figures::have_schedule(cells);
    let mut table = Table::new(title, &["Point", "IOPS", "MiB/s"]);
    let service = if is_scheduled { "Service " } else { "" };
    table.head.extend(["mean ms", "p50 ms", "p95 ms", "p99 ms"].map(|what| format!("{service}{what}")));
    let beside: Vec<_> = published::named_records(series)
        .filter(|one| cells.iter().any(|cell| !published::at(*one, series, &cell.point).is_empty()))
        .collect();
    let varies = cells.iter().any(|cell| figures::has_variation(cell));
    if varies {
        table.head.push("Variation %".to_owned());
    }
    if series.rate.is_some() {
        table.head.extend(["Requested ops/s", "Reached %"].map(str::to_owned));
    }
    if is_scheduled {
        table.head.extend(["Response mean ms", "Response p99 ms"].map(str::to_owned));
    }
    let names = published::short_names(series);
    let name = |one: &Published| {
        names.iter().find(|(record, _)| record == one).map_or("", |(_, name)| name.as_str())
    };
    table.head.extend(beside.iter().map(|one| format!("Measured ÷ {}{unlike}", name(one))));
    table.head.push("Doubts".to_owned());
    for cell in cells {
        let latency = &cell.summary.latency;
        let mut row: Vec<Value> = [
            Form::Iops.rate(cell, Direction::Total),
            Form::Mib.rate(cell, Direction::Total),
            latency.mean_ms,
            latency.p50_ms,
            latency.p95_ms,
            latency.p99_ms,
        ]
        .into_iter()
        .map(Value::figure)
        .collect();
        if varies {
            row.push(figures::variation(cell.summary.iops.variation, cell));
        }
        if let Some(requested) = series.rate {
            row.extend([Value::figure(requested), figures::reached_share(cell, requested)]);
        }
        if is_scheduled {
            let response = figures::response(cell).latency();
            row.extend([response.mean_ms, response.p99_ms].map(Value::figure));
        }
        row.extend(
            beside.iter().map(|one| published::ratio(cell, &published::at(*one, series, &cell.point))),
        );
        table.row(axes::label(&cell.point, axes), finished(row, cell));
    }
    table
}

/// Replaces the figures of a cell without a result by `void`, and adds the caveats.
fn finished(mut row: Vec<Value>, cell: &Cell) -> Vec<Value> {
    if !cell.has_result() {
        row.fill("void".into());
    }
    row.push(words::caveat_kinds(cell).into());
    row
}

pub(super) fn of_job_sets(name: &str, cells: &[&Cell], curve: &Curve) -> Table {
    const HEAD: [&str; 10] = [
        "Job sets",
        "Requested ops/s",
        "Reached ops/s",
        "Reached %",
        "MiB/s",
        "Service mean ms",
        "Response mean ms",
        "Response p99 ms",
        "Valid",
        "Doubts",
    ];
    let mut table = Table::new(name, &HEAD);
    let mut cells = cells.to_vec();
    cells.sort_by_key(|cell| cell.point.job_sets);
    for (cell, point) in cells.into_iter().zip(&curve.points) {
        let response = figures::response(cell).latency();
        let figures = [point.service.mean_ms, response.mean_ms, response.p99_ms];
        let mut row = vec![Value::figure(point.requested), Value::figure(point.achieved)];
        row.push(Value::percent(point.achieved / point.requested));
        row.push(Value::figure(Form::Mib.rate(cell, Direction::Total)));
        row.extend(figures.map(Value::figure));
        row.push(if point.is_valid() { "yes" } else { "no" }.into());
        let refined = if point.refined { " (refined)" } else { "" };
        table.row(format!("{}{refined}", point.job_sets), finished(row, cell));
    }
    table
}

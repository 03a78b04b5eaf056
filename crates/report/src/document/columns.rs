//! Tables in the form of the pages, with figures as rows and cells as columns.

use envelope::Direction;

use super::axes::{Axis, Form};
use super::table::{Row, RowKind, Table, Value};
use super::{figures, published, words};
use crate::result::{Cell, Latency, Run};
use crate::scenario::Series;

pub(super) fn table(run: &Run, title: &str, series: &Series, axis: Axis, cells: &[&Cell]) -> Table {
    let mut table = Table::new(title, &[axis.heading()]);
    table.head.extend(cells.iter().map(|cell| axis.value(&cell.point)));
    let Some(first) = cells.first() else { return table };
    let form = Form::of(series, &first.point);
    rates(&mut table, axis, form, cells);
    if let Some(requested) = series.rate {
        add_row(&mut table, cells, "Requested ops/s", |_| Value::figure(requested));
        add_row(&mut table, cells, "Reached %", |cell| figures::reached_share(cell, requested));
    }
    match axis {
        Axis::Connections => {
            gains(&mut table, form, cells, "connection");
            if let Some(gains) = table.rows.last_mut().filter(|row| row.label.starts_with("Gain")) {
                gains.kind = RowKind::Page;
            }
            table.rows.extend(published::gains(series, cells));
        }
        Axis::Clients => gains(&mut table, form, cells, "client"),
        _ => {}
    }
    if axis == Axis::Connections {
        at_equal_latency(&mut table, cells);
        add_row(&mut table, cells, "Busiest over idlest connection", skew);
    }
    latencies(&mut table, cells);
    let in_flight = |cell: &Cell| {
        let point = &cell.point;
        Value::Number((point.depth * series.jobs * point.clients) as f64, 0)
    };
    let at_most = if series.rate.is_some() { " at most" } else { "" };
    add_row(&mut table, cells, &format!("Calls in flight{at_most}"), in_flight);
    if cells.iter().any(|cell| figures::has_variation(cell)) {
        add_row(&mut table, cells, "Variation %", |cell| figures::variation(rate_spread(form, cell), cell));
    }
    let caveats: Vec<Value> = cells.iter().map(|cell| Value::Text(words::caveat_kinds(cell))).collect();
    if caveats.iter().any(|caveat| *caveat != Value::Text(String::new())) {
        table.row("Doubts", caveats);
    }
    table.rows.extend(published::rows(run, series, cells));
    table
}

/// Reads and writes as on the page, then both together in both units.
fn rates(table: &mut Table, axis: Axis, form: Form, cells: &[&Cell]) {
    for (name, direction) in [("Read", Direction::Read), ("Write", Direction::Write)] {
        let something = cells.iter().any(|cell| form.rate(cell, direction) > 0.0);
        // Tables over mixes have both; elsewhere a row of zeros has no meaning.
        if axis == Axis::Mix && cells.len() > 1 || something {
            add_row(table, cells, &format!("{name} {}", form.unit()), |cell| {
                Value::figure(form.rate(cell, direction))
            });
            if let Some(row) = table.rows.last_mut() {
                row.kind = RowKind::Page;
            }
        }
    }
    for form in [form, form.other()] {
        add_row(table, cells, &format!("Total {}", form.unit()), |cell| {
            Value::figure(form.rate(cell, Direction::Total))
        });
    }
}

fn latencies(table: &mut Table, cells: &[&Cell]) {
    let is_scheduled = figures::have_schedule(cells);
    let mut three = |word: &str, latency: &dyn Fn(&Cell) -> Latency| {
        add_row(table, cells, &format!("{word}p50 ms"), |cell| Value::figure(latency(cell).p50_ms));
        add_row(table, cells, &format!("{word}p95 ms"), |cell| Value::figure(latency(cell).p95_ms));
        add_row(table, cells, &format!("{word}p99 ms"), |cell| Value::figure(latency(cell).p99_ms));
    };
    three(if is_scheduled { "Service " } else { "" }, &|cell| cell.summary.latency);
    if is_scheduled {
        three("Response ", &|cell| figures::response(cell).latency());
    }
}

fn gains(table: &mut Table, form: Form, cells: &[&Cell], what: &str) {
    let Some(first) = cells.first().filter(|cell| cell.has_result()) else { return };
    let of_one = form.rate(first, Direction::Total);
    let value = table.head.get(1).map_or("", String::as_str);
    let label = format!("Gain over {value} {what}{}", if value == "1" { "" } else { "s" });
    add_row(table, cells, &label, |cell| Value::ratio(form.rate(cell, Direction::Total), of_one));
}

/// The gain of more connections at equal latency. Compares the best rate on the way to the peak whose mean
/// latency is at most that of the first column's peak.
fn at_equal_latency(table: &mut Table, cells: &[&Cell]) {
    let Some(first) = cells.first().filter(|cell| cell.has_result()) else { return };
    let (rate, latency) = (first.summary.iops.median, first.summary.latency.mean_ms);
    if cells.iter().any(|cell| cell.search.is_empty()) {
        return;
    }
    add_row(table, cells, "Gain at equal latency", |cell| {
        let own = (cell.summary.latency.mean_ms, cell.summary.iops.median);
        let probes = cell.search.iter().map(|probe| (probe.latency.mean_ms, probe.ops_per_s)).chain([own]);
        let best = probes.filter(|(mean, _)| *mean <= latency).map(|(_, rate)| rate).fold(0.0, f64::max);
        if best > 0.0 { Value::ratio(best, rate) } else { Value::Nothing }
    });
}

fn skew(cell: &Cell) -> Value {
    let clients = cell.measurements.iter().flat_map(|one| &one.clients);
    let of_client = clients.filter_map(|client| {
        let (min, at_most) = (client.connections.iter().min()?, client.connections.iter().max()?);
        Some(*at_most as f64 / (*min as f64).max(1.0))
    });
    of_client.reduce(f64::max).map_or(Value::Nothing, |skew| Value::Number(skew, 2))
}

fn rate_spread(form: Form, cell: &Cell) -> f64 {
    match form {
        Form::Iops => cell.summary.iops.variation,
        Form::Mib => cell.summary.mib_per_s.variation,
    }
}

/// A cell without a result shows `void`.
fn add_row(table: &mut Table, cells: &[&Cell], label: &str, figure: impl Fn(&Cell) -> Value) {
    let one = |cell: &&Cell| if cell.has_result() { figure(cell) } else { "void".into() };
    let cells = cells.iter().map(one).collect();
    table.rows.push(Row { kind: RowKind::Measured, label: label.to_owned(), cells });
}

//! Operations on names. Each operation has its own row, because some alternate.

use super::axes::{self, Axis};
use super::table::{Table, Value};
use crate::result::{Cell, Distribution, Measurement, Operation};
use crate::scenario::MetadataOperation;

pub(super) fn table(cells: &[&Cell], varying: &[Axis]) -> Option<Table> {
    const HEAD: [&str; 5] = ["Operation", "a second", "mean ms", "p50 ms", "p99 ms"];
    let mut table = Table::new("", &HEAD);
    let others: Vec<Axis> = varying.iter().filter(|axis| **axis != Axis::Operation).copied().collect();
    for cell in cells.iter().filter(|cell| cell.has_result()) {
        let valid: Vec<&Measurement> = cell.measurements.iter().filter(|one| one.is_valid()).collect();
        let seconds: f64 = valid.iter().map(|one| one.seconds).sum();
        let mut names: Vec<&str> = Vec::new();
        for operation in valid.iter().flat_map(|one| &one.operations) {
            if !names.contains(&operation.name.as_str()) {
                names.push(&operation.name);
            }
        }
        for name in names {
            let same = |operation: &&Operation| operation.name == name;
            let of = || valid.iter().flat_map(|one| &one.operations).filter(same);
            let ops: u64 = of().map(|operation| operation.ops).sum();
            let latency = of().map(|operation| &operation.service).collect::<Distribution>().latency();
            let point = axes::name(&cell.point, &others);
            let label = if point.is_empty() { name.to_owned() } else { format!("{name}, {point}") };
            let figures = [ops as f64 / seconds, latency.mean_ms, latency.p50_ms, latency.p99_ms];
            table.row(label, figures.map(Value::figure).to_vec());
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

pub(super) fn highlight(cells: &[&Cell], varying: &[Axis]) -> String {
    let others: Vec<Axis> = varying.iter().filter(|axis| **axis != Axis::Operation).copied().collect();
    let rate = |cell: &Cell| cell.summary.iops.median;
    let best = |group: axes::Group<'_>| {
        let valid = group.cells.into_iter().filter(|cell| cell.has_result());
        let cell = valid.max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        let at = axes::name(&cell.point, &others);
        let at = if at.is_empty() { at } else { format!(" ({at})") };
        let what = cell.point.operation.map_or("", MetadataOperation::words);
        Some(format!("{what} up to {} a second{at}", Value::figure(rate(cell))))
    };
    let all: Vec<String> = axes::groups(cells, &[Axis::Operation]).into_iter().filter_map(best).collect();
    if all.is_empty() { "no result".to_owned() } else { all.join(", ") }
}

//! What single operations on names took.

use super::axes::{self, Axis};
use super::table::{Table, Value};
use crate::result::{Cell, Distribution, Measurement, Operation};

/// A row for each kind of operation of each point, since some are done in turn; nothing without a result.
pub(super) fn table(cells: &[&Cell], varying: &[Axis]) -> Option<Table> {
    const HEAD: [&str; 5] = ["Operation", "a second", "mean ms", "p50 ms", "p99 ms"];
    let mut table = Table::new("Each operation by itself", &HEAD);
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

//! Figures of single cells that several tables and plots show.

use super::table::Value;
use crate::result::{Cell, Distribution, Measurement};

pub(super) fn reached_share(cell: &Cell, requested: f64) -> Value {
    Value::percent(cell.summary.iops.median / requested)
}

pub(super) fn response(cell: &Cell) -> Distribution {
    cell.measurements.iter().filter(|one| one.is_valid()).map(Measurement::response).collect()
}

/// Without a schedule, response times equal service times.
pub(super) fn have_schedule(cells: &[&Cell]) -> bool {
    cells.iter().flat_map(|cell| &cell.measurements).any(Measurement::is_scheduled)
}

/// A single repetition has no variation.
pub(super) fn has_variation(cell: &Cell) -> bool {
    cell.measurements.iter().filter(|one| one.is_valid()).count() > 1
}

pub(super) fn variation(share: f64, cell: &Cell) -> Value {
    if has_variation(cell) { Value::percent(share) } else { Value::Nothing }
}

/// Jain's fairness index: 1 if all clients get the same, 1/n if one of n gets everything. Uses mean rates in
/// operations, over all repetitions with a result.
pub(super) fn fairness(rates: &[f64]) -> f64 {
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|rate| rate * rate).sum::<f64>());
    if squares > 0.0 { sum * sum / (rates.len() as f64 * squares) } else { 1.0 }
}

/// Operations and MiB per second of each client, over the repetitions with a result.
pub(super) fn of_clients(cell: &Cell) -> Vec<(f64, f64)> {
    let mut rates = Vec::new();
    let mut seconds = 0.0;
    for measurement in cell.measurements.iter().filter(|one| one.is_valid()) {
        seconds += measurement.seconds;
        rates.resize(measurement.clients.len().max(rates.len()), (0.0, 0.0));
        for (client, rate) in measurement.clients.iter().zip(&mut rates) {
            for second in &client.seconds {
                rate.0 += (second.reads + second.writes + second.others) as f64;
                rate.1 += (second.read_bytes + second.write_bytes) as f64 / f64::from(1 << 20);
            }
        }
    }
    rates.into_iter().map(|(ops, mib)| (ops / seconds, mib / seconds)).collect()
}

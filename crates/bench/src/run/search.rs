//! The search for the number of calls in flight with the highest rate.

use report::result::{Measurement, Probe};
use report::scenario::limits::DEPTH_MAX;
use report::scenario::{Point, Series};

/// Two smaller gains in a row end the search.
const GAIN_MIN: f64 = 1.03;
/// The chosen depth must reach this share of the peak.
const ENOUGH: f64 = 0.97;
/// Bounds the data in flight, in bytes.
const BYTES_MAX: u64 = 256 << 20;

/// The next depth to try. `None` ends the search.
pub(super) fn next(probes: &[Probe], series: &Series, point: &Point) -> Option<usize> {
    let Some(last) = probes.last() else {
        // Every connection needs a call.
        return Some(point.connections.div_ceil(series.jobs));
    };
    let depth = last.depth * 2;
    let bytes = (point.clients * series.jobs * depth) as u64 * point.block;
    let parts = point.transfer.map_or(1, |transfer| point.block.div_ceil(transfer));
    let on_connection = (series.jobs * depth).div_ceil(point.connections) as u64 * parts;
    let gains = probes.windows(2).map(|pair| pair[1].ops_per_s / pair[0].ops_per_s);
    let in_vain = gains.rev().take_while(|gain| *gain < GAIN_MIN).count();
    (in_vain < 2 && bytes <= BYTES_MAX && on_connection <= DEPTH_MAX as u64).then_some(depth)
}

/// The smallest depth that reaches [`ENOUGH`] of the peak.
pub(super) fn best_depth(probes: &[Probe]) -> usize {
    let peak = probes.iter().map(|probe| probe.ops_per_s).fold(0.0, f64::max);
    probes.iter().find(|probe| probe.ops_per_s >= ENOUGH * peak).map_or(1, |probe| probe.depth)
}

pub(super) fn probe(depth: usize, measurement: &Measurement) -> Probe {
    Probe {
        depth,
        ops_per_s: measurement.ops(None) as f64 / measurement.seconds,
        mib_per_s: measurement.bytes(None) as f64 / measurement.seconds / f64::from(1 << 20),
        latency: measurement.service(None).latency(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::result::Latency;

    /// The depths that the search tries, and the chosen one.
    fn tried(rate: impl Fn(usize) -> f64, series: &Series) -> (Vec<usize>, usize) {
        let (point, mut probes) = (series.points().remove(0), Vec::new());
        while let Some(depth) = next(&probes, series, &point) {
            let latency = Latency::default();
            probes.push(Probe { depth, ops_per_s: rate(depth), mib_per_s: 0.0, latency });
        }
        (probes.iter().map(|probe| probe.depth).collect(), best_depth(&probes))
    }

    #[test]
    fn doubles_until_it_gains_nothing_twice() {
        let series = Series { jobs: 1, ..Series::default() };
        let saturating = |depth: usize| (depth * 100).min(1600) as f64;
        assert_eq!(tried(saturating, &series), (vec![1, 2, 4, 8, 16, 32, 64], 16));
        assert_eq!(tried(|_| 500.0, &series), (vec![1, 2, 4], 1));
    }

    #[test]
    fn begins_with_a_call_on_each_connection_and_stays_within_bounds() {
        let series = Series {
            jobs: 8,
            connections: vec![16],
            blocks: vec![256 << 10],
            clients: vec![6],
            ..Series::default()
        };
        let (depths, _) = tried(|depth| depth as f64, &series);
        assert_eq!(depths, [2, 4, 8, 16]);
    }
}

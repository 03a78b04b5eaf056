//! The user's measurements: curves like the published ones, from another source.

use super::curve::{CeilingEstimate, Curve, ceiling};
use super::{Access, Stream};
use crate::{Bytes, BytesPerSecond, Level, Protocol};
use serde::Serialize;

/// A measured volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Measured {
    /// The run and its target, for people.
    pub source: String,
    /// The level of the volumes that it stands for.
    pub level: Level,
    pub large: bool,
    pub protocol: Protocol,
    /// Whether clients and server were on one host.
    pub co_located: bool,
    /// The size of all files.
    pub working_set: Bytes,
    pub points: Vec<MeasuredPoint>,
}

/// One load with its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MeasuredPoint {
    pub access: Access,
    pub block: Bytes,
    /// Thousandths of the operations that were reads.
    pub read_thousandths: u32,
    pub clients: u32,
    /// Reads and writes together.
    pub rate: BytesPerSecond,
    /// Mean latency of an operation, in microseconds.
    pub latency_us: u64,
}

impl Measured {
    /// The maximum of such operations in such a mix, from points with at most this mean latency. A slower
    /// point of a measured mix is left out and interpolated over. That is safe: the rate within a shorter
    /// latency is at most the rate within a longer one.
    pub(super) fn ceiling(&self, stream: &Stream, reads: u32, latency_us: u64) -> Option<CeilingEstimate> {
        let of_kind = || self.points.iter().filter(|point| point.access == stream.access);
        let within = |most: u64| {
            let points = of_kind().filter(|point| point.latency_us <= most);
            ceiling(&Curve::from_points(points), stream.access, stream.block, reads)
        };
        let estimate = within(latency_us)?;
        let mut longer: Vec<u64> =
            of_kind().map(|point| point.latency_us).filter(|&latency| latency > latency_us).collect();
        longer.sort_unstable();
        longer.dedup();
        std::iter::once(estimate)
            .chain(longer.into_iter().filter_map(within))
            .min_by_key(|estimate| estimate.rate)
    }

    /// Returns `target` if there is a ceiling within it, else the lowest latency with a ceiling.
    pub(super) fn min_latency(&self, stream: &Stream, reads: u32, target: u64) -> Option<u64> {
        let mut latencies: Vec<u64> = self.points.iter().map(|point| point.latency_us).collect();
        latencies.retain(|&latency| latency > target);
        latencies.sort_unstable();
        let candidates = std::iter::once(target).chain(latencies);
        candidates.into_iter().find(|&latency| self.ceiling(stream, reads, latency).is_some())
    }
}

impl Curve {
    /// Keeps the highest rate of each mix.
    pub(super) fn from_points<'a>(points: impl Iterator<Item = &'a MeasuredPoint>) -> Vec<Self> {
        let mut curves: Vec<Self> = Vec::new();
        for point in points {
            let at = curves.iter().position(|one| (one.access, one.block) == (point.access, point.block));
            let at = at.unwrap_or_else(|| {
                let (access, block) = (point.access, point.block);
                curves.push(Self { access, block, knots: Vec::new(), name: format!("{block} measured") });
                curves.len() - 1
            });
            let knots = &mut curves[at].knots;
            match knots.binary_search_by_key(&point.read_thousandths, |knot| knot.0) {
                Ok(same) => knots[same].1 = knots[same].1.max(point.rate),
                Err(place) => knots.insert(place, (point.read_thousandths, point.rate)),
            }
        }
        curves
    }
}

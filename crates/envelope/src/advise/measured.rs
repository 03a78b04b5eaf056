//! What the user measured: curves like the published ones, with another source.

use super::curve::{Curve, Found, ceiling};
use super::{Access, Stream};
use crate::{Bytes, BytesPerSecond, Level, Protocol};
use serde::Serialize;

/// A volume as somebody measured it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Measured {
    /// Which run of which target, for people.
    pub source: String,
    /// Volumes of this level it tells of.
    pub level: Level,
    /// Whether it was a large volume.
    pub large: bool,
    /// Over what it was measured.
    pub protocol: Protocol,
    /// Whether its clients and its server were on one host.
    pub co_located: bool,
    /// The bytes of all files.
    pub working_set: Bytes,
    /// What was found.
    pub points: Vec<MeasuredPoint>,
}

/// One load and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MeasuredPoint {
    /// How operations followed each other.
    pub access: Access,
    /// The size of each.
    pub block: Bytes,
    /// Thousandths of them that were reads.
    pub read_thousandths: u32,
    /// How many clients there were.
    pub clients: u32,
    /// The data, reads and writes together.
    pub rate: BytesPerSecond,
    /// How long an operation took on average, in microseconds.
    pub latency_us: u64,
}

impl Measured {
    /// The most of such operations in such a mix, among what took no longer than that on average. Where a mix that was
    /// measured took longer, it may be interpolated over: what remains within less time is still no more than what there is
    /// within more.
    pub(super) fn ceiling(&self, stream: &Stream, reads: u32, latency_us: u64) -> Option<Found> {
        let of_kind = || self.points.iter().filter(|point| point.access == stream.access);
        let within = |most: u64| {
            let points = of_kind().filter(|point| point.latency_us <= most);
            ceiling(&Curve::of_points(points), stream.access, stream.block, reads)
        };
        let found = within(latency_us)?;
        let mut longer: Vec<u64> =
            of_kind().map(|point| point.latency_us).filter(|&latency| latency > latency_us).collect();
        longer.sort_unstable();
        longer.dedup();
        std::iter::once(found).chain(longer.into_iter().filter_map(within)).min_by_key(|found| found.rate)
    }

    /// The target itself if there is a ceiling within it, else the least latency within which there is one.
    pub(super) fn least_latency(&self, stream: &Stream, reads: u32, target: u64) -> Option<u64> {
        let mut latencies: Vec<u64> = self.points.iter().map(|point| point.latency_us).collect();
        latencies.retain(|&latency| latency > target);
        latencies.sort_unstable();
        let candidates = std::iter::once(target).chain(latencies);
        candidates.into_iter().find(|&latency| self.ceiling(stream, reads, latency).is_some())
    }
}

impl Curve {
    /// The curves that points make: of each mix the highest rate.
    pub(super) fn of_points<'a>(points: impl Iterator<Item = &'a MeasuredPoint>) -> Vec<Self> {
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

//! Ceilings of one load from curves of several block sizes, published or measured.

use super::Access;
use super::band::Band;
use crate::shape::interpolate;
use crate::{Bytes, BytesPerSecond, Shape};

#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) access: Access,
    pub(super) block: Bytes,
    /// Thousandths of reads, ascending, each with the rate.
    pub(super) knots: Vec<(u32, BytesPerSecond)>,
    pub(super) name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CeilingEstimate {
    pub(super) rate: BytesPerSecond,
    /// Present if the rate is estimated.
    pub(super) band: Option<Band>,
    pub(super) derivation: String,
    pub(super) curves: Vec<String>,
}

impl From<Shape> for Curve {
    fn from(shape: Shape) -> Self {
        Self {
            access: shape.pattern().into(),
            block: shape.block(),
            knots: shape.knots().map(|(reads, point)| (reads, point.bandwidth)).collect(),
            name: shape.name().to_owned(),
        }
    }
}

impl Curve {
    /// The band is present if the rate is interpolated. `None` outside of the curve.
    fn at(&self, reads: u32) -> Option<(BytesPerSecond, Option<Band>)> {
        match self.knots.binary_search_by_key(&reads, |knot| knot.0) {
            Ok(at) => Some((self.knots[at].1, None)),
            Err(above) => {
                let (left, right) = (self.knots.get(above.checked_sub(1)?)?, self.knots.get(above)?);
                let place = (u64::from(reads - left.0), u64::from(right.0 - left.0));
                let rate = BytesPerSecond(interpolate(place, left.1.0, right.1.0));
                Some((rate, Some(Band::for_knots(self.knots.len()))))
            }
        }
    }

    fn derivation(&self, reads: u32, band: Option<Band>) -> String {
        let percent = percent(reads);
        match band {
            None => format!("{} at {percent} reads", self.name),
            Some(_) => format!("{}, 1/T interpolated at {percent} reads", self.name),
        }
    }
}

pub(super) fn percent(thousandths: u32) -> String {
    let (whole, rest) = (thousandths / 10, thousandths % 10);
    if rest == 0 { format!("{whole} %") } else { format!("{whole}.{rest} %") }
}

/// The ceiling for blocks of this size in this mix. `None` if no curve covers the operations or the mix.
///
/// Nothing is extrapolated beyond the block sizes of the curves. A larger operation counts as several of the
/// largest blocks, a smaller one as one of the smallest. Neither can take longer, so the real ceiling is at
/// least this one.
pub(super) fn ceiling(curves: &[Curve], access: Access, block: Bytes, reads: u32) -> Option<CeilingEstimate> {
    let mut of_kind: Vec<&Curve> = curves.iter().filter(|curve| curve.access == access).collect();
    of_kind.sort_by_key(|curve| curve.block);
    let above = of_kind.iter().position(|curve| curve.block >= block);
    match above {
        Some(at) if of_kind[at].block == block => {
            let curve = of_kind[at];
            let (rate, band) = curve.at(reads)?;
            let curves = vec![curve.name.clone()];
            Some(CeilingEstimate { rate, band, derivation: curve.derivation(reads, band), curves })
        }
        Some(0) => count_operations(of_kind[0], block, 1, reads),
        Some(at) => interpolate_blocks(of_kind[at - 1], of_kind[at], block, reads),
        None => {
            let largest = of_kind.last()?;
            count_operations(largest, block, block.0.div_ceil(largest.block.0), reads)
        }
    }
}

/// Counts each operation as `times` operations of the curve.
fn count_operations(curve: &Curve, block: Bytes, times: u64, reads: u32) -> Option<CeilingEstimate> {
    let (rate, band) = curve.at(reads)?;
    let curve_bytes = u128::from(times) * u128::from(curve.block.0);
    let rate = u128::from(rate.0) * u128::from(block.0) / curve_bytes;
    let one = if times == 1 { "one".to_owned() } else { times.to_string() };
    Some(CeilingEstimate {
        rate: BytesPerSecond(u64::try_from(rate).unwrap_or(u64::MAX)),
        band,
        derivation: format!(
            "{}; {block} is counted as {one} of {}, a lower bound",
            curve.derivation(reads, band),
            curve.block
        ),
        curves: vec![curve.name.clone()],
    })
}

/// Interpolates the time of an operation between two block sizes. The true time lies between them, whatever
/// the form of the curve.
fn interpolate_blocks(small: &Curve, large: &Curve, block: Bytes, reads: u32) -> Option<CeilingEstimate> {
    let ((low, low_band), (high, high_band)) = (large.at(reads)?, small.at(reads)?);
    let iops = |rate: BytesPerSecond, block: Bytes| rate.0 / block.0;
    let (few, many) = (iops(low, large.block), iops(high, small.block));
    let place = (block.0 - small.block.0, large.block.0 - small.block.0);
    let estimate = interpolate(place, many, few).max(1);
    let thousandths =
        |part: u64| u32::try_from(u128::from(part) * 1000 / u128::from(estimate)).unwrap_or(1000);
    let ends = Band {
        low_thousandths: thousandths(few.min(many)).min(1000),
        high_thousandths: thousandths(few.max(many)).max(1000),
    };
    Some(CeilingEstimate {
        rate: BytesPerSecond(estimate.saturating_mul(block.0)),
        band: Some(low_band.or(high_band).map_or(ends, |mix| mix.combine(ends))),
        derivation: format!(
            "between {} and {}, the time of an operation interpolated at {} reads",
            small.name,
            large.name,
            percent(reads)
        ),
        curves: vec![small.name.clone(), large.name.clone()],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MeasuredPoint;

    fn curves(names: &[&str]) -> Vec<Curve> {
        names.iter().map(|name| Curve::from(name.parse::<Shape>().unwrap())).collect()
    }

    fn estimate(kib: u64, access: Access, reads: u32) -> Option<CeilingEstimate> {
        let extreme = curves(&[
            "gcnv-extreme-nfs3-8k-rand",
            "gcnv-extreme-nfs3-4k-rand",
            "gcnv-extreme-nfs3-64k-seq",
            "gcnv-extreme-nfs3-256k-seq",
        ]);
        ceiling(&extreme, access, Bytes(kib << 10), reads)
    }

    #[test]
    fn published_point_has_no_band() {
        let exact = estimate(8, Access::Random, 750).unwrap();
        assert_eq!((exact.rate, exact.band), (BytesPerSecond(176_100 << 13), None));
        assert_eq!(exact.derivation, "gcnv-extreme-nfs3-8k-rand at 75 % reads");
        assert_eq!(estimate(64, Access::Sequential, 1000).unwrap().rate, BytesPerSecond::mib(5_237));
    }

    #[test]
    fn interpolated_point_has_band() {
        let shape: Shape = "gcnv-extreme-nfs3-8k-rand".parse().unwrap();
        let mix = estimate(8, Access::Random, 875).unwrap();
        assert!(mix.rate.0.abs_diff(shape.at(875).unwrap().bandwidth.0) < 1 << 13);
        assert_eq!(mix.band, Some(Band { low_thousandths: 829, high_thousandths: 1259 }));
        let block = estimate(6, Access::Random, 1000).unwrap();
        assert_eq!(block.rate, BytesPerSecond(312_248 * 6144));
        // 265,000 and 380,000 IOPS, around 312,248.
        assert_eq!(block.band, Some(Band { low_thousandths: 848, high_thousandths: 1216 }));
        let both = estimate(6, Access::Random, 875).unwrap().band.unwrap();
        assert!(both.low_thousandths < 829 && both.high_thousandths > 1259, "{both:?}");
    }

    #[test]
    fn larger_blocks_count_as_several_operations() {
        let larger = estimate(20, Access::Random, 1000).unwrap();
        assert_eq!(larger.rate, BytesPerSecond(265_000 * 20 * 1024 / 3), "as three of 8 KiB");
        assert!(
            larger.derivation.ends_with("20 KiB is counted as 3 of 8 KiB, a lower bound"),
            "{}",
            larger.derivation
        );
        let smaller = estimate(2, Access::Random, 1000).unwrap();
        assert_eq!(smaller.rate, BytesPerSecond(380_000 * 2048), "as one of 4 KiB");
        let exact = estimate(512, Access::Sequential, 0).unwrap();
        assert_eq!(exact.rate, BytesPerSecond::mib(2_440));
    }

    #[test]
    fn uncovered_mix_has_no_ceiling() {
        assert_eq!(estimate(8, Access::Eda, 500), None);
        assert_eq!(ceiling(&[], Access::Random, Bytes(8192), 500), None);
        let point = |reads, mib, latency_us| MeasuredPoint {
            access: Access::Random,
            block: Bytes(8192),
            read_thousandths: reads,
            clients: 1,
            rate: BytesPerSecond::mib(mib),
            latency_us,
        };
        let points = [point(500, 80, 1), point(900, 100, 1), point(500, 70, 1)];
        let measured = Curve::from_points(points.iter());
        assert_eq!(measured.len(), 1);
        let at = |reads| ceiling(&measured, Access::Random, Bytes(8192), reads).map(|estimate| estimate.rate);
        assert_eq!(at(500), Some(BytesPerSecond::mib(80)), "the higher one of both");
        assert_eq!((at(499), at(901)), (None, None));
        assert!(at(700).is_some_and(|rate| rate > BytesPerSecond::mib(80)));
    }
}

//! The uncertainty of an estimated ceiling.

use crate::shape::band_of;
use serde::Serialize;

/// A range around an estimated ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Band {
    /// Lower end in thousandths of the ceiling, at most 1,000.
    pub low_thousandths: u32,
    /// Upper end in thousandths of the ceiling, at least 1,000.
    pub high_thousandths: u32,
}

impl Band {
    /// The worst error of interpolation between mixes. Errors are relative to the published figure: if
    /// the estimate is a fifth too low, the published figure is a quarter above it.
    pub(super) fn for_knots(knots: usize) -> Self {
        let worst = band_of(knots).worst_thousandths;
        Self { low_thousandths: 1_000_000 / (1000 + worst), high_thousandths: 1_000_000 / (1000 - worst) }
    }

    pub(super) fn combine(self, other: Self) -> Self {
        let times = |one: u32, other: u32| one * other / 1000;
        Self {
            low_thousandths: times(self.low_thousandths, other.low_thousandths),
            high_thousandths: times(self.high_thousandths, other.high_thousandths),
        }
    }
}

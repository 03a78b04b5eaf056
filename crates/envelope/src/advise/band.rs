//! How far off an estimated ceiling may be.

use crate::shape::band_of;
use serde::Serialize;

/// Between which ceilings the real one may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Band {
    /// Thousandths of the ceiling, 1,000 or less.
    pub low_thousandths: u32,
    /// Thousandths of the ceiling, 1,000 or more.
    pub high_thousandths: u32,
}

impl Band {
    /// As far off as interpolating between mixes was found to be at worst, which is in parts of what was published: where
    /// that was estimated too low by a fifth, it is a quarter above the estimate.
    pub(super) fn of_knots(knots: usize) -> Self {
        let worst = band_of(knots).worst_thousandths;
        Self { low_thousandths: 1_000_000 / (1000 + worst), high_thousandths: 1_000_000 / (1000 - worst) }
    }

    /// What remains of both doubts.
    pub(super) fn with(self, other: Self) -> Self {
        let times = |one: u32, other: u32| one * other / 1000;
        Self {
            low_thousandths: times(self.low_thousandths, other.low_thousandths),
            high_thousandths: times(self.high_thousandths, other.high_thousandths),
        }
    }
}

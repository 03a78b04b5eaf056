//! Latencies as a distribution that can be merged and stored in a file.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Numbers of operations by latency in nanoseconds, to three significant digits; ascending, without empty steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// Upper end in nanoseconds, and number of operations.
    pub steps: Vec<(u64, u64)>,
    /// The sum of all latencies in nanoseconds, exactly.
    pub sum_ns: u64,
}

/// A distribution in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p90_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
    pub p99_9_ms: f64,
    pub max_ms: f64,
}

impl Distribution {
    pub fn count(&self) -> u64 {
        self.steps.iter().map(|(_, count)| count).sum()
    }

    /// In nanoseconds; 0 without operations. `share` of the operations did not exceed this latency.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let wanted = (share * self.count() as f64).ceil().max(1.0);
        let mut count_below = 0;
        let step = self.steps.iter().find(|(_, count)| {
            count_below += count;
            count_below as f64 >= wanted
        });
        step.or(self.steps.last()).map_or(0, |(up_to, _)| *up_to)
    }

    /// In nanoseconds; 0 without operations.
    pub fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / self.count().max(1) as f64
    }

    pub fn latency(&self) -> Latency {
        let ms = |nanoseconds: f64| nanoseconds / 1e6;
        let at = |share: f64| ms(self.quantile_ns(share) as f64);
        Latency {
            mean_ms: ms(self.mean_ns()),
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
            p99_9_ms: at(0.999),
            max_ms: at(1.0),
        }
    }
}

impl From<&Histogram<u64>> for Distribution {
    /// The sum uses the middle of each step, which is as exact as the histogram's three digits.
    fn from(histogram: &Histogram<u64>) -> Self {
        let occurred = histogram.iter_recorded();
        let steps: Vec<_> =
            occurred.map(|step| (step.value_iterated_to(), step.count_since_last_iteration())).collect();
        let middle = |(up_to, count): &(u64, u64)| {
            u128::from(histogram.median_equivalent(*up_to)) * u128::from(*count)
        };
        let sum = steps.iter().map(middle).sum::<u128>();
        Self { steps, sum_ns: u64::try_from(sum).unwrap_or(u64::MAX) }
    }
}

impl FromIterator<Distribution> for Distribution {
    fn from_iter<I: IntoIterator<Item = Distribution>>(all: I) -> Self {
        merged(all.into_iter().map(|one| (one.steps, one.sum_ns)))
    }
}

impl<'a> FromIterator<&'a Distribution> for Distribution {
    fn from_iter<I: IntoIterator<Item = &'a Distribution>>(all: I) -> Self {
        merged(all.into_iter().map(|one| (one.steps.clone(), one.sum_ns)))
    }
}

fn merged(all: impl Iterator<Item = (Vec<(u64, u64)>, u64)>) -> Distribution {
    let (mut counts, mut sum_ns) = (BTreeMap::new(), 0u64);
    for (steps, sum) in all {
        sum_ns = sum_ns.saturating_add(sum);
        steps.into_iter().for_each(|(up_to, count)| *counts.entry(up_to).or_default() += count);
    }
    Distribution { steps: counts.into_iter().collect(), sum_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_distributions_equal_joint_measurement() {
        let mut histograms =
            [1, 2, 3].map(|_| Histogram::<u64>::new_with_bounds(1, 120_000_000_000, 3).unwrap());
        for value in 1..=10_000u64 {
            histograms[usize::from(value % 3 == 0)].record(value * 1000).unwrap();
            histograms[2].record(value * 1000).unwrap();
        }
        let [a, b, both] = histograms.each_ref().map(Distribution::from);
        let merged: Distribution = [&a, &b].into_iter().collect();
        assert_eq!(merged.steps, both.steps);
        assert_eq!((merged.count(), both.count()), (10_000, 10_000));
        let latency = merged.latency();
        for (found, wanted) in
            [(latency.p50_ms, 5.0), (latency.p99_ms, 9.9), (latency.max_ms, 10.0), (latency.mean_ms, 5.0)]
        {
            assert!((found / wanted - 1.0).abs() < 0.002, "{found} {wanted}");
        }
        assert_eq!(Distribution::default().latency(), Latency::default());
    }
}

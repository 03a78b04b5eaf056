//! Whether a rate is steady, by its last seconds.

pub(super) const SECONDS: usize = 30;
/// Range over mean.
const RANGE_MAX: f64 = 0.2;
/// Slope over all seconds, over mean.
const TREND_MAX: f64 = 0.1;

/// Whether rates neither jump nor trend. Fewer than [`SECONDS`] rates are not steady.
pub(super) fn is_steady(rates: &[f64]) -> bool {
    let Some(last) = rates.len().checked_sub(SECONDS).map(|start| &rates[start..]) else { return false };
    let mean = last.iter().sum::<f64>() / SECONDS as f64;
    let (min, max) = last.iter().fold((f64::MAX, 0.0), |(min, max), &rate| (rate.min(min), rate.max(max)));
    mean > 0.0 && max - min <= RANGE_MAX * mean && (slope(last) * SECONDS as f64).abs() <= TREND_MAX * mean
}

fn slope(rates: &[f64]) -> f64 {
    let middle = (rates.len() - 1) as f64 / 2.0;
    let moments = rates.iter().enumerate().map(|(at, rate)| {
        let x = at as f64 - middle;
        (x * rate, x * x)
    });
    let (product, square) = moments.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    product / square
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_even_rate_is_steady() {
        let rates = |rate: &dyn Fn(f64) -> f64| (0..40).map(|at| rate(f64::from(at))).collect::<Vec<_>>();
        assert!(is_steady(&rates(&|_| 100.0)));
        assert!(is_steady(&rates(&|at| 100.0 + 8.0 * at.sin())));
        assert!(!is_steady(&rates(&|at| 100.0 + 12.0 * at.sin())), "a range of 24 %");
        assert!(!is_steady(&rates(&|at| 100.0 + 0.4 * at)), "climbs by 12 % in 30 s");
        assert!(
            is_steady(&rates(&|at| if at < 9.0 { 10.0 } else { 100.0 })),
            "what was before does not count"
        );
        assert!(!is_steady(&rates(&|_| 0.0)));
        assert!(!is_steady(&[100.0; 29]));
    }
}

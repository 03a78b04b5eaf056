//! Statistics of ratios of noisy figures. All work on logarithms, where a ratio of 2 is as far from 1 as a
//! ratio of 1/2.

use crate::result::student_t95;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    pub ratio: f64,
    /// The 95 % interval of the ratio of the geometric means, by Welch's t. Absent if one side has a single
    /// value, whose error is unknown.
    pub interval: Option<[f64; 2]>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spread {
    /// Squared deviations of the logarithms from their means.
    squares: f64,
    /// Degrees of freedom of `squares`.
    freedom: f64,
}

/// Standard error of a median over that of a mean, for many values. For few values the median is a little better.
const MEDIAN_OVER_MEAN: f64 = 1.25;

/// 0 without values.
pub(super) fn median(values: &[f64]) -> f64 {
    crate::result::Spread::of(values).median
}

/// `None` if a side is empty or has a value that is not positive.
pub(super) fn ratio(a: &[f64], b: &[f64]) -> Option<Ratio> {
    let (first, second) = (moments(a)?, moments(b)?);
    let ratio = median(b) / median(a);
    if a.len() < 2 || b.len() < 2 {
        return Some(Ratio { ratio, interval: None });
    }
    let error = |(_, variance): (f64, f64), count: usize| variance / count as f64;
    let (of_a, of_b) = (error(first, a.len()), error(second, b.len()));
    let below = of_a.powi(2) / (a.len() - 1) as f64 + of_b.powi(2) / (b.len() - 1) as f64;
    // Welch and Satterthwaite; rounded down by the table, which widens the interval.
    let freedom = if below > 0.0 { (of_a + of_b).powi(2) / below } else { (a.len() + b.len() - 2) as f64 };
    let half = student_t95(whole_part(freedom) + 1) * (of_a + of_b).sqrt();
    let middle = second.0 - first.0;
    Some(Ratio { ratio, interval: Some([(middle - half).exp(), (middle + half).exp()]) })
}

fn moments(values: &[f64]) -> Option<(f64, f64)> {
    if values.is_empty() || values.iter().any(|&value| value.is_nan() || value <= 0.0) {
        return None;
    }
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    Some((mean, squares / (logs.len().max(2) - 1) as f64))
}

impl Spread {
    /// A cell with a single repetition adds nothing.
    pub(super) fn add(&mut self, values: &[f64]) {
        if let (Some((_, variance)), true) = (moments(values), values.len() > 1) {
            self.squares += variance * (values.len() - 1) as f64;
            self.freedom += (values.len() - 1) as f64;
        }
    }

    /// The largest deviation from 1 that chance gives a ratio of medians of `a` and `b` values. With a
    /// probability of 95 %, none of `figures` such ratios exceeds it. Zero without repetitions.
    pub(super) fn floor(&self, a: usize, b: usize, figures: usize) -> f64 {
        if self.freedom == 0.0 || a == 0 || b == 0 {
            return 0.0;
        }
        let deviation = (self.squares / self.freedom).sqrt();
        let median = if a > 2 || b > 2 { MEDIAN_OVER_MEAN } else { 1.0 };
        let error = median * deviation * (1.0 / a as f64 + 1.0 / b as f64).sqrt();
        (normal_beyond(0.025 / figures.max(1) as f64) * error).exp_m1()
    }
}

/// Computes the noise floor from two runs of one setup, by the differences of their medians. Repetitions
/// within a run do not show changes between runs.
pub(super) fn floor_of_pairs(ratios: &[f64], figures: usize) -> f64 {
    if ratios.is_empty() {
        return 0.0;
    }
    let squares: f64 = ratios.iter().map(|ratio| ratio.ln().powi(2)).sum();
    let deviation = (squares / ratios.len() as f64).sqrt();
    // Few pairs determine the deviation poorly. The number of figures is then the lesser error.
    let wide = student_t95(ratios.len() + 1).max(normal_beyond(0.025 / figures.max(1) as f64));
    (wide * deviation).exp_m1()
}

/// The number of standard deviations above which a normal distribution has this share: Abramowitz and Stegun 26.2.23,
/// to 4.5e-4.
fn normal_beyond(share: f64) -> f64 {
    let t = (-2.0 * share.ln()).sqrt();
    t - (2.515_517 + 0.802_853 * t + 0.010_328 * t * t)
        / (1.0 + 1.432_788 * t + 0.189_269 * t * t + 0.001_308 * t * t * t)
}

fn whole_part(value: f64) -> usize {
    (1..=30u32).take_while(|&whole| f64::from(whole) <= value).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn welch_interval_matches_textbook() {
        // Logarithms 0, 0.1, 0.2 against 1, 1.1, 1.2, 1.3: variances 0.01 and 0.016667, error² 0.0075,
        // freedom 4.96.
        let a = [0.0f64, 0.1, 0.2].map(f64::exp);
        let b = [1.0f64, 1.1, 1.2, 1.3].map(f64::exp);
        let interval = ratio(&a, &b).unwrap();
        let [low, high] = interval.interval.unwrap().map(f64::ln);
        let half = 2.776 * 0.0075f64.sqrt();
        assert!((low - (1.05 - half)).abs() < 1e-9 && (high - (1.05 + half)).abs() < 1e-9, "{low} {high}");
        let medians = (1.1f64.exp() + 1.2f64.exp()) / 2.0 / 0.1f64.exp();
        assert!((interval.ratio - medians).abs() < 1e-9);
        assert_eq!(ratio(&a, &[1.0]).unwrap().interval, None);
        assert_eq!(ratio(&a, &[0.0, 1.0]), None);
        assert_eq!(ratio(&[2.0, 2.0], &[2.0, 2.0]).unwrap().interval, Some([1.0, 1.0]));
    }

    #[test]
    fn noise_floor_grows_with_spread_and_figures() {
        let mut spread = Spread::default();
        spread.add(&[0.98, 1.0, 1.02]);
        spread.add(&[100.0, 98.0, 102.0]);
        // 1.96 × 1.25 × 2 % × √(2/3).
        assert!((spread.floor(3, 3, 1) - 0.0408).abs() < 0.0005, "{}", spread.floor(3, 3, 1));
        assert!(
            spread.floor(3, 3, 40) > spread.floor(3, 3, 1) && spread.floor(5, 5, 1) < spread.floor(3, 3, 1)
        );
        assert_eq!(Spread::default().floor(3, 3, 1), 0.0);
        assert!((floor_of_pairs(&[1.01, 0.99, 1.01, 0.99], 1) - 0.0282).abs() < 0.001);
        assert_eq!(floor_of_pairs(&[], 4), 0.0);
        assert!((normal_beyond(0.025) - 1.96).abs() < 1e-3 && (normal_beyond(0.0005) - 3.2905).abs() < 1e-3);
    }
}

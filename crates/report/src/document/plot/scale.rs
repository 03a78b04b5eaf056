//! Maps values to places, with round ticks.

use super::chart::Axis;
use crate::document::table::separated;

pub(super) struct Scale {
    logarithmic: bool,
    values: (f64, f64),
    places: (f64, f64),
    pub(super) ticks: Vec<(f64, String)>,
}

const TICKS: f64 = 6.0;

impl Scale {
    /// A linear axis starts at zero.
    pub(super) fn new(axis: &Axis, values: impl Iterator<Item = f64>, places: (f64, f64)) -> Self {
        let finite = values.filter(|value| value.is_finite());
        let (min, max) = finite.fold((f64::INFINITY, 0.0f64), |(min, max), value| {
            (if value > 0.0 { min.min(value) } else { min }, max.max(value))
        });
        let max = if max > 0.0 { max } else { 1.0 };
        let min = if min <= max { min } else { max };
        let (range, mut ticks) =
            if axis.logarithmic { logarithmic_ticks(min, max) } else { linear_ticks(max) };
        let mut values = range;
        if !axis.ticks.is_empty() {
            ticks.clone_from(&axis.ticks);
            values = if axis.logarithmic { (min, max) } else { (0.0, max) };
        }
        if axis.logarithmic && values.0 >= values.1 {
            values = (values.0 / 2.0, values.1 * 2.0);
        }
        Self { logarithmic: axis.logarithmic, values, places, ticks }
    }

    /// Values outside the range get the place of the nearest end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let (low, high) = self.values;
        let share = if self.logarithmic {
            (value.max(low) / low).ln() / (high / low).ln()
        } else {
            (value - low) / (high - low)
        };
        self.places.0 + share.clamp(0.0, 1.0) * (self.places.1 - self.places.0)
    }
}

/// From zero to the first tick at or above `max`, in steps of 1, 2 or 5 times a power of ten.
fn linear_ticks(max: f64) -> ((f64, f64), Vec<(f64, String)>) {
    let rough = max / TICKS;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|&step| step >= rough);
    let step = step.unwrap_or(10.0 * power);
    let digits = digits_of(step);
    let mut ticks = vec![(0.0, "0".to_owned())];
    let mut top = 0.0;
    for index in 1..=12 {
        if top >= max * 0.9999 {
            break;
        }
        top = step * f64::from(index);
        ticks.push((top, separated(top, digits)));
    }
    ((0.0, top), ticks)
}

/// From the 1, 2 or 5 at or below `min` to the one at or above `max`.
fn logarithmic_ticks(min: f64, max: f64) -> ((f64, f64), Vec<(f64, String)>) {
    let mut ticks = Vec::new();
    let mut power = 10f64.powf(min.log10().floor());
    while power <= max {
        ticks.extend([1.0, 2.0, 5.0].map(|factor| factor * power));
        power *= 10.0;
    }
    ticks.push(power);
    let from = ticks.iter().rposition(|&tick| tick <= min * 1.0001).unwrap_or(0);
    let to = ticks.iter().position(|&tick| tick >= max * 0.9999).unwrap_or(ticks.len() - 1);
    let ticks = &ticks[from..=to.max(from)];
    let is_power = |tick: f64| (tick.log10() - tick.log10().round()).abs() < 1e-6;
    // Over many powers of ten, only these have labels.
    let shown = ticks.iter().filter(|&&tick| ticks.len() <= 10 || is_power(tick));
    let labels = shown.map(|&tick| (tick, separated(tick, digits_of(tick)))).collect();
    ((ticks[0], ticks[ticks.len() - 1]), labels)
}

fn digits_of(round: f64) -> usize {
    [1.0, 0.1, 0.01, 0.001].into_iter().position(|unit| round >= unit * 0.9999).unwrap_or(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, values: &[f64]) -> Vec<String> {
        let scale = Scale::new(axis, values.iter().copied(), (0.0, 100.0));
        scale.ticks.into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        let linear = Axis::new("");
        assert_eq!(labels(&linear, &[5237.0]), ["0", "1,000", "2,000", "3,000", "4,000", "5,000", "6,000"]);
        assert_eq!(labels(&linear, &[0.37]), ["0", "0.1", "0.2", "0.3", "0.4"]);
        assert_eq!(labels(&linear, &[1.0]), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&linear, &[]), labels(&linear, &[1.0]));
        let logarithmic = Axis::logarithmic("");
        assert_eq!(labels(&logarithmic, &[0.3, 7.0]), ["0.2", "0.5", "1", "2", "5", "10"]);
        assert_eq!(labels(&logarithmic, &[0.05, 900.0]), ["0.1", "1", "10", "100", "1,000"]);
    }

    #[test]
    fn places_keep_order_and_clamp_ends() {
        let scale = Scale::new(&Axis::logarithmic(""), [1.0, 100.0].into_iter(), (0.0, 100.0));
        assert_eq!(
            [1.0, 10.0, 100.0, 1000.0].map(|value| scale.place(value).round()),
            [0.0, 50.0, 100.0, 100.0]
        );
        let down = Scale::new(&Axis::new(""), [10.0].into_iter(), (100.0, 0.0));
        assert_eq!([0.0, 5.0, 10.0].map(|value| down.place(value)), [100.0, 50.0, 0.0]);
        let one = Scale::new(&Axis::logarithmic(""), [1.0].into_iter(), (0.0, 100.0));
        assert!(one.place(1.0).is_finite());
    }
}

//! The presets.

use report::scenario::{Preset, Scenario, Series};

/// The length and number of measurements. Times are whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thoroughness {
    pub repetitions: u32,
    pub warm_up_min: u64,
    /// The warm-up ends earlier when the rate is steady.
    pub warm_up_max: u64,
    pub time: u64,
    /// Warm-up and measurement of a probe in the search for the depth.
    pub probe: (u64, u64),
    pub curve: (u64, u64),
    /// Whether every point has its own search, or only the first of each series.
    pub searches_each_point: bool,
    pub working_set_max: Option<u64>,
    /// Files of job sets, in thousandths of the usual number.
    pub file_scale_thousandths: u32,
}

/// Three repetitions, a warm-up until the rate is steady, and then a minute.
const METHOD: Thoroughness = Thoroughness {
    repetitions: 3,
    warm_up_min: 30,
    warm_up_max: 300,
    time: 60,
    probe: (5, 10),
    curve: (300, 300),
    searches_each_point: true,
    working_set_max: None,
    file_scale_thousandths: 1000,
};

impl From<Preset> for Thoroughness {
    fn from(preset: Preset) -> Self {
        match preset {
            Preset::Quick => Self {
                warm_up_min: 1,
                warm_up_max: 1,
                time: 3,
                probe: (1, 1),
                curve: (60, 60),
                searches_each_point: false,
                working_set_max: Some(768 << 20),
                file_scale_thousandths: 20,
                ..METHOD
            },
            Preset::Standard => METHOD,
            Preset::Full => Self { repetitions: 5, time: 300, ..METHOD },
        }
    }
}

impl Thoroughness {
    /// Deviations below the method, where the scenario needs its values.
    pub(crate) fn deviations(&self, scenario: &Scenario) -> Vec<String> {
        let mut all = Vec::new();
        let mut less = |what: &str, is: u64, method: u64| {
            if is < method {
                all.push(format!("{what} of {is} s instead of at least {method} s"));
            }
        };
        if scenario.series.iter().any(Series::is_curve) {
            less("warm-up at the points of a curve", self.curve.0, METHOD.curve.0);
            less("measurements at the points of a curve", self.curve.1, METHOD.curve.1);
        }
        if scenario.series.iter().all(Series::is_curve) {
            return all;
        }
        less("warm-up", self.warm_up_min, METHOD.warm_up_min);
        less("measurements", self.time, METHOD.time);
        if self.repetitions < METHOD.repetitions {
            let (is, method) = (self.repetitions, METHOD.repetitions);
            let s = if is == 1 { "" } else { "s" };
            all.push(format!("{is} repetition{s} instead of {method}"));
        }
        if !self.searches_each_point && scenario.series.iter().any(Series::is_searched) {
            all.push("calls in flight were searched for at the first point of each series only".to_owned());
        }
        all
    }
}

//! The points of a load curve. Short probes find the server's capacity, ten equal steps lead up to it, and
//! further points narrow the knee.

use report::curve::{Curve, CurvePoint, MEAN_MAX_MS, ascending_points, next_job_sets};

pub(crate) const STEPS: u32 = 10;
/// A probe is precise enough within its number divided by this.
const PROBE_CLOSE: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A short probe of this many job sets. [`Search::probed`] follows.
    Probe(u32),
    /// A measurement of this many job sets. [`Search::measured`] follows.
    Measure(u32),
    Done,
}

/// The state of a search for the curve. The caller measures the point from [`Search::next`] and reports the
/// result.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    limit: u32,
    granularity: u32,
    /// The most job sets that a probe found valid, and the fewest that one found invalid.
    good: u32,
    bad: Option<u32>,
    points: Vec<CurvePoint>,
}

impl Search {
    /// Refined points are multiples of `granularity`.
    pub(crate) fn new(limit: u32, granularity: u32) -> Self {
        Self { limit, granularity, good: 0, bad: None, points: Vec::new() }
    }

    pub(crate) fn next(&self) -> Step {
        if let Some(sets) = self.next_probe() {
            return Step::Probe(sets);
        }
        let ended = self.points.iter().any(|point| !point.is_valid());
        let is_new = |sets: &u32| self.points.iter().all(|point| point.job_sets != *sets);
        if let Some(sets) = self.steps().into_iter().find(is_new).filter(|_| !ended) {
            return Step::Measure(sets);
        }
        let between =
            |passes: &dyn Fn(&CurvePoint) -> bool| next_job_sets(&self.points, self.granularity, passes);
        let refined = between(&|point| point.response.mean_ms <= MEAN_MAX_MS);
        // If a step fails although its probe passed, points below replace it.
        let short = (self.curve().valid().len() as u64) < u64::from(STEPS);
        let sets = refined.or_else(|| if short { between(&|_| true) } else { None });
        sets.map_or(Step::Done, Step::Measure)
    }

    pub(crate) fn probed(&mut self, job_sets: u32, valid: bool) {
        if valid {
            self.good = self.good.max(job_sets);
        } else {
            self.bad = Some(self.bad.map_or(job_sets, |bad| bad.min(job_sets)));
        }
    }

    pub(crate) fn measured(&mut self, point: CurvePoint) {
        let refined = self.points.iter().any(|other| other.job_sets > point.job_sets);
        self.points.push(CurvePoint { refined, ..point });
    }

    pub(crate) fn curve(&self) -> Curve {
        Curve::new(self.points.clone())
    }

    /// `None` if the curve has a valid point for every step.
    pub(crate) fn shortfall(&self) -> Option<String> {
        let (curve, steps) = (self.curve(), self.steps().len());
        let valid = curve.valid().len();
        if valid as u64 >= u64::from(STEPS) {
            return None;
        }
        let why = match curve.first_invalid() {
            Some(CurvePoint { job_sets, invalid_reason: Some(wrong), .. }) => {
                format!("with {job_sets} job sets, {wrong}")
            }
            _ if self.good == self.limit => format!("there is room for {} job sets only", self.limit),
            _ => format!("the server carries {steps} job sets only"),
        };
        Some(format!("the curve has {valid} valid points instead of {STEPS}: {why}"))
    }

    /// Doubles the number until it is too large, then bisects.
    fn next_probe(&self) -> Option<u32> {
        match self.bad {
            None if self.good >= self.limit => None,
            None => Some((2 * self.good).clamp(1, self.limit)),
            Some(bad) if bad - self.good <= (self.good / PROBE_CLOSE).max(1) => None,
            Some(bad) => Some(self.good.midpoint(bad)),
        }
    }

    /// A single step if not even one job set is valid, to show the reason.
    fn steps(&self) -> Vec<u32> {
        ascending_points(self.good.max(1).min(self.limit), STEPS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::curve::{Time, Times};

    /// The server carries `carries` job sets, up to `fast` of them below 2 ms.
    fn run(limit: u32, carries: u32, fast: u32) -> (Search, Vec<u32>, Vec<u32>) {
        let mut search = Search::new(limit, 1);
        let (mut probes, mut measured) = (Vec::new(), Vec::new());
        loop {
            match search.next() {
                Step::Probe(sets) => {
                    probes.push(sets);
                    search.probed(sets, sets <= carries + carries / 20);
                }
                Step::Measure(sets) => {
                    measured.push(sets);
                    let mean_ms = if sets <= fast { 1.0 } else { 3.0 };
                    search.measured(CurvePoint {
                        job_sets: sets,
                        achieved: f64::from(sets),
                        response: Times { mean_ms, p99_ms: 4.0 },
                        invalid_reason: (sets > carries).then(|| "slow".to_owned()),
                        ..CurvePoint::default()
                    });
                }
                Step::Done => return (search, probes, measured),
            }
            assert!(probes.len() + measured.len() < 100);
        }
    }

    #[test]
    fn most_is_probed_and_then_ten_steps_are_measured() {
        let (search, probes, measured) = run(1000, 100, 64);
        assert_eq!(probes, [1, 2, 4, 8, 16, 32, 64, 128, 96, 112, 104, 108]);
        assert_eq!(measured[..10], [10, 20, 31, 41, 52, 62, 72, 83, 93, 104]);
        assert_eq!(measured[10..], [67, 64, 65]);
        let curve = search.curve();
        assert_eq!(curve.rate_at_2ms(Time::Response).unwrap().job_sets, 64);
        assert_eq!(curve.steps().rate_at_2ms(Time::Response).unwrap().job_sets, 62);
        assert_eq!((curve.valid().len(), search.shortfall()), (12, None));
    }

    #[test]
    fn curve_that_fits_ends_the_search() {
        let (search, probes, measured) = run(20, 1000, 1000);
        assert_eq!(probes, [1, 2, 4, 8, 16, 20]);
        assert_eq!(measured, ascending_points(20, 10));
        assert_eq!(search.shortfall(), None);
    }

    #[test]
    fn short_curve_says_why() {
        let (search, _, measured) = run(100, 4, 4);
        assert_eq!(measured, [1, 2, 3, 4]);
        let why = search.shortfall().unwrap();
        assert_eq!(why, "the curve has 4 valid points instead of 10: the server carries 4 job sets only");
        let (search, probes, measured) = run(100, 0, 0);
        assert_eq!((probes, measured), (vec![1], vec![1]));
        assert!(search.shortfall().unwrap().ends_with("with 1 job sets, slow"));
        let why = run(3, 1000, 1000).0.shortfall().unwrap();
        assert!(why.ends_with("room for 3 job sets only"), "{why}");
    }

    #[test]
    fn step_that_fails_is_made_up_for() {
        // The probes pass 104; the tenth step does not, and the mean is good throughout.
        let (search, _, measured) = run(1000, 100, 1000);
        assert_eq!(measured[10..], [98, 101, 99]);
        assert_eq!((search.curve().valid().len(), search.shortfall()), (11, None));
    }
}

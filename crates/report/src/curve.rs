//! Evaluates load curves.
//!
//! Every figure exists by the response time, counted from the scheduled begin of an operation, and by the
//! service time, counted from its actual begin. The headline uses the response time: with a slow server,
//! processes run late, and only the response time includes the delay before sending. The service time would
//! reward a server for slowing its clients down. While processes keep up, both differ only by the generator's
//! own lateness, tens of microseconds.

use crate::result::{CaveatKind, Cell, Distribution, Measurement, Run};

/// Operations per second of a job set.
pub const SET_RATE: u32 = 450;
/// Maximum mean of a point for the headline, in milliseconds.
pub const MEAN_MAX_MS: f64 = 2.0;
/// Maximum 99th percentile of a point for [`Curve::rate_at_p99_10ms`], in milliseconds.
pub(crate) const P99_MAX_MS: f64 = 10.0;
/// Minimum share of the requested rate of a valid point.
pub const WHOLE_MIN: f64 = 0.95;
/// Minimum rate of each process of a valid point, in thousandths of its own rate.
pub(crate) const PROCESS_RATE_MIN: u32 = 750;
/// Precision of the bisection, as a share of the number of job sets.
const BISECTION_PRECISION: f64 = 0.02;

/// The instant from which times count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// From the scheduled begin of the operation.
    Response,
    /// From the actual begin of the operation.
    Service,
}

/// In milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    pub mean_ms: f64,
    pub p99_ms: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct CurvePoint {
    pub job_sets: u32,
    /// Operations per second that the job sets request.
    pub requested: f64,
    pub achieved: f64,
    pub service: Times,
    pub response: Times,
    /// Present if the point is not valid.
    pub invalid_reason: Option<String>,
    /// Measured between two equal steps, to come closer to a limit.
    pub refined: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Sorted by the number of job sets.
    pub points: Vec<CurvePoint>,
}

impl CurvePoint {
    pub fn of(job_sets: u32, measurements: &[Measurement]) -> Self {
        let operations = || measurements.iter().flat_map(|one| &one.operations);
        let seconds: f64 = measurements.iter().map(|one| one.seconds).sum();
        let ops: u64 = operations().map(|operation| operation.ops).sum();
        let requested = f64::from(job_sets) * f64::from(SET_RATE);
        let achieved = if seconds > 0.0 { ops as f64 / seconds } else { 0.0 };
        Self {
            job_sets,
            requested,
            achieved,
            service: Times::of(&operations().map(|operation| &operation.service).collect()),
            response: Times::of(&operations().filter_map(|operation| operation.response.as_ref()).collect()),
            invalid_reason: find_invalid_reason(measurements, achieved, requested),
            refined: false,
        }
    }

    pub fn is_valid(&self) -> bool {
        self.invalid_reason.is_none()
    }

    pub fn times(&self, time: Time) -> Times {
        match time {
            Time::Response => self.response,
            Time::Service => self.service,
        }
    }
}

impl Times {
    fn of(distribution: &Distribution) -> Self {
        let latency = distribution.latency();
        Self { mean_ms: latency.mean_ms, p99_ms: latency.p99_ms }
    }
}

fn find_invalid_reason(measurements: &[Measurement], achieved: f64, requested: f64) -> Option<String> {
    let errors = || measurements.iter().flat_map(|one| &one.errors);
    if let Some((first, _)) = errors().next() {
        let count: u64 = errors().map(|(_, count)| count).sum();
        return Some(format!("{count} operations failed: {first}"));
    }
    let caveats = || measurements.iter().flat_map(|one| &one.caveats);
    if let Some(void) = caveats().find(|caveat| caveat.kind == CaveatKind::Void) {
        return Some(void.text.clone());
    }
    if achieved < WHOLE_MIN * requested {
        let percent = 100.0 * achieved / requested;
        return Some(format!(
            "{achieved:.0} of {requested:.0} operations a second are {percent:.1} %; a valid point has 95 %"
        ));
    }
    // The total rate may hide a single process that is far behind.
    let processes = measurements.iter().filter_map(|one| one.pace.as_ref()).flat_map(|pace| &pace.processes);
    let slowest = processes.min().filter(|slowest| **slowest < PROCESS_RATE_MIN)?;
    let percent = f64::from(*slowest) / 10.0;
    Some(format!("a process reached {percent:.1} % of its rate; in a valid point each has 75 %"))
}

impl Curve {
    pub fn new(mut points: Vec<CurvePoint>) -> Self {
        points.sort_by_key(|point| point.job_sets);
        Self { points }
    }

    pub fn of(run: &Run, series: usize) -> Self {
        Self::of_cells(run.cells_of(series))
    }

    /// The cells are in the order of measurement: equal steps upwards, then points in between that come
    /// closer to a limit. Skips cells without job sets.
    pub(crate) fn of_cells<'a>(cells: impl Iterator<Item = &'a Cell>) -> Self {
        let mut highest = 0;
        let point = |cell: &Cell| {
            let job_sets = cell.point.job_sets?;
            let refined = job_sets < highest;
            highest = highest.max(job_sets);
            Some(CurvePoint { refined, ..CurvePoint::of(job_sets, &cell.measurements) })
        };
        Self::new(cells.filter_map(point).collect())
    }

    /// The equal steps alone, without refined points.
    pub fn steps(&self) -> Self {
        Self { points: self.points.iter().filter(|point| !point.refined).cloned().collect() }
    }

    /// The points below the first invalid one.
    pub fn valid(&self) -> &[CurvePoint] {
        let count = self.points.iter().take_while(|point| point.is_valid()).count();
        &self.points[..count]
    }

    pub fn first_invalid(&self) -> Option<&CurvePoint> {
        self.points.iter().find(|point| !point.is_valid())
    }

    /// The highest measured point with a mean of at most 2 ms, if all lower points have one too. Applied to
    /// [`Curve::steps`] this is the headline; applied to the whole curve, the refined figure.
    pub fn rate_at_2ms(&self, time: Time) -> Option<&CurvePoint> {
        self.rate_within(MEAN_MAX_MS, time)
    }

    pub(crate) fn rate_within(&self, mean_ms: f64, time: Time) -> Option<&CurvePoint> {
        self.last_passing(|point| point.times(time).mean_ms <= mean_ms)
    }

    /// The highest measured point with a 99th percentile of at most 10 ms, if all lower points have one too.
    pub(crate) fn rate_at_p99_10ms(&self, time: Time) -> Option<&CurvePoint> {
        self.last_passing(|point| point.times(time).p99_ms <= P99_MAX_MS)
    }

    fn last_passing(&self, passes: impl Fn(&CurvePoint) -> bool) -> Option<&CurvePoint> {
        self.valid().iter().take_while(|point| passes(point)).last()
    }

    /// Overall response time in milliseconds: the area below the curve over its peak. Below the first point
    /// the curve has that point's mean.
    pub(crate) fn overall_over_peak(&self, time: Time) -> Option<f64> {
        let (first, last) = (self.valid().first()?, self.valid().last()?);
        let before = first.achieved * first.times(time).mean_ms;
        (last.achieved > 0.0).then(|| (before + self.area(time)) / last.achieved)
    }

    /// Overall response time in milliseconds: the area between the first and the last point over their
    /// distance. This form matches published values.
    pub(crate) fn overall_over_range(&self, time: Time) -> Option<f64> {
        let (first, last) = (self.valid().first()?, self.valid().last()?);
        let range = last.achieved - first.achieved;
        if range > 0.0 { Some(self.area(time) / range) } else { Some(first.times(time).mean_ms) }
    }

    /// The knee of the latency, in operations a second: the first X at which R(X) is twice the mean of R over 0..X
    /// (half-latency rule), with straight lines between the points. `None` if it is beyond the last point.
    pub(crate) fn knee(&self, time: Time) -> Option<f64> {
        let first = self.valid().first()?;
        let mut area = first.achieved * first.times(time).mean_ms;
        for pair in self.valid().windows(2) {
            let ([x, next_x], [r, next_r]) =
                ([0, 1].map(|at| pair[at].achieved), [0, 1].map(|at| pair[at].times(time).mean_ms));
            let wide = next_x - x;
            let area_next = area + trapezoid(pair, time);
            if wide > 0.0 && next_r * next_x >= 2.0 * area_next {
                // At d behind x, R = r + s·d and the area is area + r·d + s·d²/2. In R·X = 2·area the squares
                // cancel.
                let slope = (next_r - r) / wide;
                return Some(x + (2.0 * area - r * x) / (slope * x - r));
            }
            area = area_next;
        }
        None
    }

    fn area(&self, time: Time) -> f64 {
        self.valid().windows(2).map(|pair| trapezoid(pair, time)).sum()
    }
}

fn trapezoid(pair: &[CurvePoint], time: Time) -> f64 {
    let [r, next_r] = [0, 1].map(|at| pair[at].times(time).mean_ms);
    (pair[1].achieved - pair[0].achieved) * (r + next_r) / 2.0
}

/// Returns `count` equal steps up to `max` job sets, or fewer if `max` is less than `count`.
pub fn ascending_points(max: u32, count: u32) -> Vec<u32> {
    let step = |at: u32| u64::from(max) * u64::from(at) / u64::from(count);
    let mut points: Vec<u32> = (1..=count).filter_map(|at| u32::try_from(step(at)).ok()).collect();
    points.retain(|&sets| sets > 0);
    points.dedup();
    points
}

/// The number of job sets to measure next. The aim is to know the highest number that `passes` to 2 %, or to
/// `granularity` job sets. Returns the middle between the highest that passes, as all lower ones do, and the
/// next. `None` if these are close enough, or if all pass.
pub fn next_job_sets(
    points: &[CurvePoint],
    granularity: u32,
    passes: impl Fn(&CurvePoint) -> bool,
) -> Option<u32> {
    let mut sorted: Vec<&CurvePoint> = points.iter().collect();
    sorted.sort_by_key(|point| point.job_sets);
    let good = sorted.iter().take_while(|point| point.is_valid() && passes(point)).count();
    let low = good.checked_sub(1).map_or(0, |last| sorted[last].job_sets);
    let high = sorted.get(good)?.job_sets;
    if f64::from(high - low) <= BISECTION_PRECISION * f64::from(high) {
        return None;
    }
    let granularity = granularity.max(1);
    let middle = low.midpoint(high) / granularity * granularity;
    // Rounding down may give `low` again.
    let middle = if middle > low { middle } else { middle + granularity };
    (middle < high).then_some(middle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Caveat, Direction, Operation, Pace};

    fn point(job_sets: u32, mean_ms: f64) -> CurvePoint {
        let rate = f64::from(job_sets * SET_RATE);
        let response = Times { mean_ms, p99_ms: 5.0 * mean_ms };
        let service = Times { mean_ms: mean_ms / 2.0, p99_ms: mean_ms };
        CurvePoint { job_sets, requested: rate, achieved: rate, service, response, ..CurvePoint::default() }
    }

    fn curve(means: &[f64]) -> Curve {
        Curve::new((1..).zip(means).map(|(at, mean)| point(10 * at, *mean)).collect())
    }

    fn near(value: Option<f64>, expected: f64) {
        assert!((value.unwrap() / expected - 1.0).abs() < 1e-9, "{value:?} {expected}");
    }

    #[test]
    fn rate_is_of_measured_point_below_first_failure() {
        let curve = curve(&[0.5, 1.0, 2.0, 2.1, 1.5]);
        assert_eq!(curve.rate_at_2ms(Time::Response).unwrap().job_sets, 30);
        assert_eq!(curve.rate_at_2ms(Time::Service).unwrap().job_sets, 50);
        assert_eq!(curve.rate_at_p99_10ms(Time::Response).unwrap().job_sets, 30);
        assert_eq!(curve.rate_at_p99_10ms(Time::Service).unwrap().job_sets, 50);
        assert_eq!(self::curve(&[2.1]).rate_at_2ms(Time::Response), None);
        let mut ended = curve;
        ended.points[1].invalid_reason = Some("slow".to_owned());
        assert_eq!(ended.rate_at_2ms(Time::Service).unwrap().job_sets, 10);
        assert_eq!((ended.valid().len(), ended.first_invalid().unwrap().job_sets), (1, 20));
    }

    #[test]
    fn overall_response_time_matches_both_formulas() {
        // Trapezoids of 4500 operations a second each: 0.75, 1.5 and 3 ms high; 0.5 ms held below the first.
        let curve = curve(&[0.5, 1.0, 2.0, 4.0]);
        near(curve.overall_over_range(Time::Response), (0.75 + 1.5 + 3.0) / 3.0);
        near(curve.overall_over_peak(Time::Response), (0.5 + 0.75 + 1.5 + 3.0) / 4.0);
        near(curve.overall_over_range(Time::Service), (0.75 + 1.5 + 3.0) / 6.0);
        near(self::curve(&[0.5]).overall_over_range(Time::Response), 0.5);
        assert_eq!(self::curve(&[]).overall_over_peak(Time::Response), None);
    }

    #[test]
    fn knee_is_at_twice_the_mean_latency() {
        assert_eq!(curve(&[1.0, 1.1, 1.2, 1.3]).knee(Time::Response), None);
        // The area up to 20 sets is 2 (in ms × 10 sets); then R climbs by 4 a 10 sets. At d: (1 + 4d)(2 + d)
        // = 2(2 + d + 2d²), so 7d = 2.
        near(curve(&[1.0, 1.0, 5.0]).knee(Time::Response), (20.0 + 20.0 / 7.0) * 450.0);
        let queue = |at: u32| CurvePoint {
            achieved: f64::from(at),
            response: Times { mean_ms: 1000.0 / (1000.0 - f64::from(at)), ..Times::default() },
            ..point(at, 0.0)
        };
        let knee = Curve::new((1..1000).map(queue).collect()).knee(Time::Response).unwrap();
        assert!((knee - 715.0).abs() < 1.0, "M/M/1 has it at 71.5 % of what the server can do: {knee}");
    }

    #[test]
    fn steps_are_equal_and_ascend() {
        assert_eq!(ascending_points(40, 10), [4, 8, 12, 16, 20, 24, 28, 32, 36, 40]);
        assert_eq!(ascending_points(13, 10), [1, 2, 3, 5, 6, 7, 9, 10, 11, 13]);
        assert_eq!(ascending_points(3, 10), [1, 2, 3]);
        assert!(ascending_points(0, 10).is_empty());
    }

    #[test]
    fn bisection_ends_within_two_percent() {
        let passes = |point: &CurvePoint| point.response.mean_ms <= MEAN_MAX_MS;
        let mut points = vec![point(100, 1.0), point(200, 3.0)];
        let mut tried = Vec::new();
        while let Some(next) = next_job_sets(&points, 1, passes) {
            tried.push(next);
            points.push(point(next, if next <= 160 { 1.5 } else { 2.5 }));
        }
        assert_eq!(tried, [150, 175, 162, 156, 159]);
        assert_eq!(Curve::new(points.clone()).rate_at_2ms(Time::Response).unwrap().job_sets, 159);
        assert_eq!(next_job_sets(&[point(10, 3.0)], 1, passes), Some(5));
        assert_eq!(next_job_sets(&[point(1, 3.0)], 1, passes), None);
        assert_eq!(next_job_sets(&[point(10, 1.0)], 1, passes), None);
        assert_eq!(next_job_sets(&[point(8, 1.0), point(16, 3.0)], 4, passes), Some(12));
        assert_eq!(next_job_sets(&[point(12, 1.0), point(16, 3.0)], 4, passes), None);
        let invalid = CurvePoint { invalid_reason: Some("slow".to_owned()), ..point(20, 1.0) };
        assert_eq!(next_job_sets(&[point(10, 1.0), invalid], 1, passes), Some(15));
    }

    /// Ten seconds at 2 job sets; each operation takes 1 ms after a wait of 2 ms.
    fn measurement(ops: u64, slowest: u32) -> Measurement {
        let times = |ns: u64| Distribution { steps: vec![(ns, ops)], sum_ns: ns * ops };
        let operation = Operation {
            name: "stat".to_owned(),
            direction: Direction::Other,
            ops,
            bytes: 0,
            service: times(1_000_000),
            response: Some(times(3_000_000)),
        };
        let pace = Some(Pace { processes: vec![1000, slowest], absorbed: 0 });
        Measurement { seconds: 10.0, operations: vec![operation], pace, ..Measurement::default() }
    }

    #[test]
    fn invalid_point_names_its_reason() {
        let good = CurvePoint::of(2, &[measurement(9000, 750), measurement(8100, 900)]);
        assert_eq!((good.requested, good.achieved, good.invalid_reason), (900.0, 855.0, None));
        assert_eq!([good.service, good.response].map(|times| times.mean_ms), [1.0, 3.0]);
        let why = |one: Measurement| {
            CurvePoint::of(2, &[measurement(9000, 1000), one]).invalid_reason.unwrap_or_default()
        };
        assert!(why(measurement(8000, 1000)).starts_with("850 of 900"));
        assert!(why(measurement(9000, 749)).starts_with("a process reached 74.9 %"));
        let errors = [("read-file NFS3ERR_IO".to_owned(), 3)].into();
        assert_eq!(
            why(Measurement { errors, ..measurement(9000, 1000) }),
            "3 operations failed: read-file NFS3ERR_IO"
        );
        let caveats = vec![Caveat::new(CaveatKind::Void, "lost")];
        assert_eq!(why(Measurement { caveats, ..measurement(9000, 1000) }), "lost");
        assert!(CurvePoint::of(2, &[]).invalid_reason.is_some());
    }
}

//! Durations of one kind of operation.

use std::fmt;
use std::time::{Duration, Instant};

#[derive(Clone, Debug, Default)]
pub(super) struct Times(Vec<Duration>);

impl Times {
    /// Runs an operation and adds its time.
    pub(super) fn take<T>(&mut self, run: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let ended = run();
        self.0.push(began.elapsed());
        ended
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The time that this part of all operations, in thousandths, does not exceed.
    pub(super) fn within(&self, thousandths: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let place = (sorted.len() * thousandths / 1000).min(sorted.len().saturating_sub(1));
        sorted.get(place).copied().unwrap_or_default()
    }

    pub(super) fn median(&self) -> Duration {
        self.within(500)
    }

    pub(super) fn max(&self) -> Duration {
        self.within(1000)
    }

    /// The first or last times, in the order in which they were taken.
    pub(super) fn part(&self, range: impl std::slice::SliceIndex<[Duration], Output = [Duration]>) -> Self {
        Self(self.0[range].to_vec())
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (median, most) = (micros(self.median()), micros(self.within(990)));
        write!(f, "{median:>9.1} µs median, {most:>9.1} µs p99, {} operations", self.count())
    }
}

pub(super) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

pub(super) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_all_operations_have_their_times() {
        let times = Times((1..=1000).rev().map(Duration::from_millis).collect());
        assert_eq!(times.median(), Duration::from_millis(501));
        assert_eq!(times.within(999), Duration::from_millis(1000));
        assert_eq!(times.max(), Duration::from_millis(1000));
        assert_eq!(times.part(..2).max(), Duration::from_millis(1000));
        assert_eq!(Times::default().max(), Duration::ZERO);
    }
}

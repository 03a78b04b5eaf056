//! The clock by which locks of snapshots end. It never runs back, and nobody ends a lock early with the time of day.
//!
//! While there is a lock, it counts with the steady clock. If it is behind the time of day, as after downtime, it gains on
//! that by one part in [`GAIN`] of the time that the service runs. Without a lock it follows the time of day.
//! docs/decisions/0074-jobs.md says why.

use vfs::qos::Nanos;
use vfs::sync::Mutex;

const NANOS_PER_MS: u128 = 1_000_000;
/// ONTAP corrects its compliance clock by at most a week in a year, one part in 52.
const GAIN: u128 = 50;

pub(crate) struct LockClock {
    state: Mutex<Reading>,
    #[cfg(test)]
    shift: std::sync::atomic::AtomicU64,
}

struct Reading {
    /// In nanoseconds since 1970.
    nanos: u128,
    /// The steady clock at this time.
    steady: Nanos,
}

impl LockClock {
    /// Starts with the stored time. The time of day counts only where no lock depends on it.
    pub(crate) fn start(stored_ms: u64, day_ms: u64, has_locks: bool, steady: Nanos) -> Self {
        let start_ms = if has_locks { stored_ms } else { stored_ms.max(day_ms) };
        let reading = Reading { nanos: u128::from(start_ms) * NANOS_PER_MS, steady };
        Self {
            state: Mutex::new(reading),
            #[cfg(test)]
            shift: Default::default(),
        }
    }

    /// In milliseconds since 1970.
    pub(crate) fn now_ms(&self, steady: Nanos, day_ms: u64) -> u64 {
        #[cfg(test)]
        let steady = Nanos(steady.0 + self.shift.load(std::sync::atomic::Ordering::SeqCst));
        let mut state = self.state.lock();
        let elapsed = u128::from(steady.0.saturating_sub(state.steady.0));
        state.steady = state.steady.max(steady);
        state.nanos += elapsed;
        let behind = (u128::from(day_ms) * NANOS_PER_MS).saturating_sub(state.nanos);
        state.nanos += behind.min(elapsed / GAIN);
        u64::try_from(state.nanos / NANOS_PER_MS).unwrap_or(u64::MAX)
    }

    /// Follows the time of day forward. The caller has made sure that there is no lock.
    pub(crate) fn follow(&self, day_ms: u64) {
        let mut state = self.state.lock();
        state.nanos = state.nanos.max(u128::from(day_ms) * NANOS_PER_MS);
    }

    /// Lets the steady clock go on by this time.
    #[cfg(test)]
    pub(crate) fn pass(&self, ms: u64) {
        self.shift.fetch_add(ms * 1_000_000, std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const DAY_MS: u64 = 86_400_000;
    const YEAR_MS: u64 = 365 * DAY_MS;

    #[test]
    fn counts_with_the_steady_clock() {
        let clock = LockClock::start(0, 5_000, false, Nanos(7 * MS));
        assert_eq!(clock.now_ms(Nanos(7 * MS), 5_000), 5_000);
        assert_eq!(clock.now_ms(Nanos(107 * MS), 5_100), 5_100);
        assert_eq!(clock.now_ms(Nanos(207 * MS), 100), 5_200, "the time of day was set back");
        assert_eq!(clock.now_ms(Nanos(7 * MS), 5_100), 5_200, "a reading of another thread came later");
    }

    #[test]
    fn starts_no_earlier_than_it_stopped_and_with_locks_no_later() {
        let start = |day, has_locks| LockClock::start(9_000, day, has_locks, Nanos(0)).now_ms(Nanos(0), day);
        assert_eq!([start(5_000, false), start(12_000, false)], [9_000, 12_000]);
        assert_eq!([start(5_000, true), start(12_000, true)], [9_000, 9_000]);
    }

    #[test]
    fn gains_on_the_time_of_day_by_one_part_in_fifty() {
        let clock = LockClock::start(0, 0, true, Nanos(0));
        // Read every hour for a year, with the time of day ten years ahead.
        let mut last = 0;
        for hour in 1..=365 * 24 {
            let steady = Nanos(hour * 3_600_000 * MS);
            let now = clock.now_ms(steady, 10 * YEAR_MS + hour * 3_600_000);
            assert!(now > last);
            last = now;
        }
        assert_eq!(last, YEAR_MS + YEAR_MS / 50);
        // Behind by an hour, it catches up in 50 hours, and then goes with the time of day.
        let clock = LockClock::start(0, 0, true, Nanos(0));
        let behind: Vec<u64> = (1..=60)
            .map(|hour| {
                hour * 3_600_000 + 3_600_000
                    - clock.now_ms(Nanos(hour * 3_600_000 * MS), (hour + 1) * 3_600_000)
            })
            .collect();
        assert!(behind[48] > 0 && behind[49..].iter().all(|&ms| ms == 0), "{behind:?}");
    }

    #[test]
    fn follows_the_time_of_day_forward_alone() {
        let clock = LockClock::start(0, 1_000, false, Nanos(0));
        clock.follow(5_000);
        clock.follow(2_000);
        assert_eq!(clock.now_ms(Nanos(0), 2_000), 5_000);
    }
}

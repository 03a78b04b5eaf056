//! One rate, as the moment from which the next unit may pass.

use super::{Nanos, TURN};
use std::num::NonZeroU64;

/// The time for which an unused rate can be used later. Short enough that any window of a second or more keeps to the
/// rate, long enough to outlast the pauses of a busy machine.
pub const BURST: Nanos = Nanos(50_000_000);

/// Fractions of a nanosecond: 2^32 of them make one.
const FRACTION_BITS: u32 = 32;

/// Returns the time of a rate that can be used again after its due moment moved back: time before a burst is lost.
pub(super) fn regained(before: Nanos, after: Nanos, now: Nanos) -> Nanos {
    let earliest = now.saturating_sub(BURST);
    before.max(earliest).saturating_sub(after.max(earliest))
}

/// A rate limit by the generic cell rate algorithm (ITU-T I.371). A demand before the due moment waits; a demand that
/// passes moves the due moment on by its cost. A demand may be of any size: the next one waits for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Bucket {
    /// Fractions of a nanosecond that a unit takes; 0 without a limit.
    per_unit: u64,
    /// The moment in fractions of a nanosecond.
    due: u128,
}

impl Bucket {
    /// When the next unit may pass.
    #[inline]
    pub(super) fn due(&self) -> Nanos {
        Nanos(u64::try_from(self.due >> FRACTION_BITS).unwrap_or(u64::MAX))
    }

    /// Lets `units` pass.
    #[inline]
    pub(super) fn take(&mut self, units: u64, now: Nanos) {
        if self.per_unit == 0 {
            return;
        }
        let earliest = fractions(now.saturating_sub(BURST));
        self.due = self.due.max(earliest) + u128::from(units) * u128::from(self.per_unit);
    }

    /// Returns units that passed but were not used.
    pub(super) fn refund(&mut self, units: u64) {
        self.due = self.due.saturating_sub(u128::from(units) * u128::from(self.per_unit));
    }

    /// Corrects a passed demand: returns unused units, takes excess ones.
    pub(super) fn correct(&mut self, passed: u64, used: u64, now: Nanos) {
        match used.checked_sub(passed) {
            Some(0) => {}
            Some(beyond) => self.take(beyond, now),
            None => self.refund(passed - used),
        }
    }

    /// Returns the cost of `units` in time; 0 without a limit.
    #[inline]
    pub(super) fn takes(&self, units: u64) -> Nanos {
        let time = u128::from(units) * u128::from(self.per_unit);
        Nanos(u64::try_from(time >> FRACTION_BITS).unwrap_or(u64::MAX))
    }

    /// Returns the number of turns in which `units` are paid, if they can be divided into `pieces`.
    #[inline]
    pub(super) fn turns(&self, units: u64, pieces: u32) -> u32 {
        u32::try_from(self.takes(units).0.div_ceil(TURN.0)).unwrap_or(u32::MAX).min(pieces)
    }

    /// Changes the rate, units for each second. What has passed and is not yet due is due at the new rate.
    pub(super) fn set_rate(&mut self, rate: Option<NonZeroU64>, now: Nanos) {
        let per_unit = rate
            .map_or(0, |rate| u64::try_from(fractions(SECOND) / u128::from(rate.get())).unwrap_or(u64::MAX));
        self.set_per_unit(per_unit, now);
    }

    pub(super) fn set_picoseconds(&mut self, picoseconds: u64, now: Nanos) {
        let per_unit = (u128::from(picoseconds) << FRACTION_BITS) / 1000;
        self.set_per_unit(u64::try_from(per_unit).unwrap_or(u64::MAX), now);
    }

    fn set_per_unit(&mut self, per_unit: u64, now: Nanos) {
        let now = fractions(now);
        self.due = match (self.per_unit, per_unit) {
            (_, 0) => 0,
            (0, _) => now,
            (old, new) if self.due > now => now + (self.due - now) / u128::from(old) * u128::from(new),
            _ => self.due,
        };
        self.per_unit = per_unit;
    }
}

const SECOND: Nanos = Nanos(1_000_000_000);

#[inline]
fn fractions(time: Nanos) -> u128 {
    u128::from(time.0) << FRACTION_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(rate: u64) -> Bucket {
        let mut bucket = Bucket::default();
        bucket.set_rate(NonZeroU64::new(rate), Nanos(0));
        bucket
    }

    /// Units of `size` that pass until `end`, asked for whenever one may.
    fn passes(bucket: &mut Bucket, size: u64, from: Nanos, end: Nanos) -> u64 {
        let (mut now, mut passed) = (from, 0);
        while now.0 < end.0 {
            if bucket.due() <= now {
                bucket.take(size, now);
                passed += size;
            }
            now = now.max(bucket.due());
        }
        passed
    }

    #[test]
    fn keeps_to_rates_of_every_size() {
        for rate in [1 << 20, 100 << 20, 12_800 << 20, 20 << 30] {
            for size in [512, 4096, 65_536, 1 << 20] {
                let wanted = (5 * rate).min(100_000 * size);
                let end = Nanos(
                    u64::try_from(u128::from(wanted) * u128::from(SECOND.0) / u128::from(rate)).unwrap(),
                );
                let passed = passes(&mut bucket(rate), size, Nanos(0), end);
                assert!(
                    passed.abs_diff(wanted) <= (wanted / 1000).max(size),
                    "{size} at {rate}: {passed}, not {wanted}"
                );
            }
        }
    }

    #[test]
    fn an_idle_time_earns_one_burst_and_no_more() {
        let mut bucket = bucket(1_000_000);
        let start = Nanos(60_000_000_000);
        let mut burst = 0;
        while bucket.due() <= start {
            bucket.take(1000, start);
            burst += 1000;
        }
        assert_eq!(burst, 51_000, "50 ms and the one that makes the next wait");
    }

    #[test]
    fn a_first_rate_comes_without_a_burst() {
        // A process that takes over an endpoint starts like this: otherwise each move would bring another burst.
        let start = Nanos(60_000_000_000);
        let mut bucket = Bucket::default();
        bucket.set_rate(NonZeroU64::new(1_000_000), start);
        assert_eq!(bucket.due(), start);
        bucket.take(1000, start);
        assert_eq!(bucket.due(), Nanos(start.0 + 1_000_000));
    }

    #[test]
    fn a_new_rate_is_for_what_is_owed_as_well() {
        let mut bucket = bucket(1 << 20);
        bucket.take(1 << 20, Nanos(0));
        assert_eq!(bucket.due(), SECOND);
        bucket.set_rate(NonZeroU64::new(100 << 20), Nanos(0));
        assert!(bucket.due() <= Nanos(10_000_001), "{:?}", bucket.due());
        bucket.set_rate(None, Nanos(0));
        assert_eq!(bucket.due(), Nanos(0));
    }

    #[test]
    fn unused_tokens_are_refunded() {
        let mut bucket = bucket(1000);
        bucket.take(500, Nanos(0));
        bucket.refund(400);
        assert_eq!(bucket.due(), Nanos(100_000_000), "100 of 1000 in a second");
    }
}

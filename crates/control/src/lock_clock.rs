//! The clock by which locks of snapshots end. It never runs back, and while the process runs a step of the time of day does not
//! move it: it counts from its start with the steady clock.

use vfs::qos::Nanos;

const NANOS_PER_MS: u64 = 1_000_000;

pub(crate) struct LockClock {
    /// The time at the start, in milliseconds since 1970.
    start_ms: u64,
    /// The steady clock at the start.
    steady: Nanos,
}

impl LockClock {
    /// Starts with the later of the stored time and the time of day.
    pub(crate) fn start(stored_ms: u64, day_ms: u64, steady: Nanos) -> Self {
        Self { start_ms: stored_ms.max(day_ms), steady }
    }

    /// In milliseconds since 1970.
    pub(crate) fn now_ms(&self, steady: Nanos) -> u64 {
        self.start_ms.saturating_add(steady.0.saturating_sub(self.steady.0) / NANOS_PER_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = NANOS_PER_MS;

    #[test]
    fn counts_with_the_steady_clock() {
        let clock = LockClock::start(0, 5_000, Nanos(7 * MS));
        assert_eq!(clock.now_ms(Nanos(7 * MS)), 5_000);
        assert_eq!(clock.now_ms(Nanos(107 * MS)), 5_100);
    }

    #[test]
    fn starts_no_earlier_than_it_stopped() {
        let clock = LockClock::start(9_000, 5_000, Nanos(0));
        assert_eq!(clock.now_ms(Nanos(MS)), 9_001);
        assert_eq!(LockClock::start(9_000, 12_000, Nanos(0)).now_ms(Nanos(0)), 12_000);
    }
}

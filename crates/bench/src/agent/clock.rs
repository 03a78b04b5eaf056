//! The offset of another machine's clock, by four timestamps as in RFC 5905 §8.

use std::time::SystemTime;

pub type Now = fn() -> u64;

pub fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The four timestamps of a question and its answer. Each is by the clock of the side that sent or received
/// the message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    pub(super) asked: u64,
    pub(super) heard: u64,
    pub(super) answered: u64,
    pub(super) back: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offset {
    /// In nanoseconds; positive if the other clock is ahead.
    pub(super) ahead: i64,
    /// The largest error of `ahead`, in nanoseconds.
    pub(super) bound: u64,
    /// By this clock.
    pub(super) at: u64,
}

impl Exchange {
    /// In nanoseconds, without the time at the other side.
    pub(super) fn round_trip(&self) -> u64 {
        self.back.saturating_sub(self.asked).saturating_sub(self.answered.saturating_sub(self.heard))
    }

    /// The lead of the other clock in nanoseconds, assuming that both ways took equally long. The error is at
    /// most half a round trip.
    fn ahead(&self) -> i64 {
        let outbound = i128::from(self.heard) - i128::from(self.asked);
        let and_back = i128::from(self.answered) - i128::from(self.back);
        i64::try_from((outbound + and_back) / 2).unwrap_or(i64::MAX)
    }
}

impl Offset {
    /// Uses the exchange with the shortest round trip, which spent the least time in queues.
    pub(super) fn of(exchanges: &[Exchange]) -> Option<Self> {
        let best = exchanges.iter().min_by_key(|exchange| exchange.round_trip())?;
        Some(Self { ahead: best.ahead(), bound: best.round_trip().div_ceil(2), at: best.back })
    }

    pub(super) fn theirs(&self, ours: u64) -> u64 {
        ours.saturating_add_signed(self.ahead)
    }

    /// The offset at a local time in nanoseconds, interpolated between this estimate and a later one.
    pub(super) fn between(&self, after: &Self, ours: u64) -> f64 {
        let span = after.at.saturating_sub(self.at);
        let passed = ours.saturating_sub(self.at).min(span);
        let share = passed as f64 / (span as f64).max(1.0);
        self.ahead as f64 + share * (after.ahead as f64 - self.ahead as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(asked: u64, ahead: i64, there: u64, back: u64) -> Exchange {
        let heard = (asked + there).saturating_add_signed(ahead);
        let answered = heard + 70;
        Exchange { asked, heard, answered, back: asked + there + 70 + back }
    }

    #[test]
    fn least_round_trip_tells_the_offset_within_its_bound() {
        for ahead in [-5_000_000_000i64, 0, 123_456_789] {
            let start = 1_800_000_000_000_000_000;
            let slow = exchange(start, ahead, 900_000, 10_000);
            let best = exchange(start + 1_000_000, ahead, 30_000, 50_000);
            let offset =
                Offset::of(&[slow, best, exchange(start + 2_000_000, ahead, 10_000, 800_000)]).unwrap();
            assert_eq!(offset, Offset { ahead: ahead - 10_000, bound: 40_000, at: best.back });
            assert!((offset.ahead - ahead).unsigned_abs() <= offset.bound);
            assert_eq!(offset.theirs(start), start.saturating_add_signed(ahead - 10_000));
        }
        assert_eq!(Offset::of(&[]), None);
    }

    #[test]
    fn clock_that_drifts_is_followed() {
        let [before, after] =
            [(1_000, 10_000), (3_000, 20_000)].map(|(at, ahead)| Offset { ahead, bound: 1, at });
        for (at, ahead) in [(0, 10_000.0), (1_000, 10_000.0), (2_000, 15_000.0), (9_000, 20_000.0)] {
            assert_eq!(before.between(&after, at), ahead);
        }
    }
}

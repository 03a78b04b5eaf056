//! How much of what all clients may hold one of them has.

use crate::limits::{CLIENT_RANGES_MAX, CLIENT_STATES_MAX, RANGES_MAX, STATES_MAX};
use nfs_wire::v4::Status;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What all clients hold.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    states: AtomicUsize,
    ranges: AtomicUsize,
}

/// What one client holds. It is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    totals: Arc<Totals>,
    states: usize,
    ranges: usize,
}

impl Share {
    /// The share of a client that holds nothing.
    pub(crate) fn new(totals: &Arc<Totals>) -> Self {
        Self { totals: Arc::clone(totals), states: 0, ranges: 0 }
    }

    /// The same of another client.
    pub(crate) fn of_another(&self) -> Self {
        Self::new(&self.totals)
    }

    /// Takes a state: an open file, or the locks of an owner in one.
    pub(crate) fn take_state(&mut self) -> Result<(), Status> {
        let total = &self.totals.states;
        if self.states >= CLIENT_STATES_MAX || total.fetch_add(1, Ordering::Relaxed) >= STATES_MAX {
            if self.states < CLIENT_STATES_MAX {
                total.fetch_sub(1, Ordering::Relaxed);
            }
            return Err(Status::DELAY);
        }
        self.states += 1;
        Ok(())
    }

    /// Gives a state back.
    pub(crate) fn return_state(&mut self) {
        self.states -= 1;
        self.totals.states.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many byte ranges it has.
    pub(crate) fn ranges(&self) -> usize {
        self.ranges
    }

    /// Whether there may be another byte range.
    pub(crate) fn has_room_for_range(&self) -> bool {
        self.ranges < CLIENT_RANGES_MAX && self.totals.ranges.load(Ordering::Relaxed) < RANGES_MAX
    }

    /// Of one state there were so many byte ranges and are so many now.
    pub(crate) fn count_ranges(&mut self, before: usize, now: usize) {
        self.ranges = self.ranges - before + now;
        let total = &self.totals.ranges;
        if now > before {
            total.fetch_add(now - before, Ordering::Relaxed);
        } else {
            total.fetch_sub(before - now, Ordering::Relaxed);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.totals.states.fetch_sub(self.states, Ordering::Relaxed);
        self.totals.ranges.fetch_sub(self.ranges, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(totals: &Totals) -> [usize; 2] {
        [&totals.states, &totals.ranges].map(|total| total.load(Ordering::Relaxed))
    }

    #[test]
    fn states_of_one_client_and_of_all_are_bounded_and_counted() {
        let totals = Arc::new(Totals::default());
        let mut shares: Vec<Share> = (0..3).map(|_| Share::new(&totals)).collect();
        for share in &mut shares[..2] {
            (0..CLIENT_STATES_MAX).for_each(|_| share.take_state().unwrap());
            assert_eq!(share.take_state(), Err(Status::DELAY));
        }
        assert_eq!(held(&totals), [STATES_MAX, 0], "two clients have all");
        assert_eq!(shares[2].take_state(), Err(Status::DELAY));
        shares[0].return_state();
        assert_eq!(shares[2].take_state(), Ok(()));
        drop(shares);
        assert_eq!(held(&totals), [0, 0]);
    }

    #[test]
    fn byte_ranges_are_bounded_and_counted() {
        let totals = Arc::new(Totals::default());
        let (mut one, mut other) = (Share::new(&totals), Share::new(&totals));
        one.take_state().unwrap();
        one.count_ranges(0, CLIENT_RANGES_MAX);
        assert!(!one.has_room_for_range() && other.has_room_for_range());
        one.count_ranges(CLIENT_RANGES_MAX, 5);
        assert!(one.has_room_for_range());
        other.count_ranges(0, RANGES_MAX - 5);
        assert!(!one.has_room_for_range(), "all clients have as many as there may be");
        one.count_ranges(5, 0);
        one.return_state();
        assert!(one.has_room_for_range());
        drop((one, other));
        assert_eq!(held(&totals), [0, 0]);
    }
}

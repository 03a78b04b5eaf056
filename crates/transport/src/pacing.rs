//! When to send replies while calls that came with theirs are still to be done.
//!
//! One send for everything that one receive brought costs least for each call, but the client stands still meanwhile and
//! the server stands still while the client reads: both sleep and are woken for every batch. Replies that leave in a few
//! portions keep both at work. Measured with 16 calls in flight on one connection, portions of 5 or 6 calls against all at
//! once: 1.7 to 1.9 times the calls a second for READ, LOOKUP and ACCESS, at the same CPU time for each or less
//! (docs/decisions/0013).

/// Fewer calls than this leave together.
const CALLS_MIN: usize = 8;
/// Portions that the replies to the calls of one receive leave in.
const PORTIONS: usize = 3;

/// The calls of one receive.
pub(crate) struct ReplyPacing {
    received: usize,
    step: usize,
    calls: usize,
}

impl ReplyPacing {
    /// For the calls in so many received bytes; all at once unless this is `divided`: with several clients to serve at a
    /// time, none of the two sides stands still anyway.
    pub(crate) fn new(received: usize, divided: bool) -> Self {
        Self { received: if divided { received } else { 0 }, step: usize::MAX, calls: 0 }
    }

    /// Counts a call that took so many bytes. True: what is ready should leave now.
    pub(crate) fn end_with(&mut self, call_bytes: usize) -> bool {
        if self.calls == 0 {
            // Calls that come together mostly are of one kind and length.
            let calls = self.received / call_bytes.max(1);
            if calls >= CALLS_MIN {
                self.step = calls.div_ceil(PORTIONS);
            }
        }
        self.calls += 1;
        self.calls.is_multiple_of(self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After which of so many calls a portion ends.
    fn ends(calls: usize, divided: bool) -> Vec<usize> {
        let mut pacing = ReplyPacing::new(calls * 100 + 30, divided);
        (1..=calls).filter(|_| pacing.end_with(100)).collect()
    }

    #[test]
    fn many_calls_leave_in_three_portions() {
        assert_eq!(ends(16, true), [6, 12]);
        assert_eq!(ends(8, true), [3, 6]);
        assert_eq!(ends(100, true), [34, 68]);
    }

    #[test]
    fn few_calls_and_those_of_many_clients_leave_together() {
        assert_eq!(ends(7, true), []);
        assert_eq!(ends(100, false), []);
        assert!(!ReplyPacing::new(100, true).end_with(0), "no call is empty, but none divides by zero");
    }
}

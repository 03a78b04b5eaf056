//! The pacing of replies while later calls of the same receive still run.
//!
//! One send for all calls of one receive costs least per call. But then the client waits for the server and the server
//! for the client, and both sleep and wake for every batch. Replies that leave in a few portions keep both busy.
//! Measured with 16 calls in flight on one connection, portions of 5 or 6 calls against all at once: 1.7 to 1.9 times
//! the calls a second for READ, LOOKUP and ACCESS, at the same CPU time per call or less (docs/decisions/0013). A
//! portion cheaper than a send is not worth one: GETATTR and ACCESS leave together.

use std::time::{Duration, Instant};

/// Fewer calls than this leave together.
const CALLS_MIN: usize = 8;
/// Portions of the replies to the calls of one receive.
const PORTIONS: usize = 3;
/// The minimum duration of a portion, which is more than a send costs, or else its minimum size: so many bytes are sent
/// best while they are in the processor's cache.
const PORTION_MIN: Duration = Duration::from_micros(8);
const PORTION_BYTES_MIN: usize = 16 << 10;

pub(crate) struct ReplyPacing {
    received: usize,
    step: usize,
    calls: usize,
    since: Instant,
}

impl ReplyPacing {
    /// The pacing of calls in `received` bytes. Unless `divided`, their replies leave together: with several clients to
    /// serve, neither side is idle anyway.
    pub(crate) fn new(received: usize, divided: bool, since: Instant) -> Self {
        Self { received: if divided { received } else { 0 }, step: usize::MAX, calls: 0, since }
    }

    /// Counts a call. Returns whether a portion may end here.
    pub(crate) fn note_call(&mut self, call_bytes: usize) -> bool {
        if self.calls == 0 {
            // Calls that arrive together are mostly of one kind and length.
            let calls = self.received / call_bytes.max(1);
            if calls >= CALLS_MIN {
                self.step = calls.div_ceil(PORTIONS);
            }
        }
        self.calls += 1;
        self.calls.is_multiple_of(self.step)
    }

    pub(crate) fn is_worth_a_send(&mut self, ready: usize, now: Instant) -> bool {
        let took = now.saturating_duration_since(self.since);
        let is_worth_it = ready >= PORTION_BYTES_MIN || ready > 0 && took >= PORTION_MIN;
        if is_worth_it {
            self.since = now;
        }
        is_worth_it
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calls after which a portion ends, if each takes `each_us` and has a reply of `reply_bytes`.
    fn ends_after(calls: usize, divided: bool, each_us: u64, reply_bytes: usize) -> Vec<usize> {
        let mut now = Instant::now();
        let mut pacing = ReplyPacing::new(calls * 100 + 30, divided, now);
        let mut ready = 0;
        let mut is_end = |_: &usize| {
            now += Duration::from_micros(each_us);
            ready += reply_bytes;
            let is_end = pacing.note_call(100) && pacing.is_worth_a_send(ready, now);
            if is_end {
                ready = 0;
            }
            is_end
        };
        (1..=calls).filter(|call| is_end(call)).collect()
    }

    fn ends(calls: usize, divided: bool) -> Vec<usize> {
        ends_after(calls, divided, 10, 100)
    }

    #[test]
    fn many_calls_leave_in_three_portions() {
        assert_eq!(ends(16, true), [6, 12]);
        assert_eq!(ends(8, true), [3, 6]);
        assert_eq!(ends(100, true), [34, 68]);
    }

    #[test]
    fn short_calls_leave_together_until_a_portion_is_large_enough() {
        assert_eq!(ends_after(16, true, 0, 100), []);
        assert_eq!(ends_after(17, true, 0, 3000), [6, 12]);
        assert_eq!(ends_after(12, true, 1, 100), [8]);
        assert_eq!(ends_after(100, true, 1, 100), [34, 68]);
        assert_eq!(ends_after(100, true, 10, 0), [], "nothing is ready");
    }

    #[test]
    fn few_calls_or_many_clients_leave_together() {
        assert_eq!(ends(7, true), []);
        assert_eq!(ends(100, false), []);
        assert!(
            !ReplyPacing::new(100, true, Instant::now()).note_call(0),
            "no call is empty, but none divides by zero"
        );
    }
}

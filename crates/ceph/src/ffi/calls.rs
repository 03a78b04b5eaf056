//! The calls of a client that are under way.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Threads beyond this number share places, so that some of their calls are not seen.
const PLACES: usize = 256;

pub(super) struct Calls {
    epoch: Instant,
    /// The begin of each thread's call, in nanoseconds since the epoch; 0 without a call.
    begins: [AtomicU64; PLACES],
}

impl Calls {
    pub(super) fn new() -> Self {
        Self { epoch: Instant::now(), begins: [const { AtomicU64::new(0) }; PLACES] }
    }

    /// Runs a call that may have to wait for a server.
    pub(super) fn timed<T>(&self, call: impl FnOnce() -> T) -> T {
        let place = &self.begins[place()];
        place.store(self.now(), Ordering::Relaxed);
        let result = call();
        place.store(0, Ordering::Relaxed);
        result
    }

    pub(super) fn longest(&self) -> Duration {
        let begins = self.begins.iter().map(|begin| begin.load(Ordering::Relaxed));
        let first = begins.filter(|&begin| begin > 0).min();
        first.map_or(Duration::ZERO, |begin| Duration::from_nanos(self.now().saturating_sub(begin)))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }
}

/// The place of this thread.
fn place() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static PLACE: Cell<Option<usize>> = const { Cell::new(None) });
    PLACE.with(|place| {
        let number = place.get().unwrap_or_else(|| NEXT.fetch_add(1, Ordering::Relaxed));
        place.set(Some(number));
        number % PLACES
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_call_is_the_first_of_those_under_way() {
        let calls = Calls::new();
        assert_eq!(calls.longest(), Duration::ZERO);
        calls.timed(|| {
            std::thread::sleep(Duration::from_millis(20));
            std::thread::scope(|scope| {
                scope.spawn(|| calls.timed(|| assert!(calls.longest() >= Duration::from_millis(20))));
            });
            assert!(calls.longest() >= Duration::from_millis(20));
        });
        assert_eq!(calls.longest(), Duration::ZERO);
    }
}

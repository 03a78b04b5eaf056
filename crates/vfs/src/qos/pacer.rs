//! The one timer: resumes deferred calls in time.

use super::{Arbiter, Nanos};
use crate::panics;
use crate::sync::{Condvar, Mutex};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::{Duration, Instant};

/// Calls due within this time pass together: one wake-up each would cost more than the calls.
/// A due rate keeps its credit meanwhile, so no rate is lost.
const STEP: Nanos = Nanos(500_000);
/// The longest sleep of the thread, so that it notices when it is no longer needed.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// The timer of all arbiters in a process: resumes deferred calls.
pub struct Pacer {
    start: Instant,
    timers: Mutex<BinaryHeap<Reverse<Timer>>>,
    changed: Condvar,
}

struct Timer {
    at: Nanos,
    arbiter: Weak<Arbiter>,
}

impl Pacer {
    /// Starts a pacer. Its thread ends when the last other reference is dropped.
    pub fn start() -> std::io::Result<Arc<Self>> {
        let pacer = Self::still();
        let weak = Arc::downgrade(&pacer);
        let run = move || {
            panics::or_abort(|| {
                while let Some(pacer) = weak.upgrade() {
                    pacer.turn();
                }
            });
        };
        std::thread::Builder::new().name("pacer".into()).spawn(run)?;
        Ok(pacer)
    }

    /// Makes a pacer without a thread, which resumes nothing: for unlimited volumes.
    pub fn still() -> Arc<Self> {
        Arc::new(Self { start: Instant::now(), timers: Mutex::default(), changed: Condvar::new() })
    }

    /// Now, by the clock of all deferred calls. The clock starts at one second, so that a burst may begin at its start.
    #[inline]
    pub fn now(&self) -> Nanos {
        let since = Duration::from_secs(1) + self.start.elapsed();
        Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns the time at which the timer visits an arbiter whose next demand may pass at `next`.
    pub(super) fn visit(next: Nanos, now: Nanos) -> Nanos {
        next.max(Nanos(now.0 + STEP.0))
    }

    /// Schedules a visit of an arbiter.
    pub(super) fn schedule(&self, at: Nanos, arbiter: &Weak<Arbiter>) {
        let mut timers = self.lock();
        let is_first = timers.peek().is_none_or(|Reverse(first)| at < first.at);
        timers.push(Reverse(Timer { at, arbiter: arbiter.clone() }));
        drop(timers);
        if is_first {
            self.changed.notify_one();
        }
    }

    fn turn(&self) {
        let now = self.now();
        let mut timers = self.lock();
        let mut due = Vec::new();
        while let Some(first) = timers.peek_mut()
            && first.0.at <= now
        {
            due.extend(PeekMut::pop(first).0.arbiter.upgrade());
        }
        if due.is_empty() {
            let until = timers.peek().map(|Reverse(first)| first.at.saturating_sub(now));
            let sleep = until.map_or(SLEEP_MAX, |until| Duration::from_nanos(until.0).min(SLEEP_MAX));
            drop(self.changed.wait_timeout(timers, sleep));
        } else {
            drop(timers);
            for arbiter in due {
                // A defect of one pool's arithmetic must not stop the others'.
                let _ = panics::catch(|| arbiter.run(self.now()));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BinaryHeap<Reverse<Timer>>> {
        self.timers.lock()
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at)
    }
}

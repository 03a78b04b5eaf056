//! [`Grace`]: the time after a restart in which clients can only reclaim earlier claims (RFC 8881 §8.4.2.1).

use crate::qos::Nanos;
use crate::sync::Mutex;
use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};

/// The identity of a client in stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordId(pub u64);

/// The grace period of a service, for all its volumes: the clients that may still reclaim, and the deadline. Without
/// recorded clients there is none.
#[derive(Clone, Default)]
pub struct Grace(Arc<Shared>);

#[derive(Default)]
struct Shared {
    is_active: AtomicBool,
    period: Mutex<Period>,
}

/// Makes the end of the grace period durable; returns whether it is.
type BeforeEnd = Box<dyn Fn() -> bool + Send + Sync>;

#[derive(Default)]
struct Period {
    until: Nanos,
    /// The latest end, however many claims are reclaimed.
    latest: Nanos,
    recorded: HashSet<RecordId>,
    before_end: Option<BeforeEnd>,
}

/// A guard that delays the end of the grace period.
pub(super) struct InGrace<'a> {
    period: MutexGuard<'a, Period>,
}

/// The longest pause between two reclaims of one client that still extends the grace period.
const STEP: Nanos = Nanos(2_000_000_000);
/// The limit of extensions of a grace period.
const EXTENSION_MAX: Nanos = Nanos(30_000_000_000);

impl InGrace<'_> {
    /// Notes a reclaim, which may extend the period.
    pub(super) fn note_reclaim(&mut self, now: Nanos) {
        let Period { until, latest, .. } = &mut *self.period;
        *until = (*until).max(Nanos(now.0.saturating_add(STEP.0)).min(*latest));
    }
}

impl Grace {
    /// Starts a grace period until `until`, or until all recorded clients have reclaimed. Reclaims in progress extend
    /// it by half a minute at most.
    pub fn new(until: Nanos, recorded: impl IntoIterator<Item = RecordId>) -> Self {
        Self::begin(until, recorded, None)
    }

    /// [`Grace::new`] with a step before the end: `before_end` makes durable that no client reclaims any more. The
    /// period continues while `before_end` returns false.
    pub fn ending_with(
        until: Nanos,
        recorded: impl IntoIterator<Item = RecordId>,
        before_end: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::begin(until, recorded, Some(Box::new(before_end)))
    }

    fn begin(
        until: Nanos,
        recorded: impl IntoIterator<Item = RecordId>,
        before_end: Option<BeforeEnd>,
    ) -> Self {
        let latest = Nanos(until.0.saturating_add(EXTENSION_MAX.0));
        let period = Period { until, latest, recorded: recorded.into_iter().collect(), before_end };
        let is_active = AtomicBool::new(!period.recorded.is_empty());
        Self(Arc::new(Shared { is_active, period: Mutex::new(period) }))
    }

    #[inline]
    pub fn is_active(&self) -> bool {
        self.0.is_active.load(Ordering::Acquire)
    }

    /// Delays the end of the period, if it lasts, until the guard is dropped.
    pub(super) fn hold(&self) -> Option<InGrace<'_>> {
        let period = self.is_active().then(|| self.period())?;
        self.is_active().then_some(InGrace { period })
    }

    /// Marks a client as done with its reclaims.
    pub fn complete(&self, record: RecordId) {
        if self.is_active() {
            let mut period = self.period();
            period.recorded.remove(&record);
            self.end_if(period.recorded.is_empty(), &mut period);
        }
    }

    pub fn expire(&self, now: Nanos) {
        if self.is_active() {
            let mut period = self.period();
            self.end_if(period.until <= now || period.recorded.is_empty(), &mut period);
        }
    }

    fn end_if(&self, is_over: bool, period: &mut Period) {
        if is_over && period.before_end.as_ref().is_none_or(|before_end| before_end()) {
            period.recorded.clear();
            self.0.is_active.store(false, Ordering::Release);
        }
    }

    /// The deadline of the period, or of the next attempt to end it; `None` if it has ended.
    pub fn deadline(&self) -> Option<Nanos> {
        if !self.is_active() {
            return None;
        }
        let period = self.period();
        Some(if period.recorded.is_empty() { Nanos::default() } else { period.until })
    }

    fn period(&self) -> MutexGuard<'_, Period> {
        self.0.period.lock()
    }
}

impl fmt::Debug for Grace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grace").field("is_active", &self.is_active()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grace_lasts_while_claims_are_reclaimed_up_to_a_limit() {
        let grace = Grace::new(Nanos(9 * STEP.0), [RecordId(1)]);
        for step in 1..100 {
            match grace.hold() {
                Some(mut in_grace) => in_grace.note_reclaim(Nanos(step * STEP.0)),
                None => break,
            }
            let end = if step < 9 { 9 * STEP.0 } else { (step + 1) * STEP.0 };
            assert_eq!(grace.deadline(), Some(Nanos(end.min(9 * STEP.0 + EXTENSION_MAX.0))));
            grace.expire(Nanos((step + 1) * STEP.0 - 1));
        }
        assert!(!grace.is_active());
    }

    #[test]
    fn grace_ends_only_after_its_end_is_durable() {
        let is_written = Arc::new(AtomicBool::new(false));
        let written = Arc::clone(&is_written);
        let grace = Grace::ending_with(Nanos(9), [RecordId(1)], move || written.load(Ordering::SeqCst));
        let other = grace.clone();
        grace.complete(RecordId(1));
        assert!(other.is_active() && other.hold().is_some());
        assert_eq!(other.deadline(), Some(Nanos(0)), "it is tried again soon");
        grace.expire(Nanos(9));
        assert!(other.is_active());
        is_written.store(true, Ordering::SeqCst);
        grace.expire(Nanos(0));
        assert!(!other.is_active() && other.hold().is_none() && other.deadline().is_none());
    }
}

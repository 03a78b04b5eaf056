//! Calls deferred because of a conflict with another client, counted per connection.

use crate::limits::{DEFERRED_CALLS_MAX, RETRIES_MAX_V3};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) struct DeferredCall {
    calls: Arc<AtomicU32>,
    retries: u32,
}

impl DeferredCall {
    /// Counts one more deferred call of a connection; `None` above the limit.
    pub(crate) fn new(calls: &Arc<AtomicU32>) -> Option<Self> {
        let before = calls.fetch_add(1, Ordering::Relaxed);
        let deferred = Self { calls: Arc::clone(calls), retries: 0 };
        (before < DEFERRED_CALLS_MAX).then_some(deferred)
    }

    /// Counts a retry, and returns the number of earlier ones; `None` after the last.
    pub(crate) fn count_retry(&mut self) -> Option<u32> {
        let before = self.retries;
        self.retries += 1;
        (before < RETRIES_MAX_V3).then_some(before)
    }
}

impl Drop for DeferredCall {
    fn drop(&mut self) {
        self.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

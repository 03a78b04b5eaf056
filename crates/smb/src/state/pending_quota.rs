//! The bound on asynchronous requests of a connection, of a user and of the process.

use crate::limits::user_share_max;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) struct PendingQuota {
    requests: AtomicUsize,
    bytes: AtomicUsize,
    requests_max: usize,
    bytes_max: usize,
}

impl PendingQuota {
    pub(crate) const fn new(requests_max: usize, bytes_max: usize) -> Self {
        Self { requests: AtomicUsize::new(0), bytes: AtomicUsize::new(0), requests_max, bytes_max }
    }

    /// Occupies the quota with a request of so many bytes, if there is room.
    pub(crate) fn try_acquire(self: &Arc<Self>, bytes: usize) -> Option<QuotaPermit> {
        self.try_acquire_within(bytes, self.requests_max, self.bytes_max)
    }

    /// Occupies a user's quota. The user's share of `all` is smaller while others leave less.
    pub(crate) fn try_acquire_beside(self: &Arc<Self>, bytes: usize, all: &Self) -> Option<QuotaPermit> {
        let most = |own: &AtomicUsize, of_all: &AtomicUsize, own_max, all_max| {
            let others = of_all.load(Ordering::Relaxed).saturating_sub(own.load(Ordering::Relaxed));
            user_share_max(own_max, all_max, others)
        };
        let requests_max = most(&self.requests, &all.requests, self.requests_max, all.requests_max);
        let bytes_max = most(&self.bytes, &all.bytes, self.bytes_max, all.bytes_max);
        self.try_acquire_within(bytes, requests_max, bytes_max)
    }

    fn try_acquire_within(
        self: &Arc<Self>,
        bytes: usize,
        requests_max: usize,
        bytes_max: usize,
    ) -> Option<QuotaPermit> {
        let permit = QuotaPermit { quota: Arc::clone(self), bytes };
        let requests = self.requests.fetch_add(1, Ordering::Relaxed);
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        (requests < requests_max && before.saturating_add(bytes) <= bytes_max).then_some(permit)
    }
}

/// An occupied part of a quota. Dropping it frees the part.
pub(crate) struct QuotaPermit {
    quota: Arc<PendingQuota>,
    bytes: usize,
}

impl QuotaPermit {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        self.quota.requests.fetch_sub(1, Ordering::Relaxed);
        self.quota.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_request_does_not_occupy_the_quota() {
        let quota = Arc::new(PendingQuota::new(2, 10));
        let first = quota.try_acquire(5).unwrap();
        assert!(quota.try_acquire(6).is_none(), "too many bytes");
        let second = quota.try_acquire(5).unwrap();
        assert!(quota.try_acquire(0).is_none(), "too many requests");
        drop((first, second));
        assert!(quota.try_acquire(10).is_some());
    }
}

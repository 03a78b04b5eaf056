//! [`NamespaceTracker`]: the namespace against which all claims were last checked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use vfs::sync::Mutex;
use vfs::{Namespace, SharedNamespace};

#[derive(Default)]
pub(crate) struct NamespaceTracker {
    last: Mutex<Weak<Namespace>>,
    /// Whether an older namespace granted a claim since the check.
    is_behind: AtomicBool,
}

impl NamespaceTracker {
    /// The namespace to check claims against; `None` if nothing changed since the last check.
    pub(crate) fn next(&self, shared: &SharedNamespace) -> Option<Arc<Namespace>> {
        // Cleared before the load, so that a later grant sets it again.
        let is_behind = self.is_behind.swap(false, Ordering::SeqCst);
        let now = shared.load_full();
        let mut last = self.last.lock();
        let is_new = !std::ptr::eq(last.as_ptr(), Arc::as_ptr(&now));
        *last = Arc::downgrade(&now);
        (is_new || is_behind).then_some(now)
    }

    /// Notes a claim that `by` admitted. If the namespace changed meanwhile, the next check runs again.
    pub(crate) fn note_grant(&self, by: &Namespace, shared: &SharedNamespace) {
        if !std::ptr::eq(by, Arc::as_ptr(&shared.load())) {
            self.is_behind.store(true, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_that_changes_during_a_call_is_looked_at_again() {
        let shared: SharedNamespace = Arc::new(Arc::new(Namespace::default()).into());
        let tracker = NamespaceTracker::default();
        let before = shared.load_full();
        assert!(tracker.next(&shared).is_some() && tracker.next(&shared).is_none());
        tracker.note_grant(&before, &shared);
        assert!(tracker.next(&shared).is_none());
        shared.store(Arc::default());
        assert!(tracker.next(&shared).is_some() && tracker.next(&shared).is_none());
        tracker.note_grant(&before, &shared);
        assert!(tracker.next(&shared).is_some() && tracker.next(&shared).is_none());
    }
}

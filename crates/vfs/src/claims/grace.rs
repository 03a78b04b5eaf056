//! [`Grace`]: the time after a restart in which only what was held before can be claimed (RFC 8881 §8.4.2.1).

use crate::qos::Nanos;
use std::collections::HashSet;

/// A client as stable storage knows it: whom a restart remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordId(pub u64);

/// Who may still reclaim, and until when. Without anybody recorded there is none.
#[derive(Clone, Debug, Default)]
pub struct Grace {
    until: Nanos,
    recorded: HashSet<RecordId>,
}

impl Grace {
    /// A grace period until `until`, or until all who are recorded have reclaimed.
    pub fn new(until: Nanos, recorded: impl IntoIterator<Item = RecordId>) -> Self {
        Self { until, recorded: recorded.into_iter().collect() }
    }

    /// Whether it lasts.
    pub fn is_active(&self) -> bool {
        !self.recorded.is_empty()
    }

    /// This client has reclaimed all it wants, or will never.
    pub fn complete(&mut self, record: RecordId) {
        self.recorded.remove(&record);
    }

    /// Ends it if its time is over.
    pub fn expire(&mut self, now: Nanos) {
        if self.until <= now {
            self.recorded.clear();
        }
    }

    /// When it ends at the latest; `None` if it has ended.
    pub fn deadline(&self) -> Option<Nanos> {
        self.is_active().then_some(self.until)
    }
}

//! Bounded waiting for sockets.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

pub(super) struct Deadline(Instant);

impl Deadline {
    pub(super) fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    /// The remaining time; `None` after the deadline.
    pub(super) fn remaining(&self) -> Option<Duration> {
        let remaining = self.0.saturating_duration_since(Instant::now());
        (!remaining.is_zero()).then_some(remaining)
    }
}

pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

//! What there may be only so much of in the process, and the numbers that are given once.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Numbers, opens and pipes.
#[derive(Default)]
pub(crate) struct Counts {
    last_id: AtomicU64,
    opens: AtomicUsize,
    pipes: AtomicUsize,
    refused: AtomicU64,
}

impl Counts {
    /// A number that was not given before, and is not 0.
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Counts an open, if there may be one more.
    pub(crate) fn count_open(&self, opens_max: usize) -> bool {
        count(&self.opens, opens_max)
    }

    /// Counts a login that was refused.
    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Logins that were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn uncount_opens(&self, opens: usize) {
        self.opens.fetch_sub(opens, Ordering::Relaxed);
    }

    /// Opens now, pipes among them.
    pub(crate) fn opens(&self) -> usize {
        self.opens.load(Ordering::Relaxed)
    }

    /// Counts a pipe, which is an open as well, if there may be one more.
    pub(crate) fn count_pipe(&self, pipes_max: usize, opens_max: usize) -> bool {
        let is_counted = count(&self.pipes, pipes_max);
        if is_counted && !self.count_open(opens_max) {
            self.pipes.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        is_counted
    }

    pub(crate) fn uncount_pipes(&self, pipes: usize) {
        self.pipes.fetch_sub(pipes, Ordering::Relaxed);
        self.uncount_opens(pipes);
    }
}

/// Counts one more, unless there are `max` already.
fn count(counter: &AtomicUsize, max: usize) -> bool {
    let more = |counted: usize| (counted < max).then_some(counted + 1);
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

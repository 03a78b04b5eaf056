//! Bounded counters of the process, and the id generator.

use super::user_quota::UserQuotas;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

#[derive(Default)]
pub(crate) struct Counters {
    last_id: AtomicU64,
    connections: Arc<AtomicUsize>,
    sessions: Arc<AtomicUsize>,
    trees: Arc<AtomicUsize>,
    opens: AtomicUsize,
    pipes: AtomicUsize,
    pub(crate) user_quotas: UserQuotas,
    /// Bytes in transit over the pipes of users.
    pub(crate) pipe_bytes: Arc<AtomicUsize>,
    /// Bytes in transit over the pipes of anonymous sessions.
    pub(crate) anonymous_pipe_bytes: Arc<AtomicUsize>,
    refused_logins: AtomicU64,
    spliced_bytes: AtomicU64,
}

/// A counted object. Dropping it uncounts the object.
pub(crate) struct CountGuard(Arc<AtomicUsize>);

impl CountGuard {
    /// The current count of all such objects.
    pub(crate) fn total(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counters {
    /// Counts a connection. The transport bounds connections.
    pub(crate) fn connection(&self) -> Option<CountGuard> {
        try_guard(&self.connections, usize::MAX)
    }

    /// Connections, including those whose sessions are still being ended.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn session(&self, sessions_max: usize) -> Option<CountGuard> {
        try_guard(&self.sessions, sessions_max)
    }

    pub(crate) fn tree(&self, trees_max: usize) -> Option<CountGuard> {
        try_guard(&self.trees, trees_max)
    }

    /// Returns an id that was not returned before, and is not 0.
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn count_open(&self, opens_max: usize) -> bool {
        try_count(&self.opens, opens_max)
    }

    pub(crate) fn count_refused_login(&self) {
        self.refused_logins.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused_logins(&self) -> u64 {
        self.refused_logins.load(Ordering::Relaxed)
    }

    pub(crate) fn count_spliced(&self, bytes: usize) {
        self.spliced_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn spliced_bytes(&self) -> u64 {
        self.spliced_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn release_opens(&self, opens: usize) {
        self.opens.fetch_sub(opens, Ordering::Relaxed);
    }

    pub(crate) fn trees(&self) -> usize {
        self.trees.load(Ordering::Relaxed)
    }

    pub(crate) fn pipes(&self) -> usize {
        self.pipes.load(Ordering::Relaxed)
    }

    /// Opens, including pipes.
    pub(crate) fn opens(&self) -> usize {
        self.opens.load(Ordering::Relaxed)
    }

    /// Counts a pipe, which counts as an open as well.
    pub(crate) fn count_pipe(&self, pipes_max: usize, opens_max: usize) -> bool {
        let is_counted = try_count(&self.pipes, pipes_max);
        if is_counted && !self.count_open(opens_max) {
            self.pipes.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        is_counted
    }

    pub(crate) fn release_pipes(&self, pipes: usize) {
        self.pipes.fetch_sub(pipes, Ordering::Relaxed);
        self.release_opens(pipes);
    }
}

pub(crate) fn try_guard(counter: &Arc<AtomicUsize>, max: usize) -> Option<CountGuard> {
    try_count(counter, max).then(|| CountGuard(Arc::clone(counter)))
}

/// Adds one, unless the counter has reached `max`.
pub(crate) fn try_count(counter: &AtomicUsize, max: usize) -> bool {
    let more = |counted: usize| (counted < max).then_some(counted + 1);
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

/// Subtracts one from an entry, and removes the entry at 0.
pub(crate) fn decrement<K: Eq + Hash>(counters: &mut HashMap<K, usize>, whose: K) {
    if let Entry::Occupied(mut count) = counters.entry(whose) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

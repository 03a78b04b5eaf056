//! Quotas by user, so that one user cannot exhaust the bounds of the process.

use super::counters::{CountGuard, Counters, try_count, try_guard};
use super::pending_quota::PendingQuota;
use crate::limits::{
    OPENS_MAX, OPENS_OF_USER_MAX, PIPES_MAX, PIPES_OF_USER_MAX, SESSIONS_MAX, SESSIONS_OF_USER_MAX,
    TREES_MAX, TREES_OF_USER_MAX, WAITING_BYTES_OF_USER_MAX, WAITING_OF_USER_MAX, user_share_max,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use vfs::sync::Mutex;

/// Quotas by uid. Anonymous sessions share the entry `None`.
#[derive(Clone, Default)]
pub(crate) struct UserQuotas(Arc<Mutex<HashMap<Option<u32>, Weak<UserQuota>>>>);

/// The objects of one user's sessions.
pub(crate) struct UserQuota {
    sessions: Arc<AtomicUsize>,
    trees: Arc<AtomicUsize>,
    opens: AtomicUsize,
    pipes: AtomicUsize,
    /// Bytes in transit over pipes.
    pub(crate) pipe_bytes: Arc<AtomicUsize>,
    /// The quota of asynchronous requests.
    pub(crate) pending_quota: Arc<PendingQuota>,
}

impl UserQuotas {
    /// The quota of a user. Users without sessions are removed.
    pub(crate) fn of(&self, uid: Option<u32>) -> Arc<UserQuota> {
        let mut quotas = self.0.lock();
        if let Some(user) = quotas.get(&uid).and_then(Weak::upgrade) {
            return user;
        }
        quotas.retain(|_, user| user.strong_count() > 0);
        let user = Arc::default();
        quotas.insert(uid, Arc::downgrade(&user));
        user
    }
}

impl Default for UserQuota {
    fn default() -> Self {
        Self {
            sessions: Arc::default(),
            trees: Arc::default(),
            opens: AtomicUsize::new(0),
            pipes: AtomicUsize::new(0),
            pipe_bytes: Arc::default(),
            pending_quota: Arc::new(PendingQuota::new(WAITING_OF_USER_MAX, WAITING_BYTES_OF_USER_MAX)),
        }
    }
}

impl UserQuota {
    /// Counts a session, within the user's share of `all`.
    pub(crate) fn session(&self, all: usize) -> Option<CountGuard> {
        try_guard(&self.sessions, user_max(&self.sessions, all, SESSIONS_OF_USER_MAX, SESSIONS_MAX))
    }

    /// Counts a tree connect, within the user's share of `all`.
    pub(crate) fn tree(&self, all: usize) -> Option<CountGuard> {
        try_guard(&self.trees, user_max(&self.trees, all, TREES_OF_USER_MAX, TREES_MAX))
    }

    fn opens_max(&self, counters: &Counters) -> usize {
        user_max(&self.opens, counters.opens(), OPENS_OF_USER_MAX, OPENS_MAX)
    }

    pub(crate) fn count_open(&self, counters: &Counters) -> bool {
        let is_counted = try_count(&self.opens, self.opens_max(counters));
        if is_counted && !counters.count_open(OPENS_MAX) {
            self.opens.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        is_counted
    }

    pub(crate) fn release_opens(&self, counters: &Counters, opens: usize) {
        self.opens.fetch_sub(opens, Ordering::Relaxed);
        counters.release_opens(opens);
    }

    /// Counts a pipe, which is an open as well, for the user and for all.
    pub(crate) fn count_pipe(&self, counters: &Counters) -> bool {
        if !try_count(&self.opens, self.opens_max(counters)) {
            return false;
        }
        let pipes_max = user_max(&self.pipes, counters.pipes(), PIPES_OF_USER_MAX, PIPES_MAX);
        let is_pipe = try_count(&self.pipes, pipes_max);
        if is_pipe && counters.count_pipe(PIPES_MAX, OPENS_MAX) {
            return true;
        }
        self.pipes.fetch_sub(usize::from(is_pipe), Ordering::Relaxed);
        self.opens.fetch_sub(1, Ordering::Relaxed);
        false
    }

    pub(crate) fn release_pipes(&self, counters: &Counters, pipes: usize) {
        self.pipes.fetch_sub(pipes, Ordering::Relaxed);
        self.opens.fetch_sub(pipes, Ordering::Relaxed);
        counters.release_pipes(pipes);
    }
}

/// The share of a user who has `own` of `all`.
fn user_max(own: &AtomicUsize, all: usize, of_user_max: usize, all_max: usize) -> usize {
    user_share_max(of_user_max, all_max, all.saturating_sub(own.load(Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_leaves_opens_and_pipes_to_others() {
        let (counters, users) = (Counters::default(), UserQuotas::default());
        let (greedy, modest) = (users.of(Some(1000)), users.of(Some(1001)));
        let pipes = (0..PIPES_MAX).take_while(|_| greedy.count_pipe(&counters)).count();
        assert_eq!(pipes, PIPES_OF_USER_MAX);
        let again = users.of(Some(1000));
        let opens = (0..OPENS_MAX).take_while(|_| again.count_open(&counters)).count();
        assert_eq!(
            opens + pipes,
            OPENS_OF_USER_MAX,
            "pipes are opens, and another session is the same user's"
        );
        assert!(
            !greedy.count_pipe(&counters) && modest.count_open(&counters) && modest.count_pipe(&counters)
        );
        assert_eq!(counters.opens(), OPENS_OF_USER_MAX + 2, "what was refused is not counted");
        greedy.release_opens(&counters, 1);
        assert!(greedy.count_open(&counters) && !greedy.count_open(&counters));
        greedy.release_pipes(&counters, pipes);
        greedy.release_opens(&counters, opens);
        modest.release_pipes(&counters, 1);
        modest.release_opens(&counters, 1);
        assert_eq!(counters.opens(), 0);
    }

    #[test]
    fn greedy_users_leave_a_share_to_the_next() {
        let (counters, users) = (Counters::default(), UserQuotas::default());
        let mut users_with_opens = Vec::new();
        for uid in 0..12 {
            let user = users.of(Some(uid));
            let opens = (0..OPENS_MAX).take_while(|_| user.count_open(&counters)).count();
            users_with_opens.push((user, opens));
        }
        let least = users_with_opens.iter().map(|(_, opens)| *opens).min().unwrap();
        assert_eq!(users_with_opens[0].1, OPENS_OF_USER_MAX);
        assert!(least > OPENS_MAX / 512, "{least}");
        let user = UserQuota::default();
        assert!(user.session(SESSIONS_MAX / 8 * 7).is_some() && user.tree(TREES_MAX / 8 * 7).is_some());
        let sessions: Vec<CountGuard> = std::iter::from_fn(|| user.session(SESSIONS_MAX / 4 * 3)).collect();
        assert!(sessions.len() < SESSIONS_OF_USER_MAX, "{}", sessions.len());
    }

    #[test]
    fn refused_open_is_not_counted_for_the_user() {
        let counters = Counters::default();
        assert!((0..OPENS_MAX).all(|_| counters.count_open(OPENS_MAX)));
        let user = UserQuota::default();
        assert!(!user.count_open(&counters) && !user.count_pipe(&counters));
        counters.release_opens(OPENS_MAX);
        assert_eq!((0..OPENS_MAX).take_while(|_| user.count_open(&counters)).count(), OPENS_OF_USER_MAX);
    }

    #[test]
    fn one_user_leaves_sessions_and_tree_connects_to_others() {
        let user = UserQuota::default();
        let sessions: Vec<CountGuard> = std::iter::from_fn(|| user.session(0)).collect();
        let trees: Vec<CountGuard> = std::iter::from_fn(|| user.tree(0)).collect();
        assert_eq!((sessions.len(), trees.len()), (SESSIONS_OF_USER_MAX, TREES_OF_USER_MAX));
        drop((sessions, trees));
        assert!(user.session(0).is_some() && user.tree(0).is_some());
    }

    #[test]
    fn user_without_sessions_is_removed() {
        let users = UserQuotas::default();
        let (first, nobody) = (users.of(Some(0)), users.of(None));
        assert!(Arc::ptr_eq(&users.of(Some(0)), &first) && !Arc::ptr_eq(&first, &nobody));
        drop(first);
        for uid in 1..100 {
            users.of(Some(uid));
        }
        assert!(users.0.lock().len() <= 2);
        assert!(Arc::ptr_eq(&users.of(None), &nobody));
    }
}

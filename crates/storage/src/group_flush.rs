//! Groups flushes: concurrent callers share one flush that started after their calls.

use std::sync::{Arc, OnceLock};
use vfs::sync::{Condvar, Mutex};
use vfs::{FsResult, SyncScope};

/// The flushes of one file. At most one runs, and callers gather for at most one more.
#[derive(Default)]
pub struct GroupFlush {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    running: bool,
    /// The next flush, which new callers share, and the scope it must cover.
    next: Option<(Arc<Round>, SyncScope)>,
}

type Round = OnceLock<FsResult<()>>;

impl GroupFlush {
    /// Returns the result of a flush of at least `scope` that started after this call.
    ///
    /// One of the callers runs it. `run` is called without any lock held.
    pub fn join(&self, scope: SyncScope, run: impl FnOnce(SyncScope) -> FsResult<()>) -> FsResult<()> {
        let mut state = self.state.lock();
        let (round, widest) = state.next.get_or_insert_with(|| (Arc::default(), scope));
        *widest = scope.max(*widest);
        let round = Arc::clone(round);
        while state.running {
            state = self.ended.wait(state);
            // The flush that ended may have started before this call: only the result of our round counts.
            if let Some(result) = round.get() {
                return *result;
            }
        }
        // No flush is running and our round has no result, so our round is still the next one: lead it.
        let scope = state.next.take().map_or(scope, |(_, widest)| widest);
        state.running = true;
        drop(state);
        let ending = RoundGuard { flush: self, round: &round };
        let result = run(scope);
        ending.round.get_or_init(|| result);
        drop(ending);
        result
    }
}

/// Wakes the followers, even if the flush panicked.
struct RoundGuard<'a> {
    flush: &'a GroupFlush,
    round: &'a Round,
}

impl Drop for RoundGuard<'_> {
    fn drop(&mut self) {
        // Only a panic leaves the round without a result; the followers need one.
        self.round.get_or_init(|| Err(vfs::FsError::Io));
        self.flush.state.lock().running = false;
        self.flush.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;
    use vfs::FsError;

    /// Starts a slow flush, lets `followers` gather behind it, and counts the flushes.
    fn gather(followers: usize, second: FsResult<()>) -> (u32, Vec<FsResult<()>>, Vec<SyncScope>) {
        let flush = GroupFlush::default();
        let runs = AtomicU32::new(0);
        let scopes = Mutex::new(Vec::new());
        let inside = Barrier::new(2);
        let results = std::thread::scope(|scope| {
            let leader = scope.spawn(|| {
                flush.join(SyncScope::Data, |_| {
                    runs.fetch_add(1, Ordering::SeqCst);
                    inside.wait();
                    // Long enough for all followers to queue up behind this flush.
                    std::thread::sleep(Duration::from_millis(200));
                    Ok(())
                })
            });
            inside.wait();
            let waiting: Vec<_> = (0..followers)
                .map(|i| {
                    let (flush, runs, scopes) = (&flush, &runs, &scopes);
                    scope.spawn(move || {
                        let wanted_scope = if i == 3 { SyncScope::All } else { SyncScope::Data };
                        flush.join(wanted_scope, |scope| {
                            runs.fetch_add(1, Ordering::SeqCst);
                            scopes.lock().push(scope);
                            second
                        })
                    })
                })
                .collect();
            assert_eq!(leader.join().unwrap(), Ok(()));
            waiting.into_iter().map(|w| w.join().unwrap()).collect::<Vec<_>>()
        });
        (runs.into_inner(), results, scopes.into_inner())
    }

    #[test]
    fn waiters_share_one_flush_of_widest_scope() {
        let (runs, results, scopes) = gather(16, Ok(()));
        assert_eq!(runs, 2, "the running flush cannot serve those who came after it began");
        assert_eq!(scopes, [SyncScope::All]);
        assert_eq!(results, [Ok(()); 16]);
    }

    #[test]
    fn failed_flush_fails_for_all_waiters() {
        let (_, results, _) = gather(8, Err(FsError::Io));
        assert_eq!(results, [Err(FsError::Io); 8]);
    }

    #[test]
    fn lone_caller_flushes_each_time() {
        let flush = GroupFlush::default();
        let mut runs = 0;
        for _ in 0..3 {
            assert_eq!(
                flush.join(SyncScope::All, |_| {
                    runs += 1;
                    Ok(())
                }),
                Ok(())
            );
        }
        assert_eq!(runs, 3);
    }
}

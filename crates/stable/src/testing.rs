//! A state directory and a replica for tests.

use crate::{Replica, ReplicaChange, ReplicaPairs, StableDir};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A temporary directory of one test, removed when dropped.
pub struct TestDir(PathBuf);

impl TestDir {
    #[expect(
        clippy::new_without_default,
        clippy::unwrap_used,
        reason = "it makes a directory, for tests alone"
    )]
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("plimsoll-stable-{}-{number}", std::process::id()));
        crate::files::make_dir(&dir, crate::files::PRIVATE_DIR).unwrap();
        Self(dir)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    #[expect(clippy::unwrap_used, reason = "it is for tests alone")]
    pub fn open(&self) -> Arc<StableDir> {
        Arc::new(StableDir::open(&self.0).unwrap())
    }

    #[expect(clippy::unwrap_used, reason = "it is for tests alone")]
    pub fn open_with(&self, replica: &Arc<MemoryReplica>) -> Arc<StableDir> {
        let replica = Arc::clone(replica);
        Arc::new(StableDir::open(&self.0).unwrap().with_replica(replica))
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// A replica in memory, which can fail at a chosen step.
#[derive(Default)]
pub struct MemoryReplica(Mutex<MemoryState>);

#[derive(Default)]
struct MemoryState {
    pairs: ReplicaPairs,
    steps: usize,
    failure: Option<(usize, Failure)>,
}

/// The outcome of the step that fails. All later steps are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    Lost,
    Applied,
}

impl MemoryReplica {
    pub fn pairs(&self) -> ReplicaPairs {
        self.state().pairs.clone()
    }

    /// Replaces the content, and ends failures.
    pub fn set_pairs(&self, pairs: ReplicaPairs) {
        *self.state() = MemoryState { pairs, ..MemoryState::default() };
    }

    /// The number of successful steps.
    pub fn steps(&self) -> usize {
        self.state().steps
    }

    /// Fails the step `step` from now, counted from 1, and all after it.
    pub fn fail_at(&self, step: usize, failure: Failure) {
        let mut state = self.state();
        state.failure = Some((state.steps + step, failure));
    }

    fn state(&self) -> MutexGuard<'_, MemoryState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Replica for MemoryReplica {
    fn apply(&self, changes: &[ReplicaChange<'_>]) -> io::Result<()> {
        let mut state = self.state();
        let step = state.steps + 1;
        let failure = state.failure.filter(|(at, _)| step >= *at);
        if failure.is_none_or(|(at, failure)| step == at && failure == Failure::Applied) {
            for change in changes {
                match *change {
                    ReplicaChange::Set { key, value } => {
                        state.pairs.insert(key.to_owned(), value.to_vec());
                    }
                    ReplicaChange::Remove { key } => {
                        state.pairs.remove(key);
                    }
                }
            }
        }
        if let Some((_, failure)) = failure {
            // From the next step on, everything is lost.
            state.failure = Some((0, Failure::Lost));
            return Err(io::Error::other(format!("the replica failed ({failure:?})")));
        }
        state.steps = step;
        Ok(())
    }
}

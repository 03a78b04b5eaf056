//! Counts volumes after a crash while they already serve: one after the other, in the order of opening.

use crate::cluster::Place;
use crate::error::refused;
use crate::space::Space;
use crate::volumes::trash::RECONNECT_PAUSE;
use crate::walk;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use vfs::sync::{Condvar, Mutex};
use vfs::{Counting, FsError, VolumeId};

/// A queue of volumes to count, and its thread, while there is work.
#[derive(Default)]
pub(super) struct Recounter {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Files counted so far, in all volumes.
    files: AtomicU64,
}

#[derive(Default)]
struct State {
    is_stopping: bool,
    is_running: bool,
    waiting: VecDeque<Waiting>,
    /// The volumes not counted yet, with the number of the count and the error of a failed one. A volume that was closed
    /// and opened again has another count, and the end of the first says nothing about it.
    uncounted: BTreeMap<VolumeId, (u64, Option<FsError>)>,
    next_number: u64,
    /// Number of volumes counted since the process began.
    counted: usize,
}

struct Waiting {
    id: VolumeId,
    number: u64,
    root: Place,
    space: Weak<Space>,
}

impl Recounter {
    /// Queues the volume with this root.
    pub(super) fn add(&self, id: VolumeId, root: Place, space: &Arc<Space>) {
        let mut state = self.shared.state.lock();
        let number = state.next_number;
        state.next_number += 1;
        state.uncounted.insert(id, (number, None));
        state.waiting.push_back(Waiting { id, number, root, space: Arc::downgrade(space) });
        if state.is_running || state.is_stopping {
            return;
        }
        let worker = Arc::clone(&self.shared);
        match std::thread::Builder::new().name("count".into()).spawn(move || worker.run()) {
            Ok(thread) => {
                state.is_running = true;
                self.threads.lock().push(thread);
            }
            Err(error) => tracing::error!(%error, "cannot start a thread that counts volumes"),
        }
    }

    pub(super) fn progress(&self) -> Counting {
        let state = self.shared.state.lock();
        if state.uncounted.is_empty() {
            return Counting::default();
        }
        Counting {
            volumes: state.uncounted.len() + state.counted,
            counted: state.counted,
            files: self.shared.files.load(Ordering::Relaxed),
            failed: state.uncounted.iter().filter_map(|(&id, (_, failed))| Some((id, (*failed)?))).collect(),
        }
    }

    /// Waits up to `patience` until the thread ends. Returns whether every volume is counted.
    pub(super) fn wait(&self, patience: Duration) -> bool {
        let state = self.shared.state.lock();
        let waited = self.shared.changed.wait_timeout_while(state, patience, |state| state.is_running);
        waited.0.uncounted.is_empty()
    }
}

impl Drop for Recounter {
    fn drop(&mut self) {
        self.shared.state.lock().is_stopping = true;
        for thread in std::mem::take(&mut *self.threads.lock()) {
            let _ended = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        loop {
            let next = {
                let mut state = self.state.lock();
                let next = state.waiting.pop_front().filter(|_| !state.is_stopping);
                if next.is_none() {
                    state.is_running = false;
                    self.changed.notify_all();
                }
                next
            };
            let Some(next) = next else { return };
            self.count(next);
        }
    }

    fn count(&self, next: Waiting) {
        let Waiting { id, number, root, space } = &next;
        let mut go_on = |files| {
            self.files.fetch_add(files, Ordering::Relaxed);
            space.strong_count() > 0 && !self.state.lock().is_stopping
        };
        let counted = root.inode().map_err(refused).and_then(|root| walk::count(&root, &mut go_on));
        if matches!(counted, Err(FsError::Wait(_))) && go_on(0) {
            // The session with the cluster ended.
            std::thread::sleep(RECONNECT_PAUSE);
            return self.state.lock().waiting.push_back(next);
        }
        let failed = match (counted, space.upgrade()) {
            (Ok(usage), Some(space)) => {
                space.set_counted(usage, 0);
                None
            }
            // Closed meanwhile: the next opening counts it.
            (_, None) | (Err(FsError::Wait(_)), _) => None,
            (Err(error), Some(space)) => {
                space.set_uncountable();
                tracing::error!(volume = format!("{:016x}", id.0), %error, "cannot count the files of a volume");
                Some(error)
            }
        };
        let mut state = self.state.lock();
        if state.uncounted.get(id).is_some_and(|(current, _)| current == number) {
            if failed.is_some() {
                state.uncounted.insert(*id, (*number, failed));
            } else {
                state.uncounted.remove(id);
                state.counted += 1;
            }
        }
    }
}

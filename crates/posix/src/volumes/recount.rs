//! Counts volumes after a crash while they already serve: a few at a time, in the order of opening.

use super::name;
use super::tree::{self, OwnerTally, reopen};
use crate::capacity::limit::{CountQueue, Limit};
use crate::capacity::owners::LiveFiles;
use crate::capacity::owners::accounts::Tally;
use crate::error::refused;
use crate::sys;
use crate::undo;
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vfs::sync::{Condvar, Mutex};
use vfs::{Counting, FsError, VolumeId};

/// Time between two progress reports of one volume.
const REPORT: Duration = Duration::from_secs(10);

/// A queue of volumes to count, and its threads: one per core, while there is work.
pub(crate) struct Recounter {
    shared: Arc<Shared>,
}

struct Shared {
    this: Weak<Self>,
    threads_max: usize,
    state: Mutex<State>,
    changed: Condvar,
    /// Files counted so far, in all volumes.
    files: AtomicU64,
    undo_stores: OwnedFd,
}

#[derive(Default)]
struct State {
    is_stopping: bool,
    waiting: VecDeque<(VolumeId, Weak<Limit>, u64)>,
    /// The volumes not counted yet, with the number of the count and the error of a failed one. A volume that was closed
    /// and opened again has another count, and the end of the first says nothing about it.
    uncounted: BTreeMap<VolumeId, (u64, Option<FsError>)>,
    next_number: u64,
    /// Number of volumes counted since the process began.
    counted: usize,
    busy_threads: usize,
    threads: Vec<JoinHandle<()>>,
}

impl Recounter {
    /// `undo_stores` is the directory of the undo stores, which are counted, too.
    pub(crate) fn new(undo_stores: OwnedFd) -> Self {
        let threads_max = std::thread::available_parallelism().map_or(1, Into::into);
        let shared = Arc::new_cyclic(|this| Shared {
            this: Weak::clone(this),
            threads_max,
            state: Mutex::default(),
            changed: Condvar::new(),
            files: AtomicU64::new(0),
            undo_stores,
        });
        Self { shared }
    }

    pub(crate) fn add(&self, id: VolumeId, limit: &Arc<Limit>) {
        self.queue().add(id, limit);
    }

    pub(crate) fn queue(&self) -> Arc<dyn CountQueue> {
        Arc::clone(&self.shared) as Arc<dyn CountQueue>
    }

    pub(crate) fn progress(&self) -> Counting {
        let state = self.shared.lock();
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

    /// Waits up to `patience` until no thread is running. Returns whether every volume is counted.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        let waited = self
            .shared
            .changed
            .wait_timeout_while(self.shared.lock(), patience, |state| state.busy_threads > 0);
        waited.0.uncounted.is_empty()
    }
}

impl Drop for Recounter {
    fn drop(&mut self) {
        let threads = {
            let mut state = self.shared.lock();
            state.is_stopping = true;
            std::mem::take(&mut state.threads)
        };
        for thread in threads {
            let _ended = thread.join();
        }
    }
}

impl CountQueue for Shared {
    fn add(&self, id: VolumeId, limit: &Arc<Limit>) {
        let mut state = self.lock();
        let number = state.next_number;
        state.next_number += 1;
        state.uncounted.insert(id, (number, None));
        state.waiting.push_back((id, Arc::downgrade(limit), number));
        let Some(worker) = self.this.upgrade().filter(|_| !state.is_stopping) else { return };
        if state.busy_threads == self.threads_max {
            return;
        }
        match std::thread::Builder::new().name("count".into()).spawn(move || worker.run()) {
            Ok(thread) => {
                state.busy_threads += 1;
                state.threads.retain(|thread| !thread.is_finished());
                state.threads.push(thread);
            }
            // Running threads count it later. Without any, the next volume tries again.
            Err(error) => tracing::error!(%error, "cannot start a thread to count volumes"),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn run(&self) {
        let has_working_dir = sys::own_working_dir();
        loop {
            let mut state = self.lock();
            let next = if state.is_stopping { None } else { state.waiting.pop_front() };
            let Some((id, limit, number)) = next else {
                state.busy_threads -= 1;
                self.changed.notify_all();
                return;
            };
            drop(state);
            let done = self.count(id, &limit, has_working_dir);
            let mut state = self.lock();
            state.counted += usize::from(matches!(done, Ok(true)));
            if state.uncounted.get(&id).is_none_or(|(latest, _)| *latest != number) {
                continue;
            }
            match done {
                Ok(_) => _ = state.uncounted.remove(&id),
                Err(error) => _ = state.uncounted.insert(id, (number, Some(error))),
            }
        }
    }

    /// Counts a volume and updates its ledger; false if the volume was closed or removed meanwhile.
    fn count(&self, id: VolumeId, limit: &Weak<Limit>, has_working_dir: bool) -> Result<bool, FsError> {
        let is_wanted = || limit.upgrade().is_some_and(|limit| limit.is_uncounted());
        let Some((root, live)) = limit.upgrade().map(|limit| (reopen(limit.root()), limit.owners().live()))
        else {
            return Ok(false);
        };
        let begun = Instant::now();
        let mut last_report = begun;
        tracing::info!(
            volume = name(id),
            "counting files: the last process did not end cleanly, or was an older version, or quotas begin"
        );
        let mut progress = |new, files| {
            self.files.fetch_add(new, Ordering::Relaxed);
            if last_report.elapsed() > REPORT {
                last_report = Instant::now();
                tracing::info!(volume = name(id), files, "still counting");
            }
            if !is_wanted() || self.lock().is_stopping { Err(Errno::CANCELED) } else { Ok(()) }
        };
        let mut tally = limit.upgrade().and_then(|limit| by_owner(&limit));
        let counted = root.and_then(|root| {
            if let (Some(_), Some(live)) = (&tally, live) {
                begin_by_owner(&*live, limit, &|| !is_wanted() || self.lock().is_stopping)?;
            }
            tree::count(root, has_working_dir, tally.as_mut(), &mut progress)
        });
        let counted = counted.map_err(refused).and_then(|usage| {
            let held = undo::count(self.undo_stores.as_fd(), &name(id))?;
            Ok((usage, held))
        });
        let Some(limit) = limit.upgrade() else { return Ok(false) };
        match counted {
            Ok((usage, held)) => {
                if let Some(ledger) = limit.ledger().filter(|ledger| ledger.is_uncounted()) {
                    ledger.set_counted(usage, held);
                }
                if let Some(tally) = &tally {
                    limit.owners().set_counted(&tally.of)?;
                }
                let (files, ms) = (usage.files, begun.elapsed().as_millis());
                tracing::info!(volume = name(id), files, bytes = usage.bytes, ms, "counted");
                Ok(true)
            }
            Err(_) if !is_wanted() || self.lock().is_stopping => Ok(false),
            Err(error) => {
                tracing::error!(volume = name(id), %error, "cannot count the files: the volume can be read but not changed");
                limit.set_uncountable();
                Err(error)
            }
        }
    }
}

/// An empty tally for a volume that must be counted by owner.
fn by_owner(limit: &Limit) -> Option<OwnerTally> {
    let has_attribute = limit.owners().live().is_some_and(|live| live.uses_owner_attribute());
    limit.owners().is_uncounted().then(|| OwnerTally { of: Tally::new(), has_attribute })
}

/// Waits for the changes under way, and counts the open files that a walk does not find.
fn begin_by_owner(
    live: &dyn LiveFiles,
    limit: &Weak<Limit>,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<(), Errno> {
    if !live.settle(is_cancelled) {
        return Err(Errno::CANCELED);
    }
    let limit = limit.upgrade().ok_or(Errno::CANCELED)?;
    live.count_nameless(&mut |ids, amount| limit.owners().accounts().force(ids, amount));
    Ok(())
}

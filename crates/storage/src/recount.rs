//! Counts volumes after a crash while they already serve: a few at a time, in the order of opening.

use crate::limit::{CountQueue, Limit, Space};
use crate::owners::Tally;
use crate::volume_name::volume_name;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vfs::sync::{Condvar, Mutex};
use vfs::{Counting, FsError, FsResult, Usage, VolumeId, Wait};

/// Time between two progress reports of one volume.
const REPORT: Duration = Duration::from_secs(10);

/// A walk over the files of volumes.
pub trait Walk<S: Space>: Send + Sync + 'static {
    /// The usage of a volume, and the part of it that only snapshots need. With `tally`, files are counted by owner too.
    /// `go_on` receives the number of files since its last call and in all; if it returns false, any error ends the walk.
    fn count(
        &self,
        id: VolumeId,
        limit: &Weak<Limit<S>>,
        tally: Option<&mut Tally>,
        go_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> FsResult<(Usage, u64)>;

    /// Ends a count, whose result is noted if there is one.
    fn end(&self, _: VolumeId) {}
}

/// A queue of volumes to count, and its threads, while there is work.
pub struct Recounter<S: Space> {
    shared: Arc<Shared<S>>,
}

struct Shared<S: Space> {
    this: Weak<Self>,
    threads_max: usize,
    state: Mutex<State<S>>,
    changed: Condvar,
    /// Files counted so far, in all volumes.
    files: AtomicU64,
    walk: Box<dyn Walk<S>>,
}

struct State<S: Space> {
    is_stopping: bool,
    waiting: VecDeque<(VolumeId, Weak<Limit<S>>, u64)>,
    /// The volumes that a thread is counting now.
    running: BTreeSet<VolumeId>,
    /// The volumes not counted yet, with the number of the count and the error of a failed one. A volume that was closed
    /// and opened again has another count, and the end of the first says nothing about it.
    uncounted: BTreeMap<VolumeId, (u64, Option<FsError>)>,
    next_number: u64,
    /// Number of volumes counted since the process began.
    counted: usize,
    busy_threads: usize,
    threads: Vec<JoinHandle<()>>,
}

impl<S: Space> Default for State<S> {
    fn default() -> Self {
        Self {
            is_stopping: false,
            waiting: VecDeque::new(),
            running: BTreeSet::new(),
            uncounted: BTreeMap::new(),
            next_number: 0,
            counted: 0,
            busy_threads: 0,
            threads: Vec::new(),
        }
    }
}

impl<S: Space> State<S> {
    /// The next volume to count. A volume that is being counted waits: two counts would add the same files twice. The
    /// thread that counts it continues with it.
    fn next(&mut self) -> Option<(VolumeId, Weak<Limit<S>>, u64)> {
        if self.is_stopping {
            return None;
        }
        let at = self.waiting.iter().position(|(id, ..)| !self.running.contains(id))?;
        let next = self.waiting.remove(at)?;
        self.running.insert(next.0);
        Some(next)
    }
}

impl<S: Space> Recounter<S> {
    pub fn new(threads_max: usize, walk: Box<dyn Walk<S>>) -> Self {
        let shared = Arc::new_cyclic(|this| Shared {
            this: Weak::clone(this),
            threads_max,
            state: Mutex::default(),
            changed: Condvar::new(),
            files: AtomicU64::new(0),
            walk,
        });
        Self { shared }
    }

    pub fn add(&self, id: VolumeId, limit: &Arc<Limit<S>>) {
        self.queue().add(id, limit);
    }

    pub fn queue(&self) -> Arc<dyn CountQueue<S>> {
        Arc::clone(&self.shared) as Arc<dyn CountQueue<S>>
    }

    pub fn progress(&self) -> Counting {
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
    pub fn wait(&self, patience: Duration) -> bool {
        let waited = self
            .shared
            .changed
            .wait_timeout_while(self.shared.lock(), patience, |state| state.busy_threads > 0);
        waited.0.uncounted.is_empty()
    }
}

impl<S: Space> Drop for Recounter<S> {
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

impl<S: Space> CountQueue<S> for Shared<S> {
    fn add(&self, id: VolumeId, limit: &Arc<Limit<S>>) {
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

impl<S: Space> Shared<S> {
    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock()
    }

    fn run(&self) {
        loop {
            let mut state = self.lock();
            let Some((id, limit, number)) = state.next() else {
                state.busy_threads -= 1;
                self.changed.notify_all();
                return;
            };
            drop(state);
            let done = self.count(id, &limit);
            self.walk.end(id);
            let mut state = self.lock();
            state.running.remove(&id);
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

    /// Counts a volume and updates its counts; false if the volume was closed or removed meanwhile.
    fn count(&self, id: VolumeId, limit: &Weak<Limit<S>>) -> FsResult<bool> {
        let is_stopping = || self.lock().is_stopping;
        let is_wanted = || !is_stopping() && limit.upgrade().is_some_and(|limit| limit.is_uncounted());
        let uncounted = limit.upgrade().filter(|limit| limit.is_uncounted());
        let Some(by_owner) = uncounted.map(|limit| limit.owners().is_uncounted()) else {
            return Ok(false);
        };
        let begun = Instant::now();
        let mut last_report = begun;
        tracing::info!(
            volume = volume_name(id),
            "counting files: the last process did not end cleanly, or was an older version, or quotas begin"
        );
        let mut go_on = |new, files| {
            self.files.fetch_add(new, Ordering::Relaxed);
            if last_report.elapsed() > REPORT {
                last_report = Instant::now();
                tracing::info!(volume = volume_name(id), files, "still counting");
            }
            is_wanted()
        };
        let mut tally = by_owner.then(Tally::new);
        let settled = if by_owner { begin_by_owner(limit, &|| !is_wanted()) } else { Ok(()) };
        let counted = settled.and_then(|()| self.walk.count(id, limit, tally.as_mut(), &mut go_on));
        let Some(limit) = limit.upgrade() else { return Ok(false) };
        match counted {
            Ok((usage, held)) => {
                if let Some(ledger) = limit.ledger().filter(|ledger| ledger.is_uncounted()) {
                    ledger.set_counted(usage, held);
                }
                if let Some(tally) = &tally {
                    limit.owners().set_counted(tally)?;
                }
                let (files, ms) = (usage.files, begun.elapsed().as_millis());
                tracing::info!(volume = volume_name(id), files, bytes = usage.bytes, ms, "counted");
                Ok(true)
            }
            Err(_) if !is_wanted() => Ok(false),
            Err(error) => {
                tracing::error!(volume = volume_name(id), %error, "cannot count the files: the volume can be read but not changed");
                limit.set_uncountable();
                Err(error)
            }
        }
    }
}

/// Waits for the changes under way, and counts the open files that a walk does not find.
fn begin_by_owner<S: Space>(limit: &Weak<Limit<S>>, is_cancelled: &dyn Fn() -> bool) -> FsResult<()> {
    let cancelled = FsError::Wait(Wait::Recall);
    let live = limit.upgrade().and_then(|limit| limit.owners().live());
    let Some(live) = live else { return Ok(()) };
    if !live.settle(is_cancelled) {
        return Err(cancelled);
    }
    let limit = limit.upgrade().ok_or(cancelled)?;
    live.count_nameless(&mut |ids, amount| limit.owners().force(ids, amount));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::owners::{OwnerIds, OwnerLedger, OwnerStore, add_to_tally};
    use std::sync::atomic::AtomicBool;
    use vfs::QuotaOwner;

    const ID: VolumeId = VolumeId(7);
    const FILE: Usage = Usage { bytes: 4096, files: 1 };

    struct NoSpace;

    impl Space for NoSpace {
        fn ledger(&self) -> Option<&Ledger> {
            None
        }

        fn sync_files(&self) -> FsResult<()> {
            Ok(())
        }

        fn set_removed(&self) {}
    }

    /// Nothing is saved.
    struct NoFiles;

    impl OwnerStore for NoFiles {
        fn open_table(&mut self, creates: bool) -> FsResult<bool> {
            Ok(creates)
        }

        fn read_table(&self) -> FsResult<Vec<u8>> {
            Ok(Vec::new())
        }

        fn write_table(&self, _: &[u8], _: bool) -> FsResult<()> {
            Ok(())
        }

        fn sync_table(&self) -> FsResult<()> {
            Ok(())
        }

        fn read_rules(&self) -> FsResult<Option<Vec<u8>>> {
            Ok(None)
        }

        fn replace_rules(&self, _: &[u8]) -> FsResult<()> {
            Ok(())
        }
    }

    /// Finds one file; the first walk ends when it is allowed to.
    #[derive(Default)]
    struct OneFile {
        begun: AtomicU64,
        is_released: AtomicBool,
    }

    impl Walk<NoSpace> for Arc<OneFile> {
        fn count(
            &self,
            _: VolumeId,
            _: &Weak<Limit<NoSpace>>,
            tally: Option<&mut Tally>,
            _: &mut dyn FnMut(u64, u64) -> bool,
        ) -> FsResult<(Usage, u64)> {
            self.begun.fetch_add(1, Ordering::SeqCst);
            while !self.is_released.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            add_to_tally(tally.expect("a count by owner"), OwnerIds::both(1, 2), FILE);
            Ok((FILE, 0))
        }
    }

    #[test]
    fn volume_that_is_queued_twice_is_counted_once() {
        let walk = Arc::new(OneFile::default());
        let counter = Recounter::new(2, Box::new(Arc::clone(&walk)));
        let owners = OwnerLedger::open("one".into(), Box::new(NoFiles)).unwrap();
        let limit = Arc::new(Limit::new(NoSpace, owners, ID, counter.queue()));
        limit.start_owners().unwrap();
        counter.add(ID, &limit);
        // A third volume: the second thread has passed the one that waits.
        let owners = OwnerLedger::open("two".into(), Box::new(NoFiles)).unwrap();
        let other = Arc::new(Limit::new(NoSpace, owners, VolumeId(8), counter.queue()));
        other.start_owners().unwrap();
        while walk.begun.load(Ordering::SeqCst) < 2 {
            std::thread::yield_now();
        }
        walk.is_released.store(true, Ordering::SeqCst);
        assert!(counter.wait(Duration::from_secs(600)), "all are counted");
        for limit in [limit, other] {
            assert_eq!(limit.owners().usage(QuotaOwner::user(1)).unwrap().used, FILE);
        }
        assert_eq!(walk.begun.load(Ordering::SeqCst), 2);
    }
}

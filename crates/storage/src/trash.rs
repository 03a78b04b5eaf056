//! Deletes the trees of removed volumes, one after the other, on its own thread.
//!
//! Everything in the directory `trash` is deleted, so a new process completes an interrupted deletion.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vfs::sync::{Condvar, Mutex};
use vfs::{FsError, FsResult};

/// Time until the next attempt, if the storage is not there at present.
const PAUSE: Duration = Duration::from_secs(1);

/// The directory of removed volumes.
pub trait TrashDir: Send + Sync + 'static {
    fn names(&self) -> FsResult<Vec<CString>>;

    /// Deletes the tree `name`. False once `stop` returns true. [`FsError::Wait`] if it is to be tried again.
    fn delete(&self, name: &CStr, stop: &dyn Fn() -> bool) -> FsResult<bool>;
}

pub struct Trash<D: TrashDir> {
    shared: Arc<Shared<D>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared<D> {
    dir: D,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_stopping: bool,
    /// The directory may have new entries.
    has_work: bool,
    idle: bool,
    /// Entries whose deletion failed. The next start tries again.
    failed: HashSet<CString>,
}

impl<D: TrashDir> Trash<D> {
    pub fn start(dir: D) -> std::io::Result<Self> {
        let state = State { has_work: true, ..State::default() };
        let shared = Arc::new(Shared { dir, state: Mutex::new(state), changed: Condvar::new() });
        let worker = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("trash".into()).spawn(move || worker.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    pub fn dir(&self) -> &D {
        &self.shared.dir
    }

    /// Looks for new entries.
    pub fn wake(&self) {
        self.shared.lock().has_work = true;
        self.shared.changed.notify_all();
    }

    /// Waits up to `patience` until all is deleted. False at the deadline or after a failure.
    pub fn wait_until_done(&self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        let mut state = self.shared.lock();
        while state.has_work || !state.idle {
            let remaining = end.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(state, remaining);
            state = waited.0;
        }
        state.failed.is_empty()
    }
}

impl<D: TrashDir> Drop for Trash<D> {
    fn drop(&mut self) {
        self.shared.lock().is_stopping = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

impl<D: TrashDir> Shared<D> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn run(&self) {
        loop {
            let mut state = self.lock();
            while !state.has_work && !state.is_stopping {
                state.idle = true;
                self.changed.notify_all();
                state = self.changed.wait(state);
            }
            if state.is_stopping {
                return;
            }
            (state.has_work, state.idle) = (false, false);
            drop(state);
            match self.dir.names() {
                Ok(names) => names.into_iter().for_each(|name| self.delete(name)),
                Err(FsError::Wait(_)) => self.try_later(),
                Err(error) => tracing::error!(%error, "cannot list the trash"),
            }
        }
    }

    fn delete(&self, name: CString) {
        {
            let state = self.lock();
            if state.is_stopping || state.failed.contains(&name) {
                return;
            }
        }
        match self.dir.delete(&name, &|| self.lock().is_stopping) {
            Ok(true) => {
                tracing::info!(volume = %name.to_string_lossy(), "all files of a removed volume are deleted");
            }
            Ok(false) => {}
            Err(FsError::Wait(_)) => self.try_later(),
            Err(error) => {
                tracing::error!(
                    volume = %name.to_string_lossy(), %error,
                    "cannot delete all files of a removed volume: the next start tries again"
                );
                self.lock().failed.insert(name);
            }
        }
    }

    fn try_later(&self) {
        let state = self.lock();
        let mut state = self.changed.wait_timeout_while(state, PAUSE, |state| !state.is_stopping).0;
        state.has_work = true;
    }
}

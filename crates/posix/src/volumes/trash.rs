//! Deletes the trees of removed volumes, one after the other, on its own thread.
//!
//! Everything in the directory `trash` is deleted, so a new process completes an interrupted deletion.

use super::tree::{delete, entries};
use crate::capacity::project::Project;
use crate::error::refused;
use rustix::fs::{fsync, renameat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vfs::FsResult;
use vfs::sync::{Condvar, Mutex};

pub(crate) struct Trash {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    dir: OwnedFd,
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

impl Trash {
    pub(crate) fn start(dir: OwnedFd) -> std::io::Result<Self> {
        let state = State { has_work: true, ..State::default() };
        let shared = Arc::new(Shared { dir, state: Mutex::new(state), changed: Condvar::new() });
        let worker = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("trash".into()).spawn(move || worker.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Moves the directory `name` of `from` to the trash, durably; false if it does not exist. Call [`Trash::wake`] to
    /// delete it.
    pub(crate) fn take(&self, from: &OwnedFd, name: &str) -> FsResult<bool> {
        let trash = &self.shared.dir;
        // One of the same name may have been removed before, and its files may still be in the trash.
        for again in 0u64.. {
            let place = if again == 0 { name.to_owned() } else { format!("{name}.{again}") };
            match renameat(from, name, trash, place) {
                Ok(()) => break,
                Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                Err(Errno::NOENT) => return Ok(false),
                Err(errno) => return Err(refused(errno)),
            }
        }
        fsync(trash).and_then(|()| fsync(from)).map_err(refused)?;
        Ok(true)
    }

    pub(crate) fn wake(&self) {
        self.shared.lock().has_work = true;
        self.shared.changed.notify_all();
    }

    /// Waits up to `patience` until all is deleted. False at the deadline or after a failure.
    pub(crate) fn wait_until_done(&self, patience: Duration) -> bool {
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

impl Drop for Trash {
    fn drop(&mut self) {
        self.shared.lock().is_stopping = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

impl Shared {
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
            match entries(&self.dir) {
                Ok(names) => names.into_iter().for_each(|name| self.delete(name)),
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
        let project = Project::at(self.dir.as_fd(), &name);
        match delete(self.dir.as_fd(), &name, &|| self.lock().is_stopping) {
            Ok(()) => {
                if let Some(project) = project {
                    project.release();
                }
                tracing::info!(volume = %name.to_string_lossy(), "all files of a removed volume are deleted");
            }
            Err(Errno::CANCELED) => {}
            Err(errno) => {
                let error = std::io::Error::from(errno);
                tracing::error!(
                    volume = %name.to_string_lossy(), %error,
                    "cannot delete all files of a removed volume: the next start tries again"
                );
                self.lock().failed.insert(name);
            }
        }
    }
}

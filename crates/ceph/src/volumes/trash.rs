//! Deletes the trees of removed volumes, one after the other, on its own thread.
//!
//! Everything in the directory `trash` is deleted, so a new process completes an interrupted deletion.

use crate::cluster::Place;
use crate::error::refused;
use crate::ffi::{Inode, Wanted};
use crate::snapshot;
use crate::walk;
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vfs::sync::{Condvar, Mutex};
use vfs::{FsError, FsResult};

/// Time until the next attempt, if the session with the cluster has ended.
pub(super) const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Trash {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    dir: Place,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_stopping: bool,
    /// The directory may have new entries.
    has_work: bool,
    is_idle: bool,
    /// Entries whose deletion failed. The next start tries again.
    failed: HashSet<CString>,
}

impl Trash {
    pub(super) fn start(dir: Place) -> std::io::Result<Self> {
        let state = State { has_work: true, ..State::default() };
        let shared = Arc::new(Shared { dir, state: Mutex::new(state), changed: Condvar::new() });
        let worker = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("trash".into()).spawn(move || worker.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Moves the directory `name` of `from` to the trash, durably; false if it does not exist. Call [`Trash::wake`] to
    /// delete it.
    pub(super) fn take(&self, from: &Inode, name: &CStr) -> FsResult<bool> {
        let trash = &*self.shared.dir.inode().map_err(refused)?;
        // One of the same name may have been removed before, and its files may still be in the trash.
        for again in 0u64.. {
            let suffix = if again == 0 { String::new() } else { format!(".{again}") };
            let place = CString::new([name.to_bytes(), suffix.as_bytes()].concat()).unwrap_or_default();
            match from.rename(name, trash, &place) {
                Ok(()) => break,
                Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                Err(Errno::NOENT) => return Ok(false),
                Err(errno) => return Err(refused(errno)),
            }
        }
        trash.sync(false).and_then(|()| from.sync(false)).map_err(refused)?;
        Ok(true)
    }

    pub(super) fn wake(&self) {
        self.shared.state.lock().has_work = true;
        self.shared.changed.notify_all();
    }

    /// Waits up to `patience` until all is deleted. False at the deadline or after a failure.
    pub(super) fn wait_until_done(&self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        let mut state = self.shared.state.lock();
        while state.has_work || !state.is_idle {
            let remaining = end.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return false;
            }
            state = self.shared.changed.wait_timeout(state, remaining).0;
        }
        state.failed.is_empty()
    }
}

impl Drop for Trash {
    fn drop(&mut self) {
        self.shared.state.lock().is_stopping = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        loop {
            let mut state = self.state.lock();
            while !state.has_work && !state.is_stopping {
                state.is_idle = true;
                self.changed.notify_all();
                state = self.changed.wait(state);
            }
            if state.is_stopping {
                return;
            }
            (state.has_work, state.is_idle) = (false, false);
            drop(state);
            match self.names() {
                Ok(names) => names.into_iter().for_each(|name| self.delete(name)),
                Err(errno) => {
                    let error = std::io::Error::from(errno);
                    tracing::error!(%error, "cannot list the removed volumes in CephFS");
                    std::thread::sleep(RECONNECT_PAUSE);
                    self.state.lock().has_work = true;
                }
            }
        }
    }

    fn names(&self) -> Result<Vec<CString>, Errno> {
        let mut entries = self.dir.inode()?.open_dir()?;
        let mut names = Vec::new();
        while let Some(entry) = entries.next(Wanted::Nothing)? {
            if !matches!(&entry.name[..], b"." | b"..") {
                names.push(CString::new(entry.name).map_err(|_| Errno::INVAL)?);
            }
        }
        Ok(names)
    }

    fn delete(&self, name: CString) {
        {
            let state = self.state.lock();
            if state.is_stopping || state.failed.contains(&name) {
                return;
            }
        }
        match self.delete_tree(&name) {
            Ok(true) => {
                tracing::info!(volume = %name.to_string_lossy(), "all files of a removed volume are deleted");
            }
            Ok(false) => {}
            Err(errno) if matches!(refused(errno), FsError::Wait(_)) => {
                std::thread::sleep(RECONNECT_PAUSE);
                self.state.lock().has_work = true;
            }
            Err(errno) => {
                let error = std::io::Error::from(errno);
                tracing::error!(
                    volume = %name.to_string_lossy(), %error,
                    "cannot delete all files of a removed volume: the next start tries again"
                );
                self.state.lock().failed.insert(name);
            }
        }
    }

    /// False if the process is ending.
    fn delete_tree(&self, name: &CStr) -> Result<bool, Errno> {
        let dir = self.dir.inode()?;
        let (root, _) = dir.lookup(name)?;
        // The engine removes no directory that has snapshots.
        snapshot::remove_below(&root, self.dir.cluster().snapshot_dir())?;
        if !walk::empty(&root, &|| self.state.lock().is_stopping)? {
            return Ok(false);
        }
        drop(root);
        dir.remove_dir(name).map(|()| true)
    }
}

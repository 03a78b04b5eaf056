//! Looks up names in snapshots without waiting for a client that has nothing to tell.
//!
//! The metadata server does not answer about a file of a snapshot until each client that could write the file has told what
//! it had changed by then. A client with no change tells nothing. The server of 16.2 notices that at its next message about
//! the file, which took 6 to 15 seconds, and the server of 18.2 only when the client may not write any more, which can be
//! never. A second client that opens the live file and asks for its attributes ends both: the server asks the first one to
//! stop writing for a moment.

use crate::cluster::Cluster;
use crate::ffi::{Inode, LIVE, Statx};
use crate::node::listing::{Groups, name_hash};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vfs::FsResult;
use vfs::sync::{Condvar, Mutex};

/// Longer than most lookups take.
const PATIENCE: Duration = Duration::from_millis(20);
/// Time between two questions about one file.
const REPEAT: Duration = Duration::from_secs(1);

/// Watches the lookups of a volume's snapshots.
pub(super) struct Settler {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    cluster: Weak<Cluster>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_stopping: bool,
    next: u64,
    lookups: BTreeMap<u64, UnderWay>,
}

/// A lookup under way.
struct UnderWay {
    dir: Arc<Inode>,
    name: CString,
    /// The time of the first question, or of the next one.
    due: Instant,
}

/// Ends a lookup on drop.
struct Ticket<'s>(&'s Shared, u64);

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let ended = self.0.state.lock().lookups.remove(&self.1);
        // Its directory may have to be released: not under the lock.
        drop(ended);
    }
}

impl Settler {
    pub(super) fn new(cluster: &Arc<Cluster>) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { cluster: Arc::downgrade(cluster), state, changed });
        Self { shared, thread: Mutex::default() }
    }

    /// Looks up a name in a directory of a snapshot.
    pub(super) fn lookup(&self, dir: &Arc<Inode>, name: &CStr) -> Result<(Inode, Statx), Errno> {
        self.start();
        let _under_way = self.shared.enter(dir, name);
        dir.lookup(name)
    }

    fn start(&self) {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let started = std::thread::Builder::new().name("snapshot-settle".into());
            // Without it lookups take longer.
            *thread = started.spawn(move || shared.run()).ok();
        }
    }
}

impl Drop for Settler {
    fn drop(&mut self) {
        self.shared.state.lock().is_stopping = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            let _ended = thread.join();
        }
    }
}

impl Shared {
    fn enter(&self, dir: &Arc<Inode>, name: &CStr) -> Ticket<'_> {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        let due = Instant::now() + PATIENCE;
        state.lookups.insert(number, UnderWay { dir: Arc::clone(dir), name: name.into(), due });
        if state.lookups.len() == 1 {
            self.changed.notify_one();
        }
        Ticket(self, number)
    }

    fn run(&self) {
        let mut state = self.state.lock();
        while !state.is_stopping {
            let now = Instant::now();
            let late = state.lookups.values_mut().find(|lookup| lookup.due <= now);
            if let Some(lookup) = late {
                lookup.due = now + REPEAT;
                let (dir, name) = (Arc::clone(&lookup.dir), lookup.name.clone());
                drop(state);
                self.ask(&dir, &name);
                drop(dir);
                state = self.state.lock();
                continue;
            }
            let next = state.lookups.values().map(|lookup| lookup.due).min();
            state = match next {
                Some(next) => self.changed.wait_timeout(state, next.saturating_duration_since(now)).0,
                None => self.changed.wait(state),
            };
        }
    }

    /// Lets the second client open the live file and ask about it. An error only leaves the lookup as slow as it is.
    fn ask(&self, dir: &Inode, name: &CStr) {
        let Some(cluster) = self.cluster.upgrade() else { return };
        if let Ok(Some(number)) = number_of(dir, name)
            && let Ok(spare) = cluster.spare()
        {
            let _asked = spare.inode_of(number, LIVE).and_then(|live| {
                // Without a second reader the first client would retain the right to write unflushed data.
                let _reader = live.open(false);
                live.attrs()
            });
        }
    }
}

/// The number of the file with a name, from a listing: that does not wait.
fn number_of(dir: &Inode, name: &CStr) -> FsResult<Option<u64>> {
    let entries = dir.open_dir().map_err(crate::error::refused)?;
    let group = Groups::at_hash(entries, name_hash(name.to_bytes())).next()?.unwrap_or_default();
    let named = group.into_iter().find(|listed| listed.entry.name == name.to_bytes());
    Ok(named.map(|listed| listed.entry.number))
}

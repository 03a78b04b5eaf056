//! Flushes the log of the metadata server while a call waits for it.
//!
//! The server answers a change before its log has it, and holds locks of the change until then. It writes the log when a
//! client waits for the durability of a change, or every five seconds: so long would the next question about the directory
//! take. A change that is made durable writes the log for all.

use crate::ffi::{Client, Inode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vfs::sync::{Condvar, Mutex};

/// Longer than a question takes that does not wait for the log.
const PATIENCE: Duration = Duration::from_millis(15);
/// Times between two looks at the calls under way: soon after a change, and else.
const BUSY_PAUSE: Duration = Duration::from_millis(10);
const IDLE_PAUSE: Duration = Duration::from_millis(100);
/// The server itself writes its log after this time.
const SERVER_PERIOD: Duration = Duration::from_secs(6);
/// The attribute that is changed to have a change.
const MARK: &std::ffi::CStr = c"trusted.plimsoll.flush";

pub(crate) struct LogFlush {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_stopping: Mutex<bool>,
    stopped: Condvar,
    /// A change was sent since the last look.
    has_changed: AtomicBool,
}

impl LogFlush {
    /// Watches the calls of a client. `dir` is a directory that no other client uses.
    pub(crate) fn start(client: &Arc<Client>, dir: Inode) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (worker, client) = (Arc::clone(&shared), Arc::clone(client));
        let thread = std::thread::Builder::new().name("mds-log".into());
        let thread = thread.spawn(move || worker.run(&client, &dir))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Notes that the server was asked for a change.
    pub(crate) fn note(&self) {
        self.shared.has_changed.store(true, Ordering::Relaxed);
    }
}

impl Drop for LogFlush {
    fn drop(&mut self) {
        *self.shared.is_stopping.lock() = true;
        self.shared.stopped.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

impl Shared {
    fn run(&self, client: &Client, dir: &Inode) {
        let mut last_change = None::<Instant>;
        for count in 0u64.. {
            let is_busy = last_change.is_some_and(|at| at.elapsed() < SERVER_PERIOD);
            let pause = if is_busy { BUSY_PAUSE } else { IDLE_PAUSE };
            let waited = self.stopped.wait_timeout(self.is_stopping.lock(), pause);
            if *waited.0 {
                return;
            }
            drop(waited);
            if self.has_changed.swap(false, Ordering::Relaxed) {
                last_change = Some(Instant::now());
            }
            if client.longest_call() > PATIENCE {
                // Only a hint: a call that needs durability flushes by itself, and sees the error.
                let _flushed = dir.set_xattr(MARK, &count.to_be_bytes(), 0).and_then(|()| dir.sync(false));
            }
        }
    }
}

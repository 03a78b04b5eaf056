//! The thread that watches a connection: flushes the log of the metadata server, and connects again.
//!
//! The metadata server answers a change before its log has it, and holds locks of the change until then. It writes the log
//! when a client waits for the durability of a change, or every five seconds: so long would the next question about the
//! directory take. A change that is made durable writes the log for all.
//!
//! The cluster ends the session of a client that was silent for minutes, and refuses all its later calls. Then a new
//! connection takes the place of the old one.

use super::Cluster;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
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
/// Time between two questions whether the session lasts, and between the first two attempts to connect.
const PROBE_PERIOD: Duration = Duration::from_secs(1);
/// The longest time between two attempts to connect: each failure doubles it.
const PROBE_PERIOD_MAX: Duration = Duration::from_secs(8);

pub(crate) struct Watch {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    is_stopping: Mutex<bool>,
    stopped: Condvar,
    /// A change was sent since the last look.
    has_changed: AtomicBool,
}

impl Watch {
    pub(crate) fn start(cluster: Weak<Cluster>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let worker = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("ceph-watch".into());
        let thread = thread.spawn(move || worker.run(&cluster))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Notes that the server was asked for a change.
    pub(crate) fn note(&self) {
        self.shared.has_changed.store(true, Ordering::Relaxed);
    }
}

impl Watch {
    pub(crate) fn stop(&self) {
        *self.shared.is_stopping.lock() = true;
        self.shared.stopped.notify_all();
        let thread = self.thread.lock().take();
        // The thread itself may drop the last reference to the cluster.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ended = thread.join();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn run(&self, cluster: &Weak<Cluster>) {
        let (mut last_change, mut last_probe) = (None::<Instant>, Instant::now());
        let mut probe_period = PROBE_PERIOD;
        loop {
            let is_busy = last_change.is_some_and(|at| at.elapsed() < SERVER_PERIOD);
            let pause = if is_busy { BUSY_PAUSE } else { IDLE_PAUSE };
            let waited = self.stopped.wait_timeout(self.is_stopping.lock(), pause);
            if *waited.0 {
                return;
            }
            drop(waited);
            let Some(cluster) = cluster.upgrade() else { return };
            if self.has_changed.swap(false, Ordering::Relaxed) {
                last_change = Some(Instant::now());
            }
            let connection = cluster.connection();
            let is_due = last_probe.elapsed() >= probe_period;
            if connection.client.longest_call() > PATIENCE {
                connection.flush_log();
            }
            if !is_due {
                continue;
            }
            connection.probe();
            let is_connected = !connection.client.has_ended() || cluster.reconnect();
            probe_period = if is_connected { PROBE_PERIOD } else { (probe_period * 2).min(PROBE_PERIOD_MAX) };
            last_probe = Instant::now();
        }
    }
}

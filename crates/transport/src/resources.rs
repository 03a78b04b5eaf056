//! Resources that all connections of a server share, with their counts.

use crate::buffer::BufferPool;
use crate::queue::Totals;
use crate::tail::TailPool;
use crate::tls::handshake::Handshakes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub(crate) struct Resources {
    /// Open files in a storage thread's cache for a leased connection.
    pub(crate) lease_files: usize,
    pub(crate) buffers: Arc<BufferPool>,
    /// The memory of long tails.
    pub(crate) tails: Arc<TailPool>,
    /// Connections of all loops.
    pub(crate) connections: AtomicUsize,
    /// Leased connections.
    pub(crate) leased: AtomicUsize,
    /// Whether the server takes no new calls.
    pub(crate) stopping: AtomicBool,
    /// Memory of unread replies.
    pub(crate) unread: AtomicUsize,
    /// Bytes of long replies being produced.
    pub(crate) long_reply_bytes: AtomicUsize,
    /// Calls that wait for the limits of volumes.
    pub(crate) queued: Arc<Totals>,
    /// Jobs that wait for a storage thread.
    pub(crate) jobs: Arc<AtomicUsize>,
    /// Bytes of unfinished messages outside of receive buffers.
    pub(crate) spilled: AtomicUsize,
    /// TLS handshakes in progress.
    pub(crate) handshakes: Arc<Handshakes>,
}

impl Resources {
    pub(crate) fn new(buffers: Arc<BufferPool>, lease_files: usize) -> Arc<Self> {
        Arc::new(Self {
            lease_files,
            buffers,
            tails: Arc::default(),
            connections: AtomicUsize::new(0),
            leased: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            unread: AtomicUsize::new(0),
            long_reply_bytes: AtomicUsize::new(0),
            queued: Arc::default(),
            jobs: Arc::default(),
            spilled: AtomicUsize::new(0),
            handshakes: Arc::default(),
        })
    }

    pub(crate) fn is_pressed(&self) -> bool {
        self.jobs.load(Ordering::Relaxed) > 0
    }
}

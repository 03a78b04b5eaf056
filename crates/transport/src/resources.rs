//! What all connections of a server share, and what is counted of it.

use crate::buffer::BufferPool;
use crate::queue::Totals;
use crate::tail::TailPool;
use crate::tls::handshake::Handshakes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Buffers, and counts over all connections.
pub(crate) struct Resources {
    /// Files that a storage thread may hold open for a leased connection.
    pub(crate) lease_files: usize,
    /// Where receive buffers come from.
    pub(crate) buffers: Arc<BufferPool>,
    /// Where the memory of long tails comes from.
    pub(crate) tails: Arc<TailPool>,
    /// Connections of all loops.
    pub(crate) connections: AtomicUsize,
    /// Connections that storage threads have leased.
    pub(crate) leased: AtomicUsize,
    /// No new calls are taken.
    pub(crate) stopping: AtomicBool,
    /// Bytes that replies take which clients have not read.
    pub(crate) unread: AtomicUsize,
    /// Bytes of long replies being made.
    pub(crate) long_reply_bytes: AtomicUsize,
    /// What is queued for the limits of volumes.
    pub(crate) queued: Arc<Totals>,
    /// Jobs that wait for a storage thread.
    pub(crate) jobs: Arc<AtomicUsize>,
    /// Bytes of unfinished messages outside of receive buffers.
    pub(crate) spilled: AtomicUsize,
    /// TLS handshakes under way.
    pub(crate) handshakes: Arc<Handshakes>,
}

impl Resources {
    /// Nothing is in use.
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

    /// Whether jobs wait for a storage thread.
    pub(crate) fn is_pressed(&self) -> bool {
        self.jobs.load(Ordering::Relaxed) > 0
    }
}

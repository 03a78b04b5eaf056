//! Resources that all connections of a server share, with their counts.

use crate::buffer::BufferPool;
use crate::queue::Totals;
use crate::reply_deadline::ReplyDeadline;
use crate::tail::TailPool;
use crate::tls::handshake::Handshakes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub(crate) struct Resources {
    /// Open files in a storage thread's cache for a leased connection.
    pub(crate) lease_files: usize,
    pub(crate) deadline: ReplyDeadline,
    pub(crate) buffers: Arc<BufferPool>,
    pub(crate) tails: Arc<TailPool>,
    pub(crate) connections: AtomicUsize,
    pub(crate) leased: AtomicUsize,
    pub(crate) stopping: AtomicBool,
    pub(crate) unread: AtomicUsize,
    pub(crate) long_reply_bytes: AtomicUsize,
    pub(crate) queued: Arc<Totals>,
    pub(crate) jobs: Arc<AtomicUsize>,
    /// Bytes of unfinished messages outside of receive buffers.
    pub(crate) spilled: AtomicUsize,
    pub(crate) handshakes: Arc<Handshakes>,
}

impl Resources {
    pub(crate) fn new(buffers: Arc<BufferPool>, lease_files: usize, deadline: ReplyDeadline) -> Arc<Self> {
        Arc::new(Self {
            lease_files,
            deadline,
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

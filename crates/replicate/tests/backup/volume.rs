//! A volume in memory, for the tests of backups and of replication.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use vfs::{Backend, Name, NewInode, NodeRef, Time};
use vfs_testing::{MemFs, UncheckedNode};

pub(crate) fn seconds(seconds: i64) -> Time {
    Time { seconds, nanos: 0 }
}

/// A volume in memory whose clock the test sets.
pub(crate) struct Volume {
    pub(crate) fs: MemFs,
    pub(crate) clock: Arc<AtomicI64>,
}

impl Volume {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(AtomicI64::new(1_000));
        let now = clock.clone();
        Self { fs: MemFs::new(Arc::new(move || seconds(now.load(Ordering::Relaxed)))), clock }
    }

    pub(crate) fn now(&self) -> i64 {
        self.clock.load(Ordering::Relaxed)
    }

    pub(crate) fn advance(&self, by: i64) {
        self.clock.fetch_add(by, Ordering::Relaxed);
    }

    pub(crate) fn root(&self) -> NodeRef {
        self.fs.root()
    }

    /// Makes a file in the root.
    pub(crate) fn put(&self, file: &str, data: &[u8]) -> NodeRef {
        let node = match self.root().lookup(name(file.as_bytes()), vfs::Blocking::Allowed) {
            Ok(found) => found.node,
            Err(_) => self.root().create_unchecked(name(file.as_bytes()), &plain()).unwrap().found.node,
        };
        node.write(0, data, vfs::backend::KEEP_SET_ID).unwrap();
        node
    }
}

pub(crate) fn name(bytes: &[u8]) -> Name<'_> {
    Name::new(bytes).unwrap()
}

pub(crate) fn plain() -> NewInode {
    NewInode { mode: 0o644, uid: 7, gid: 8, times: None, size: 0 }
}

/// Bytes that do not compress, different for each `seed`.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_be_bytes());
    }
    bytes.truncate(len);
    bytes
}

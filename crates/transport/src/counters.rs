//! Statistics of calls, added to their volumes when the replies leave.

use std::ops::Deref;
use std::time::Duration;
use vfs::qos::{Kind, Permit, Transferred};
use vfs::volume::traffic::{ReadCounts, ReadSource};
use vfs::{Volume, VolumeId};

pub struct CallStats<T> {
    /// The object of the call; `None` if no volume counts it.
    pub target: Option<T>,
    pub kind: Kind,
    /// Bytes of data read or written.
    pub bytes: u32,
    /// Bytes that limits count: data, listings, links and attributes.
    pub transferred: Transferred,
    pub read_from: Option<ReadSource>,
}

impl<T> Default for CallStats<T> {
    fn default() -> Self {
        Self {
            target: None,
            kind: Kind::Other,
            bytes: 0,
            transferred: Transferred::default(),
            read_from: None,
        }
    }
}

impl<T> CallStats<T> {
    pub fn with_target<U>(self, target: Option<U>) -> CallStats<U> {
        let Self { kind, bytes, transferred: moved, read_from, .. } = self;
        CallStats { target, kind, bytes, transferred: moved, read_from }
    }

    /// Counts data, for both limits and statistics.
    pub fn count_data(&mut self, moved: Transferred) {
        let bytes = moved.read.saturating_add(moved.written);
        self.bytes = self.bytes.saturating_add(bytes);
        self.transferred = self.transferred.and(moved);
    }

    /// Counts bytes of a listing, a link or attributes, for limits alone.
    pub fn count_metadata(&mut self, moved: Transferred) {
        self.transferred = self.transferred.and(moved);
    }

    /// Records the bytes transferred so far in `permit` and drops it. Later bytes belong to another permit.
    pub fn record_transferred(&mut self, permit: Option<Permit>) {
        let moved = std::mem::take(&mut self.transferred);
        if let Some(mut permit) = permit {
            permit.record(moved);
        }
    }
}

/// Statistics of the calls whose replies leave together.
pub(crate) struct OpCounters<T> {
    entries: Vec<Entry<T>>,
}

struct Entry<T> {
    target: T,
    kind: Kind,
    ops: u64,
    bytes: u64,
    reads: ReadCounts,
}

impl<T> Default for OpCounters<T> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<T: Deref<Target: AsRef<Volume>>> OpCounters<T> {
    #[inline]
    pub(crate) fn add(&mut self, stats: CallStats<T>) {
        let CallStats { target, kind, bytes, read_from, transferred: _ } = stats;
        let Some(of) = target else { return };
        let bytes = u64::from(bytes);
        let reads = ReadCounts {
            from_memory: u64::from(read_from == Some(ReadSource::Memory)),
            from_storage: u64::from(read_from == Some(ReadSource::Storage)),
        };
        let volume = (*of).as_ref();
        let same =
            |entry: &&mut Entry<T>| entry.kind == kind && std::ptr::eq((*entry.target).as_ref(), volume);
        match self.entries.iter_mut().find(same) {
            Some(entry) => {
                entry.ops += 1;
                entry.bytes += bytes;
                entry.reads.from_memory += reads.from_memory;
                entry.reads.from_storage += reads.from_storage;
            }
            None => self.entries.push(Entry { target: of, kind, ops: 1, bytes, reads }),
        }
    }

    /// Adds the calls to their volumes' statistics, each with this duration, and reports the volumes.
    pub(crate) fn flush(&mut self, time: Duration, mut tell: impl FnMut(VolumeId)) {
        for entry in self.entries.drain(..) {
            let volume = (*entry.target).as_ref();
            tell(volume.id());
            volume.traffic().count(entry.kind, entry.ops, entry.bytes, time);
            volume.traffic().count_reads(entry.reads);
        }
    }
}

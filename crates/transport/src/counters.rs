//! What the calls of one receive have done, counted for their volumes when the replies leave.

use std::ops::Deref;
use std::time::Duration;
use vfs::qos::{Kind, Permit, Transferred};
use vfs::volume::traffic::{ReadCounts, ReadSource};
use vfs::{Volume, VolumeId};

/// What one call does.
pub struct CallStats<T> {
    /// What it is for; `None` if no volume counts it.
    pub target: Option<T>,
    /// What it does there.
    pub kind: Kind,
    /// Bytes of data read or written.
    pub bytes: u32,
    /// Bytes that limits count: data, and listings, links and attributes.
    pub moved: Transferred,
    /// Where the data was that it has read.
    pub read_from: Option<ReadSource>,
}

impl<T> Default for CallStats<T> {
    fn default() -> Self {
        Self { target: None, kind: Kind::Other, bytes: 0, moved: Transferred::default(), read_from: None }
    }
}

impl<T> CallStats<T> {
    /// The same for another target.
    pub fn with_target<U>(self, target: Option<U>) -> CallStats<U> {
        let Self { kind, bytes, moved, read_from, .. } = self;
        CallStats { target, kind, bytes, moved, read_from }
    }

    /// Counts data, which limits and statistics count.
    pub fn count_data(&mut self, moved: Transferred) {
        let bytes = moved.read.saturating_add(moved.written);
        self.bytes = self.bytes.saturating_add(bytes);
        self.moved = self.moved.and(moved);
    }

    /// Counts bytes of a listing, a link or attributes, which limits count as data.
    pub fn count_listed(&mut self, moved: Transferred) {
        self.moved = self.moved.and(moved);
    }

    /// Settles a charge for the bytes that were moved so far. Bytes that are moved later belong to another charge.
    pub fn settle(&mut self, charge: Option<Permit>) {
        let moved = std::mem::take(&mut self.moved);
        if let Some(mut charge) = charge {
            charge.record(moved);
        }
    }
}

/// What some calls have done, their replies being sent together.
pub(crate) struct OpCounters<T> {
    entries: Vec<Entry<T>>,
}

struct Entry<T> {
    of: T,
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
    /// Adds a call.
    #[inline]
    pub(crate) fn add(&mut self, stats: CallStats<T>) {
        let CallStats { target, kind, bytes, read_from, moved: _ } = stats;
        let Some(of) = target else { return };
        let bytes = u64::from(bytes);
        let reads = ReadCounts {
            from_memory: u64::from(read_from == Some(ReadSource::Memory)),
            from_storage: u64::from(read_from == Some(ReadSource::Storage)),
        };
        let volume = (*of).as_ref();
        let same = |entry: &&mut Entry<T>| entry.kind == kind && std::ptr::eq((*entry.of).as_ref(), volume);
        match self.entries.iter_mut().find(same) {
            Some(entry) => {
                entry.ops += 1;
                entry.bytes += bytes;
                entry.reads.from_memory += reads.from_memory;
                entry.reads.from_storage += reads.from_storage;
            }
            None => self.entries.push(Entry { of, kind, ops: 1, bytes, reads }),
        }
    }

    /// Counts the calls, which took so long, and tells whose they were.
    pub(crate) fn count(&mut self, time: Duration, mut tell: impl FnMut(VolumeId)) {
        for entry in self.entries.drain(..) {
            let volume = (*entry.of).as_ref();
            tell(volume.id());
            volume.traffic().count(entry.kind, entry.ops, entry.bytes, time);
            volume.traffic().count_reads(entry.reads);
        }
    }
}

//! What the calls of one receive have done, counted for their volumes when the replies leave.

use crate::cache::Opened;
use std::rc::Rc;
use std::time::Duration;
use vfs::VolumeId;
use vfs::qos::Kind;
use vfs::traffic::{ReadFrom, Reads};

/// What one call has done.
pub struct Completed {
    /// A file of the volume it was for.
    pub opened: Rc<Opened>,
    /// Of which kind.
    pub kind: Kind,
    /// Bytes of data read or written.
    pub bytes: u32,
    /// Where the data was that it has read.
    pub read_from: Option<ReadFrom>,
}

/// What some calls have done, their replies being sent together.
#[derive(Default)]
pub struct OpCounters {
    entries: Vec<Entry>,
}

struct Entry {
    of: Rc<Opened>,
    kind: Kind,
    ops: u64,
    bytes: u64,
    reads: Reads,
}

impl OpCounters {
    /// Adds a call.
    #[inline]
    pub fn add(&mut self, completed: Completed) {
        let Completed { opened, kind, bytes, read_from } = completed;
        let bytes = u64::from(bytes);
        let reads = Reads {
            from_memory: u64::from(read_from == Some(ReadFrom::Memory)),
            from_storage: u64::from(read_from == Some(ReadFrom::Storage)),
        };
        let same = |entry: &&mut Entry| {
            entry.kind == kind
                && (Rc::ptr_eq(&entry.of, &opened) || entry.volume() == opened.export.volume.id())
        };
        match self.entries.iter_mut().find(same) {
            Some(entry) => {
                entry.ops += 1;
                entry.bytes += bytes;
                entry.reads.from_memory += reads.from_memory;
                entry.reads.from_storage += reads.from_storage;
            }
            None => self.entries.push(Entry { of: opened, kind, ops: 1, bytes, reads }),
        }
    }

    /// Counts the calls, which took so long, and tells whose they were.
    pub fn count(&mut self, time: Duration, mut tell: impl FnMut(VolumeId)) {
        for entry in self.entries.drain(..) {
            tell(entry.volume());
            let traffic = entry.of.export.volume.traffic();
            traffic.count(entry.kind, entry.ops, entry.bytes, time);
            traffic.count_reads(entry.reads);
        }
    }
}

impl Entry {
    fn volume(&self) -> VolumeId {
        self.of.export.volume.id()
    }
}

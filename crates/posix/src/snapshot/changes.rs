//! The data that changed between two snapshots of an undo store: the blocks in records of the labels between them.

use crate::undo::{Record, Undo};
use std::ops::Range;
use std::sync::Arc;
use vfs::sync::Mutex;
use vfs::{ChangedRanges, FileKey, FsError, FsResult, ViewId};

pub(super) struct RecordedChanges {
    undo: Arc<Undo>,
    from: ViewId,
    to: ViewId,
    /// The file that was asked for last.
    last: Mutex<Option<RecordedFile>>,
}

struct RecordedFile {
    key: FileKey,
    records: Vec<Record>,
    /// The smallest size at the time of a record. No record has what is behind the end of the file.
    size: u64,
}

impl RecordedChanges {
    /// [`FsError::NotFound`] if one of the snapshots does not exist.
    pub(super) fn new(undo: &Arc<Undo>, from: ViewId, to: ViewId) -> FsResult<Self> {
        for view in [from, to] {
            undo.find(view).ok_or(FsError::NotFound)?;
        }
        Ok(Self { undo: Arc::clone(undo), from, to, last: Mutex::default() })
    }

    fn differs(&self, key: &FileKey, bytes: &Range<u64>) -> FsResult<bool> {
        let mut last = self.last.lock();
        let file = match last.take().filter(|file| file.key == *key) {
            Some(file) => last.insert(file),
            None => last.insert(self.file(key)?),
        };
        // Without a record, another program has changed the file.
        if file.records.is_empty() || bytes.end > file.size {
            return Ok(true);
        }
        let unit = self.undo.unit();
        let blocks = bytes.start / unit..bytes.end.div_ceil(unit);
        let all = blocks.end - blocks.start;
        for record in &file.records {
            let missing = self.undo.missing_blocks(record, &blocks)?;
            if missing.iter().map(|range| range.end - range.start).sum::<u64>() < all {
                return Ok(true);
            }
        }
        // Records of a deleted snapshot go to the one before it.
        Ok(self.undo.find(self.from).is_none())
    }

    fn file(&self, key: &FileKey) -> FsResult<RecordedFile> {
        let mut records = self.undo.records_from(key, self.from)?;
        drop(records.split_off(&self.to));
        let mut size = u64::MAX;
        for record in records.values() {
            size = size.min(record.meta()?.attrs.size);
        }
        Ok(RecordedFile { key: *key, records: records.into_values().collect(), size })
    }
}

impl ChangedRanges for RecordedChanges {
    fn may_differ(&self, key: &FileKey, range: Range<u64>) -> bool {
        self.differs(key, &range).unwrap_or(true)
    }
}

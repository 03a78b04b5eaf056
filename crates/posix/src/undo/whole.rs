//! Ranges of blocks that a record has as a whole: its holes there are holes of the file. Elsewhere a hole of a record says
//! that a block is not preserved. Thanks to them, a sparse file of any size is truncated in one step.
//!
//! They lie in a file beside the record, which only grows. docs/formats/undo-store.md draws the bytes.

use crate::error::refused;
use crate::sys::open_existing;
use rustix::fs::{Mode, OFlags, fsync, openat};
use rustix::io::{pread, retry_on_intr, write};
use std::iter::once;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use vfs::{FsError, FsResult};

const ENTRY_BYTES: usize = 16;
const READ_BYTES: usize = 64 << 10;

/// A set of blocks: ranges in ascending order that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockSet(Vec<Range<u64>>);

impl BlockSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn ranges(&self) -> &[Range<u64>] {
        &self.0
    }

    pub(crate) fn add(&mut self, new: Range<u64>) {
        if new.is_empty() {
            return;
        }
        let first = self.0.partition_point(|range| range.end < new.start);
        let end = self.0.partition_point(|range| range.start <= new.end);
        let touched = &self.0[first..end.max(first)];
        let start = touched.first().map_or(new.start, |range| range.start.min(new.start));
        let stop = touched.last().map_or(new.end, |range| range.end.max(new.end));
        self.0.splice(first..end.max(first), once(start..stop));
    }

    /// The parts of a range that the set does not have.
    pub(crate) fn missing(&self, wanted: &Range<u64>) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let mut at = wanted.start;
        let first = self.0.partition_point(|range| range.end <= wanted.start);
        for range in self.0[first..].iter().take_while(|range| range.start < wanted.end) {
            missing.extend((at < range.start).then_some(at..range.start));
            at = range.end;
        }
        missing.extend((at < wanted.end).then_some(at..wanted.end));
        missing
    }

    /// Whether the set has a block, and the end of the blocks of which the same is true.
    pub(crate) fn has(&self, block: u64) -> (bool, u64) {
        let next = self.0.partition_point(|range| range.end <= block);
        match self.0.get(next) {
            Some(range) if range.start <= block => (true, range.end),
            Some(range) => (false, range.start),
            None => (false, u64::MAX),
        }
    }
}

impl FromIterator<Range<u64>> for BlockSet {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> Self {
        let mut set = Self::default();
        ranges.into_iter().for_each(|range| set.add(range));
        set
    }
}

/// Reads the ranges in a file; none if there is no such file.
pub(super) fn read(dir: BorrowedFd<'_>, name: &str) -> FsResult<BlockSet> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Some(file) = open_existing(dir, name, flags).map_err(refused)? else {
        return Ok(BlockSet::default());
    };
    let mut set = BlockSet::default();
    let mut buffer = vec![0; READ_BYTES];
    let mut at = 0;
    loop {
        let len = retry_on_intr(|| pread(&file, &mut buffer, at)).map_err(refused)?;
        // The last entry may be a part of one that was never used.
        let whole = len - len % ENTRY_BYTES;
        if whole == 0 {
            return Ok(set);
        }
        for entry in buffer[..whole].as_chunks::<ENTRY_BYTES>().0 {
            let [start, end] = [0, 8].map(|place| {
                u64::from_be_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|byte: usize| entry[place + byte]))
            });
            set.add(start..end);
        }
        at += whole as u64;
    }
}

/// Adds ranges to a file, made if missing, durably.
pub(super) fn append(dir: BorrowedFd<'_>, name: &str, ranges: &[Range<u64>]) -> FsResult<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(dir, name, flags, Mode::RUSR | Mode::WUSR).map_err(refused)?;
    let len = rustix::fs::fstat(&file).map_err(refused)?.st_size.cast_unsigned();
    // What an interrupted append has left counts as nothing.
    rustix::fs::ftruncate(&file, len - len % ENTRY_BYTES as u64).map_err(refused)?;
    let bytes: Vec<u8> = ranges
        .iter()
        .flat_map(|range| [range.start.to_be_bytes(), range.end.to_be_bytes()])
        .flatten()
        .collect();
    let mut left = &bytes[..];
    while !left.is_empty() {
        match retry_on_intr(|| write(&file, left)).map_err(refused)? {
            0 => return Err(FsError::NoSpace),
            written => left = &left[written..],
        }
    }
    fsync(&file).map_err(refused)?;
    fsync(dir).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn set_joins_ranges_that_touch() {
        let mut set = BlockSet::default();
        for range in [10..20, 30..40, 5..7, 20..25, 3..3, 24..31] {
            set.add(range);
        }
        assert_eq!(set.ranges(), [5..7, 10..40]);
        assert_eq!(set.missing(&(0..50)), [0..5, 7..10, 40..50]);
        assert_eq!(set.missing(&(11..40)), []);
        assert_eq!(set.missing(&(6..12)).len(), 1);
        assert_eq!(
            [4, 5, 7, 39, 40].map(|block| set.has(block)),
            [(false, 5), (true, 7), (false, 10), (true, 40), (false, u64::MAX)]
        );
        set.add(0..100);
        assert_eq!((set.ranges().len(), set.has(0)), (1, (true, 100)));
    }

    #[test]
    fn entry_that_was_cut_counts_as_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let fd = std::fs::File::open(dir.path()).unwrap();
        let (fd, name) = (fd.as_fd(), "3.whole");
        assert!(read(fd, name).unwrap().is_empty());
        append(fd, name, &[7..8, 11..12]).unwrap();
        let path = dir.path().join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend([0; 11]);
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(read(fd, name).unwrap().ranges(), [7..8, 11..12]);
        append(fd, name, &[1..2, 8..10]).unwrap();
        assert_eq!(read(fd, name).unwrap().ranges(), [1..2, 7..10, 11..12]);
    }
}

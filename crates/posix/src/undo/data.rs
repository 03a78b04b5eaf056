//! Preserves blocks in records. A record is a sparse file: its data are the preserved blocks. A hole of the file is
//! preserved as zeros, because a hole of the record says that the block is not preserved.

use super::{Method, Record, Undo};
use crate::error::refused;
use crate::sys;
use rustix::fs::{Mode, OFlags, SeekFrom, fstat, fsync, openat, seek};
use rustix::io::{Errno, pread, pwrite, retry_on_intr};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use vfs::{FsError, FsResult, Span};

const ZEROS: &str = "zeros";
/// Zeros to share, in units.
const ZERO_UNITS: u64 = 32;
const COPY_BYTES: usize = 128 << 10;

/// Opens the file of zeros, or makes it.
pub(super) fn make_zeros(dir: BorrowedFd<'_>, unit: u64) -> FsResult<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(dir, ZEROS, flags, Mode::RUSR | Mode::WUSR).map_err(refused)?;
    let len = unit * ZERO_UNITS;
    if fstat(&file).map_err(refused)?.st_size.cast_unsigned() < len {
        let zeros = vec![0; usize::try_from(len).map_err(|_| FsError::Invalid)?];
        write_all(file.as_fd(), 0, &zeros)?;
        fsync(&file).map_err(refused)?;
    }
    Ok(file)
}

impl Undo {
    /// Preserves these blocks of the file open as `file`, of `size` bytes, in its record.
    pub(crate) fn preserve_blocks(
        &self,
        record: &Record,
        file: BorrowedFd<'_>,
        size: u64,
        blocks: &[Range<u64>],
    ) -> FsResult<()> {
        for range in blocks {
            let bytes = range.start * self.unit..(range.end * self.unit).min(size);
            if bytes.is_empty() {
                continue;
            }
            match self.method {
                Method::Share => {
                    self.share(record.fd.as_fd(), file, bytes.clone())?;
                    self.fill_holes(record.fd.as_fd(), bytes)?;
                }
                Method::Copy => copy(record.fd.as_fd(), file, bytes)?,
            }
        }
        match self.method {
            Method::Share => Ok(()),
            // Before the change: the file system may write the new data first. A new link of the record is flushed with it.
            Method::Copy => fsync(&record.fd).map_err(refused),
        }
    }

    /// Preserves these blocks with their holes, which [`Undo::add_whole`] must tell apart from blocks that are not
    /// preserved. Returns the number of blocks with data.
    pub(crate) fn preserve_with_holes(
        &self,
        record: &Record,
        file: BorrowedFd<'_>,
        size: u64,
        blocks: &[Range<u64>],
    ) -> FsResult<u64> {
        let mut kept = 0;
        for range in blocks {
            let bytes = range.start * self.unit..(range.end * self.unit).min(size);
            match self.method {
                Method::Share => self.share(record.fd.as_fd(), file, bytes)?,
                Method::Copy => {
                    each_data(file, bytes, &mut |data| copy(record.fd.as_fd(), file, data))?;
                }
            }
            kept += count(&preserved(record, range.clone(), self.unit)?);
        }
        if self.method == Method::Copy {
            fsync(&record.fd).map_err(refused)?;
        }
        Ok(kept)
    }

    /// The number of blocks with data among these of a file of `size` bytes.
    pub(crate) fn data_blocks(
        &self,
        file: BorrowedFd<'_>,
        size: u64,
        blocks: &[Range<u64>],
    ) -> FsResult<u64> {
        let mut found = 0;
        for range in blocks {
            let bytes = range.start * self.unit..(range.end * self.unit).min(size);
            each_data(file, bytes, &mut |data| {
                found += data.end.div_ceil(self.unit) - data.start / self.unit;
                Ok(())
            })?;
        }
        Ok(found)
    }

    /// Shares a range of the file with the record, with its holes.
    fn share(&self, record: BorrowedFd<'_>, file: BorrowedFd<'_>, bytes: Range<u64>) -> FsResult<()> {
        let size = fstat(record).map_err(refused)?.st_size.cast_unsigned();
        // The kernel shares the last block of a file only with the end of another one. A record has blocks behind it if
        // a power cut has taken them from the file.
        let last = bytes.end - bytes.end % self.unit;
        let has_tail = last < bytes.end && bytes.end < size;
        let shared = bytes.start..if has_tail { last } else { bytes.end };
        if !shared.is_empty() {
            // A file from before volumes had it. If it fails, overwriting sets more space aside.
            let _ = sys::set_cow_extent_size(file, self.unit);
            let span = Span { source: shared.start, target: shared.start, len: shared.end - shared.start };
            retry_on_intr(|| sys::clone_range(file, record, &span)).map_err(refused)?;
        }
        if has_tail {
            copy(record, file, last..bytes.end)?;
            fsync(record).map_err(refused)?;
        }
        Ok(())
    }

    /// Shares zeros with the record where it has holes.
    fn fill_holes(&self, record: BorrowedFd<'_>, bytes: Range<u64>) -> FsResult<()> {
        let mut at = bytes.start;
        while at < bytes.end {
            let hole = hole_from(record, at)?.min(bytes.end);
            if hole >= bytes.end {
                break;
            }
            let end = data_from(record, hole)?.unwrap_or(bytes.end).min(bytes.end);
            self.share_zeros(record, hole..end)?;
            at = end;
        }
        Ok(())
    }

    fn share_zeros(&self, record: BorrowedFd<'_>, bytes: Range<u64>) -> FsResult<()> {
        let zeros = self.zeros.as_ref().ok_or(FsError::Io)?;
        let mut at = bytes.start;
        while at < bytes.end {
            // Whole blocks: what is behind the end of the file is never read.
            let len = (bytes.end - at).next_multiple_of(self.unit).min(self.unit * ZERO_UNITS);
            let span = Span { source: 0, target: at, len };
            retry_on_intr(|| sys::clone_range(zeros.as_fd(), record, &span)).map_err(refused)?;
            at += len;
        }
        Ok(())
    }

    /// The preserved blocks of a record within `blocks`.
    pub(crate) fn preserved_blocks(&self, record: &Record, blocks: Range<u64>) -> FsResult<Vec<Range<u64>>> {
        preserved(record, blocks, self.unit)
    }
}

pub(super) fn preserved(record: &Record, blocks: Range<u64>, unit: u64) -> FsResult<Vec<Range<u64>>> {
    let end = blocks.end * unit;
    let mut at = blocks.start * unit;
    let mut found = Vec::new();
    while let Some(data) = data_from(record.fd.as_fd(), at)?.filter(|data| *data < end) {
        let hole = hole_from(record.fd.as_fd(), data)?.min(end);
        found.push(data / unit..hole.div_ceil(unit));
        at = hole;
    }
    Ok(found)
}

pub(super) fn count(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Passes on the parts of a range of a file that have data.
fn each_data(
    file: BorrowedFd<'_>,
    bytes: Range<u64>,
    act: &mut dyn FnMut(Range<u64>) -> FsResult<()>,
) -> FsResult<()> {
    let mut at = bytes.start;
    while at < bytes.end
        && let Some(data) = data_from(file, at)?.filter(|data| *data < bytes.end)
    {
        let hole = hole_from(file, data)?.clamp(data + 1, bytes.end);
        act(data..hole)?;
        at = hole;
    }
    Ok(())
}

/// The first data from `offset`; `None` if there is no more.
pub(crate) fn data_from(file: BorrowedFd<'_>, offset: u64) -> FsResult<Option<u64>> {
    match seek(file, SeekFrom::Data(offset)) {
        Ok(data) => Ok(Some(data)),
        Err(Errno::NXIO) => Ok(None),
        Err(errno) => Err(refused(errno)),
    }
}

/// The first hole from `offset`; `offset` itself if the file is shorter.
pub(crate) fn hole_from(file: BorrowedFd<'_>, offset: u64) -> FsResult<u64> {
    match seek(file, SeekFrom::Hole(offset)) {
        Ok(hole) => Ok(hole),
        Err(Errno::NXIO) => Ok(offset),
        Err(errno) => Err(refused(errno)),
    }
}

fn copy(record: BorrowedFd<'_>, file: BorrowedFd<'_>, bytes: Range<u64>) -> FsResult<()> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut at = bytes.start;
    while at < bytes.end {
        let room = usize::try_from(bytes.end - at).map_or(COPY_BYTES, |left| left.min(COPY_BYTES));
        let read = retry_on_intr(|| pread(file, &mut buffer[..room], at)).map_err(refused)?;
        if read == 0 {
            return Ok(());
        }
        write_all(record, at, &buffer[..read])?;
        at += read as u64;
    }
    Ok(())
}

fn write_all(file: BorrowedFd<'_>, mut offset: u64, mut data: &[u8]) -> FsResult<()> {
    while !data.is_empty() {
        match retry_on_intr(|| pwrite(file, data, offset)).map_err(refused)? {
            0 => return Err(FsError::NoSpace),
            written => {
                data = &data[written..];
                offset += written as u64;
            }
        }
    }
    Ok(())
}

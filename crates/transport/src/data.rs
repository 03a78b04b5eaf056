//! The data of a READ, for every protocol: the file's own pages where a reply may carry them, else a copy.

use crate::pipe::Pipe;
use std::os::fd::AsFd;
use vfs::volume::traffic::ReadSource;
use vfs::{Blocking, FsError, FsResult, OpenFile, Wait};

pub struct ReadRange {
    pub offset: u64,
    pub len: usize,
    pub splice: Splice,
}

/// Whether pages of the file may go to the client without a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Splice {
    Never,
    /// All of the range or none: clients take a short reply for the end of the file.
    Whole,
    /// The pages that fit into the pipe: clients ask for the rest.
    Partial,
}

pub struct ReadData {
    pub bytes: usize,
    /// The pages, not in a pipe if they were copied.
    pub pages: Option<Pipe>,
    pub is_cut: bool,
}

/// Reads a range: appends a copy to `into`, or returns pages. Sets `source` to where the data were, for the volume's counters.
///
/// Memory is tried first, once for all attempts of a call: a call may be on a thread that may block for another reason than
/// missing data, and data in memory must not count as read from the storage.
#[inline]
pub fn read_data(
    opened: &OpenFile<'_>,
    range: &ReadRange,
    blocking: Blocking,
    source: &mut Option<ReadSource>,
    into: &mut Vec<u8>,
) -> FsResult<ReadData> {
    let mut read = Err(FsError::Wait(Wait::Storage));
    if *source != Some(ReadSource::Storage) {
        read = attempt(opened, range, Blocking::Never, into);
        *source = Some(ReadSource::Memory);
    }
    if let Err(FsError::Wait(Wait::Storage)) = read {
        *source = Some(ReadSource::Storage);
        if blocking == Blocking::Allowed {
            read = attempt(opened, range, Blocking::Allowed, into);
        }
    }
    if let Err(error) = &read
        && *error != FsError::Wait(Wait::Storage)
    {
        *source = None;
    }
    read
}

#[inline]
fn attempt(
    opened: &OpenFile<'_>,
    range: &ReadRange,
    blocking: Blocking,
    into: &mut Vec<u8>,
) -> FsResult<ReadData> {
    if range.splice != Splice::Never
        && let Some(pipe) = pages(opened, range, blocking)
    {
        return Ok(ReadData { bytes: pipe.len(), pages: Some(pipe), is_cut: false });
    }
    let bytes = opened.read(range.offset, range.len, into, blocking)?;
    Ok(ReadData { bytes, pages: None, is_cut: bytes < range.len })
}

/// The file's own pages, if they are in memory or the call may block.
fn pages(opened: &OpenFile<'_>, range: &ReadRange, blocking: Blocking) -> Option<Pipe> {
    let descriptor = opened.pages(range.offset, range.len, blocking)?;
    let mut pipe = Pipe::acquire().ok()?;
    match pipe.fill(descriptor.as_fd(), range.offset, range.len) {
        Ok(bytes) if bytes == range.len || bytes > 0 && range.splice == Splice::Partial => Some(pipe),
        // The file was cut, the pipe is too small, or the file system does not splice: an ordinary read finds out which.
        Ok(_) | Err(_) => None,
    }
}

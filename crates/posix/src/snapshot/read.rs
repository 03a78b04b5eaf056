//! Reads the data of a file of a snapshot: each block from the first record that has it, else from the file.

use super::view::SnapshotView;
use crate::error::refused;
use crate::node::Rights;
use crate::sys;
use crate::undo::{Record, data_from, hole_from};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use vfs::{Blocking, FileKey, FsError, FsResult, Seek, ViewId};

/// A record that is made while a piece is read is found at once, so hardly any piece is read twice.
const TRIES: u32 = 1000;

/// Takes a part of a file's data from a descriptor that has it; `None` for a hole.
pub(super) type Take<'t> = dyn FnMut(Option<BorrowedFd<'_>>, &Range<u64>) -> FsResult<()> + 't;

/// The holder of a piece of a file.
#[derive(Clone, Copy)]
enum Source<'r> {
    Record(&'r Record),
    /// A hole of a record that has it as a whole.
    Hole,
    File,
}

impl Source<'_> {
    /// The descriptor of a record; `None` for a hole. `Err` if the file has the piece.
    fn recorded(&self) -> Result<Option<BorrowedFd<'_>>, ()> {
        match self {
            Self::Record(record) => Ok(Some(record.fd.as_fd())),
            Self::Hole => Ok(None),
            Self::File => Err(()),
        }
    }
}

/// Appends up to `len` bytes at `offset` of a file of `size` bytes to `into`.
pub(super) fn read(
    view: &SnapshotView,
    key: &FileKey,
    size: u64,
    offset: u64,
    len: usize,
    into: &mut Vec<u8>,
) -> FsResult<usize> {
    let end = offset.saturating_add(len as u64).min(size);
    let start = into.len();
    let read = each_piece(view, key, offset..end, &mut |file, piece| {
        // A piece that is taken again replaces the first try.
        let before = usize::try_from(piece.start - offset).map_err(|_| FsError::FileTooBig)?;
        into.truncate(start + before);
        append(file, piece, into)
    });
    read.inspect_err(|_| into.truncate(start))?;
    Ok(into.len() - start)
}

/// Passes each piece of a range to `take`, in order. The last call for a piece is the one that counts: a live file may
/// change meanwhile.
pub(super) fn each_piece(
    view: &SnapshotView,
    key: &FileKey,
    bytes: Range<u64>,
    take: &mut Take<'_>,
) -> FsResult<()> {
    let mut records = view.undo.records_from(key, view.label.view)?;
    let mut at = bytes.start;
    while at < bytes.end {
        at = take_piece(view, key, &mut records, at..bytes.end, take)?;
    }
    Ok(())
}

/// Passes on the pieces of a range that differ from the file itself.
pub(super) fn each_recorded_piece(
    view: &SnapshotView,
    key: &FileKey,
    bytes: Range<u64>,
    take: &mut Take<'_>,
) -> FsResult<()> {
    let records = view.undo.records_from(key, view.label.view)?;
    let mut at = bytes.start;
    while at < bytes.end {
        let (source, piece) = source_of(&records, &(at..bytes.end), view.undo.unit())?;
        if let Ok(recorded) = source.recorded() {
            take(recorded, &piece)?;
        }
        at = piece.end;
    }
    Ok(())
}

/// Passes on the first piece of a range; returns its end.
fn take_piece(
    view: &SnapshotView,
    key: &FileKey,
    records: &mut BTreeMap<ViewId, Record>,
    bytes: Range<u64>,
    take: &mut Take<'_>,
) -> FsResult<u64> {
    for _ in 0..TRIES {
        let (source, piece) = source_of(records, &bytes, view.undo.unit())?;
        if let Ok(recorded) = source.recorded() {
            take(recorded, &piece)?;
            return Ok(piece.end);
        }
        let taken = with_file(view, key, |file| take(Some(file), &piece));
        let now = view.undo.records_from(key, view.label.view)?;
        let is_unchanged = match source_of(&now, &piece, view.undo.unit())? {
            (Source::File, same) => same == piece,
            _ => false,
        };
        *records = now;
        if is_unchanged {
            return taken.map(|()| piece.end);
        }
    }
    Err(FsError::Io)
}

/// Implements [`vfs::Ranges::seek`] for a file of `size` bytes.
pub(super) fn seek(
    view: &SnapshotView,
    key: &FileKey,
    size: u64,
    offset: u64,
    what: Seek,
) -> FsResult<Option<u64>> {
    let records = view.undo.records_from(key, view.label.view)?;
    search(&mut Recorded { view, key, records }, size, offset, what)
}

/// The pieces of a file of a snapshot.
trait Pieces {
    /// The piece at the beginning of a range: data, a hole, or `None` if the file itself has it; and its end.
    fn piece(&self, bytes: Range<u64>) -> FsResult<(Option<Seek>, u64)>;

    /// The first data or hole of the file itself; `None` if there is none before its end.
    fn seek_live(&mut self, at: u64, what: Seek) -> FsResult<Option<u64>>;
}

struct Recorded<'v> {
    view: &'v SnapshotView,
    key: &'v FileKey,
    records: BTreeMap<ViewId, Record>,
}

impl Pieces for Recorded<'_> {
    fn piece(&self, bytes: Range<u64>) -> FsResult<(Option<Seek>, u64)> {
        let (source, piece) = source_of(&self.records, &bytes, self.view.undo.unit())?;
        let kind = match source {
            Source::Record(_) => Some(Seek::Data),
            Source::Hole => Some(Seek::Hole),
            Source::File => None,
        };
        Ok((kind, piece.end))
    }

    fn seek_live(&mut self, at: u64, what: Seek) -> FsResult<Option<u64>> {
        let found = with_file(self.view, self.key, |file| match what {
            Seek::Data => data_from(file, at),
            Seek::Hole => hole_from(file, at).map(Some),
        })?;
        // A change before the answer has a record by now.
        self.records = self.view.undo.records_from(self.key, self.view.label.view)?;
        Ok(found)
    }
}

fn search(pieces: &mut dyn Pieces, size: u64, offset: u64, what: Seek) -> FsResult<Option<u64>> {
    let mut at = offset;
    // The first one in the file itself from some place before `at` on. Asked once for many pieces: each question may look
    // at all extents up to the end.
    let mut next_live = None;
    while at < size {
        let (kind, end) = pieces.piece(at..size)?;
        let found = match (kind, next_live.filter(|&next| next >= at)) {
            (Some(kind), _) => (kind == what).then_some(at),
            (None, Some(next)) => Some(next).filter(|&next| next < end),
            (None, None) => {
                next_live = Some(pieces.seek_live(at, what)?.unwrap_or(u64::MAX));
                continue;
            }
        };
        match found {
            Some(found) => return Ok(Some(found)),
            None => at = end,
        }
    }
    Ok(match what {
        Seek::Data => None,
        Seek::Hole => Some(size),
    })
}

/// Calls `act` with the live file, or with the removed one that snapshots keep.
fn with_file<T>(
    view: &SnapshotView,
    key: &FileKey,
    act: impl FnOnce(BorrowedFd<'_>) -> FsResult<T>,
) -> FsResult<T> {
    match view.mount.node(key, Blocking::Allowed) {
        Ok(live) => act(live.open(Rights::Read)?.as_fd()),
        Err(FsError::Stale) => match view.undo.open_retained(key)? {
            Some(file) => act(file.as_fd()),
            None => Err(FsError::Stale),
        },
        Err(error) => Err(error),
    }
}

/// The holder of the beginning of a range, and how far it goes: the first record that has it, or the file itself.
fn source_of<'r>(
    records: &'r BTreeMap<ViewId, Record>,
    bytes: &Range<u64>,
    unit: u64,
) -> FsResult<(Source<'r>, Range<u64>)> {
    let start = bytes.start;
    let mut end = bytes.end;
    for record in records.values() {
        match data_from(record.fd.as_fd(), start)? {
            Some(data) if data == start => {
                let hole = hole_from(record.fd.as_fd(), data)?;
                return Ok((Source::Record(record), start..end.min(hole)));
            }
            Some(data) => end = end.min(data),
            None => {}
        }
        let (is_whole, until) = record.whole.has(start / unit);
        end = end.min(until.saturating_mul(unit));
        if is_whole {
            return Ok((Source::Hole, start..end));
        }
    }
    Ok((Source::File, start..end))
}

/// Appends exactly this range: zeros where the file has a hole or is shorter.
fn append(file: Option<BorrowedFd<'_>>, bytes: &Range<u64>, into: &mut Vec<u8>) -> FsResult<()> {
    let start = into.len();
    let len = usize::try_from(bytes.end - bytes.start).map_err(|_| FsError::FileTooBig)?;
    while let Some(file) = file
        && into.len() - start < len
    {
        let done = into.len() - start;
        match sys::append(file, bytes.start + done as u64, len - done, into, Blocking::Allowed) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(refused(errno)),
        }
    }
    into.resize(start + len, 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECES: u64 = 1000;
    const PIECE: u64 = 4096;

    /// Every second piece has a record that is a hole. The file itself has data, or a hole, from `live` on.
    struct Alternating {
        live: u64,
        questions: u32,
    }

    impl Pieces for Alternating {
        fn piece(&self, bytes: Range<u64>) -> FsResult<(Option<Seek>, u64)> {
            let number = bytes.start / PIECE;
            Ok(((number % 2 == 1).then_some(Seek::Hole), (number + 1) * PIECE))
        }

        fn seek_live(&mut self, at: u64, what: Seek) -> FsResult<Option<u64>> {
            assert_eq!(what, Seek::Data);
            self.questions += 1;
            Ok(Some(at.max(self.live)).filter(|&found| found < PIECES * PIECE))
        }
    }

    /// The kernel looks at all extents up to its answer.
    #[test]
    fn a_search_asks_the_file_itself_once_for_many_pieces() {
        for (live, found) in [
            (PIECES * PIECE, None),
            (100 * PIECE, Some(100 * PIECE)),
            (100 * PIECE + 7, Some(100 * PIECE + 7)),
            // In a piece that a record has.
            (101 * PIECE, Some(102 * PIECE)),
        ] {
            let mut pieces = Alternating { live, questions: 0 };
            assert_eq!(search(&mut pieces, PIECES * PIECE, 0, Seek::Data), Ok(found));
            assert!(pieces.questions <= 2, "{} questions for data at {live}", pieces.questions);
        }
    }
}

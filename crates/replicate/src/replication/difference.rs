//! The difference between two states of a volume, in the order of sort keys.

use super::Means;
use crate::error::{Error, Result, at};
use crate::format::CHUNK_BYTES;
use crate::format::bytes::Reader;
use crate::format::records::{Inode, is_same_state, read_attrs};
use crate::format::sort_key::{self, Kind};
use crate::inodes::read_inode;
use crate::job::Progress;
use crate::sorter::Sorted;
use crate::walk::walk;
use std::cmp::Ordering;
use std::ops::Range;
use vfs::volume::copies::next_data;
use vfs::volume::metadata::Metadata;
use vfs::{Attrs, Backend, Blocking, ChangedRanges, FileKey, FileType, FsError, FsResult, NodeRef, Time};

/// A file that changed so shortly before the earlier state may have changed after it without a later time.
const SLACK_SECONDS: i64 = 2;
/// The grain in which changes of data are found.
const BLOCK_BYTES: usize = 4 << 10;

/// Two states of one volume, whose files have the same keys in both.
pub(super) struct Sides<'s> {
    pub(super) new: &'s dyn Backend,
    /// The earlier state, and its time by the clock that stamps its files. `None`: nothing.
    pub(super) old: Option<(&'s dyn Backend, Time)>,
    pub(super) changes: Option<&'s dyn ChangedRanges>,
}

/// Takes the difference.
pub(super) trait Sink {
    /// Called once, before everything else.
    fn begin(&mut self, files: u64, bytes: u64) -> Result<()>;
    /// Called often.
    fn alive(&mut self) -> Result<()>;
    /// An inode, a stream or an entry. One that is not there has an empty value; the old value of an inode is one byte.
    fn record(&mut self, key: &[u8], old: &[u8], new: &[u8]) -> Result<()>;
    /// Data of the file or stream of the last record. It says nothing of the data that is the same.
    fn data(&mut self, offset: u64, bytes: Vec<u8>) -> Result<()>;
    fn zero(&mut self, offset: u64, len: u64) -> Result<()>;
}

/// Finds the difference. `after` is the last record that the sink needs no more, or needs from this offset of its data on.
pub(super) fn find(
    sides: &Sides<'_>,
    after: Option<(&[u8], u64)>,
    sink: &mut dyn Sink,
    means: &mut Means<'_>,
) -> Result<()> {
    let new = walk_alive(sides.new, sink, means)?;
    let old = sides.old.map(|(old, _)| walk_alive(old, sink, means)).transpose()?;
    sink.begin(new.files, new.bytes)?;
    let (mut new, mut old) =
        (Distinct::new(new.records)?, old.map(|old| Distinct::new(old.records)).transpose()?);
    let mut finder = Finder { sides, after, sink, seen: 0, deferred: None };
    loop {
        let before = old.as_ref().and_then(|old| old.next.as_ref());
        let order = match (before, &new.next) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(before), Some(now)) => before.key.cmp(&now.key),
        };
        let before = before.filter(|_| order.is_le());
        let now = new.next.as_ref().filter(|_| order.is_ge());
        finder.compare(before, now)?;
        if order.is_ge() {
            new.advance()?;
        }
        if order.is_le()
            && let Some(old) = &mut old
        {
            old.advance()?;
        }
        let progress = Progress { files_done: finder.seen, ..Progress::default() };
        if (means.progress)(&progress).is_break() {
            return Err(Error::Stopped);
        }
    }
}

fn walk_alive(
    backend: &dyn Backend,
    sink: &mut dyn Sink,
    means: &mut Means<'_>,
) -> Result<crate::walk::Walked> {
    let mut failed = Ok(());
    let walked = walk(backend, means.scratch, &mut |progress| {
        failed = sink.alive();
        if failed.is_err() { std::ops::ControlFlow::Break(()) } else { (means.progress)(progress) }
    });
    failed.and(walked)
}

/// A record of a walk.
struct Walked {
    key: Vec<u8>,
    value: Vec<u8>,
}

/// The records of a walk without repetitions, and without streams whose file is gone.
struct Distinct {
    records: Sorted,
    next: Option<Walked>,
    owner: Option<FileKey>,
}

impl Distinct {
    fn new(records: Sorted) -> Result<Self> {
        let mut distinct = Self { records, next: None, owner: None };
        distinct.advance()?;
        Ok(distinct)
    }

    fn advance(&mut self) -> Result<()> {
        while let Some((key, value)) = self.records.next()? {
            // Each name of a file has found the file.
            if self.next.as_ref().is_some_and(|last| last.key == key) {
                continue;
            }
            let (file, kind) = sort_key::parse(&key).ok_or_else(malformed)?;
            match kind {
                Kind::Inode => self.owner = Some(file),
                Kind::Stream(_) if self.owner != Some(file) => continue,
                _ => {}
            }
            self.next = Some(Walked { key, value });
            return Ok(());
        }
        self.next = None;
        Ok(())
    }
}

fn malformed() -> Error {
    Error::WorkDir("a temporary record is malformed")
}

struct Finder<'f> {
    sides: &'f Sides<'f>,
    after: Option<(&'f [u8], u64)>,
    sink: &'f mut dyn Sink,
    seen: u64,
    /// The record of a file that is the same as before, unless its data or entries are not.
    deferred: Option<(Vec<u8>, Vec<u8>)>,
}

/// A file or stream of one side.
struct Object {
    node: NodeRef,
    attrs: Attrs,
}

impl Finder<'_> {
    fn compare(&mut self, old: Option<&Walked>, new: Option<&Walked>) -> Result<()> {
        let Some(Walked { key, .. }) = new.or(old) else { return Ok(()) };
        let from = match self.after {
            Some((after, _)) if key.as_slice() < after => return Ok(()),
            Some((after, offset)) if key == after => offset,
            _ => 0,
        };
        self.seen += 1;
        let (file, kind) = sort_key::parse(key).ok_or_else(malformed)?;
        match kind {
            Kind::Entry(_) => {
                let value = |side: Option<&Walked>| side.map_or_else(Vec::new, |side| side.value.clone());
                let (old, new) = (value(old), value(new));
                if old == new {
                    return Ok(());
                }
                // The destination's change of the name would change the times of the directory.
                self.send_deferred()?;
                self.sink.record(key, &old, &new)
            }
            Kind::Inode => self.compare_inode(key, &file, false, old, new, from),
            Kind::Stream(_) => self.compare_inode(key, &file, true, old, new, from),
            Kind::Extents | Kind::StreamExtents => Err(malformed()),
        }
    }

    fn compare_inode(
        &mut self,
        key: &[u8],
        file: &FileKey,
        is_stream: bool,
        old: Option<&Walked>,
        new: Option<&Walked>,
        from: u64,
    ) -> Result<()> {
        self.deferred = None;
        let old_attrs = old.map(|old| read_object(old, file, is_stream)).transpose()?;
        let Some(new) = new else { return self.sink.record(key, &[1], &[]) };
        let (new_key, attrs) = read_object(new, file, is_stream)?;
        if let (Some((old_key, old)), Some((_, taken))) = (&old_attrs, &self.sides.old) {
            let is_old = old.changed.seconds.saturating_add(SLACK_SECONDS) < taken.seconds;
            // A stream that was replaced by another of its name has another file.
            if is_old && *old_key == new_key && is_same_state(old, &attrs) {
                return Ok(());
            }
        }
        let shown = || format!("file {new_key:?} of the source");
        let node = self.sides.new.node(&new_key, Blocking::Allowed).map_err(at(shown))?;
        let inode = read_inode(&node, &attrs, is_stream).map_err(at(shown))?;
        let old = match (self.sides.old, old_attrs) {
            (Some((backend, _)), Some((old_key, attrs))) => {
                let node = backend.node(&old_key, Blocking::Allowed).map_err(at(shown))?;
                Some(Object { node, attrs })
            }
            _ => None,
        };
        match &old {
            None => self.sink.record(key, &[], &inode.encode())?,
            Some(Object { node, attrs }) => {
                let before = read_inode(node, attrs, is_stream).map_err(at(shown))?;
                if without_access(before) == without_access(inode.clone()) {
                    self.deferred = Some((key.to_vec(), inode.encode()));
                } else {
                    self.sink.record(key, &[1], &inode.encode())?;
                }
            }
        }
        if attrs.file_type != FileType::Regular {
            return Ok(());
        }
        self.compare_data(&new_key, &Object { node, attrs }, old.as_ref(), from)
    }

    /// Data or entries of the file follow: its record comes first.
    fn send_deferred(&mut self) -> Result<()> {
        match self.deferred.take() {
            Some((key, inode)) => self.sink.record(&key, &[1], &inode),
            None => Ok(()),
        }
    }

    fn compare_data(&mut self, key: &FileKey, new: &Object, old: Option<&Object>, from: u64) -> Result<()> {
        let shown = || format!("file {key:?} of the source");
        let size = new.attrs.size;
        let mut new_data = DataRuns::new(new, size);
        let mut old_data = old.map(|old| DataRuns::new(old, size.min(old.attrs.size)));
        let mut offset = from;
        loop {
            let data = new_data.next_from(offset).map_err(at(shown))?;
            let before =
                old_data.as_mut().map_or(Ok(None), |old| old.next_from(offset)).map_err(at(shown))?;
            let starts = [&data, &before].map(|run| run.as_ref().map_or(u64::MAX, |run| run.start));
            let start = starts[0].min(starts[1]);
            if start == u64::MAX {
                return Ok(());
            }
            let mut end = (start / CHUNK_BYTES + 1).saturating_mul(CHUNK_BYTES).min(size);
            match (old, &data) {
                (None, Some(data)) => end = end.min(data.end),
                (Some(_), _)
                    if self.sides.changes.is_some_and(|known| !known.may_differ(key, start..end)) =>
                {
                    offset = end;
                    continue;
                }
                _ => {}
            }
            let is_hole = data.is_none_or(|data| data.start >= end);
            self.compare_range(key, new, old, start..end, is_hole)?;
            self.sink.alive()?;
            offset = end;
        }
    }

    fn compare_range(
        &mut self,
        key: &FileKey,
        new: &Object,
        old: Option<&Object>,
        range: Range<u64>,
        is_hole: bool,
    ) -> Result<()> {
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let now = if is_hole { vec![0; len] } else { read(key, new, range.start, len)? };
        let Some(old) = old else { return self.sink.data(range.start, now) };
        let before = read(key, old, range.start, len)?;
        let differs = |at: usize| {
            let end = (at + BLOCK_BYTES).min(len);
            now[at..end] != before[at..end]
        };
        let mut begin = 0;
        while begin < len {
            let mut end = begin;
            while end < len && differs(end) {
                end += BLOCK_BYTES;
            }
            let end = end.min(len);
            if end > begin {
                let offset = range.start + begin as u64;
                self.send_deferred()?;
                match now[begin..end].iter().all(|&byte| byte == 0) {
                    true => self.sink.zero(offset, (end - begin) as u64)?,
                    false => self.sink.data(offset, now[begin..end].to_vec())?,
                }
            }
            begin = end + BLOCK_BYTES;
        }
        Ok(())
    }
}

/// The ranges with data of a file that does not change, in ascending order.
struct DataRuns<'o> {
    node: &'o NodeRef,
    size: u64,
    /// The answer to the last question, which may have looked at all extents up to the end of the file.
    last: Option<Range<u64>>,
}

impl<'o> DataRuns<'o> {
    fn new(object: &'o Object, size: u64) -> Self {
        Self { node: &object.node, size, last: Some(0..0) }
    }

    /// The next range from `offset` on, which is no smaller than the last time.
    fn next_from(&mut self, offset: u64) -> FsResult<Option<Range<u64>>> {
        if self.last.as_ref().is_some_and(|last| last.end <= offset) {
            self.last = next_data(self.node, offset, self.size)?;
        }
        Ok(self.last.as_ref().map(|last| last.start.max(offset)..last.end))
    }
}

/// Reading a file is no change.
fn without_access(inode: Inode) -> Vec<u8> {
    let attrs = Attrs { accessed: Time::default(), ..inode.attrs };
    Inode { metadata: Metadata { attrs, ..inode.metadata }, ..inode }.encode()
}

/// The key and the attributes of a walked inode or stream.
fn read_object(walked: &Walked, file: &FileKey, is_stream: bool) -> Result<(FileKey, Attrs)> {
    let mut reader = Reader(&walked.value);
    let attrs = read_attrs(&mut reader).ok_or_else(malformed)?;
    let key = if is_stream { FileKey::new(reader.0).map_err(|_| malformed())? } else { *file };
    Ok((key, attrs))
}

/// Reads a range, with zeros past the end of the file.
fn read(key: &FileKey, object: &Object, offset: u64, len: usize) -> Result<Vec<u8>> {
    let shown = || format!("file {key:?} of the source");
    let mut bytes = Vec::with_capacity(len);
    let there = usize::try_from(object.attrs.size.saturating_sub(offset)).unwrap_or(len).min(len);
    if there > 0 {
        object.node.read(offset, there, &mut bytes, Blocking::Allowed).map_err(at(shown))?;
    }
    if bytes.len() != there {
        return Err(Error::File(format!("{} became shorter", shown()), FsError::Io));
    }
    bytes.resize(len, 0);
    Ok(bytes)
}

/// The difference between two states of a volume, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Files, directories and streams that are new, changed or gone.
    pub files: u64,
    /// Bytes of data that are new or changed.
    pub bytes: u64,
}

impl Sink for Changes {
    fn begin(&mut self, _: u64, _: u64) -> Result<()> {
        Ok(())
    }

    fn alive(&mut self) -> Result<()> {
        Ok(())
    }

    fn record(&mut self, key: &[u8], _: &[u8], _: &[u8]) -> Result<()> {
        let is_file = sort_key::parse(key).is_some_and(|(_, kind)| !matches!(kind, Kind::Entry(_)));
        self.files += u64::from(is_file);
        Ok(())
    }

    fn data(&mut self, _: u64, bytes: Vec<u8>) -> Result<()> {
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn zero(&mut self, _: u64, len: u64) -> Result<()> {
        self.bytes += len;
        Ok(())
    }
}

/// Counts the changes of a volume since an earlier state of it, with the time of that state.
pub fn count_changes(old: (&dyn Backend, Time), new: &dyn Backend, means: &mut Means<'_>) -> Result<Changes> {
    let mut changes = Changes::default();
    find(&Sides { new, old: Some(old), changes: None }, None, &mut changes, means)?;
    Ok(changes)
}

//! The copy: all records in order, beside those of the previous backup.

use super::resume::ResumedData;
use super::writer::IndexWriter;
use crate::error::{Error, Result, at};
use crate::format::CHUNK_BYTES;
use crate::format::bytes::Reader;
use crate::format::pack::Content;
use crate::format::records::{self, Extent, Inode, encode_extents};
use crate::format::sort_key::{self, Kind};
use crate::inodes::read_inode;
use crate::job::{Job, Source};
use crate::sorter::Sorted;
use crate::vault::damaged;
use crate::vault::index::{Cursor, extents_of};
use std::collections::VecDeque;
use std::ops::Range;
use vfs::volume::copies::next_data;
use vfs::{Attrs, Blocking, FileKey, FileType, FsError, NodeRef, Time};

/// Extents in one record: fewer than would make it larger than a leaf.
const EXTENTS_MAX: usize = 1024;
/// Records of extents end at multiples of this offset, so that a change does not move those after it.
const GROUP_BYTES: u64 = 256 * CHUNK_BYTES;
/// A file that changed so shortly before the previous snapshot may have changed after it without a later time.
const SLACK_SECONDS: i64 = 2;

pub(super) struct Copier<'c, 'v, 'a> {
    pub(super) source: &'c Source<'c>,
    /// The previous backup: the time of its snapshot, and its records.
    pub(super) base: Option<(Time, Cursor<'v>)>,
    /// Extents of the present file in the previous backup that are still to come.
    pub(super) extents: VecDeque<Extent>,
    pub(super) resumed: ResumedData,
    pub(super) writer: IndexWriter<'v>,
    pub(super) job: &'c mut Job<'a>,
}

impl Copier<'_, '_, '_> {
    pub(super) fn copy_all(&mut self, mut records: Sorted) -> Result<()> {
        let (mut last, mut owner) = (Vec::new(), None);
        while let Some((key, value)) = records.next()? {
            // Each name of a file has found the file.
            if key == last {
                continue;
            }
            let malformed = || damaged("temporary file", "a record is malformed");
            let (file, kind) = sort_key::parse(&key).ok_or_else(malformed)?;
            match kind {
                Kind::Inode => {
                    let attrs = records::read_attrs(&mut Reader(&value)).ok_or_else(malformed)?;
                    self.copy_inode(&key, &file, &attrs, false)?;
                    owner = Some(file);
                }
                Kind::Entry(_) => self.push(&key, &value)?,
                // Streams of a file that was deleted outside the service.
                Kind::Stream(_) if owner != Some(file) => {}
                Kind::Stream(_) => {
                    let mut reader = Reader(&value);
                    let attrs = records::read_attrs(&mut reader).ok_or_else(malformed)?;
                    let node = FileKey::new(reader.0).map_err(|_| malformed())?;
                    self.copy_inode(&key, &node, &attrs, true)?;
                }
                Kind::Extents | Kind::StreamExtents => return Err(malformed()),
            }
            last = key;
        }
        Ok(())
    }

    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let base = self.base.as_ref().map(|(_, base)| base);
        self.writer.push(key, value, base, self.job)
    }

    /// Copies a file or a stream, with its extents.
    fn copy_inode(&mut self, record: &[u8], key: &FileKey, attrs: &Attrs, is_stream: bool) -> Result<()> {
        let content = sort_key::content(record);
        match self.unchanged(record, attrs)? {
            Some(value) => {
                self.push(record, &value)?;
                self.keep_extents(&content)?;
            }
            None => {
                let shown = || format!("file {key:?}");
                let node = self.source.backend.node(key, Blocking::Allowed).map_err(at(shown))?;
                let inode = read_inode(&node, attrs, is_stream).map_err(at(shown))?;
                self.push(record, &inode.encode())?;
                if attrs.file_type == FileType::Regular {
                    self.copy_data(&node, key, &content, attrs.size)?;
                }
            }
        }
        let progress = &mut self.writer.progress;
        progress.files_done += 1;
        if attrs.file_type == FileType::Regular {
            progress.bytes_done += attrs.size;
        }
        self.writer.report(self.job)
    }

    /// The record of a file in the previous backup, if the file has certainly not changed since.
    fn unchanged(&mut self, record: &[u8], attrs: &Attrs) -> Result<Option<Vec<u8>>> {
        self.extents.clear();
        let Some((taken, base)) = &mut self.base else { return Ok(None) };
        base.seek(record)?;
        if base.peek()?.is_none_or(|(key, _)| *key != record) {
            return Ok(None);
        }
        let Some((_, value)) = base.next()? else { return Ok(None) };
        let inode =
            Inode::decode(&value).ok_or_else(|| damaged("index", "a record of a file is malformed"))?;
        let is_old = inode.attrs.changed.seconds.saturating_add(SLACK_SECONDS) < taken.seconds;
        Ok((is_old && records::is_same_state(&inode.attrs, attrs)).then_some(value))
    }

    /// Copies the extents of an unchanged file.
    fn keep_extents(&mut self, content: &[u8]) -> Result<()> {
        while let Some((key, value)) = self.next_extents(content)? {
            for extent in extents_of(&key, &value)? {
                self.writer.packer.reuse(extent.place.pack)?;
            }
            self.push(&key, &value)?;
        }
        Ok(())
    }

    fn next_extents(&mut self, content: &[u8]) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let Some((_, base)) = &mut self.base else { return Ok(None) };
        if base.peek()?.is_some_and(|(key, _)| key.starts_with(content)) { base.next() } else { Ok(None) }
    }

    /// The extent in the previous backup at or after `offset`.
    fn previous_extent(&mut self, content: &[u8], offset: u64) -> Result<Option<Extent>> {
        loop {
            while self.extents.front().is_some_and(|extent| extent.offset < offset) {
                self.extents.pop_front();
            }
            if let Some(extent) = self.extents.front() {
                return Ok(Some(*extent));
            }
            let Some((key, value)) = self.next_extents(content)? else { return Ok(None) };
            self.extents = extents_of(&key, &value)?.into();
        }
    }

    fn copy_data(&mut self, node: &NodeRef, key: &FileKey, content: &[u8], size: u64) -> Result<()> {
        let shown = || format!("file {key:?}");
        let (mut at_offset, mut group) = (0, Vec::<Extent>::new());
        while let Some(run) = next_data(node, at_offset, size).map_err(at(shown))? {
            let mut start = run.start;
            while start < run.end {
                let end = (start / CHUNK_BYTES + 1).saturating_mul(CHUNK_BYTES).min(run.end);
                let extent = self.copy_chunk(node, key, content, start..end)?;
                let begins =
                    group.first().is_some_and(|first| first.offset / GROUP_BYTES < start / GROUP_BYTES);
                if begins || group.len() == EXTENTS_MAX {
                    self.push_extents(content, &mut group)?;
                }
                group.push(extent);
                start = end;
                self.writer.report(self.job)?;
            }
            at_offset = run.end;
        }
        self.push_extents(content, &mut group)
    }

    fn push_extents(&mut self, content: &[u8], group: &mut Vec<Extent>) -> Result<()> {
        let Some(first) = group.first() else { return Ok(()) };
        let record = sort_key::extents(content, first.offset);
        let value = encode_extents(first.offset, group);
        group.clear();
        self.push(&record, &value)
    }

    /// Copies a range that is at most one chunk, unless the vault has it.
    fn copy_chunk(
        &mut self,
        node: &NodeRef,
        key: &FileKey,
        content: &[u8],
        range: Range<u64>,
    ) -> Result<Extent> {
        let offset = range.start;
        let len = u32::try_from(range.end - range.start).unwrap_or(u32::MAX);
        let old = self.previous_extent(content, offset)?;
        let old = old.filter(|old| old.offset == offset && old.len == len);
        let is_same = |_: &Extent| self.source.changes.is_some_and(|changes| !changes.may_differ(key, range));
        let known = match old.filter(is_same) {
            Some(extent) => Some(extent),
            None => self.resumed.find(content, offset, len)?,
        };
        if let Some(extent) = known {
            self.writer.packer.reuse(extent.place.pack)?;
            return Ok(extent);
        }
        let mut chunk = Vec::new();
        let shown = || format!("file {key:?}");
        node.read(offset, len as usize, &mut chunk, Blocking::Allowed).map_err(at(shown))?;
        if chunk.len() != len as usize {
            return Err(Error::File(format!("{} became shorter during its backup", shown()), FsError::Io));
        }
        self.writer.progress.bytes_read += u64::from(len);
        let id = self.writer.packer.vault().secrets().chunk_id(&chunk);
        if let Some(extent) = old.filter(|old| old.id == id) {
            self.writer.packer.reuse(extent.place.pack)?;
            return Ok(extent);
        }
        let place = self.writer.packer.add(Content::Data, content, offset, &chunk, id, self.job)?;
        Ok(Extent { offset, len, id, place })
    }
}

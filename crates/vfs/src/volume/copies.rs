//! Copies of whole trees between backends that serve no client: with links, holes, streams, lists and times.

use super::metadata::Metadata;
use super::streams;
use crate::backend::ranges::{COPY_BYTES_MAX, Seek, Span};
use crate::backend::snapshots::{Pace, Progress};
use crate::backend::{Backend, Blocking, KEEP_SET_ID, NewInode, NodeRef, Special};
use crate::error::{FsError, FsResult};
use crate::file_key::FileKey;
use crate::model::attrs::{Attrs, FileType, SetAttrs, SetTime};
use crate::model::name::Name;
use std::collections::HashMap;
use std::ops::{ControlFlow, Range};

/// Names of a directory that are kept in memory.
const NAMES: usize = 512;
/// Bytes of a step where the storage cannot copy by itself.
const STEP_BYTES: usize = 1 << 20;

/// The next range with data from `offset` on.
pub fn next_data(node: &NodeRef, offset: u64, size: u64) -> FsResult<Option<Range<u64>>> {
    if offset >= size {
        return Ok(None);
    }
    let Some(ranges) = node.ranges() else { return Ok(Some(offset..size)) };
    let start = match ranges.seek(offset, Seek::Data) {
        Err(FsError::NotSupported) => return Ok(Some(offset..size)),
        found => found?.filter(|&start| start < size),
    };
    let Some(start) = start else { return Ok(None) };
    let end = ranges.seek(start, Seek::Hole)?.unwrap_or(size);
    Ok(Some(start..end.clamp(start + 1, size)))
}

/// Makes an object with the type, the owner, the mode and the size of another one; `link` is its target, if it is a
/// symbolic link. [`Metadata::restore`] follows when its data are there.
pub fn make_like(dir: &NodeRef, name: Name<'_>, attrs: &Attrs, link: &[u8]) -> FsResult<NodeRef> {
    let size = if attrs.file_type == FileType::Regular { attrs.size } else { 0 };
    let (Attrs { mode, uid, gid, device, .. }, times) = (*attrs, None);
    let new = |_: &_| Ok(NewInode { mode, uid, gid, times, size });
    let made = match attrs.file_type {
        FileType::Directory => dir.make_dir(name, &new),
        FileType::Regular => dir.create(name, &new),
        FileType::Symlink => dir.make_special(name, Special::Symlink(link), &new),
        FileType::Fifo => dir.make_special(name, Special::Fifo, &new),
        FileType::Socket => dir.make_special(name, Special::Socket, &new),
        FileType::Block => dir.make_special(name, Special::Block(device), &new),
        FileType::Character => dir.make_special(name, Special::Character(device), &new),
    };
    Ok(made?.found.node)
}

/// The target of a symbolic link; nothing for other types.
pub fn link_of(node: &NodeRef, attrs: &Attrs) -> FsResult<Vec<u8>> {
    if attrs.file_type == FileType::Symlink { node.read_link() } else { Ok(Vec::new()) }
}

/// Copies all files of `source` to `target`, which has none. Returns whether it is done; false if `pace` ended it. Its
/// steps are files.
pub fn copy_tree(source: &dyn Backend, target: &dyn Backend, pace: &mut Pace<'_>) -> FsResult<bool> {
    let root = source.root();
    let streams = streams::tree_of(&root)?;
    let mut copier = Copier { target, streams, linked: HashMap::new(), done: 0, pace };
    match copier.copy_dir(root, target.root()) {
        Ok(()) => Ok(true),
        Err(Stop::Ended) => Ok(false),
        Err(Stop::Failed(error)) => Err(error),
    }
}

enum Stop {
    /// By the pace.
    Ended,
    Failed(FsError),
}

impl From<FsError> for Stop {
    fn from(error: FsError) -> Self {
        Self::Failed(error)
    }
}

struct Copier<'c, 'p> {
    target: &'c dyn Backend,
    /// The hidden tree of the source.
    streams: Option<NodeRef>,
    /// Copied files that have more names, by their keys in the source.
    linked: HashMap<FileKey, FileKey>,
    done: u64,
    pace: &'c mut Pace<'p>,
}

/// A directory whose entries are being copied.
struct Open {
    source: NodeRef,
    target: NodeRef,
    metadata: Metadata,
    /// The next names, the last one first.
    names: Vec<Vec<u8>>,
    /// The position after them; `None` at the end.
    cookie: Option<u64>,
}

impl Open {
    fn new(source: NodeRef, target: NodeRef) -> FsResult<Self> {
        let metadata = Metadata::read(&source, &source.attrs(Blocking::Allowed)?)?;
        Ok(Self { source, target, metadata, names: Vec::new(), cookie: Some(0) })
    }

    fn next_name(&mut self) -> FsResult<Option<Vec<u8>>> {
        while self.names.is_empty() {
            let Some(from) = self.cookie else { return Ok(None) };
            let (names, mut last) = (&mut self.names, from);
            let at_end = self.source.read_dir(from, false, &mut |entry| {
                if names.len() == NAMES {
                    return ControlFlow::Break(());
                }
                last = entry.cookie;
                if !matches!(entry.name, b"." | b"..") {
                    names.push(entry.name.to_vec());
                }
                ControlFlow::Continue(())
            })?;
            names.reverse();
            self.cookie = (!at_end).then_some(last);
        }
        Ok(self.names.pop())
    }
}

impl Copier<'_, '_> {
    fn copy_dir(&mut self, source: NodeRef, target: NodeRef) -> Result<(), Stop> {
        let mut open = vec![Open::new(source, target)?];
        while let Some(mut dir) = open.pop() {
            let Some(name) = dir.next_name()? else {
                self.finish(&dir.source, &dir.target, &dir.metadata)?;
                continue;
            };
            let is_hidden = open.is_empty() && name == Name::STREAMS.bytes();
            let below =
                if is_hidden { None } else { self.copy_entry(&dir.source, &dir.target, Name::new(&name)?)? };
            open.push(dir);
            open.extend(below);
        }
        Ok(())
    }

    /// Copies an object. Of a directory only the name is made, and the directory is returned.
    fn copy_entry(&mut self, dir: &NodeRef, to: &NodeRef, name: Name<'_>) -> Result<Option<Open>, Stop> {
        let found = dir.lookup(name, Blocking::Allowed)?;
        let (source, attrs) = (found.node, found.attrs);
        if let Some(key) = self.linked.get(&source.key()) {
            to.link(name, &self.target.node(key, Blocking::Allowed)?, &|_| Ok(()))?;
            return Ok(None);
        }
        let metadata = Metadata::read(&source, &attrs)?;
        let node = make_like(to, name, &attrs, &link_of(&source, &attrs)?)?;
        if attrs.file_type == FileType::Directory {
            return Ok(Some(Open { source, target: node, metadata, names: Vec::new(), cookie: Some(0) }));
        }
        if attrs.links > 1 {
            self.linked.insert(source.key(), node.key());
        }
        if attrs.file_type == FileType::Regular {
            self.copy_data(&source, &node, attrs.size)?;
        }
        self.finish(&source, &node, &metadata)?;
        Ok(None)
    }

    /// Copies streams, and last what further changes would change.
    fn finish(&mut self, source: &NodeRef, node: &NodeRef, metadata: &Metadata) -> Result<(), Stop> {
        if matches!(metadata.attrs.file_type, FileType::Regular | FileType::Directory) {
            self.copy_streams(&source.key(), &node.key())?;
        }
        metadata.restore(node)?;
        self.done += 1;
        self.report()
    }

    fn copy_streams(&mut self, source: &FileKey, target: &FileKey) -> Result<(), Stop> {
        let Some(tree) = &self.streams else { return Ok(()) };
        let dir = match tree.lookup(Name::new(streams::dir_name(source).as_bytes())?, Blocking::Allowed) {
            Ok(found) => found.node,
            Err(FsError::NotFound) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let mut names = Vec::new();
        streams::list(&dir, &mut |name, attrs| names.push((name.to_vec(), *attrs)))?;
        let root = self.target.root();
        for (name, attrs) in names {
            let stream = dir.lookup(streams::StoredName::new(&name)?.name()?, Blocking::Allowed)?.node;
            let made = streams::restore_stream(&root, target, &name, &attrs)?;
            self.copy_data(&stream, &made, attrs.size)?;
            let modified = Some(SetTime::To(attrs.modified));
            made.set_attrs(&SetAttrs { size: Some(attrs.size), modified, ..SetAttrs::default() })?;
        }
        Ok(())
    }

    /// Copies the data of a file. Holes stay holes.
    fn copy_data(&mut self, source: &NodeRef, target: &NodeRef, size: u64) -> Result<(), Stop> {
        let mut at = 0;
        while let Some(range) = next_data(source, at, size)? {
            at = range.start;
            while at < range.end {
                let len = (range.end - at).min(COPY_BYTES_MAX);
                match copy_step(source, target, at, len)? {
                    // The file is shorter by now.
                    0 => return Ok(()),
                    copied => at += copied,
                }
                self.report()?;
            }
        }
        Ok(())
    }

    fn report(&mut self) -> Result<(), Stop> {
        match (self.pace)(Progress { done: self.done, total: None }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Stop::Ended),
        }
    }
}

/// Copies the beginning of a range to the same place. Returns the number of bytes.
fn copy_step(source: &NodeRef, target: &NodeRef, at: u64, len: u64) -> FsResult<u64> {
    if let Some(ranges) = source.ranges() {
        match ranges.copy_to(target, &Span { source: at, target: at, len }, KEEP_SET_ID) {
            Err(FsError::CrossVolume | FsError::NotSupported) => {}
            copied => return copied.map(|(bytes, _)| bytes),
        }
    }
    let mut data = Vec::new();
    let len = usize::try_from(len).map_or(STEP_BYTES, |len| len.min(STEP_BYTES));
    let read = source.read(at, len, &mut data, Blocking::Allowed)?;
    target.write(at, &data, KEEP_SET_ID)?;
    Ok(read as u64)
}

//! The walk: finds every name and every file, and sorts them by key.

use crate::error::{Error, Result, at};
use crate::format::bytes::Writer;
use crate::format::records::{encode_entry, write_attrs};
use crate::format::sort_key;
use crate::job::Progress;
use crate::sorter::{Sorted, Sorter};
use std::ops::ControlFlow;
use std::path::Path;
use vfs::volume::streams;
use vfs::{Attrs, Backend, Blocking, FileKey, FileType, FsError, Name, NodeRef, ViewId};

/// Entries of a directory that are in memory at a time.
const BATCH: usize = 512;

pub(crate) struct Walked {
    /// Inodes with their attributes alone, entries, and streams with the keys of their files.
    pub(crate) records: Sorted,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) skipped: u64,
}

/// `progress` is called after each part of a directory; `Break` is [`Error::Stopped`].
pub(crate) fn walk(
    backend: &dyn Backend,
    scratch: &Path,
    progress: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<Walked> {
    let (records, linked) = (Sorter::new(scratch), Sorter::new(scratch));
    let root = backend.root();
    let attrs = root.attrs(Blocking::Allowed).map_err(at(|| "the root".to_owned()))?;
    let root_key = root.key().in_view(ViewId::LIVE);
    let mut walk = Walk { backend, records, linked, files: 0, bytes: 0, skipped: 0, root: root_key };
    walk.add(&root_key, &attrs)?;
    // Directories, each with the position from which to go on.
    let mut open = vec![(root_key, 0)];
    while let Some((dir, cookie)) = open.pop() {
        walk.step(&dir, cookie, &mut open)?;
        let seen = Progress { files_done: walk.files, bytes_done: walk.bytes, ..Progress::default() };
        if progress(&seen).is_break() {
            return Err(Error::Stopped);
        }
    }
    walk.add_streams(&root)?;
    // A file with several names was seen at each of them.
    let (mut linked, mut last) = (walk.linked.finish()?, None);
    while let Some((key, size)) = linked.next()? {
        if last.as_ref() != Some(&key) {
            walk.files += 1;
            walk.bytes += size.first_chunk().map_or(0, |size| u64::from_be_bytes(*size));
            last = Some(key);
        }
    }
    let records = walk.records.finish()?;
    Ok(Walked { records, files: walk.files, bytes: walk.bytes, skipped: walk.skipped })
}

struct Walk<'b> {
    backend: &'b dyn Backend,
    records: Sorter,
    linked: Sorter,
    root: FileKey,
    files: u64,
    bytes: u64,
    skipped: u64,
}

struct Found {
    name: Vec<u8>,
    object: Option<(FileKey, Attrs)>,
    cookie: u64,
}

impl Walk<'_> {
    /// Takes the next entries of a directory.
    fn step(&mut self, dir: &FileKey, cookie: u64, open: &mut Vec<(FileKey, u64)>) -> Result<()> {
        let shown = || format!("directory {dir:?}");
        let node = self.backend.node(dir, Blocking::Allowed).map_err(at(shown))?;
        let (found, is_end) = entries(&node, cookie).map_err(at(shown))?;
        if let Some(last) = found.last().filter(|_| !is_end) {
            open.push((*dir, last.cookie));
        }
        for Found { name, object, .. } in found {
            let Ok(checked) = Name::new(&name) else {
                let is_own = *dir == self.root && name == Name::STREAMS.bytes();
                self.skipped += u64::from(!is_own);
                continue;
            };
            let (key, attrs) = match object.map_or_else(|| look_up(&node, checked), Ok) {
                Err(FsError::CrossVolume) => {
                    self.skipped += 1;
                    continue;
                }
                found => found.map_err(at(|| format!("{checked} in {}", shown())))?,
            };
            self.records.push(sort_key::entry(dir, &name), encode_entry(&key, attrs.file_type))?;
            self.add(&key, &attrs)?;
            if attrs.file_type == FileType::Directory {
                open.push((key, 0));
            }
        }
        Ok(())
    }

    fn add(&mut self, key: &FileKey, attrs: &Attrs) -> Result<()> {
        let bytes = if attrs.file_type == FileType::Regular { attrs.size } else { 0 };
        if attrs.links > 1 && attrs.file_type != FileType::Directory {
            self.linked.push(key.bytes().to_vec(), bytes.to_be_bytes().to_vec())?;
        } else {
            self.files += 1;
            self.bytes += bytes;
        }
        let mut value = Writer::default();
        write_attrs(&mut value, attrs);
        self.records.push(sort_key::inode(key), value.0)
    }

    /// Adds the streams in the hidden tree.
    fn add_streams(&mut self, root: &NodeRef) -> Result<()> {
        let shown = || "the streams".to_owned();
        let Some(tree) = streams::tree_of(root).map_err(at(shown))? else { return Ok(()) };
        let mut cookie = 0;
        loop {
            let (dirs, is_end) = entries(&tree, cookie).map_err(at(shown))?;
            cookie = dirs.last().map_or(cookie, |last| last.cookie);
            for Found { name, .. } in dirs {
                let Some(owner) = streams::key_of(&name) else { continue };
                let dir = Name::new(&name).and_then(|name| tree.lookup(name, Blocking::Allowed));
                self.add_streams_of(&owner, &dir.map_err(at(shown))?.node)?;
            }
            if is_end {
                return Ok(());
            }
        }
    }

    fn add_streams_of(&mut self, owner: &FileKey, dir: &NodeRef) -> Result<()> {
        let shown = || format!("the streams of file {owner:?}");
        let mut cookie = 0;
        loop {
            let (files, is_end) = entries(dir, cookie).map_err(at(shown))?;
            cookie = files.last().map_or(cookie, |last| last.cookie);
            for Found { name, object, .. } in files {
                let (Some(stream), Ok(checked)) = (streams::stream_name(&name), Name::new(&name)) else {
                    continue;
                };
                let found = object.map_or_else(|| look_up(dir, checked), Ok);
                let (key, attrs) = found.map_err(at(shown))?;
                self.files += 1;
                self.bytes += attrs.size;
                let mut value = Writer::default();
                write_attrs(&mut value, &attrs);
                value.raw(key.bytes());
                self.records.push(sort_key::stream(owner, stream), value.0)?;
            }
            if is_end {
                return Ok(());
            }
        }
    }
}

/// Some entries after `cookie`, without dots, and whether they are the last.
fn entries(dir: &NodeRef, cookie: u64) -> vfs::FsResult<(Vec<Found>, bool)> {
    let mut found = Vec::new();
    let is_end = dir.read_dir(cookie, true, &mut |entry| {
        if matches!(entry.name, b"." | b"..") {
            return ControlFlow::Continue(());
        }
        if found.len() == BATCH {
            return ControlFlow::Break(());
        }
        let object = entry.object.map(|(key, attrs)| (key.in_view(ViewId::LIVE), *attrs));
        found.push(Found { name: entry.name.to_vec(), object, cookie: entry.cookie });
        ControlFlow::Continue(())
    })?;
    Ok((found, is_end))
}

fn look_up(dir: &NodeRef, name: Name<'_>) -> vfs::FsResult<(FileKey, Attrs)> {
    let found = dir.lookup(name, Blocking::Allowed)?;
    Ok((found.node.key().in_view(ViewId::LIVE), found.attrs))
}

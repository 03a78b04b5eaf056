//! Applies a difference to the live files of a destination, which no client sees.
//!
//! First come data: new files are made in a hidden directory, each under the key that it has at the source. The names and
//! attributes follow from the log once all data are there, in passes that may be repeated after a crash in their middle.

use super::Means;
use super::key_map::{self, KeyMap, Pair};
use super::log::{Entries, Entry, Log};
use crate::error::{Error, Result, at};
use crate::format::records::{Inode, decode_entry};
use crate::format::sort_key::{self, Kind};
use crate::job::Progress;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use vfs::backend::KEEP_SET_ID;
use vfs::volume::copies::make_like;
use vfs::volume::streams;
use vfs::{Attrs, Backend, Blocking, FileKey, FileType, FsError, FsResult, Name, NodeRef, SetAttrs, SetTime};

/// The directory of new and removed files in the hidden tree.
const STAGING: &[u8] = b"replication";
/// Zeros that are written at a time where the storage has no holes.
const ZEROS: usize = 1 << 20;
/// Data after which the transfer makes its place safe.
pub(super) const SAFE_BYTES: u64 = 64 << 20;
/// Records after which it does.
const SAFE_RECORDS: u64 = 10_000;

/// The files of a destination, by the keys of the source.
pub(super) struct Files {
    pub(super) target: Arc<dyn Backend>,
    staging: NodeRef,
    source_root: FileKey,
    /// The files of the last point.
    old: KeyMap,
}

impl Files {
    pub(super) fn open(target: Arc<dyn Backend>, source_root: FileKey, old: KeyMap) -> Result<Self> {
        let name = Name::new(STAGING).map_err(at(|| "the destination".to_owned()))?;
        let staging = streams::make_hidden_dir(&target.root(), name);
        let staging = staging.map_err(at(|| "the destination's hidden directory".to_owned()))?;
        Ok(Self { target, staging, source_root, old })
    }

    /// The file of the destination, if it is one of the last point.
    fn known(&self, source: &FileKey) -> Result<Option<FileKey>> {
        if *source == self.source_root { Ok(Some(self.target.root().key())) } else { self.old.find(source) }
    }

    fn staged(&self, source: &FileKey) -> Result<Option<NodeRef>> {
        let name = streams::dir_name(source);
        find(&self.staging, name.as_bytes()).map_err(at(|| format!("new file {source:?}")))
    }

    fn node(&self, target: &FileKey) -> Result<NodeRef> {
        let node = self.target.node(target, Blocking::Allowed);
        node.map_err(|error| match error {
            FsError::Stale => Error::Diverged(format!("file {target:?} is gone")),
            error => at(|| format!("file {target:?}"))(error),
        })
    }
}

fn find(dir: &NodeRef, name: &[u8]) -> FsResult<Option<NodeRef>> {
    match dir.lookup(Name::new(name)?, Blocking::Allowed) {
        Ok(found) => Ok(Some(found.node)),
        Err(FsError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Takes the records and the data as they come.
pub(super) struct Applier<'a> {
    pub(super) files: &'a Files,
    pub(super) log: Log,
    /// The file or stream of the last record, if it can have data.
    current: Option<NodeRef>,
    last: Vec<u8>,
    offset: u64,
    unsafe_bytes: u64,
    unsafe_records: u64,
    safe_bytes: u64,
    pub(super) progress: Progress,
}

impl<'a> Applier<'a> {
    pub(super) fn new(files: &'a Files, log: Log, safe_bytes: u64) -> Self {
        Self {
            files,
            log,
            current: None,
            last: Vec::new(),
            offset: 0,
            unsafe_bytes: 0,
            unsafe_records: 0,
            safe_bytes,
            progress: Progress::default(),
        }
    }

    pub(super) fn record(&mut self, key: Vec<u8>, old: Vec<u8>, new: Vec<u8>) -> Result<()> {
        if self.unsafe_bytes >= self.safe_bytes || self.unsafe_records >= SAFE_RECORDS {
            self.save()?;
        }
        let malformed = || Error::Peer("a record is malformed");
        let (file, kind) = sort_key::parse(&key).ok_or_else(malformed)?;
        if key <= self.last {
            return Err(Error::Peer("its records are out of order"));
        }
        self.current = None;
        let mut made = None;
        match kind {
            Kind::Entry(name) => {
                Name::new(name).map_err(|_| malformed())?;
                let is_entry = |value: &[u8]| value.is_empty() || decode_entry(value).is_some();
                (is_entry(&old) && is_entry(&new)).then_some(()).ok_or_else(malformed)?;
            }
            Kind::Inode if new.is_empty() => {}
            Kind::Inode => {
                let inode = Inode::decode(&new).ok_or_else(malformed)?;
                made = self.take_file(&file, &inode, old.is_empty())?;
            }
            Kind::Stream(name) => {
                let inode =
                    if new.is_empty() { None } else { Some(Inode::decode(&new).ok_or_else(malformed)?) };
                self.take_stream(&file, name, inode.as_ref())?;
            }
            Kind::Extents | Kind::StreamExtents => return Err(malformed()),
        }
        self.progress.files_done += u64::from(!matches!(kind, Kind::Entry(_)));
        self.unsafe_records += 1;
        self.last.clone_from(&key);
        self.offset = 0;
        self.log.push(&Entry::Record { key, old, new, made })
    }

    /// Makes a file that is new, and prepares one that has changed for its data. Returns the key of a new one.
    fn take_file(&mut self, source: &FileKey, inode: &Inode, is_new: bool) -> Result<Option<FileKey>> {
        let shown = || format!("new file {source:?}");
        let (node, made) = match self.files.known(source)? {
            Some(key) => (self.files.node(&key)?, None),
            None if !is_new => {
                return Err(Error::Diverged(format!("file {source:?} of the source is not known")));
            }
            None => {
                let node = match self.files.staged(source)? {
                    Some(node) => node,
                    None => {
                        let name = streams::dir_name(source);
                        let name = Name::new(name.as_bytes()).map_err(at(shown))?;
                        make_like(&self.files.staging, name, &inode.attrs, &inode.target)
                            .map_err(at(shown))?
                    }
                };
                let key = node.key();
                (node, Some(key))
            }
        };
        if inode.attrs.file_type == FileType::Regular {
            set_size(&node, inode.attrs.size).map_err(at(shown))?;
            self.current = Some(node);
        }
        Ok(made)
    }

    fn take_stream(&mut self, owner: &FileKey, name: &[u8], inode: Option<&Inode>) -> Result<()> {
        let shown = || format!("stream {:?} of file {owner:?}", String::from_utf8_lossy(name));
        let target = match self.files.known(owner)? {
            Some(key) => Some(key),
            None => self.files.staged(owner)?.map(|node| node.key()),
        };
        let target = target.ok_or_else(|| Error::Diverged(format!("{} has no file", shown())))?;
        let root = self.files.target.root();
        let dir = stream_dir(&root, &target).map_err(at(shown))?;
        let stored = [b":", name].concat();
        let found = dir.as_ref().map_or(Ok(None), |dir| find(dir, &stored)).map_err(at(shown))?;
        match (found, inode) {
            (Some(_), None) => {
                let removed = dir.map(|dir| dir.remove(Name::new(&stored)?, &|_| Ok(())));
                removed.transpose().map_err(at(shown))?;
            }
            (None, None) => {}
            (found, Some(inode)) => {
                let made =
                    found.map_or_else(|| streams::restore_stream(&root, &target, name, &inode.attrs), Ok);
                let node = made.map_err(at(shown))?;
                set_size(&node, inode.attrs.size).map_err(at(shown))?;
                self.current = Some(node);
            }
        }
        Ok(())
    }

    pub(super) fn data(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let node = self.current.as_ref().ok_or(Error::Peer("data without a file"))?;
        node.write(offset, bytes, KEEP_SET_ID).map_err(at(|| format!("file {:?}", node.key())))?;
        self.wrote(offset, bytes.len() as u64)
    }

    pub(super) fn zero(&mut self, offset: u64, len: u64) -> Result<()> {
        let node = self.current.as_ref().ok_or(Error::Peer("data without a file"))?;
        write_zeros(node, offset, len).map_err(at(|| format!("file {:?}", node.key())))?;
        self.wrote(offset, len)
    }

    fn wrote(&mut self, offset: u64, len: u64) -> Result<()> {
        self.offset = offset + len;
        self.unsafe_bytes += len;
        self.progress.bytes_done += len;
        if self.unsafe_bytes >= self.safe_bytes { self.save() } else { Ok(()) }
    }

    /// Makes everything so far durable.
    fn save(&mut self) -> Result<()> {
        self.files.target.sync().map_err(at(|| "the destination".to_owned()))?;
        self.log.push(&Entry::Safe { key: self.last.clone(), offset: self.offset })?;
        self.log.sync()?;
        (self.unsafe_bytes, self.unsafe_records) = (0, 0);
        Ok(())
    }

    pub(super) fn end(mut self) -> Result<Progress> {
        self.files.target.sync().map_err(at(|| "the destination".to_owned()))?;
        self.log.push(&Entry::End)?;
        self.log.sync()?;
        Ok(self.progress)
    }
}

fn set_size(node: &NodeRef, size: u64) -> FsResult<()> {
    if node.size(Blocking::Allowed)? != size {
        node.set_attrs(&SetAttrs { size: Some(size), ..SetAttrs::default() })?;
    }
    Ok(())
}

fn write_zeros(node: &NodeRef, offset: u64, len: u64) -> FsResult<()> {
    if let Some(ranges) = node.ranges() {
        match ranges.punch(offset, len, KEEP_SET_ID) {
            Err(FsError::NotSupported) => {}
            done => return done.map(drop),
        }
    }
    let (zeros, end) = (vec![0; ZEROS], offset + len);
    let mut at = offset;
    while at < end {
        let part = usize::try_from(end - at).unwrap_or(ZEROS).min(ZEROS);
        node.write(at, &zeros[..part], KEEP_SET_ID)?;
        at += part as u64;
    }
    Ok(())
}

/// The directory with the streams of a file.
fn stream_dir(root: &NodeRef, key: &FileKey) -> FsResult<Option<NodeRef>> {
    match streams::tree_of(root)? {
        Some(tree) => find(&tree, streams::dir_name(key).as_bytes()),
        None => Ok(None),
    }
}

/// Gives a transfer whose data have all come its names and attributes. It can be repeated.
pub(super) fn finish(files: &Files, log: &Path, map: &Path, means: &mut Means<'_>) -> Result<()> {
    write_map(files, log, map)?;
    let finish = Finish { files, new: KeyMap::open(map)? };
    for pass in [Finish::remove_name, Finish::add_name] {
        each(log, means, &mut |key, old, new| match sort_key::parse(key) {
            Some((dir, Kind::Entry(name))) => pass(&finish, &dir, name, old, new),
            _ => Ok(()),
        })?;
    }
    finish.purge()?;
    each(log, means, &mut |key, _, new| finish.finish_file(key, new))?;
    files.target.sync().map_err(at(|| "the destination".to_owned()))
}

/// Takes a record: its key, its old value and its new one.
type TakeRecord<'t> = dyn FnMut(&[u8], &[u8], &[u8]) -> Result<()> + 't;

fn each(log: &Path, means: &mut Means<'_>, take: &mut TakeRecord<'_>) -> Result<()> {
    let mut entries = Entries::open(log)?.ok_or(Error::WorkDir("the log is gone"))?;
    while let Some(entry) = entries.next()? {
        let Entry::Record { key, old, new, .. } = entry else { continue };
        take(&key, &old, &new)?;
        if (means.progress)(&Progress::default()).is_break() {
            return Err(Error::Stopped);
        }
    }
    Ok(())
}

/// The map of the point: that of the last one without the files that are gone, and with those that are new.
fn write_map(files: &Files, log: &Path, path: &Path) -> Result<()> {
    let mut entries = Entries::open(log)?.ok_or(Error::WorkDir("the log is gone"))?;
    let mut last = None;
    // Files that are new (with their keys) or gone, in order, without repetitions.
    let mut changes = std::iter::from_fn(move || {
        loop {
            let (key, new, made) = match entries.next() {
                Ok(Some(Entry::Record { key, new, made, .. })) => (key, new, made),
                Ok(Some(_)) => continue,
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            };
            match sort_key::parse(&key) {
                Some((file, Kind::Inode)) if (new.is_empty() || made.is_some()) && last != Some(file) => {
                    last = Some(file);
                    return Some(Ok((file, made)));
                }
                _ => {}
            }
        }
    })
    .peekable();
    let (mut place, old) = (0, &files.old);
    let mut merged = std::iter::from_fn(|| {
        loop {
            let before = if place < old.len() { Some(old.at(place)) } else { None };
            let change = match changes.next_if(|change| match (&before, change) {
                (Some(Ok((before, _))), Ok((changed, _))) => key_map::order(changed, before).is_le(),
                _ => true,
            }) {
                Some(Ok(change)) => change,
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    place += 1;
                    return before;
                }
            };
            let (source, made): (FileKey, Option<FileKey>) = change;
            if matches!(&before, Some(Ok((same, _))) if *same == source) {
                place += 1;
            }
            if let Some(target) = made {
                return Some(Ok::<Pair, Error>((source, target)));
            }
        }
    });
    key_map::write(path, &mut merged)
}

struct Finish<'f> {
    files: &'f Files,
    new: KeyMap,
}

impl Finish<'_> {
    fn resolve(&self, source: &FileKey) -> Result<FileKey> {
        let found = match self.new.find(source)? {
            Some(key) => Some(key),
            None => self.files.known(source)?,
        };
        found.ok_or_else(|| Error::Diverged(format!("file {source:?} of the source is not known")))
    }

    /// Moves the object of a name that is gone, or is another's now, to the hidden directory.
    fn remove_name(&self, dir: &FileKey, name: &[u8], old: &[u8], _: &[u8]) -> Result<()> {
        let Some((old, _)) = decode_entry(old) else { return Ok(()) };
        let shown = || format!("name {:?}", String::from_utf8_lossy(name));
        let dir = match self.files.target.node(&self.resolve(dir)?, Blocking::Allowed) {
            // An earlier pass has removed it.
            Err(FsError::Stale) => return Ok(()),
            dir => dir.map_err(at(shown))?,
        };
        let found = find(&dir, name).map_err(at(shown))?;
        let target = self.resolve(&old)?;
        if found.is_none_or(|found| found.key() != target) {
            return Ok(());
        }
        let staged = streams::dir_name(&old);
        let change = || {
            let (name, staged) = (Name::new(name)?, Name::new(staged.as_bytes())?);
            match find(&self.files.staging, staged.bytes())? {
                // Under another of its names.
                Some(_) => dir.remove(name, &|_| Ok(())).map(drop),
                None => dir.rename(name, &self.files.staging, staged, &|_, _| Ok(())).map(drop),
            }
        };
        change().map_err(at(shown))
    }

    fn add_name(&self, dir: &FileKey, name: &[u8], _: &[u8], new: &[u8]) -> Result<()> {
        let Some((source, file_type)) = decode_entry(new) else { return Ok(()) };
        let shown = || format!("name {:?}", String::from_utf8_lossy(name));
        let target = self.resolve(&source)?;
        let dir = self.files.node(&self.resolve(dir)?)?;
        match find(&dir, name).map_err(at(shown))? {
            Some(found) if found.key() == target => return Ok(()),
            Some(_) => return Err(Error::Diverged(format!("{} exists", shown()))),
            None => {}
        }
        let checked = Name::new(name).map_err(at(shown))?;
        if self.files.staged(&source)?.is_some() {
            let staged = streams::dir_name(&source);
            let staged = Name::new(staged.as_bytes()).map_err(at(shown))?;
            let moved = self.files.staging.rename(staged, &dir, checked, &|_, _| Ok(()));
            return moved.map(drop).map_err(at(shown));
        }
        if file_type == FileType::Directory {
            return Err(Error::Diverged(format!("{} has no directory", shown())));
        }
        dir.link(checked, &self.files.node(&target)?, &|_| Ok(())).map(drop).map_err(at(shown))
    }

    /// Removes the files that have no name at the source any more.
    fn purge(&self) -> Result<()> {
        let shown = || "removed files of the destination".to_owned();
        loop {
            let mut names = Vec::new();
            let listed = self.files.staging.read_dir(0, false, &mut |entry| {
                if !matches!(entry.name, b"." | b"..") {
                    names.push(entry.name.to_vec());
                }
                if names.len() < 1000 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            listed.map_err(at(shown))?;
            if names.is_empty() {
                return Ok(());
            }
            names.iter().try_for_each(|name| self.purge_file(name)).map_err(at(shown))?;
        }
    }

    fn purge_file(&self, name: &[u8]) -> FsResult<()> {
        let (staging, name) = (&self.files.staging, Name::new(name)?);
        let found = staging.lookup(name, Blocking::Allowed)?;
        let key = found.node.key();
        let is_last = found.attrs.links <= 1 || found.attrs.file_type == FileType::Directory;
        drop(found.node);
        match found.attrs.file_type {
            FileType::Directory => staging.remove_dir(name, &|_| Ok(()))?,
            _ => staging.remove(name, &|_| Ok(()))?,
        };
        let tree = streams::tree_of(&self.files.target.root())?.filter(|_| is_last);
        let Some(tree) = tree else { return Ok(()) };
        match tree.remove_dir(Name::new(streams::dir_name(&key).as_bytes())?, &|_| Ok(())) {
            Ok(_) | Err(FsError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Gives a file or stream its attributes.
    fn finish_file(&self, key: &[u8], new: &[u8]) -> Result<()> {
        let Some(inode) = Inode::decode(new) else { return Ok(()) };
        match sort_key::parse(key) {
            Some((source, Kind::Inode)) => {
                let node = self.files.node(&self.resolve(&source)?)?;
                inode.metadata.restore(&node).map_err(at(|| format!("file {:?}", node.key())))
            }
            Some((owner, Kind::Stream(name))) => {
                let target = self.resolve(&owner)?;
                let change = || {
                    let dir = stream_dir(&self.files.target.root(), &target)?.ok_or(FsError::NotFound)?;
                    let node = find(&dir, &[b":", name].concat())?.ok_or(FsError::NotFound)?;
                    let Attrs { uid, gid, modified, .. } = inode.attrs;
                    let (uid, gid, modified) = (Some(uid), Some(gid), Some(SetTime::To(modified)));
                    node.set_attrs(&SetAttrs { uid, gid, modified, ..SetAttrs::default() })
                };
                change().map(drop).map_err(at(|| format!("a stream of file {target:?}")))
            }
            _ => Ok(()),
        }
    }
}

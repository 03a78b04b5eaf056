//! Restores files from snapshots. A new file beside the target gets all that the file of the snapshot has, and then takes the
//! target's name in one step: no client finds a half of it.

use super::core::{File, Resolved};
use super::create::Disposition;
use super::open_file::{OpenFile, Stability};
use crate::acl::access::Access;
use crate::backend::Blocking;
use crate::backend::durability::PendingSync;
use crate::backend::ranges::{COPY_BYTES_MAX, Seek, Span};
use crate::backend::snapshots::{Pace, Progress};
use crate::claims::{self, IoKind};
use crate::error::{FsError, FsResult, Wait};
use crate::file_key::ViewId;
use crate::model::attrs::{Attrs, FileType, SetAttrs};
use crate::model::caller::Caller;
use crate::model::name::Name;
use crate::namespace::Export;
use crate::volume::metadata::Metadata;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Bytes of a step where the storage cannot copy by itself.
const PART_BYTES: u64 = 1 << 20;

/// A file to restore. Paths are names from the root on; no link is followed.
pub struct FileRestore<'r> {
    pub snapshot: ViewId,
    pub path: &'r [&'r [u8]],
    /// A live directory for the file, which gets the last name of its path.
    pub dir: &'r [&'r [u8]],
    /// The name of the new file in that directory until it is complete. What has this name is removed.
    pub temporary: &'r [u8],
}

/// The part of a [`FileRestore`] that cannot be found, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreError {
    Source(FsError),
    Dir(FsError),
    /// The object in the place of the file, or the file itself.
    Target(FsError),
}

/// The source and the target of a restore.
struct Found<'r> {
    source: Resolved,
    dir: File,
    name: &'r [u8],
}

impl Export {
    /// The bytes of a file to restore, with its streams, if it can be restored.
    pub fn check_restore(self: &Arc<Self>, restore: &FileRestore<'_>) -> Result<u64, RestoreError> {
        let found = self.find(restore)?;
        let mut bytes = found.source.attrs.size;
        let mut count = |_: &[u8], size: u64, _: u64| bytes = bytes.saturating_add(size);
        found.source.file.list_streams(&mut count).map_err(RestoreError::Source)?;
        Ok(bytes)
    }

    /// Restores a file, durably. `pace` is called with the bytes so far after each step, and while another client has to
    /// return a delegation or a lease of the target. Returns false, and leaves nothing, if it ended the restore.
    /// [`FsError::Locked`] if an open of the target denies it.
    pub fn restore_file(
        self: &Arc<Self>,
        restore: &FileRestore<'_>,
        pace: &mut Pace<'_>,
    ) -> Result<bool, RestoreError> {
        let Found { source, dir, name } = self.find(restore)?;
        let caller = Caller::new(0, 0, []);
        let mut pending = PendingSync::default();
        remove_temporary(&dir, &caller, restore.temporary).map_err(RestoreError::Target)?;
        let mut copy = FileCopy { source: &source, caller: &caller, pace, done: 0, pending: &mut pending };
        let made = copy.make(&dir, restore.temporary).and_then(|is_whole| match is_whole {
            true => copy.take_place(&dir, restore.temporary, name),
            false => Ok(false),
        });
        match made {
            Ok(true) => Ok(true),
            // The restore has failed already; the next one removes what stays.
            ended => {
                _ = remove_temporary(&dir, &caller, restore.temporary);
                ended.map_err(RestoreError::Target)
            }
        }
    }

    fn find<'r>(self: &Arc<Self>, restore: &FileRestore<'r>) -> Result<Found<'r>, RestoreError> {
        let (name, above) = restore.path.split_last().ok_or(RestoreError::Source(FsError::Invalid))?;
        let root = self.volume.root_for_service(restore.snapshot).map_err(RestoreError::Source)?;
        let root = self.root().beside(root);
        let source = walk(root, above).and_then(|dir| child(&dir, name)).map_err(RestoreError::Source)?;
        check_regular(&source.attrs).map_err(RestoreError::Source)?;
        let dir = walk(self.root(), restore.dir).map_err(RestoreError::Dir)?;
        match child(&dir, name) {
            Err(FsError::NotFound) => {}
            there => there.and_then(|there| check_regular(&there.attrs)).map_err(RestoreError::Target)?,
        }
        Ok(Found { source, dir, name })
    }
}

fn check_regular(attrs: &Attrs) -> FsResult<()> {
    match attrs.file_type {
        FileType::Regular => Ok(()),
        FileType::Directory => Err(FsError::IsDirectory),
        _ => Err(FsError::BadType),
    }
}

/// The directory with these names below `dir`.
fn walk(dir: File, names: &[&[u8]]) -> FsResult<File> {
    let below = names.iter().try_fold(dir, |dir, name| Ok::<_, FsError>(child(&dir, name)?.file))?;
    match below.attrs(Blocking::Allowed)?.file_type {
        FileType::Directory => Ok(below),
        _ => Err(FsError::NotDirectory),
    }
}

/// The object of a name, which leads neither up nor into a snapshot.
fn child(dir: &File, name: &[u8]) -> FsResult<Resolved> {
    if matches!(name, b"." | b"..") || name == Name::SNAPSHOTS.bytes() {
        return Err(FsError::Invalid);
    }
    dir.open_dir(&Caller::new(0, 0, []), Blocking::Allowed)?.lookup(name, Blocking::Allowed)
}

fn remove_temporary(dir: &File, caller: &Caller, name: &[u8]) -> FsResult<()> {
    match dir.remove(caller, name, &mut PendingSync::default()) {
        Err(FsError::NotFound) => Ok(()),
        removed => removed.map(drop),
    }
}

struct FileCopy<'c, 'p> {
    source: &'c Resolved,
    caller: &'c Caller,
    pace: &'c mut Pace<'p>,
    /// Bytes copied so far.
    done: u64,
    pending: &'c mut PendingSync,
}

impl FileCopy<'_, '_> {
    /// Makes a new file of this name with all that the source has, durably. False if it was ended.
    fn make(&mut self, dir: &File, name: &[u8]) -> FsResult<bool> {
        let attrs = &self.source.attrs;
        let set = SetAttrs { mode: Some(0o600), size: Some(attrs.size), ..SetAttrs::default() };
        let made = dir.create(self.caller, name, Disposition::CreateNew, &set, self.pending)?.file;
        if !self.copy_data(&self.source.file, &made)? {
            return Ok(false);
        }
        for stream in stream_names(&self.source.file)? {
            let from = self.source.file.find_stream(&stream)?;
            let to = made.make_stream(self.caller, &stream, self.pending)?;
            if !self.copy_data(&from, &to)? {
                return Ok(false);
            }
        }
        let owner = SetAttrs { uid: Some(attrs.uid), gid: Some(attrs.gid), ..SetAttrs::default() };
        made.set_attrs(self.caller, &owner, None, self.pending)?;
        Metadata::read(&self.source.file.node, attrs)?.restore(&made.node)?;
        made.require_stable(self.pending);
        std::mem::take(self.pending).sync_all()?;
        Ok(true)
    }

    /// Copies the data of a file or a stream. Holes stay holes.
    fn copy_data(&mut self, from: &File, to: &File) -> FsResult<bool> {
        let size = from.attrs(Blocking::Allowed)?.size;
        let (from, _) = from.open(self.caller, Access::READ, Blocking::Allowed)?;
        let (to, attrs) = to.open(self.caller, Access::WRITE, Blocking::Allowed)?;
        if attrs.size != size {
            to.set_attrs(self.caller, &SetAttrs { size: Some(size), ..SetAttrs::default() }, self.pending)?;
        }
        let (before, mut at) = (self.done, 0);
        while let Some(start) = next_data(&from, at, size)? {
            let end = match from.seek(start, Seek::Hole) {
                Ok(Some(end)) => end.min(size),
                Ok(None) | Err(FsError::NotSupported) => size,
                Err(error) => return Err(error),
            };
            at = start;
            while at < end {
                at += self.copy_part(&from, &to, at, end - at)?;
                self.done = before + at;
                if self.step().is_break() {
                    return Ok(false);
                }
            }
        }
        self.done = before + size;
        Ok(self.step().is_continue())
    }

    fn copy_part(&mut self, from: &OpenFile<'_>, to: &OpenFile<'_>, at: u64, len: u64) -> FsResult<u64> {
        let span = Span { source: at, target: at, len: len.min(COPY_BYTES_MAX) };
        match from.copy_to(to, &span, Stability::Data, self.pending) {
            Ok((copied, _)) if copied > 0 => return Ok(copied),
            Ok(_) | Err(FsError::NotSupported | FsError::CrossVolume | FsError::Invalid) => {}
            Err(error) => return Err(error),
        }
        let mut data = Vec::new();
        let len = usize::try_from(len.min(PART_BYTES)).unwrap_or_default();
        from.read(at, len, &mut data, Blocking::Allowed)?;
        if data.is_empty() {
            return Err(FsError::Io);
        }
        to.write(at, &data, Stability::Data, self.pending)?;
        Ok(data.len() as u64)
    }

    /// Gives the new file the name of the target, once no client has anything against it.
    fn take_place(&mut self, dir: &File, temporary: &[u8], name: &[u8]) -> FsResult<bool> {
        let replace = |pending: &mut PendingSync| {
            match child(dir, name) {
                // As a write of all of it: an open of another client can deny that, and caches of it come back first.
                Ok(target) => {
                    target.file.check_claims(self.caller.by, IoKind::Write, || claims::Span::ALL)?;
                }
                Err(FsError::NotFound) => {}
                Err(error) => return Err(error),
            }
            dir.rename(self.caller, temporary, dir, name, pending)
        };
        loop {
            match replace(self.pending) {
                Err(FsError::Wait(Wait::Recall)) if self.step().is_continue() => {}
                Err(FsError::Wait(Wait::Recall)) => return Ok(false),
                renamed => {
                    renamed?;
                    std::mem::take(self.pending).sync_all()?;
                    return Ok(true);
                }
            }
        }
    }

    fn step(&mut self) -> ControlFlow<()> {
        (self.pace)(Progress { done: self.done, total: None })
    }
}

/// The start of the next data from `at` on.
fn next_data(file: &OpenFile<'_>, at: u64, size: u64) -> FsResult<Option<u64>> {
    if at >= size {
        return Ok(None);
    }
    match file.seek(at, Seek::Data) {
        Err(FsError::NotSupported) => Ok(Some(at)),
        found => Ok(found?.filter(|&start| start < size)),
    }
}

fn stream_names(file: &File) -> FsResult<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    file.list_streams(&mut |name, _, _| names.push(name.to_vec()))?;
    Ok(names)
}

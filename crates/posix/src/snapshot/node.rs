//! A file of a snapshot.

use super::read;
use super::view::SnapshotView;
use crate::node::{Node as LiveNode, ranges};
use crate::undo::{Record, RecordMeta};
use std::any::Any;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use vfs::backend::KEEP_SET_ID;
use vfs::backend::ranges::COPY_BYTES_MAX;
use vfs::backend::xattrs::page;
use vfs::{
    Acls, Attrs, AuthorizeCreate, AuthorizeLink, AuthorizeRemove, AuthorizeRename, AuthorizeSetattr,
    AuthorizeWrite, AuthorizeXattr, Blocking, Change, CreatedEntry, EntrySink, FileKey, FileType, FsError,
    FsResult, Lookup, Name, Node, NodeRef, PosixAcl, Ranges, Seek, SetAttrs, SetXattr, Span, Special,
    SyncScope, Wait, XattrName, XattrSink, Xattrs,
};

pub(super) struct SnapshotNode {
    pub(super) view: Arc<SnapshotView>,
    pub(super) key: FileKey,
    /// The first record, once there is one: it never changes.
    first: OnceLock<(Record, RecordMeta)>,
}

/// The place of a file's attributes.
pub(super) enum Source<'n> {
    Record(&'n Record, &'n RecordMeta),
    /// The file has not changed since the snapshot.
    Live(Arc<LiveNode>),
}

impl SnapshotNode {
    pub(super) fn new(view: &Arc<SnapshotView>, key: FileKey) -> Self {
        Self { view: Arc::clone(view), key, first: OnceLock::new() }
    }

    pub(super) fn node_ref(view: &Arc<SnapshotView>, key: FileKey) -> NodeRef {
        Arc::new(Self::new(view, key))
    }

    /// The first record, if the file has changed since the snapshot; [`FsError::Stale`] if it is younger.
    fn first_record(&self) -> FsResult<Option<&(Record, RecordMeta)>> {
        if let Some(first) = self.first.get() {
            return Ok(Some(first));
        }
        let Some(record) = self.view.undo.first_record(&self.key, self.view.label.view)? else {
            return Ok(None);
        };
        let meta = record.meta()?;
        if !self.view.label.has(meta.attrs.born) {
            return Err(FsError::Stale);
        }
        Ok(Some(self.first.get_or_init(|| (record, meta))))
    }

    /// Asks the live file for something that a record may have: again from the record if there is one by now.
    /// [`FsError::Stale`] if the snapshot does not have the file.
    pub(super) fn ask<T>(&self, ask: impl Fn(Source<'_>) -> FsResult<T>) -> FsResult<T> {
        if let Some((record, meta)) = self.first_record()? {
            return ask(Source::Record(record, meta));
        }
        let live = self.live();
        let answer = live.and_then(|live| ask(Source::Live(live)));
        match self.first_record()? {
            Some((record, meta)) => ask(Source::Record(record, meta)),
            None => answer,
        }
    }

    /// The live file; [`FsError::Stale`] if the snapshot does not have it.
    fn live(&self) -> FsResult<Arc<LiveNode>> {
        let live = self.view.mount.node(&self.key, Blocking::Allowed)?;
        // One without a name that is still open was removed before: otherwise it has a record.
        let is_there = self.view.label.has(live.birth_time) && live.stat()?.st_nlink > 0;
        if is_there { Ok(live) } else { Err(FsError::Stale) }
    }

    pub(super) fn attrs_now(&self) -> FsResult<Attrs> {
        self.ask(|source| match source {
            Source::Record(_, meta) => Ok(meta.attrs),
            Source::Live(live) => live.attrs_now(),
        })
    }

    pub(super) fn found(&self, key: FileKey) -> FsResult<Lookup> {
        let node = Self::new(&self.view, key);
        Ok(Lookup { attrs: node.attrs_now()?, node: Arc::new(node) })
    }

    pub(super) fn check_dir(&self) -> FsResult<()> {
        if self.attrs_now()?.file_type == FileType::Directory { Ok(()) } else { Err(FsError::NotDirectory) }
    }

    fn regular_size(&self) -> FsResult<u64> {
        let attrs = self.attrs_now()?;
        match attrs.file_type {
            FileType::Regular => Ok(attrs.size),
            FileType::Directory => Err(FsError::IsDirectory),
            _ => Err(FsError::Invalid),
        }
    }

    /// The key of a name in this directory, and whether a record says so.
    fn key_of(&self, name: &[u8]) -> FsResult<FileKey> {
        let recorded = || self.view.undo.name_in(&self.key, self.view.label.view, name);
        let of_record = |record: Option<_>| match record {
            Some(object) => {
                let crate::undo::NamedObject { key, .. } = object;
                Ok(key)
            }
            None => Err(FsError::NotFound),
        };
        if let Some(record) = recorded()? {
            return of_record(record);
        }
        let live = self.view.mount.node(&self.key, Blocking::Allowed).and_then(|dir| {
            let (child, _) = self.view.mount.child(&dir, name, Blocking::Allowed)?;
            Ok(child.key)
        });
        match recorded()? {
            Some(record) => of_record(record),
            None => live.map_err(|error| if error == FsError::Stale { FsError::NotFound } else { error }),
        }
    }
}

impl SnapshotNode {
    /// `target` as a live file that can have blocks of this one. [`FsError::CrossVolume`] if it is none.
    fn as_source<'n>(&self, target: &'n NodeRef) -> FsResult<&'n LiveNode> {
        let target: &dyn Any = &**target;
        let live = target.downcast_ref::<LiveNode>();
        live.filter(|live| live.mount.is_same_file_system(&self.view.mount)).ok_or(FsError::CrossVolume)
    }

    /// Gives the present file, which is not in use, the data that it had in the snapshot.
    pub(super) fn put_back(&self, target: &LiveNode) -> FsResult<()> {
        let size = self.regular_size()?;
        if target.attrs_now()?.size != size {
            Node::set_attrs(target, &SetAttrs { size: Some(size), ..SetAttrs::default() })?;
        }
        read::each_recorded_piece(&self.view, &self.key, 0..size, &mut |record, piece| {
            let put = |fd: BorrowedFd<'_>, _: &Attrs| match record {
                Some(record) => copy_piece(record, fd, piece, piece.start),
                None => ranges::punch(fd, piece),
            };
            target.alter(Some(piece.end), piece.clone(), KEEP_SET_ID, put).map(drop)
        })
    }
}

/// Copies a piece of a file, all of it. Zeros where the file is shorter.
fn copy_piece(file: BorrowedFd<'_>, target: BorrowedFd<'_>, piece: &Range<u64>, to: u64) -> FsResult<()> {
    let len = piece.end - piece.start;
    let mut done = 0;
    while done < len {
        let span = Span { source: piece.start + done, target: to + done, len: len - done };
        match ranges::copy(file, target, &span)? {
            0 => return ranges::fill_zeros(target, to + done, to + len),
            copied => done += copied,
        }
    }
    Ok(())
}

impl Node for SnapshotNode {
    fn key(&self) -> FileKey {
        self.key
    }

    fn attrs(&self, _: Blocking) -> FsResult<Attrs> {
        self.attrs_now()
    }

    fn read(&self, offset: u64, len: usize, into: &mut Vec<u8>, blocking: Blocking) -> FsResult<usize> {
        let size = self.regular_size()?;
        if blocking == Blocking::Never {
            return Err(FsError::Wait(Wait::Storage));
        }
        read::read(&self.view, &self.key, size, offset, len, into)
    }

    fn descriptor(&self, _: u64, _: usize, _: Blocking) -> Option<Arc<OwnedFd>> {
        None
    }

    fn read_link(&self) -> FsResult<Vec<u8>> {
        self.ask(|source| match source {
            Source::Record(_, meta) if meta.attrs.file_type == FileType::Symlink => Ok(meta.rest.clone()),
            Source::Record(..) => Err(FsError::Invalid),
            Source::Live(live) => live.link_target(),
        })
    }

    fn lookup(&self, name: Name<'_>, _: Blocking) -> FsResult<Lookup> {
        self.check_dir()?;
        let key = self.key_of(name.bytes())?;
        self.found(key)
    }

    fn parent(&self) -> FsResult<Lookup> {
        self.check_dir()?;
        if self.key == self.view.mount.root_key {
            return self.found(self.key);
        }
        let key = self.ask(|source| match source {
            Source::Record(_, meta) => FileKey::new(&meta.rest),
            Source::Live(live) => Ok(self.view.mount.parent(live.fd())?.0.key),
        })?;
        self.found(key)
    }

    fn read_dir(&self, cookie: u64, plus: bool, sink: &mut EntrySink<'_>) -> FsResult<bool> {
        self.list(cookie, plus, sink)
    }

    fn sync(&self, _: SyncScope) -> FsResult<()> {
        Ok(())
    }

    /// A snapshot keeps all its files.
    fn pin(&self) {}

    fn unpin(&self) {}

    fn release(&self, _: u64, _: usize) {}

    fn xattrs(&self) -> Option<&dyn Xattrs> {
        self.view.mount.xattrs.then_some(self)
    }

    fn ranges(&self) -> Option<&dyn Ranges> {
        Some(self)
    }

    fn acls(&self) -> Option<&dyn Acls> {
        self.view.mount.acls.then_some(self)
    }

    fn change_attrs(&self, _: AuthorizeSetattr<'_>) -> FsResult<Change> {
        Err(FsError::ReadOnly)
    }

    fn write(&self, _: u64, _: &[u8], _: AuthorizeWrite<'_>) -> FsResult<Change> {
        Err(FsError::ReadOnly)
    }

    fn reserve(&self, _: u64, _: usize, _: AuthorizeWrite<'_>) -> FsResult<()> {
        Err(FsError::ReadOnly)
    }

    fn create(&self, _: Name<'_>, _: AuthorizeCreate<'_>) -> FsResult<CreatedEntry> {
        Err(FsError::ReadOnly)
    }

    fn make_dir(&self, _: Name<'_>, _: AuthorizeCreate<'_>) -> FsResult<CreatedEntry> {
        Err(FsError::ReadOnly)
    }

    fn make_special(&self, _: Name<'_>, _: Special<'_>, _: AuthorizeCreate<'_>) -> FsResult<CreatedEntry> {
        Err(FsError::ReadOnly)
    }

    fn link(&self, _: Name<'_>, _: &NodeRef, _: AuthorizeLink<'_>) -> FsResult<CreatedEntry> {
        Err(FsError::ReadOnly)
    }

    fn remove(&self, _: Name<'_>, _: AuthorizeRemove<'_>) -> FsResult<Change> {
        Err(FsError::ReadOnly)
    }

    fn remove_dir(&self, _: Name<'_>, _: AuthorizeRemove<'_>) -> FsResult<Change> {
        Err(FsError::ReadOnly)
    }

    fn rename(
        &self,
        _: Name<'_>,
        _: &NodeRef,
        _: Name<'_>,
        _: AuthorizeRename<'_>,
    ) -> FsResult<(Change, Change)> {
        Err(FsError::ReadOnly)
    }
}

impl Xattrs for SnapshotNode {
    fn get(&self, name: XattrName<'_>) -> FsResult<Vec<u8>> {
        self.ask(|source| match source {
            Source::Record(record, meta) => {
                check_carries(meta)?;
                self.view.mount.xattr_of(record.fd.as_fd(), name)
            }
            Source::Live(live) => Xattrs::get(&*live, name),
        })
    }

    fn list(&self, cookie: u64, sink: &mut XattrSink<'_>) -> FsResult<bool> {
        let names = self.ask(|source| match source {
            Source::Record(record, meta) => {
                check_carries(meta)?;
                crate::node::xattrs::names_of(record.fd.as_fd())
            }
            Source::Live(live) => live.xattr_names(),
        })?;
        Ok(page(crate::node::xattrs::bare_names(&names), cookie, sink))
    }

    fn set(&self, _: XattrName<'_>, _: &[u8], _: SetXattr, _: AuthorizeXattr<'_>) -> FsResult<Change> {
        Err(FsError::ReadOnly)
    }

    fn remove(&self, _: XattrName<'_>, _: AuthorizeXattr<'_>) -> FsResult<Change> {
        Err(FsError::ReadOnly)
    }
}

/// Only regular files and directories have extended attributes.
fn check_carries(meta: &RecordMeta) -> FsResult<()> {
    match meta.attrs.file_type {
        FileType::Regular | FileType::Directory => Ok(()),
        _ => Err(FsError::NotSupported),
    }
}

impl Acls for SnapshotNode {
    fn access_acl(&self, attrs: &Attrs, blocking: Blocking) -> FsResult<Option<Arc<PosixAcl>>> {
        self.ask(|source| match source {
            Source::Record(record, _) => {
                let acl = recorded_acl(record, false)?;
                Ok(acl.filter(PosixAcl::is_extended).map(Arc::new))
            }
            Source::Live(live) => live.access_acl(attrs, blocking),
        })
    }

    fn default_acl(&self) -> FsResult<Option<Arc<PosixAcl>>> {
        self.ask(|source| match source {
            Source::Record(record, _) => Ok(recorded_acl(record, true)?.map(Arc::new)),
            Source::Live(live) => live.default_acl(),
        })
    }

    fn set_access_acl(&self, _: &PosixAcl) -> FsResult<()> {
        Err(FsError::ReadOnly)
    }

    fn set_default_acl(&self, _: Option<&PosixAcl>) -> FsResult<()> {
        Err(FsError::ReadOnly)
    }
}

fn recorded_acl(record: &Record, is_default: bool) -> FsResult<Option<PosixAcl>> {
    match record.acl(is_default)? {
        Some(bytes) => PosixAcl::from_xattr(&bytes),
        None => Ok(None),
    }
}

/// Holes that were filled since count as data.
impl Ranges for SnapshotNode {
    fn seek(&self, offset: u64, what: Seek) -> FsResult<Option<u64>> {
        let size = self.regular_size()?;
        if offset >= size {
            Err(FsError::NoDevice)
        } else {
            read::seek(&self.view, &self.key, size, offset, what)
        }
    }

    fn allocate(&self, _: u64, _: u64, _: AuthorizeWrite<'_>) -> FsResult<Change> {
        Err(FsError::ReadOnly)
    }

    fn preallocate(&self, _: u64, _: AuthorizeWrite<'_>) -> FsResult<Change> {
        Err(FsError::ReadOnly)
    }

    fn punch(&self, _: u64, _: u64, _: AuthorizeWrite<'_>) -> FsResult<Change> {
        Err(FsError::ReadOnly)
    }

    fn zero(&self, _: u64, _: u64, _: AuthorizeWrite<'_>) -> FsResult<Change> {
        Err(FsError::ReadOnly)
    }

    fn shares_storage(&self, target: &NodeRef) -> bool {
        self.as_source(target).is_ok()
    }

    fn copy_to(
        &self,
        target: &NodeRef,
        span: &Span,
        authorize: AuthorizeWrite<'_>,
    ) -> FsResult<(u64, Change)> {
        let size = self.regular_size()?;
        let target = self.as_source(target)?;
        target.check_regular()?;
        let len = span.len.min(size.saturating_sub(span.source)).min(COPY_BYTES_MAX);
        let end = target.check_end(span.target, len)?;
        let touched = span.target..end;
        let (_, change) = target.alter((len > 0).then_some(end), touched, authorize, |fd, _| {
            read::each_piece(&self.view, &self.key, span.source..span.source + len, &mut |file, piece| {
                let to = span.target + (piece.start - span.source);
                match file {
                    Some(file) => copy_piece(file, fd, piece, to),
                    None => ranges::fill_zeros(fd, to, to + (piece.end - piece.start)),
                }
            })
        })?;
        Ok((len, change))
    }

    fn clone_to(&self, _: &NodeRef, _: &Span, _: AuthorizeWrite<'_>) -> FsResult<Change> {
        Err(FsError::NotSupported)
    }
}

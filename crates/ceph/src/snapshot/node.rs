//! A file of a snapshot.

use super::view::SnapshotView;
use crate::error::refused;
use crate::ffi::{Handle, Inode, Statx};
use crate::node::listing::{DOT, DOT_DOT, Groups};
use crate::node::ranges::as_live;
use crate::node::tree::stale_if_missing;
use crate::node::xattrs::{bare_names, full_name, value_of, xattr_refused};
use crate::stat::{VersionedStat, key_of};
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use storage::{Recency, TableNode};
use vfs::backend::xattrs::page;
use vfs::sync::Mutex;
use vfs::{
    Attrs, AuthorizeCreate, AuthorizeLink, AuthorizeRemove, AuthorizeRename, AuthorizeSetattr,
    AuthorizeWrite, AuthorizeXattr, Blocking, Change, CreatedEntry, Entry, EntrySink, FileKey, FileType,
    FsError, FsResult, Lookup, Name, Node, NodeRef, Ranges, Seek, SetXattr, Span, Special, SyncScope, Wait,
    XattrName, XattrSink, Xattrs,
};

pub(crate) struct SnapshotNode {
    view: Arc<SnapshotView>,
    key: FileKey,
    /// The state never changes.
    stat: Statx,
    attrs: Attrs,
    /// A name of the file; `None` for the root. The directory is held: libcephfs needs the whole path.
    place: Option<(Arc<Self>, CString)>,
    opened: Mutex<Opened>,
    recency: Recency,
}

/// The engine's objects of a node.
#[derive(Default)]
struct Opened {
    /// The connection of the following.
    generation: u64,
    /// Set for directories only: a file of which no name is in memory would be taken for the live one.
    dir: Option<Arc<Inode>>,
    reader: Option<Arc<Handle>>,
}

impl Drop for SnapshotNode {
    /// Drops the parents one by one: a path may have more levels than the stack.
    fn drop(&mut self) {
        let mut place = self.place.take();
        while let Some((parent, _)) = place {
            place = Arc::into_inner(parent).and_then(|mut parent| parent.place.take());
        }
    }
}

impl TableNode for SnapshotNode {
    fn key(&self) -> &FileKey {
        &self.key
    }

    fn recency(&self) -> &Recency {
        &self.recency
    }
}

impl SnapshotNode {
    pub(super) fn new(
        view: &Arc<SnapshotView>,
        place: Option<(Arc<Self>, CString)>,
        inode: Inode,
        stat: &Statx,
    ) -> FsResult<Self> {
        let attrs = VersionedStat { stat: *stat, offset: 0 }.attrs()?;
        let dir = (attrs.file_type == FileType::Directory).then(|| Arc::new(inode));
        let generation = view.cluster().generation();
        Ok(Self {
            view: Arc::clone(view),
            key: key_of(stat)?,
            stat: *stat,
            attrs,
            place,
            opened: Mutex::new(Opened { generation, dir, reader: None }),
            recency: Recency::default(),
        })
    }

    pub(super) fn file_key(&self) -> &FileKey {
        &self.key
    }

    pub(super) fn number(&self) -> u64 {
        self.stat.inode
    }

    pub(super) fn is_dir(&self) -> bool {
        self.attrs.file_type == FileType::Directory
    }

    pub(super) fn detach(&self) {
        let opened = std::mem::take(&mut *self.opened.lock());
        // Closing waits for the engine: not under the lock.
        drop(opened);
    }

    /// The inode, of the present connection and with its path in the memory of libcephfs.
    pub(super) fn inode(&self) -> FsResult<Arc<Inode>> {
        // A path may have more levels than the stack.
        let (mut lost, mut node) = (Vec::new(), self);
        let mut inode = loop {
            match node.held_inode()? {
                Some(inode) => break inode,
                None => lost.push(node),
            }
            match &node.place {
                Some((parent, _)) => node = parent,
                None => {
                    lost.pop();
                    break node.find_in(None)?;
                }
            }
        };
        while let Some(node) = lost.pop() {
            inode = node.find_in(Some(&inode))?;
        }
        Ok(inode)
    }

    /// The inode of a directory, if it is of the present connection.
    fn held_inode(&self) -> FsResult<Option<Arc<Inode>>> {
        self.view.check()?;
        let opened = self.opened.lock();
        let is_current = opened.generation == self.view.cluster().generation();
        Ok(opened.dir.clone().filter(|_| is_current))
    }

    /// Looks this file up in its directory; the root in that of the snapshots.
    fn find_in(&self, parent: Option<&Arc<Inode>>) -> FsResult<Arc<Inode>> {
        let generation = self.view.cluster().generation();
        let found = match (parent, &self.place) {
            (Some(parent), Some((_, name))) => self.view.lookup(parent, name),
            _ => self.view.root_inode(),
        };
        let (inode, stat) = found.map_err(stale_if_missing)?;
        if key_of(&stat)? != self.key {
            return Err(FsError::Stale);
        }
        let inode = Arc::new(inode);
        let mut opened = self.opened.lock();
        if opened.generation != generation {
            *opened = Opened { generation, ..Opened::default() };
        }
        if self.is_dir() {
            opened.dir = Some(Arc::clone(&inode));
        }
        Ok(inode)
    }

    pub(crate) fn reader(&self) -> FsResult<Arc<Handle>> {
        self.view.check()?;
        let generation = self.view.cluster().generation();
        {
            let opened = self.opened.lock();
            if let Some(reader) = opened.reader.as_ref().filter(|_| opened.generation == generation) {
                return Ok(Arc::clone(reader));
            }
        }
        let reader = Arc::new(self.inode()?.open(false).map_err(refused)?);
        let mut opened = self.opened.lock();
        if opened.generation == generation {
            opened.reader = Some(Arc::clone(&reader));
        }
        // Deleted meanwhile: nobody would close it.
        self.view.check().inspect_err(|_| opened.reader = None)?;
        Ok(reader)
    }

    fn check_dir(&self) -> FsResult<()> {
        self.view.check()?;
        if self.is_dir() { Ok(()) } else { Err(FsError::NotDirectory) }
    }

    fn regular_size(&self) -> FsResult<u64> {
        self.view.check()?;
        match self.attrs.file_type {
            FileType::Regular => Ok(self.attrs.size),
            FileType::Directory => Err(FsError::IsDirectory),
            _ => Err(FsError::Invalid),
        }
    }

    fn as_arc(&self) -> FsResult<Arc<Self>> {
        match self.view.dir(self.number()) {
            Some(node) => Ok(node),
            None => self.view.find(&self.key, Blocking::Allowed),
        }
    }

    fn child(&self, name: Name<'_>) -> FsResult<Arc<Self>> {
        self.check_dir()?;
        let name = CString::new(name.bytes()).map_err(|_| FsError::Invalid)?;
        let (inode, stat) = self.view.lookup(&self.inode()?, &name).map_err(refused)?;
        self.view.adopt(&self.as_arc()?, &name, inode, &stat)
    }

    fn parent_node(&self) -> FsResult<Arc<Self>> {
        match &self.place {
            Some((parent, _)) => Ok(Arc::clone(parent)),
            None => self.view.root_node(),
        }
    }

    fn xattr_inode(&self) -> FsResult<Arc<Inode>> {
        self.view.check()?;
        match self.attrs.file_type {
            FileType::Regular | FileType::Directory => self.inode(),
            _ => Err(FsError::NotSupported),
        }
    }

    fn list(&self, mut cookie: u64, plus: bool, sink: &mut EntrySink<'_>) -> FsResult<bool> {
        self.check_dir()?;
        for (dot, name) in [(DOT, &b"."[..]), (DOT_DOT, b"..")] {
            if cookie >= dot {
                continue;
            }
            cookie = dot;
            let file_id = if dot == DOT { self.number() } else { self.parent_node()?.number() };
            let object = (plus && dot == DOT).then_some((&self.key, &self.attrs));
            if sink(&Entry { name, file_id, cookie, object }).is_break() {
                return Ok(false);
            }
        }
        let mut groups = Groups::begin(self.inode()?.open_dir().map_err(refused)?, cookie, false);
        while let Some(group) = groups.next()? {
            for listed in group.into_iter().filter(|listed| listed.cookie > cookie) {
                let found = match Name::new(&listed.entry.name) {
                    Ok(name) if plus => Some(self.child(name)?),
                    // The directory of streams has a name that no lookup takes.
                    _ => None,
                };
                let object = found.as_ref().map(|node| (&node.key, &node.attrs));
                let (name, file_id) = (&listed.entry.name, listed.entry.number);
                if sink(&Entry { name, file_id, cookie: listed.cookie, object }).is_break() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

impl Node for SnapshotNode {
    fn key(&self) -> FileKey {
        self.key
    }

    fn attrs(&self, _: Blocking) -> FsResult<Attrs> {
        self.view.check()?;
        Ok(self.attrs)
    }

    fn read(&self, offset: u64, len: usize, into: &mut Vec<u8>, blocking: Blocking) -> FsResult<usize> {
        let rest = self.regular_size()?.saturating_sub(offset);
        let len = usize::try_from(rest).map_or(len, |rest| len.min(rest));
        match blocking {
            _ if len == 0 => Ok(0),
            Blocking::Never => Err(FsError::Wait(Wait::Storage)),
            Blocking::Allowed => self.reader()?.read(offset, len, into).map_err(refused),
        }
    }

    fn descriptor(&self, _: u64, _: usize, _: Blocking) -> Option<Arc<OwnedFd>> {
        None
    }

    fn read_link(&self) -> FsResult<Vec<u8>> {
        self.view.check()?;
        match self.attrs.file_type {
            FileType::Symlink => self.inode()?.read_link().map_err(refused),
            _ => Err(FsError::Invalid),
        }
    }

    fn lookup(&self, name: Name<'_>, blocking: Blocking) -> FsResult<Lookup> {
        self.check_dir()?;
        if blocking == Blocking::Never {
            return Err(FsError::Wait(Wait::Storage));
        }
        let node = self.child(name)?;
        Ok(Lookup { attrs: node.attrs, node })
    }

    fn parent(&self) -> FsResult<Lookup> {
        self.check_dir()?;
        let node = self.parent_node()?;
        Ok(Lookup { attrs: node.attrs, node })
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
        Some(self)
    }

    fn ranges(&self) -> Option<&dyn Ranges> {
        Some(self)
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
        value_of(&*self.xattr_inode()?, &full_name(name)?)
    }

    fn list(&self, cookie: u64, sink: &mut XattrSink<'_>) -> FsResult<bool> {
        let names = self.xattr_inode()?.xattr_names().map_err(xattr_refused)?;
        Ok(page(bare_names(&names), cookie, sink))
    }

    fn set(&self, _: XattrName<'_>, _: &[u8], _: SetXattr, _: AuthorizeXattr<'_>) -> FsResult<Change> {
        Err(FsError::ReadOnly)
    }

    fn remove(&self, _: XattrName<'_>, _: AuthorizeXattr<'_>) -> FsResult<Change> {
        Err(FsError::ReadOnly)
    }
}

impl Ranges for SnapshotNode {
    fn seek(&self, offset: u64, what: Seek) -> FsResult<Option<u64>> {
        let size = self.regular_size()?;
        match what {
            _ if offset >= size => Err(FsError::NoDevice),
            Seek::Data => Ok(Some(offset)),
            Seek::Hole => Ok(Some(size)),
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
        as_live(target).is_ok_and(|target| target.is_in(self.view.cluster()))
    }

    fn copy_to(
        &self,
        target: &NodeRef,
        span: &Span,
        authorize: AuthorizeWrite<'_>,
    ) -> FsResult<(u64, Change)> {
        let len = span.len.min(self.regular_size()?.saturating_sub(span.source));
        as_live(target)?.copy_here(&Span { len, ..*span }, authorize, || self.reader())
    }

    fn clone_to(&self, _: &NodeRef, _: &Span, _: AuthorizeWrite<'_>) -> FsResult<Change> {
        Err(FsError::NotSupported)
    }
}

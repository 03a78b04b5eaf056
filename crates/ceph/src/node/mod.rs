//! A file: its inode, its handles, its lock, its state.

mod charging;
mod create;
mod data;
mod entries;
pub(crate) mod gate;
pub(crate) mod listing;
pub(crate) mod live_count;
mod owners;
pub(crate) mod ranges;
mod setattr;
pub(crate) mod tree;
pub(crate) mod xattr_sizes;
pub(crate) mod xattrs;

use crate::error::refused;
use crate::ffi::{Handle, Inode, LIVE, Statx};
use crate::stat::{VersionedStat, file_type, inode_of, key_of};
use std::any::Any;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, MutexGuard};
use storage::{CounterOffset, EntriesBytes, GroupFlush, Recency, SpaceReservations, TableNode, Unflushed};
use tree::{Tree, stale_if_missing};
use vfs::sync::Mutex;
use vfs::{
    Attrs, AuthorizeCreate, AuthorizeLink, AuthorizeRemove, AuthorizeRename, AuthorizeSetattr,
    AuthorizeWrite, Blocking, Change, CreatedEntry, EntrySink, FileKey, FileType, FsError, FsResult, Lookup,
    Name, NodeRef, Ranges, Special, SyncScope, Wait, Xattrs,
};

pub(crate) struct Node {
    pub(crate) tree: Arc<Tree>,
    key: FileKey,
    pub(crate) kind: FileType,
    pub(crate) counter_offset: CounterOffset,
    opened: Mutex<Opened>,
    /// Locked by a mutation from its first to its last read of the attributes.
    change_lock: Mutex<SpaceReservations>,
    flush: GroupFlush,
    /// Set for directories only.
    dir: Option<Box<Directory>>,
    /// The file has lost its last name.
    is_nameless: AtomicBool,
    /// The file has no name, and its charge was refunded.
    space_released: AtomicBool,
    /// The last close of a file without a name refunds its owners.
    is_owner_charged: AtomicBool,
    /// Number of users that need the file even without a name.
    pins: AtomicU32,
    recency: Recency,
}

/// The engine's objects of a node.
#[derive(Default)]
struct Opened {
    /// `None` once the file was released.
    inode: Option<Arc<Inode>>,
    /// Handles of the client of the inode.
    reader: Option<Arc<Handle>>,
    writer: Option<Arc<Handle>>,
    /// The file has changed since its last whole flush.
    is_dirty: bool,
    /// Changes through an earlier connection may be lost, and no flush has failed for it yet.
    has_lost: bool,
}

struct Directory {
    unflushed: Mutex<Unflushed<Node>>,
    charged: EntriesBytes,
    /// Locked while the extended attributes change and while their charge is refunded: the removal of a directory takes
    /// no other lock of it.
    xattrs: Mutex<()>,
}

/// Number of objects in a row that a name may lose during one lookup.
const LOOKUP_TRIES: u32 = 100;

impl Directory {
    fn new(size: u64) -> Self {
        Self { unflushed: Mutex::default(), charged: EntriesBytes::new(size), xattrs: Mutex::default() }
    }
}

impl Node {
    pub(crate) fn new(tree: Arc<Tree>, key: FileKey, inode: Inode, stat: &Statx) -> FsResult<Self> {
        let kind = file_type(stat)?;
        Ok(Self {
            tree,
            kind,
            counter_offset: CounterOffset::new(&key, 0),
            key,
            opened: Mutex::new(Opened { inode: Some(Arc::new(inode)), ..Opened::default() }),
            change_lock: Mutex::default(),
            flush: GroupFlush::default(),
            dir: (kind == FileType::Directory).then(|| Box::new(Directory::new(stat.size))),
            is_nameless: AtomicBool::new(false),
            space_released: AtomicBool::new(false),
            is_owner_charged: AtomicBool::new(false),
            pins: AtomicU32::new(0),
            recency: Recency::default(),
        })
    }

    /// The inode; [`FsError::Stale`] once the file was released.
    pub(crate) fn inode(&self) -> FsResult<Arc<Inode>> {
        self.opened()?.inode.clone().ok_or(FsError::Stale)
    }

    /// The engine's objects, of the present connection.
    fn opened(&self) -> FsResult<MutexGuard<'_, Opened>> {
        let mut opened = self.opened.lock();
        if opened.inode.as_ref().is_some_and(|inode| !self.tree.cluster.is_current(inode)) {
            let client = self.tree.cluster.client();
            let inode = client.inode_of(inode_of(&self.key)?, LIVE).map_err(stale_if_missing)?;
            if key_of(&inode.attrs().map_err(stale_if_missing)?)? != self.key {
                return Err(FsError::Stale);
            }
            let has_lost = opened.has_lost || opened.is_dirty;
            *opened = Opened { inode: Some(Arc::new(inode)), has_lost, ..Opened::default() };
        }
        Ok(opened)
    }

    fn reader(&self) -> FsResult<Arc<Handle>> {
        let mut opened = self.opened()?;
        if let Some(handle) = opened.writer.as_ref().or(opened.reader.as_ref()) {
            return Ok(Arc::clone(handle));
        }
        let inode = opened.inode.as_ref().ok_or(FsError::Stale)?;
        let handle = Arc::new(inode.open(false).map_err(refused)?);
        opened.reader = Some(Arc::clone(&handle));
        Ok(handle)
    }

    fn writer(&self) -> FsResult<Arc<Handle>> {
        let mut opened = self.opened()?;
        if let Some(handle) = &opened.writer {
            return Ok(Arc::clone(handle));
        }
        let inode = opened.inode.as_ref().ok_or(FsError::Stale)?;
        let handle = Arc::new(inode.open(true).map_err(refused)?);
        opened.writer = Some(Arc::clone(&handle));
        opened.reader = None;
        Ok(handle)
    }

    /// Flushes and closes the handle for writing. After the loss of a client the metadata server takes the modification time
    /// of each file that it could write from the stored data: an earlier one that a client has set would be lost.
    fn close_writer(&self) -> FsResult<()> {
        let writer = self.opened.lock().writer.take();
        writer.map_or(Ok(()), |writer| writer.sync(true).map_err(refused))
    }

    fn set_writer(&self, handle: Handle) {
        let mut opened = self.opened.lock();
        if opened.inode.as_ref().is_some_and(|inode| handle.is_of_client_of(inode)) {
            opened.writer.get_or_insert_with(|| Arc::new(handle));
        }
    }

    /// Notes a change through the connection of this generation that no flush covers yet.
    fn note_dirty(&self, generation: u64) {
        let mut opened = self.opened.lock();
        opened.is_dirty = true;
        opened.has_lost |= generation != self.tree.cluster.generation();
    }

    /// Flushes. [`FsError::Wait`], once, if a connection has ended that had unflushed changes: a later one does not have
    /// them.
    fn flush_or_lose(&self, scope: SyncScope) -> FsResult<()> {
        let generation = self.tree.cluster.generation();
        {
            let mut opened = self.opened()?;
            if std::mem::take(&mut opened.has_lost) {
                return Err(FsError::Wait(Wait::Recall));
            }
            opened.is_dirty &= scope == SyncScope::Data;
        }
        self.flush_now(scope).inspect_err(|_| {
            self.note_dirty(generation);
            self.tree.flush_failures.fetch_add(1, Ordering::SeqCst);
        })
    }

    /// Releases the inode and its handles, so that a file without a name is freed even if the node is still referenced.
    pub(crate) fn detach(&self) {
        let opened = std::mem::take(&mut *self.opened.lock());
        // Closing waits for the engine: not under the lock.
        drop(opened);
    }

    /// The current state. A file without a name is stale unless pinned.
    fn stat(&self) -> FsResult<VersionedStat> {
        let versioned = self.stat_any()?;
        if versioned.stat.links == 0 && !self.is_pinned() {
            self.tree.table.remove(self);
            return Err(FsError::Stale);
        }
        Ok(versioned)
    }

    /// The current state, even of a file without a name.
    fn stat_any(&self) -> FsResult<VersionedStat> {
        let offset = self.counter_offset.load();
        let mut stat = self.inode()?.attrs().map_err(refused)?;
        if self.is_nameless.load(Ordering::SeqCst) {
            stat.links = 0;
        }
        Ok(VersionedStat { stat, offset })
    }

    pub(crate) fn attrs_now(&self) -> FsResult<Attrs> {
        self.stat()?.attrs()
    }

    /// [`FsError::Stale`] instead of `error` if this file was removed: the removal is then the cause.
    fn or_stale(&self, error: FsError) -> FsError {
        if matches!(self.stat(), Err(FsError::Stale)) { FsError::Stale } else { error }
    }

    fn lock_change(&self) -> ChangeGuard<'_> {
        let passed = self.tree.gate.pass();
        self.guard(passed, self.change_lock.lock())
    }

    fn try_lock_change(&self) -> Option<ChangeGuard<'_>> {
        let passed = self.tree.gate.pass();
        Some(self.guard(passed, self.change_lock.try_lock()?))
    }

    fn guard<'n>(
        &'n self,
        passed: gate::Passed<'n>,
        reservations: MutexGuard<'n, SpaceReservations>,
    ) -> ChangeGuard<'n> {
        self.count_before_change();
        let generation = self.tree.cluster.generation();
        ChangeGuard { node: self, reservations, generation, has_begun: false, _passed: passed }
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.pins.load(Ordering::SeqCst) > 0
    }

    fn as_dir(&self) -> FsResult<&Directory> {
        if let Some(dir) = &self.dir {
            return Ok(dir);
        }
        // A removed file is stale before anything else.
        self.stat()?;
        Err(FsError::NotDirectory)
    }

    fn check_regular(&self) -> FsResult<()> {
        if self.kind == FileType::Regular {
            return Ok(());
        }
        self.stat()?;
        Err(if self.kind == FileType::Directory { FsError::IsDirectory } else { FsError::Invalid })
    }

    /// The node of a name in this directory, with its state.
    fn child(&self, name: Name<'_>) -> FsResult<(Arc<Self>, VersionedStat)> {
        let name = c_name(name)?;
        for _ in 0..LOOKUP_TRIES {
            let (inode, stat) = self.inode()?.lookup(&name).map_err(refused)?;
            let node = self.tree.adopt(inode, &stat)?;
            match node.stat() {
                // Another object has replaced it.
                Err(FsError::Stale) => {}
                stat => return Ok((node, stat?)),
            }
        }
        Err(FsError::Wait(Wait::Recall))
    }

    fn as_same_tree<'a>(&self, other: &'a NodeRef) -> FsResult<&'a Self> {
        let other: &dyn Any = &**other;
        let node = other.downcast_ref::<Self>().ok_or(FsError::CrossVolume)?;
        if Arc::ptr_eq(&self.tree, &node.tree) { Ok(node) } else { Err(FsError::CrossVolume) }
    }

    fn flush_now(&self, scope: SyncScope) -> FsResult<()> {
        let data_only = scope == SyncScope::Data && self.kind == FileType::Regular;
        if !data_only {
            self.flush_children()?;
        }
        let handle = self.opened()?.writer.clone();
        let synced = match handle {
            Some(handle) => handle.sync(data_only),
            None => self.inode()?.sync(data_only),
        };
        synced.map_err(refused)
    }

    /// Syncs the children created since the last flush whose attributes were set after their creation.
    fn flush_children(&self) -> FsResult<()> {
        let Some(dir) = &self.dir else { return Ok(()) };
        let Unflushed { children, has_overflowed } = std::mem::take(&mut *dir.unflushed.lock());
        let flush = |child: &Arc<Self>| match child.inode() {
            Err(FsError::Stale) => Ok(()),
            inode => inode?.sync(false).map_err(refused),
        };
        let result = match has_overflowed {
            true => self.tree.cluster.client().sync().map_err(refused),
            false => children.iter().try_for_each(flush),
        };
        if result.is_err() {
            dir.unflushed.lock().has_overflowed = true;
        }
        result
    }
}

/// A name as the library takes it.
fn c_name(name: Name<'_>) -> FsResult<std::ffi::CString> {
    std::ffi::CString::new(name.bytes()).map_err(|_| FsError::Invalid)
}

/// A mutation of a file, from its first to its last read of the attributes.
struct ChangeGuard<'n> {
    node: &'n Node,
    /// Reserved space beyond the file's size.
    reservations: MutexGuard<'n, SpaceReservations>,
    /// The connection at the beginning.
    generation: u64,
    /// The file may have changed, and the new state was not read yet.
    has_begun: bool,
    /// No snapshot is made meanwhile.
    _passed: gate::Passed<'n>,
}

impl ChangeGuard<'_> {
    /// The attributes just after a successful mutation that began with `before`. Works for a file removed since.
    fn attrs_after(&mut self, before: &Attrs) -> FsResult<Attrs> {
        self.node.note_dirty(self.generation);
        let versioned = self.node.stat_any()?;
        self.has_begun = false;
        let change = self.node.counter_offset.raise_above(before.change, versioned.stat.version);
        Ok(Attrs { change, ..versioned.attrs()? })
    }

    /// Notes that the file may change from now on, even if the mutation fails.
    fn begin(&mut self) {
        self.has_begun = true;
    }
}

impl Drop for ChangeGuard<'_> {
    fn drop(&mut self) {
        if self.has_begun {
            self.node.counter_offset.advance();
        }
    }
}

impl TableNode for Node {
    fn key(&self) -> &FileKey {
        &self.key
    }

    fn recency(&self) -> &Recency {
        &self.recency
    }
}

/// Every question may need the metadata server.
fn check_blocking(blocking: Blocking) -> FsResult<()> {
    match blocking {
        Blocking::Never => Err(FsError::Wait(Wait::Storage)),
        Blocking::Allowed => Ok(()),
    }
}

impl vfs::Node for Node {
    fn key(&self) -> FileKey {
        self.key
    }

    fn attrs(&self, blocking: Blocking) -> FsResult<Attrs> {
        check_blocking(blocking)?;
        self.attrs_now()
    }

    fn change_attrs(&self, authorize: AuthorizeSetattr<'_>) -> FsResult<Change> {
        self.set_attributes(authorize)
    }

    fn read(&self, offset: u64, len: usize, into: &mut Vec<u8>, blocking: Blocking) -> FsResult<usize> {
        check_blocking(blocking)?;
        self.read_data(offset, len, into)
    }

    fn descriptor(&self, _: u64, _: usize, _: Blocking) -> Option<Arc<OwnedFd>> {
        None
    }

    fn write(&self, offset: u64, data: &[u8], authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.write_data(offset, data, authorize)
    }

    fn reserve(&self, offset: u64, len: usize, authorize: AuthorizeWrite<'_>) -> FsResult<()> {
        self.reserve_space(offset, len, authorize)
    }

    fn release(&self, offset: u64, len: usize) {
        self.release_reserved(offset, len);
    }

    fn pin(&self) {
        self.pins.fetch_add(1, Ordering::SeqCst);
    }

    fn unpin(&self) {
        self.pins.fetch_sub(1, Ordering::SeqCst);
    }

    fn sync(&self, scope: SyncScope) -> FsResult<()> {
        self.flush.join(scope, |scope| self.flush_or_lose(scope))
    }

    fn read_link(&self) -> FsResult<Vec<u8>> {
        self.stat()?;
        if self.kind != FileType::Symlink {
            return Err(FsError::Invalid);
        }
        self.inode()?.read_link().map_err(|errno| self.or_stale(refused(errno)))
    }

    fn lookup(&self, name: Name<'_>, blocking: Blocking) -> FsResult<Lookup> {
        self.as_dir()?;
        check_blocking(blocking)?;
        let (node, stat) = self.child(name).map_err(|error| self.or_stale(error))?;
        Ok(Lookup { attrs: stat.attrs()?, node })
    }

    fn parent(&self) -> FsResult<Lookup> {
        self.as_dir()?;
        self.stat()?;
        let node = if self.tree.is_root(&self.key) {
            self.tree.root_node()?
        } else {
            let found = self.inode()?.lookup(c"..");
            let (inode, stat) = found.map_err(|errno| self.or_stale(refused(errno)))?;
            self.tree.adopt(inode, &stat)?
        };
        Ok(Lookup { attrs: node.attrs_now()?, node })
    }

    fn read_dir(&self, cookie: u64, plus: bool, sink: &mut EntrySink<'_>) -> FsResult<bool> {
        self.list(cookie, plus, None, sink).map_err(|error| self.or_stale(error))
    }

    fn read_dir_of(
        &self,
        cookie: u64,
        plus: bool,
        wanted: vfs::NameFilter<'_>,
        sink: &mut EntrySink<'_>,
    ) -> FsResult<bool> {
        self.list(cookie, plus, Some(wanted), sink).map_err(|error| self.or_stale(error))
    }

    fn create(&self, name: Name<'_>, authorize: AuthorizeCreate<'_>) -> FsResult<CreatedEntry> {
        self.make_file(name, authorize)
    }

    fn make_dir(&self, name: Name<'_>, authorize: AuthorizeCreate<'_>) -> FsResult<CreatedEntry> {
        self.make_directory(name, authorize)
    }

    fn make_special(
        &self,
        name: Name<'_>,
        special: Special<'_>,
        authorize: AuthorizeCreate<'_>,
    ) -> FsResult<CreatedEntry> {
        self.make_other(name, special, authorize)
    }

    fn link(&self, name: Name<'_>, target: &NodeRef, authorize: AuthorizeLink<'_>) -> FsResult<CreatedEntry> {
        self.link_entry(name, target, authorize)
    }

    fn remove(&self, name: Name<'_>, authorize: AuthorizeRemove<'_>) -> FsResult<Change> {
        self.unlink_entry(name, false, authorize)
    }

    fn remove_dir(&self, name: Name<'_>, authorize: AuthorizeRemove<'_>) -> FsResult<Change> {
        self.unlink_entry(name, true, authorize)
    }

    fn rename(
        &self,
        from: Name<'_>,
        to_dir: &NodeRef,
        to: Name<'_>,
        authorize: AuthorizeRename<'_>,
    ) -> FsResult<(Change, Change)> {
        self.rename_entry(from, to_dir, to, authorize)
    }

    fn xattrs(&self) -> Option<&dyn Xattrs> {
        Some(self)
    }

    fn ranges(&self) -> Option<&dyn Ranges> {
        Some(self)
    }
}

//! A file: its descriptor, its lock, its state.

mod acl_cache;
mod acls;
pub(crate) mod attr;
pub(crate) mod changes;
pub(crate) mod charging;
pub(crate) mod counter;
mod data;
pub(crate) mod fs_uid;
mod key;
pub(crate) mod mount;
pub(crate) mod owner;
pub(crate) mod owners;
pub(crate) mod preserve;
pub(crate) mod ranges;
mod setattr;
pub(crate) mod xattrs;

use crate::error::refused;
use crate::listing::Listing;
use crate::sys;
use crate::undo::PreservedBlocks;
use acl_cache::AclCache;
use counter::VersionedStat;
use mount::{Mount, to_lookup};
use rustix::fs::Stat;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, MutexGuard};
use storage::{CounterOffset, EntriesBytes, GroupFlush, Recency, SpaceReservations, TableNode, Unflushed};
use vfs::sync::Mutex;
use vfs::{
    Acls, Attrs, AuthorizeCreate, AuthorizeLink, AuthorizeRemove, AuthorizeRename, AuthorizeSetattr,
    AuthorizeWrite, Blocking, Change, CreatedEntry, EntrySink, FileKey, FileType, FsError, FsResult, Lookup,
    Name, NameFilter, NodeRef, Ranges, Special, SyncScope, Time, Xattrs,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Rights {
    /// `O_PATH`: `stat` only.
    Path,
    Read,
    Write,
    /// The file was removed: the descriptor leads to an empty file.
    Detached,
}

/// One file of a [`Mount`].
///
/// A node has one descriptor for its whole life. The descriptor starts as `O_PATH` and is opened for reading and for
/// writing when first needed, *in place*: dup3 puts the new open file under the old number, so calls on other threads
/// need no lock to use it.
pub(crate) struct Node {
    pub(crate) mount: Arc<Mount>,
    pub(crate) key: FileKey,
    pub(crate) kind: FileType,
    inode: u64,
    pub(crate) birth_time: Option<Time>,
    pub(crate) counter_offset: CounterOffset,
    fd: Arc<OwnedFd>,
    rights: AtomicU8,
    opening: Mutex<()>,
    /// Locked by a mutation from its first to its last read of the attributes.
    change_lock: Mutex<Guarded>,
    pub(crate) flush: GroupFlush,
    pub(crate) acl: AclCache,
    /// Set for directories only.
    pub(crate) dir: Option<Box<Directory>>,
    /// The label under which the attributes are recorded.
    pub(crate) recorded: AtomicU32,
    /// A snapshot keeps the file, which has lost its last name.
    pub(crate) retained: AtomicBool,
    /// The file has no name, and its charge was refunded.
    pub(crate) space_released: AtomicBool,
    /// Whether the last close refunds the owners of this file, if it has no name.
    pub(crate) is_owner_charged: AtomicBool,
    /// Number of users that need the file even without a name.
    pub(crate) pins: AtomicU32,
    recency: Recency,
}

/// The part of a node's state that its lock guards.
#[derive(Default)]
struct Guarded {
    reservations: SpaceReservations,
    /// `None` while no block was preserved by this node.
    preserved: Option<Box<PreservedBlocks>>,
}

#[derive(Default)]
pub(crate) struct Directory {
    pub(crate) listing: Arc<Listing>,
    pub(crate) unflushed: Mutex<Unflushed<Node>>,
    /// The charge of the entries, if this process counts.
    pub(crate) charged: EntriesBytes,
    /// Locked while the extended attributes change and while their charge is refunded: the removal of a directory takes
    /// no other lock of it.
    pub(crate) xattrs: Mutex<()>,
}

impl Directory {
    fn from_size(size: i64) -> Self {
        let charged = EntriesBytes::new(u64::try_from(size).unwrap_or(0));
        Self { charged, ..Self::default() }
    }
}

impl Node {
    pub(crate) fn new(
        mount: Arc<Mount>,
        key: FileKey,
        fd: OwnedFd,
        rights: Rights,
        stat: &Stat,
    ) -> FsResult<Self> {
        let kind = attr::file_type(stat)?;
        let counter_offset = if mount.is_snapshot {
            CounterOffset::fixed()
        } else {
            CounterOffset::new(&key, mount.counter_base)
        };
        Ok(Self {
            mount,
            key,
            kind,
            inode: stat.st_ino,
            birth_time: counter::birth_time(fd.as_fd(), b""),
            counter_offset,
            fd: Arc::new(fd),
            rights: AtomicU8::new(rights as u8),
            opening: Mutex::default(),
            change_lock: Mutex::default(),
            flush: GroupFlush::default(),
            acl: AclCache::default(),
            dir: (kind == FileType::Directory).then(|| Box::new(Directory::from_size(stat.st_size))),
            recorded: AtomicU32::new(0),
            retained: AtomicBool::new(false),
            space_released: AtomicBool::new(false),
            is_owner_charged: AtomicBool::new(false),
            pins: AtomicU32::new(0),
            recency: Recency::default(),
        })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) fn open(&self, rights: Rights) -> FsResult<&Arc<OwnedFd>> {
        if self.rights.load(Ordering::Acquire) < rights as u8 {
            let _locked = self.opening.lock();
            if self.rights.load(Ordering::Acquire) < rights as u8 {
                let data = self.mount.open_data(self, rights == Rights::Write)?;
                sys::replace(self.fd(), data.as_fd()).map_err(refused)?;
                self.rights.store(rights as u8, Ordering::Release);
            }
        }
        Ok(&self.fd)
    }

    /// The current state. A file without a name is stale unless pinned. Its node leaves the table, so that its space is
    /// freed with the last reference.
    #[inline]
    pub(crate) fn stat(&self) -> FsResult<VersionedStat> {
        let stat = self.stat_any()?;
        if stat.st_nlink == 0 && (!self.is_pinned() || self.is_detached()) {
            self.remove_from_table();
            return Err(FsError::Stale);
        }
        Ok(stat)
    }

    /// The current state, even of a file without a name. One that only a snapshot keeps has no link.
    #[inline]
    fn stat_any(&self) -> FsResult<VersionedStat> {
        let mut stat = VersionedStat::read(self.fd(), self.counter_offset.load())?;
        if self.retained.load(Ordering::Relaxed) {
            stat.remove_links();
        }
        Ok(stat)
    }

    /// Removes a file without a name from the table and the index.
    #[cold]
    pub(crate) fn remove_from_table(&self) {
        self.mount.table.remove(self);
        if let Some(index) = &self.mount.index {
            index.record_deleted(&self.key);
        }
    }

    pub(crate) fn attrs_from(&self, stat: &VersionedStat) -> FsResult<Attrs> {
        let attrs = Attrs { born: self.birth_time, ..self.mount.attrs(stat, self.fd(), None)? };
        // A detached descriptor has no owner attribute.
        if self.mount.owner_attribute && self.is_detached() { Err(FsError::Stale) } else { Ok(attrs) }
    }

    pub(crate) fn attrs_now(&self) -> FsResult<Attrs> {
        self.attrs_from(&self.stat()?)
    }

    /// [`FsError::Stale`] instead of `error` if this file was removed: the removal is then the cause.
    pub(crate) fn or_stale(&self, error: FsError) -> FsError {
        if matches!(self.stat(), Err(FsError::Stale)) { FsError::Stale } else { error }
    }

    /// [`Node::or_stale`] without a system call.
    fn or_stale_if_detached(&self, error: FsError) -> FsError {
        if self.is_detached() { FsError::Stale } else { error }
    }

    /// Locks out other mutations of this file, and invalidates cached data of it on drop.
    pub(crate) fn lock_change(&self) -> ChangeGuard<'_> {
        let guarded = self.change_lock.lock();
        ChangeGuard { node: self, guarded, has_begun: false }
    }

    pub(crate) fn try_lock_change(&self) -> Option<ChangeGuard<'_>> {
        let guarded = self.change_lock.try_lock()?;
        Some(ChangeGuard { node: self, guarded, has_begun: false })
    }

    /// Waits until a change that is under way has ended.
    pub(crate) fn wait_for_change(&self) {
        drop(self.change_lock.lock());
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.pins.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn is_detached(&self) -> bool {
        self.rights.load(Ordering::Acquire) == Rights::Detached as u8
    }

    /// Detaches the descriptor of a file that is being removed, so that its blocks are freed at once, even if the node
    /// is still referenced. The descriptor then leads to an empty file without a name. If no such file can be created,
    /// the blocks are freed with the last reference.
    pub(crate) fn detach(&self) {
        let _locked = self.opening.lock();
        // First, so that no caller takes the empty file for this one.
        let rights = self.rights.swap(Rights::Detached as u8, Ordering::AcqRel);
        if !sys::detach(self.fd()) {
            self.rights.store(rights, Ordering::Release);
        }
    }

    /// Invalidates cached data of this file.
    pub(crate) fn note_change(&self) {
        changes::note(self.mount.root_id.0, self.inode);
        if let Some(dir) = &self.dir {
            dir.listing.note_change();
        }
    }

    pub(crate) fn as_dir(&self) -> FsResult<&Directory> {
        if let Some(dir) = &self.dir {
            return Ok(dir);
        }
        // A removed file is stale before anything else.
        self.stat()?;
        Err(FsError::NotDirectory)
    }
}

/// A mutation of a file, from its first to its last read of the attributes.
pub(crate) struct ChangeGuard<'n> {
    node: &'n Node,
    guarded: MutexGuard<'n, Guarded>,
    /// The file may have changed, and the new state was not read yet.
    has_begun: bool,
}

impl ChangeGuard<'_> {
    /// Reserved space beyond the file's size.
    pub(crate) fn reservations(&self) -> &SpaceReservations {
        &self.guarded.reservations
    }

    /// The attributes just after a successful mutation that began with `before`. Works for a file removed since.
    pub(crate) fn attrs_after(&mut self, before: &Attrs) -> FsResult<Attrs> {
        let node = self.node;
        let after = node.attrs_from(&node.stat_any()?)?;
        self.has_begun = false;
        Ok(Attrs {
            change: node.counter_offset.raise_above(before.change, counter::nanos(after.changed)),
            ..after
        })
    }

    /// Notes that the file may change from now on, even if the mutation fails.
    pub(crate) fn begin(&mut self) {
        self.has_begun = true;
    }

    pub(crate) fn reservations_mut(&mut self) -> &mut SpaceReservations {
        &mut self.guarded.reservations
    }

    pub(crate) fn preserved_mut(&mut self) -> &mut PreservedBlocks {
        self.guarded.preserved.get_or_insert_default()
    }
}

impl Drop for ChangeGuard<'_> {
    /// After the change, even a failed one, and before it is reported.
    fn drop(&mut self) {
        if self.has_begun {
            self.node.counter_offset.advance();
        }
        self.node.note_change();
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

impl vfs::Node for Node {
    fn key(&self) -> FileKey {
        self.key
    }

    fn attrs(&self, _: Blocking) -> FsResult<Attrs> {
        self.attrs_now()
    }

    fn size(&self, _: Blocking) -> FsResult<u64> {
        self.end()
    }

    fn change_attrs(&self, authorize: AuthorizeSetattr<'_>) -> FsResult<Change> {
        let _changing = self.mount.begin_change();
        self.set_attributes(authorize)
    }

    fn read(&self, offset: u64, len: usize, into: &mut Vec<u8>, blocking: Blocking) -> FsResult<usize> {
        self.read_data(offset, len, into, blocking)
    }

    fn descriptor(&self, offset: u64, len: usize, blocking: Blocking) -> Option<Arc<OwnedFd>> {
        self.splice_source(offset, len, blocking)
    }

    fn write(&self, offset: u64, data: &[u8], authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.write_data(offset, data, authorize)
    }

    fn write_from_pipe(
        &self,
        offset: u64,
        pipe: BorrowedFd<'_>,
        len: usize,
        authorize: AuthorizeWrite<'_>,
    ) -> FsResult<Change> {
        self.write_piped(offset, pipe, len, authorize)
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
        self.flush.join(scope, |scope| {
            self.flush_data(scope).inspect_err(|_| {
                self.mount.flush_failures.fetch_add(1, Ordering::SeqCst);
            })
        })
    }

    fn read_link(&self) -> FsResult<Vec<u8>> {
        self.link_target()
    }

    fn lookup(&self, name: Name<'_>, blocking: Blocking) -> FsResult<Lookup> {
        self.as_dir()?;
        self.mount
            .child(self, name.bytes(), blocking)
            .and_then(to_lookup)
            .map_err(|error| self.or_stale_if_detached(error))
    }

    fn parent(&self) -> FsResult<Lookup> {
        self.as_dir()?;
        self.stat()?;
        if self.key == self.mount.root_key {
            return to_lookup(self.mount.root_node()?);
        }
        self.mount.parent(self.fd()).and_then(to_lookup).map_err(|error| self.or_stale_if_detached(error))
    }

    fn read_dir(&self, cookie: u64, plus: bool, sink: &mut EntrySink<'_>) -> FsResult<bool> {
        self.list(cookie, plus, None, sink).map_err(|error| self.or_stale_if_detached(error))
    }

    fn read_dir_of(
        &self,
        cookie: u64,
        plus: bool,
        filter: NameFilter<'_>,
        sink: &mut EntrySink<'_>,
    ) -> FsResult<bool> {
        self.list(cookie, plus, Some(filter), sink).map_err(|error| self.or_stale_if_detached(error))
    }

    fn create(&self, name: Name<'_>, authorize: AuthorizeCreate<'_>) -> FsResult<CreatedEntry> {
        let _changing = self.mount.begin_change();
        self.make_file(name, authorize)
    }

    fn make_dir(&self, name: Name<'_>, authorize: AuthorizeCreate<'_>) -> FsResult<CreatedEntry> {
        let _changing = self.mount.begin_change();
        self.make_directory(name, authorize)
    }

    fn make_special(
        &self,
        name: Name<'_>,
        special: Special<'_>,
        authorize: AuthorizeCreate<'_>,
    ) -> FsResult<CreatedEntry> {
        let _changing = self.mount.begin_change();
        self.make_other(name, special, authorize)
    }

    fn link(&self, name: Name<'_>, target: &NodeRef, authorize: AuthorizeLink<'_>) -> FsResult<CreatedEntry> {
        let _changing = self.mount.begin_name_change();
        self.link_entry(name, target, authorize)
    }

    fn remove(&self, name: Name<'_>, authorize: AuthorizeRemove<'_>) -> FsResult<Change> {
        let _changing = self.mount.begin_name_change();
        self.unlink_entry(name, false, authorize)
    }

    fn remove_dir(&self, name: Name<'_>, authorize: AuthorizeRemove<'_>) -> FsResult<Change> {
        let _changing = self.mount.begin_name_change();
        self.unlink_entry(name, true, authorize)
    }

    fn rename(
        &self,
        from: Name<'_>,
        to_dir: &NodeRef,
        to: Name<'_>,
        authorize: AuthorizeRename<'_>,
    ) -> FsResult<(Change, Change)> {
        let _changing = self.mount.begin_name_change();
        self.rename_entry(from, to_dir, to, authorize)
    }

    fn xattrs(&self) -> Option<&dyn Xattrs> {
        self.mount.xattrs.then_some(self)
    }

    fn ranges(&self) -> Option<&dyn Ranges> {
        Some(self)
    }

    fn acls(&self) -> Option<&dyn Acls> {
        self.mount.acls.then_some(self)
    }
}

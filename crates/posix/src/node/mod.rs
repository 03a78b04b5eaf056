//! One file: its descriptor, its lock, its state.

mod acl_cache;
mod acls;
pub(crate) mod attr;
pub(crate) mod changes;
pub(crate) mod charging;
pub(crate) mod counter;
mod data;
mod flush;
pub(crate) mod fs_uid;
mod key;
pub(crate) mod mount;
pub(crate) mod owner;
pub(crate) mod ranges;
mod setattr;
mod table;
pub(crate) mod xattrs;

use crate::capacity::limit::Promised;
use crate::error::refused;
use crate::listing::Listing;
use crate::sys;
use acl_cache::AclMemory;
use counter::{Ahead, Sight};
use flush::Flush;
use mount::{Mount, found};
use rustix::fs::{MemfdFlags, Stat, memfd_create};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};
use vfs::sync::Mutex;
use vfs::{
    Acls, Attrs, AuthorizeCreate, AuthorizeLink, AuthorizeRemove, AuthorizeRename, AuthorizeSetattr,
    AuthorizeWrite, Blocking, Change, CreatedEntry, EntrySink, FileKey, FileType, FsError, FsResult, Lookup,
    Name, NameFilter, NodeRef, Ranges, Special, SyncScope, Time, Xattrs,
};

/// What a node's descriptor may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Rights {
    /// Name the file and tell its state.
    Path,
    /// Read it, too, and make it durable.
    Read,
    /// And write it.
    Write,
    /// The file was let go: it shows nothing.
    Gone,
}

/// One file of a [`Mount`].
///
/// It has one descriptor for its whole life. It starts as `O_PATH` and is opened for reading and for writing when
/// that is first needed, *in place*: dup3 puts the new open file under the old number, so calls on other threads need
/// no lock to use it.
pub(crate) struct Node {
    pub(crate) mount: Arc<Mount>,
    pub(crate) key: FileKey,
    pub(crate) kind: FileType,
    inode: u64,
    born: Option<Time>,
    pub(crate) ahead: Ahead,
    fd: Arc<OwnedFd>,
    rights: AtomicU8,
    opening: Mutex<()>,
    /// Held by a mutation from its first to its last look at the attributes.
    change: Mutex<Promised>,
    pub(crate) flush: Flush,
    pub(crate) acl: AclMemory,
    /// What only a directory has.
    pub(crate) dir: Option<Box<Directory>>,
    /// The file has no name left, and what it was charged was given back.
    pub(crate) given_back: AtomicBool,
    /// How many keep the file even without a name.
    pub(crate) pins: AtomicU32,
    /// The table's tick when the node was last asked for.
    pub(crate) last_used: AtomicU32,
    /// Asked for since the table last looked for a node to drop.
    pub(crate) referenced: AtomicBool,
}

/// What a directory's node has besides a file's.
#[derive(Default)]
pub(crate) struct Directory {
    /// Its position and the pages read from it.
    pub(crate) listing: Arc<Listing>,
    /// The children to be made durable with it.
    pub(crate) unflushed: Mutex<Unflushed>,
    /// Bytes that its entries are charged, where this process counts; [`FREED`] once they were given back.
    pub(crate) charged: AtomicU64,
    /// Held while its extended attributes change, and when what they are charged is given back: a directory that is removed is not
    /// waited for otherwise.
    pub(crate) xattrs: Mutex<()>,
}

/// What was charged for a directory was given back.
pub(crate) const FREED: u64 = u64::MAX;

impl Directory {
    fn of_size(size: i64) -> Self {
        let charged = vfs::backend::charge::directory(u64::try_from(size).unwrap_or(0));
        Self { charged: AtomicU64::new(charged), ..Self::default() }
    }
}

/// New children whose attributes were set after their creation: the flush of a directory does not cover that.
#[derive(Default)]
pub(crate) struct Unflushed {
    pub(crate) children: Vec<Arc<Node>>,
    /// There were too many to be remembered.
    pub(crate) more: bool,
}

impl Node {
    /// The node of what `fd` has open with these rights.
    pub(crate) fn new(
        mount: Arc<Mount>,
        key: FileKey,
        fd: OwnedFd,
        rights: Rights,
        stat: &Stat,
    ) -> FsResult<Self> {
        let kind = attr::file_type(stat)?;
        Ok(Self {
            mount,
            key,
            kind,
            inode: stat.st_ino,
            born: counter::born(fd.as_fd(), b""),
            ahead: Ahead::new(&key),
            fd: Arc::new(fd),
            rights: AtomicU8::new(rights as u8),
            opening: Mutex::default(),
            change: Mutex::default(),
            flush: Flush::default(),
            acl: AclMemory::default(),
            dir: (kind == FileType::Directory).then(|| Box::new(Directory::of_size(stat.st_size))),
            given_back: AtomicBool::new(false),
            pins: AtomicU32::new(0),
            last_used: AtomicU32::new(0),
            referenced: AtomicBool::new(false),
        })
    }

    /// The descriptor, good for naming the file and telling its state.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The descriptor, opened for what `rights` says.
    pub(crate) fn open(&self, rights: Rights) -> FsResult<&Arc<OwnedFd>> {
        if self.rights.load(Ordering::Acquire) < rights as u8 {
            let _held = self.opening.lock();
            if self.rights.load(Ordering::Acquire) < rights as u8 {
                let data = self.mount.open_data(self, rights == Rights::Write)?;
                sys::replace(self.fd(), data.as_fd()).map_err(refused)?;
                self.rights.store(rights as u8, Ordering::Release);
            }
        }
        Ok(&self.fd)
    }

    /// The state now. A file without a name is gone, unless it is pinned: the node leaves the table, so that its space is freed as soon
    /// as nobody holds it.
    pub(crate) fn stat(&self) -> FsResult<Sight> {
        let stat = Sight::of(self.fd(), self.ahead.distance())?;
        if stat.st_nlink == 0 && (!self.is_pinned() || self.is_gone()) {
            self.forget();
            return Err(FsError::Stale);
        }
        Ok(stat)
    }

    /// Takes a file without a name out of the table, so that nobody finds it any more.
    #[cold]
    pub(crate) fn forget(&self) {
        self.mount.table.remove(self);
        if let Some(index) = &self.mount.index {
            index.forget(&self.key);
        }
    }

    /// The attributes that go with `stat`.
    pub(crate) fn attrs_from(&self, stat: &Sight) -> FsResult<Attrs> {
        let attrs = Attrs { born: self.born, ..self.mount.attrs(stat, self.fd(), None)? };
        // Of a file that was let go meanwhile the descriptor has no owner to tell.
        if self.mount.owner_attribute && self.is_gone() { Err(FsError::Stale) } else { Ok(attrs) }
    }

    /// The attributes now.
    pub(crate) fn attrs_now(&self) -> FsResult<Attrs> {
        self.attrs_from(&self.stat()?)
    }

    /// [`FsError::Stale`] rather than `error` if this file is gone: then that is the reason.
    pub(crate) fn or_stale(&self, error: FsError) -> FsError {
        if matches!(self.stat(), Err(FsError::Stale)) { FsError::Stale } else { error }
    }

    /// As [`Node::or_stale`], without a look at the file.
    fn or_gone(&self, error: FsError) -> FsError {
        if self.is_gone() { FsError::Stale } else { error }
    }

    /// Keeps other mutations of this file away, and makes what was remembered of it void when dropped.
    pub(crate) fn lock_change(&self) -> Changing<'_> {
        let promised = self.change.lock();
        Changing { node: self, promised, begun: false }
    }

    /// As [`Node::lock_change`], if nobody else holds it.
    pub(crate) fn try_lock_change(&self) -> Option<Changing<'_>> {
        let promised = self.change.try_lock()?;
        Some(Changing { node: self, promised, begun: false })
    }

    /// Whether the file stays even without a name.
    pub(crate) fn is_pinned(&self) -> bool {
        self.pins.load(Ordering::SeqCst) > 0
    }

    /// Whether the file was let go.
    pub(crate) fn is_gone(&self) -> bool {
        self.rights.load(Ordering::Acquire) == Rights::Gone as u8
    }

    /// Lets go of a file that is being removed, so that its blocks are free at once, whoever still holds this node: its
    /// descriptor leads to an empty file without a name from now on. Where none can be made, the last holder lets go.
    pub(crate) fn let_go(&self) {
        static NOTHING: OnceLock<Option<OwnedFd>> = OnceLock::new();
        let nothing = NOTHING.get_or_init(|| memfd_create("removed", MemfdFlags::CLOEXEC).ok());
        if let Some(nothing) = nothing {
            let _held = self.opening.lock();
            // First, so that nobody takes for the file's what the descriptor shows then.
            self.rights.store(Rights::Gone as u8, Ordering::Release);
            let _replaced = sys::replace(self.fd(), nothing.as_fd());
        }
    }

    /// Makes void what was remembered of this file.
    pub(crate) fn note_change(&self) {
        changes::note(self.mount.root_id.0, self.inode);
        if let Some(dir) = &self.dir {
            dir.listing.changed();
        }
    }

    /// The parts that only a directory has.
    pub(crate) fn as_dir(&self) -> FsResult<&Directory> {
        if let Some(dir) = &self.dir {
            return Ok(dir);
        }
        // What is gone is first of all gone.
        self.stat()?;
        Err(FsError::NotDirectory)
    }
}

/// A mutation of a file, from its first to its last look at the attributes.
pub(crate) struct Changing<'n> {
    node: &'n Node,
    promised: MutexGuard<'n, Promised>,
    /// A mutation has begun and its end was not seen.
    begun: bool,
}

impl Changing<'_> {
    /// What room was taken for, beyond the file's size.
    pub(crate) fn promised(&self) -> &Promised {
        &self.promised
    }

    /// The attributes just after a mutation that succeeded and began with `before`: even of what was removed since.
    pub(crate) fn attrs_after(&mut self, before: &Attrs) -> FsResult<Attrs> {
        let node = self.node;
        let after = node.attrs_from(&Sight::of(node.fd(), node.ahead.distance())?)?;
        self.begun = false;
        Ok(Attrs { change: node.ahead.after(before.change, after.changed), ..after })
    }

    /// From now on the file may have changed, even if the mutation fails.
    pub(crate) fn begin(&mut self) {
        self.begun = true;
    }

    /// The same, to be changed.
    pub(crate) fn promised_mut(&mut self) -> &mut Promised {
        &mut self.promised
    }
}

impl Drop for Changing<'_> {
    /// After the change, even one that failed half-way, and before anybody can be told of it.
    fn drop(&mut self) {
        if self.begun {
            self.node.ahead.advance();
        }
        self.node.note_change();
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
        self.decide_attrs(authorize)
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
        self.take_room(offset, len, authorize)
    }

    fn release(&self, offset: u64, len: usize) {
        self.give_room_back(offset, len);
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
        self.mount.child(self, name.bytes(), blocking).and_then(found).map_err(|error| self.or_gone(error))
    }

    fn parent(&self) -> FsResult<Lookup> {
        self.as_dir()?;
        self.stat()?;
        if self.key == self.mount.root_key {
            return found(self.mount.root_node()?);
        }
        self.mount.parent(self.fd()).and_then(found).map_err(|error| self.or_gone(error))
    }

    fn read_dir(&self, cookie: u64, plus: bool, sink: &mut EntrySink<'_>) -> FsResult<bool> {
        self.list(cookie, plus, None, sink).map_err(|error| self.or_gone(error))
    }

    fn read_dir_of(
        &self,
        cookie: u64,
        plus: bool,
        wanted: NameFilter<'_>,
        sink: &mut EntrySink<'_>,
    ) -> FsResult<bool> {
        self.list(cookie, plus, Some(wanted), sink).map_err(|error| self.or_gone(error))
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
        self.add_name(name, target, authorize)
    }

    fn remove(&self, name: Name<'_>, authorize: AuthorizeRemove<'_>) -> FsResult<Change> {
        self.take_name(name, false, authorize)
    }

    fn remove_dir(&self, name: Name<'_>, authorize: AuthorizeRemove<'_>) -> FsResult<Change> {
        self.take_name(name, true, authorize)
    }

    fn rename(
        &self,
        from: Name<'_>,
        to_dir: &NodeRef,
        to: Name<'_>,
        authorize: AuthorizeRename<'_>,
    ) -> FsResult<(Change, Change)> {
        self.move_name(from, to_dir, to, authorize)
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

//! The served tree: opens files by key and by name without leaving the file system.

mod index;
mod locate;
pub(crate) mod options;

use super::attr;
use super::counter::{self, VersionedStat};
use super::fs_uid::may_own;
use super::key::{self, Form, SubvolumeId};
use super::owner::{self, Owner};
use super::{Node, Rights};
use crate::budget::ResourceBudget;
use crate::capacity::limit::Limit;
use crate::error::refused;
use crate::fs_type::{
    FsType, can_set_trusted_xattrs, file_bytes_max, has_fine_change_times, supports_acls, supports_xattrs,
};
use crate::sys::{self, Handle, proc_path};
use crate::undo::{Undo, UndoPlace};
use index::Index;
use options::Options;
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, Stat, StatxFlags, fstat, makedev, openat, openat2, statx,
};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;
use storage::Table;
use vfs::sync::{Mutex, RwLock};
use vfs::{Attrs, Blocking, FileKey, FileType, FsError, FsResult, Lookup, Wait};

/// Flags of every descriptor other than `O_PATH`: opening never waits, follows a link or acquires a terminal.
const OPEN_SAFELY: OFlags =
    OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
/// Flags of an `O_PATH` descriptor: opening has no effect on any type of file.
const OPEN_PATH: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The kernel also returns ENOMEM (`iget_locked`) while another file is created under the inode number of the removed
/// file. It returns ESTALE a moment later.
const OPEN_TRIES: u32 = 8;
const OPEN_PAUSE: Duration = Duration::from_micros(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeySource {
    Handle,
    /// The kernel's handle without the number of this subvolume.
    Subvolume(SubvolumeId),
    /// The kernel's handle, with the number of the subvolume `live` in place of that of this snapshot.
    Snapshot {
        own: SubvolumeId,
        live: SubvolumeId,
    },
    /// Inode number and birth time: the file system has no handles.
    Inode,
}

/// One served tree, shared by all its nodes.
pub(crate) struct Mount {
    /// The root, open for reading: the kernel refuses to open by handle at an `O_PATH`.
    pub(crate) root: OwnedFd,
    /// Device and inode number of the root.
    pub(crate) root_id: (u64, u64),
    /// Snapshots that other programs have made of the tree show devices of their own, but share blocks with it.
    live_device: u64,
    pub(crate) root_key: FileKey,
    /// The root's mount, as numbered by name_to_handle_at. `root` keeps the mount, so the number is never reused.
    mount_id: i32,
    key_source: KeySource,
    /// `None` if the kernel opens by handle.
    pub(crate) index: Option<Index>,
    pub(crate) owner_attribute: bool,
    /// A flush of the directory covers a new file's attributes, if they were set at creation: the file system has an
    /// ordered journal, or no storage at all.
    pub(crate) new_inodes_follow_dir: bool,
    /// Reading never waits for a disk.
    pub(crate) is_memory: bool,
    pub(crate) xattrs: bool,
    /// Our own attributes can be hidden from other users.
    pub(crate) trusted_xattrs: bool,
    pub(crate) acls: bool,
    pub(crate) has_fine_change_times: bool,
    pub(crate) links_max: u32,
    pub(crate) file_bytes_max: u64,
    pub(crate) block_bytes: u64,
    pub(crate) table: Arc<Table<Node>>,
    pub(crate) unlinked_open: Mutex<Vec<Arc<Node>>>,
    pub(crate) budget: Arc<ResourceBudget>,
    pub(crate) limit: Option<Arc<Limit>>,
    undo: OnceLock<Arc<Undo>>,
    /// The place of the undo store; `None` if the volume can have none.
    undo_place: Option<UndoPlace>,
    /// Held shared from the name of a new object to its owner, and alone while owners change, if the volume counts by
    /// owner: nothing moves the charge of an object whose owner is not set yet.
    pub(crate) naming: RwLock<()>,
    /// The kernel has no openat2, or a sandbox forbids it.
    no_openat2: AtomicBool,
    /// The file system refuses `RWF_NOWAIT`.
    pub(crate) no_nowait: AtomicBool,
    pub(crate) flush_failures: AtomicU64,
    pub(crate) no_tmpfile: AtomicBool,
    pub(crate) no_cachestat: AtomicBool,
    /// A read-only snapshot of a volume.
    pub(crate) is_snapshot: bool,
    /// Part of all change counters.
    pub(crate) counter_base: u64,
    /// The tree was removed: no file is found any more.
    is_removed: AtomicBool,
    /// Locked shared by each change, and exclusively while a snapshot of the tree is made.
    changes: RwLock<()>,
}

/// The part of a tree in its volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TreeKind {
    /// A directory with its own keys.
    Directory,
    /// A subvolume of Btrfs with snapshots, in which each file has the same key.
    Subvolume,
    /// A snapshot of a subvolume.
    Snapshot,
    /// A snapshot that another program has made of the subvolume `of`, which has its own keys.
    HostSnapshot { of: SubvolumeId },
}

impl TreeKind {
    /// The keys of the tree, and that of the root, if the kernel's handle of the root shows its subvolume.
    fn keys(self, root: &Handle) -> FsResult<Option<(KeySource, FileKey)>> {
        let Some(own) = SubvolumeId::of(root) else { return Ok(None) };
        match self {
            Self::Directory => Ok(None),
            Self::Subvolume | Self::Snapshot => Ok(Some((KeySource::Subvolume(own), own.key(root)?))),
            Self::HostSnapshot { of: live } => {
                Ok(Some((KeySource::Snapshot { own, live }, own.key_in(live, root)?)))
            }
        }
    }

    fn is_snapshot(self) -> bool {
        matches!(self, Self::Snapshot | Self::HostSnapshot { .. })
    }
}

impl Mount {
    /// Whether owners are in an extended attribute.
    pub(crate) fn uses_owner_attribute(options: &Options) -> bool {
        options.owner_attribute || !may_own()
    }

    pub(crate) fn new(
        root: OwnedFd,
        kind: TreeKind,
        options: &Options,
        limit: Option<Arc<Limit>>,
        undo_place: Option<UndoPlace>,
    ) -> FsResult<Self> {
        let undo = undo_place.as_ref().map_or(Ok(None), UndoPlace::find)?;
        let stat = fstat(&root).map_err(refused)?;
        let fs_type = FsType::of(&root, &stat)?;
        let file_bytes_max = file_bytes_max(&root);
        let made = sys::name_to_handle(root.as_fd(), b"").ok();
        let handle = made.as_ref().map(|(handle, _)| handle);
        let in_volume = handle.map_or(Ok(None), |handle| kind.keys(handle))?;
        let (key_source, root_key) = match (in_volume, handle.and_then(key::of_handle)) {
            (Some(keys), _) => keys,
            (_, Some(key)) => (KeySource::Handle, key),
            _ => (KeySource::Inode, inode_key(root.as_fd(), b"", stat.st_dev)?),
        };
        // The one sure test whether a process may open by handle is to try.
        let path = i32::try_from(OPEN_PATH.bits()).map_err(|_| FsError::Invalid)?;
        let opens = |(handle, _): &(Handle, i32)| sys::open_by_handle(root.as_fd(), handle, path).is_ok();
        let by_handle = key_source != KeySource::Inode && made.as_ref().is_some_and(opens);
        let mount_id = made.map_or(0, |(_, mount_id)| mount_id);
        let trusted_xattrs = can_set_trusted_xattrs(&root);
        let has_base = kind == TreeKind::Subvolume;
        Ok(Self {
            root_id: (stat.st_dev, stat.st_ino),
            live_device: stat.st_dev,
            xattrs: supports_xattrs(&root),
            trusted_xattrs,
            counter_base: if has_base { counter::base(root.as_fd(), trusted_xattrs) } else { 0 },
            acls: supports_acls(&root),
            has_fine_change_times: has_fine_change_times(&root),
            root,
            root_key,
            mount_id,
            key_source,
            index: (options.index || !by_handle).then(Index::default),
            owner_attribute: Self::uses_owner_attribute(options),
            new_inodes_follow_dir: fs_type.new_inodes_follow_dir,
            is_memory: fs_type.is_memory,
            links_max: fs_type.links_max,
            block_bytes: fs_type.block_bytes,
            file_bytes_max,
            table: Table::new(&options.budget.nodes),
            unlinked_open: Mutex::default(),
            budget: Arc::clone(&options.budget),
            limit,
            undo: undo.map(Arc::new).map_or_else(OnceLock::new, OnceLock::from),
            undo_place,
            naming: RwLock::default(),
            no_openat2: AtomicBool::new(false),
            no_nowait: AtomicBool::new(false),
            flush_failures: AtomicU64::new(0),
            no_tmpfile: AtomicBool::new(false),
            no_cachestat: AtomicBool::new(false),
            is_snapshot: kind.is_snapshot(),
            is_removed: AtomicBool::new(false),
            changes: RwLock::default(),
        })
    }

    /// The undo store; `None` while the volume has had no snapshot.
    #[inline]
    pub(crate) fn undo(&self) -> Option<&Arc<Undo>> {
        self.undo.get()
    }

    /// The undo store, made if missing; `None` if the volume can have none.
    pub(crate) fn make_undo(&self) -> FsResult<Option<&Arc<Undo>>> {
        let Some(place) = &self.undo_place else { return Ok(None) };
        if self.undo.get().is_none() {
            // Another thread may be first: the store has no snapshot yet, so either is as good.
            let _first = self.undo.set(Arc::new(place.make()?));
        }
        Ok(self.undo.get())
    }

    pub(crate) fn can_have_undo(&self) -> bool {
        self.undo_place.is_some()
    }

    /// The tree of a snapshot of this one. The read-only file system does not show where attributes are stored.
    pub(crate) fn snapshot(&self, root: OwnedFd, options: &Options) -> FsResult<Self> {
        let kind = self.subvolume().map_or(TreeKind::Snapshot, |of| TreeKind::HostSnapshot { of });
        let mount = Self::new(root, kind, options, None, None)?;
        let (trusted_xattrs, live_device) = (self.trusted_xattrs, self.live_device);
        Ok(Self { trusted_xattrs, live_device, has_fine_change_times: true, ..mount })
    }

    /// The subvolume of Btrfs that the keys name.
    pub(crate) fn subvolume(&self) -> Option<SubvolumeId> {
        match key::form(&self.root_key) {
            Ok(Form::Handle(root)) => SubvolumeId::of(&root),
            _ => None,
        }
    }

    /// Begins a change of a file: whole before or whole after each snapshot.
    #[inline]
    pub(crate) fn begin_change(&self) -> Option<RwLockReadGuard<'_, ()>> {
        matches!(self.key_source, KeySource::Subvolume(_)).then(|| self.changes.read())
    }

    /// Begins a change that also changes objects whose locks it does not hold.
    pub(crate) fn begin_name_change(&self) -> Option<RwLockReadGuard<'_, ()>> {
        let waits = self.undo_place.is_some() || matches!(self.key_source, KeySource::Subvolume(_));
        waits.then(|| self.changes.read())
    }

    /// Waits for changes under way, and lets none begin until the guard is dropped.
    pub(crate) fn stop_changes(&self) -> RwLockWriteGuard<'_, ()> {
        self.changes.write()
    }

    /// Releases all files of a removed tree, even those in use.
    pub(crate) fn detach_all(&self) {
        self.is_removed.store(true, Ordering::SeqCst);
        self.table.all().iter().for_each(|node| node.detach());
        if matches!(self.key_source, KeySource::Subvolume(_) | KeySource::Snapshot { .. }) {
            // One open file of a subvolume holds the space of all its files.
            sys::detach(self.root.as_fd());
        }
    }

    /// Whether a file with this `stat` is in the file system of the root.
    pub(crate) fn contains(&self, stat: &Stat) -> bool {
        stat.st_dev == self.root_id.0
    }

    pub(crate) fn is_same_file_system(&self, other: &Self) -> bool {
        let in_subvolume = |mount: &Self| matches!(mount.key_source, KeySource::Subvolume(_));
        // Subvolumes of one Btrfs show different devices, but share blocks.
        let share = in_subvolume(self) && in_subvolume(other) && self.mount_id == other.mount_id;
        self.live_device == other.live_device || share
    }

    pub(crate) fn node(self: &Arc<Self>, key: &FileKey, blocking: Blocking) -> FsResult<Arc<Node>> {
        if let Some(node) = self.table.find(key) {
            return Ok(node);
        }
        let handle = self.handle_of(key)?;
        if blocking == Blocking::Never {
            return Err(FsError::Wait(Wait::Storage));
        }
        if self.is_removed.load(Ordering::SeqCst) {
            return Err(FsError::Stale);
        }
        let fd = match (handle, &self.index) {
            (Some(handle), None) => self.open_handle(&handle, OPEN_PATH)?,
            (_, Some(index)) => self.locate(index, key)?,
            (None, None) => return Err(FsError::Stale),
        };
        // The same file under other bytes would be a second node: only the kernel's own encoding counts.
        if self.key_at(fd.as_fd(), b"")? != *key {
            return Err(FsError::BadHandle);
        }
        Ok(self.adopt_as(fd, *key)?.0)
    }

    /// The kernel's handle of a key; `None` if the file system has none. [`FsError::Stale`] for a key that was made
    /// before the tree was moved to another type of file system.
    fn handle_of(&self, key: &FileKey) -> FsResult<Option<Handle>> {
        match (key::form(key)?, self.key_source) {
            (Form::Handle(handle), KeySource::Handle) => Ok(Some(handle)),
            (Form::Handle(handle), KeySource::Snapshot { own, live }) => {
                own.handle_from(live, &handle).map(Some)
            }
            (Form::Subvolume(file), KeySource::Subvolume(subvolume)) => subvolume.handle(file).map(Some),
            (Form::Inode, KeySource::Inode) => Ok(None),
            _ => Err(FsError::Stale),
        }
    }

    pub(crate) fn is_deleted(&self, key: &FileKey) -> bool {
        // With an index, an unreadable directory may hide the file. Keys of the other form are of another file system.
        let (None, Ok(Some(handle))) = (&self.index, self.handle_of(key)) else { return false };
        if self.table.find(key).is_some() {
            return false;
        }
        match self.open_handle(&handle, OPEN_PATH) {
            Err(error) => error == FsError::Stale,
            // If a Btrfs snapshot was put in place of this subvolume, the original subvolume still has the file.
            Ok(fd) => fstat(&fd).is_ok_and(|stat| self.contains(&stat) && stat.st_nlink == 0),
        }
    }

    pub(crate) fn root_node(self: &Arc<Self>) -> FsResult<(Arc<Node>, VersionedStat)> {
        self.child_of(self.root.as_fd(), b".", Blocking::Allowed)
    }

    pub(crate) fn record(&self, key: &FileKey, dir: &FileKey, name: &[u8]) {
        if let Some(index) = &self.index {
            index.record(key, dir, name);
        }
    }

    pub(crate) fn counter_offset(&self, key: &FileKey) -> u64 {
        if self.is_snapshot {
            return 0;
        }
        self.table
            .with_node(key, |node| node.counter_offset.load())
            .unwrap_or_else(|| self.counter_base.wrapping_add(storage::offset_of(key)))
    }

    /// The attributes of a file with this state, without the birth time. `name` is the file's name in the directory
    /// `file`, or `None` for `file` itself.
    #[inline]
    pub(crate) fn attrs(
        &self,
        stat: &VersionedStat,
        file: BorrowedFd<'_>,
        name: Option<&[u8]>,
    ) -> FsResult<Attrs> {
        let mut attrs = attr::attrs(stat)?;
        if self.owner_attribute
            && owner::carries(attrs.file_type)
            && let Some(owner) = Owner::read(file, name)?
        {
            (attrs.uid, attrs.gid, attrs.mode) = (owner.uid, owner.gid, owner.mode);
        }
        Ok(attrs)
    }

    pub(crate) fn child(
        self: &Arc<Self>,
        dir: &Node,
        name: &[u8],
        blocking: Blocking,
    ) -> FsResult<(Arc<Node>, VersionedStat)> {
        let (node, stat) = self.child_of(dir.fd(), name, blocking)?;
        self.record(&node.key, &dir.key, name);
        Ok((node, stat))
    }

    fn child_of(
        self: &Arc<Self>,
        dir: BorrowedFd<'_>,
        name: &[u8],
        blocking: Blocking,
    ) -> FsResult<(Arc<Node>, VersionedStat)> {
        if blocking == Blocking::Allowed && self.key_source != KeySource::Inode {
            // Two system calls for a cached file, one for a missing one. Other errors are left to the open below, which
            // returns them exactly.
            match self.key_at(dir, name) {
                Ok(key) => {
                    if let Some(node) = self.table.find(&key)
                        && let Ok(stat) = node.stat()
                    {
                        return Ok((node, stat));
                    }
                }
                Err(FsError::NotFound) => return Err(FsError::NotFound),
                Err(_) => {}
            }
        }
        self.adopt(self.open_name(dir, name, blocking)?)
    }

    pub(crate) fn cached_node(&self, dir: BorrowedFd<'_>, name: &[u8]) -> Option<Arc<Node>> {
        self.table.find(&self.key_at(dir, name).ok()?)
    }

    /// The key of `name` in `dir`, or of `dir` if the name is empty. [`FsError::CrossVolume`] for a mount point.
    pub(crate) fn key_at(&self, dir: BorrowedFd<'_>, name: &[u8]) -> FsResult<FileKey> {
        if self.key_source == KeySource::Inode {
            return inode_key(dir, name, self.root_id.0);
        }
        let (handle, mount_id) = sys::name_to_handle(dir, name).map_err(refused)?;
        if mount_id != self.mount_id {
            return Err(FsError::CrossVolume);
        }
        match self.key_source {
            KeySource::Subvolume(subvolume) => subvolume.key(&handle),
            KeySource::Snapshot { own, live } => own.key_in(live, &handle),
            _ => key::of_handle(&handle).ok_or(FsError::NotSupported),
        }
    }

    /// The node of the file open as `fd` (an `O_PATH`), and its state.
    pub(crate) fn adopt(self: &Arc<Self>, fd: OwnedFd) -> FsResult<(Arc<Node>, VersionedStat)> {
        let key = self.key_at(fd.as_fd(), b"")?;
        if let Some(node) = self.table.find(&key)
            && let Ok(stat) = node.stat()
        {
            return Ok((node, stat));
        }
        self.adopt_as(fd, key)
    }

    fn adopt_as(self: &Arc<Self>, fd: OwnedFd, key: FileKey) -> FsResult<(Arc<Node>, VersionedStat)> {
        let stat = VersionedStat::read(fd.as_fd(), self.counter_offset(&key))?;
        if !self.contains(&stat) || stat.st_nlink == 0 || self.is_retained(fd.as_fd(), &key)? {
            return Err(FsError::Stale);
        }
        let node = self.table.insert(Node::new(Arc::clone(self), key, fd, Rights::Path, &stat)?);
        // `detach_all` has not seen the node if it ran meanwhile.
        if self.is_removed.load(Ordering::SeqCst) {
            node.detach();
            return Err(FsError::Stale);
        }
        Ok((node, stat))
    }

    /// Whether only a snapshot keeps the file open as `fd`.
    fn is_retained(&self, fd: BorrowedFd<'_>, key: &FileKey) -> FsResult<bool> {
        let Some(undo) = self.undo() else { return Ok(false) };
        if undo.is_empty() || !counter::has_retained_mark(fd) {
            return Ok(false);
        }
        undo.has_retained(key)
    }

    /// Opens the data of `node`: a directory for reading, a regular file for reading, and writing if `write`.
    ///
    /// A server must not open anything else: opening a device or FIFO has side effects.
    pub(crate) fn open_data(&self, node: &Node, write: bool) -> FsResult<OwnedFd> {
        let flags = OPEN_SAFELY
            | match node.kind {
                FileType::Directory => OFlags::DIRECTORY,
                FileType::Regular if write => OFlags::RDWR,
                FileType::Regular => OFlags::RDONLY,
                _ => return Err(FsError::Invalid),
            };
        if self.index.is_none()
            && !node.is_pinned()
            && let Some(handle) = self.handle_of(&node.key)?
        {
            return self.open_handle(&handle, flags);
        }
        // The link in /proc leads to the open file itself, wherever its name moved.
        openat(CWD, proc_path(node.fd()), flags.difference(OFlags::NOFOLLOW), Mode::empty()).map_err(refused)
    }

    fn open_handle(&self, handle: &Handle, flags: OFlags) -> FsResult<OwnedFd> {
        let flags = i32::try_from(flags.bits()).map_err(|_| FsError::Invalid)?;
        for _ in 0..OPEN_TRIES {
            match sys::open_by_handle(self.root.as_fd(), handle, flags) {
                Ok(fd) => return Ok(fd),
                Err(Errno::NOENT) => return Err(FsError::Stale),
                Err(Errno::INVAL) => return Err(FsError::BadHandle),
                Err(Errno::NOMEM) => std::thread::sleep(OPEN_PAUSE),
                Err(errno) => return Err(refused(errno)),
            }
        }
        Err(refused(Errno::NOMEM))
    }

    /// Opens `name` in `dir` as `O_PATH`; [`FsError::CrossVolume`] for a mount point.
    pub(crate) fn open_name(
        &self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        blocking: Blocking,
    ) -> FsResult<OwnedFd> {
        let cached = if blocking == Blocking::Never { ResolveFlags::CACHED } else { ResolveFlags::empty() };
        if !self.no_openat2.load(Ordering::Relaxed) {
            match openat2(dir, name, OPEN_PATH, Mode::empty(), ResolveFlags::NO_XDEV | cached) {
                Ok(fd) => return Ok(fd),
                // EINVAL: Linux 5.6 to 5.11 have the call, but not RESOLVE_CACHED.
                Err(Errno::AGAIN | Errno::INVAL) if blocking == Blocking::Never => {
                    return Err(FsError::Wait(Wait::Storage));
                }
                // O_PATH needs no right to the file, so EPERM can only come from a sandbox.
                Err(Errno::NOSYS | Errno::PERM) => self.no_openat2.store(true, Ordering::Relaxed),
                Err(errno) => return Err(refused(errno)),
            }
        }
        if blocking == Blocking::Never {
            return Err(FsError::Wait(Wait::Storage));
        }
        let fd = openat(dir, name, OPEN_PATH, Mode::empty()).map_err(refused)?;
        let stat = fstat(&fd).map_err(refused)?;
        // With handles, `key_at` compares the mount.
        if self.contains(&stat) { Ok(fd) } else { Err(FsError::CrossVolume) }
    }

    /// The parent of the directory open as `dir`, if it is below the root.
    pub(crate) fn parent(self: &Arc<Self>, dir: BorrowedFd<'_>) -> FsResult<(Arc<Node>, VersionedStat)> {
        const LEVELS_MAX: u32 = 4096;
        let parent = open_dotdot(dir)?;
        let stat = fstat(&parent).map_err(refused)?;
        let mut id = (stat.st_dev, stat.st_ino);
        let mut above = None;
        for _ in 0..LEVELS_MAX {
            if id == self.root_id {
                return self.adopt(parent);
            }
            let next = open_dotdot(above.as_ref().unwrap_or(&parent).as_fd())?;
            let stat = fstat(&next).map_err(refused)?;
            let next_id = (stat.st_dev, stat.st_ino);
            if next_id == id || !self.contains(&stat) {
                break;
            }
            (above, id) = (Some(next), next_id);
        }
        // Another process moved the directory out of the tree.
        Err(FsError::Stale)
    }
}

pub(crate) fn to_lookup(found: (Arc<Node>, VersionedStat)) -> FsResult<Lookup> {
    let (node, stat) = found;
    Ok(Lookup { attrs: node.attrs_from(&stat)?, node })
}

fn open_dotdot(dir: BorrowedFd<'_>) -> FsResult<OwnedFd> {
    openat(dir, "..", OPEN_PATH | OFlags::DIRECTORY, Mode::empty()).map_err(refused)
}

/// The key of a file on a file system without handles. The birth time distinguishes files that reuse an inode number.
fn inode_key(dir: BorrowedFd<'_>, name: &[u8], device: u64) -> FsResult<FileKey> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
    let state = statx(dir, name, flags, StatxFlags::INO | StatxFlags::BTIME).map_err(refused)?;
    if makedev(state.stx_dev_major, state.stx_dev_minor) != device {
        return Err(FsError::CrossVolume);
    }
    let born = if state.stx_mask & StatxFlags::BTIME.bits() == 0 {
        (0, 0)
    } else {
        (state.stx_btime.tv_sec, state.stx_btime.tv_nsec)
    };
    key::from_inode(state.stx_ino, born.0, born.1)
}

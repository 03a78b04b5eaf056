//! Snapshots that other programs make of a served subvolume of Btrfs: read-only subvolumes in directories of the host.
//!
//! A scan finds new ones and releases those that are gone. The number of a snapshot is that of its subvolume, which Btrfs
//! gives to no other. So file handles stay valid over a restart, and over a change of the name.

use super::store::Store;
use super::tree::entries;
use crate::error::refused;
use crate::fs_type::is_subvolume;
use crate::node::mount::Mount;
use crate::node::mount::options::Options;
use crate::sys;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString, OsStr};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use vfs::backend::snapshots::{ChangedRanges, Pace, SnapshotUsage, Snapshots};
use vfs::sync::Mutex;
use vfs::{Backend, FsError, FsResult, Snapshot, Time, ViewId};

/// The name of every snapshot of snapper(8), in a directory with its number as the name.
const INNER: &CStr = c"snapshot";
/// Complaints of one scan: the first say enough.
const COMPLAINTS_MAX: usize = 16;
const DIR_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The reason why snapshots cannot be served.
#[derive(Debug)]
pub enum SnapshotDirError {
    /// The files are not a whole subvolume of Btrfs.
    NoSubvolume,
    /// Without the UUID of the subvolume, its snapshots cannot be told from others.
    NoUuid,
    /// The directory of snapshots is not in the file system of the files.
    OtherFileSystem(PathBuf),
    /// The directory of snapshots cannot be opened.
    Unreadable(PathBuf, std::io::Error),
}

impl fmt::Display for SnapshotDirError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSubvolume => write!(f, "it is not the root of a subvolume of Btrfs"),
            Self::NoUuid => write!(f, "it is a subvolume of Btrfs without a UUID"),
            Self::OtherFileSystem(dir) => write!(f, "{} is on another file system", dir.display()),
            Self::Unreadable(dir, error) => write!(f, "cannot open {}: {error}", dir.display()),
        }
    }
}

impl std::error::Error for SnapshotDirError {}

/// The snapshots of a subvolume that other programs make and delete.
pub(crate) struct HostSnapshots {
    mount: Arc<Mount>,
    options: Options,
    dirs: Vec<PathBuf>,
    /// The identity of the file system.
    file_system: [u8; 16],
    /// The identity of the subvolume.
    uuid: [u8; 16],
    count_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    found: HashMap<ViewId, Place>,
    list: Vec<Snapshot>,
    open: HashMap<ViewId, Weak<Store>>,
    /// Complaints of the last scan: each is logged once while it lasts.
    complaints: HashSet<Complaint>,
}

/// The directory of a snapshot.
#[derive(Clone)]
struct Place {
    dir: PathBuf,
    name: CString,
    is_inner: bool,
}

/// A fault that does not end a scan.
#[derive(PartialEq, Eq, Hash)]
enum Complaint {
    NoDirectory(PathBuf),
    NotUtf8(PathBuf),
    SameName(PathBuf),
    Unreadable(PathBuf),
    TooMany(usize),
}

impl Complaint {
    fn log(&self) {
        match self {
            Self::NoDirectory(path) => {
                tracing::warn!(?path, "the directory of snapshots of the host is gone")
            }
            Self::NotUtf8(path) => {
                tracing::warn!(?path, "a snapshot of the host is not served: its name is not UTF-8");
            }
            Self::SameName(path) => {
                tracing::warn!(?path, "a snapshot of the host is not served: another one has its name");
            }
            Self::Unreadable(path) => {
                tracing::warn!(?path, "cannot read snapshots of the host: they are served as before");
            }
            Self::TooMany(max) => {
                tracing::warn!(max, "the host has more snapshots than are served: only the newest are");
            }
        }
    }
}

/// The result of a scan.
#[derive(Default)]
struct Scan {
    found: Vec<(Snapshot, Place)>,
    views: HashSet<ViewId>,
    names: HashSet<String>,
    complaints: HashSet<Complaint>,
}

impl HostSnapshots {
    /// The snapshots in `dirs`, at most `count_max` of them. Finds none before the first scan.
    pub(crate) fn new(
        mount: Arc<Mount>,
        options: Options,
        dirs: Vec<PathBuf>,
        count_max: usize,
    ) -> Result<Self, SnapshotDirError> {
        let root = mount.root.as_fd();
        if !is_subvolume(root) || mount.subvolume().is_none() {
            return Err(SnapshotDirError::NoSubvolume);
        }
        let no_subvolume = |_| SnapshotDirError::NoSubvolume;
        let uuid = sys::subvolume_info(root).map_err(no_subvolume)?.uuid;
        if uuid == [0; 16] {
            return Err(SnapshotDirError::NoUuid);
        }
        let file_system = sys::btrfs_id(root).map_err(no_subvolume)?;
        for dir in &dirs {
            let opened =
                open_path(dir).map_err(|errno| SnapshotDirError::Unreadable(dir.clone(), errno.into()))?;
            if sys::btrfs_id(opened.as_fd()) != Ok(file_system) {
                return Err(SnapshotDirError::OtherFileSystem(dir.clone()));
            }
        }
        Ok(Self { mount, options, dirs, file_system, uuid, count_max, state: Mutex::default() })
    }

    /// Looks for new and deleted snapshots, and releases the files of deleted ones. Returns the list if it has changed.
    pub(crate) fn scan(&self) -> Option<Vec<Snapshot>> {
        let mut scan = Scan::default();
        for dir in &self.dirs {
            self.scan_dir(dir, &mut scan);
        }
        scan.limit(self.count_max);
        let (list, found): (Vec<_>, HashMap<_, _>) = scan
            .found
            .into_iter()
            .map(|(snapshot, place)| (snapshot.clone(), (snapshot.view, place)))
            .unzip();
        let mut state = self.state.lock();
        for complaint in scan.complaints.difference(&state.complaints) {
            complaint.log();
        }
        state.complaints = scan.complaints;
        state.found = found;
        let State { found, open, .. } = &mut *state;
        let gone: Vec<_> = open.extract_if(|view, _| !found.contains_key(view)).collect();
        let has_changed = state.list != list;
        state.list.clone_from(&list);
        drop(state);
        for store in gone.iter().filter_map(|(_, store)| store.upgrade()) {
            // One open file would hold the space of the whole snapshot.
            store.detach_all();
        }
        has_changed.then_some(list)
    }

    fn scan_dir(&self, path: &Path, scan: &mut Scan) {
        let is_there = |dir: &OwnedFd| sys::btrfs_id(dir.as_fd()) == Ok(self.file_system);
        let Ok(dir) = usable(open_path(path).map(|dir| is_there(&dir).then_some(dir))) else {
            return self.retain(path, None, scan);
        };
        let Some(dir) = dir.flatten() else { return scan.complain(Complaint::NoDirectory(path.to_owned())) };
        let Ok(names) = entries(&dir) else { return self.retain(path, None, scan) };
        for name in names {
            match self.find(dir.as_fd(), &name) {
                Ok(Some((view, created, is_inner))) => {
                    scan.add(view, created, Place { dir: path.to_owned(), name, is_inner });
                }
                Ok(None) => {}
                Err(_) => self.retain(path, Some(&name), scan),
            }
        }
    }

    fn find(&self, dir: BorrowedFd<'_>, name: &CStr) -> FsResult<Option<(ViewId, Time, bool)>> {
        let Some((root, is_inner)) = usable(open_snapshot(dir, name))? else { return Ok(None) };
        Ok(self.examine(root.as_fd())?.map(|(view, created)| (view, created, is_inner)))
    }

    /// After an error of the storage: snapshots of a directory, or one of them, are as the last scan found them.
    fn retain(&self, path: &Path, name: Option<&CStr>, scan: &mut Scan) {
        let at = name.map(|name| path.join(OsStr::from_bytes(name.to_bytes())));
        scan.complain(Complaint::Unreadable(at.unwrap_or_else(|| path.to_owned())));
        let state = self.state.lock();
        for Snapshot { view, created, .. } in &state.list {
            let is_meant = |place: &&Place| place.dir == path && name.is_none_or(|name| *place.name == *name);
            if let Some(place) = state.found.get(view).filter(is_meant) {
                scan.add(*view, *created, place.clone());
            }
        }
    }

    /// Number and time of the snapshot with the root `root`; `None` if it is no read-only snapshot of the subvolume.
    fn examine(&self, root: BorrowedFd<'_>) -> FsResult<Option<(ViewId, Time)>> {
        let Some(info) = usable(sys::subvolume_info(root))? else { return Ok(None) };
        let is_ours = info.is_read_only && info.parent_uuid == self.uuid;
        if !is_ours || usable(sys::btrfs_id(root))? != Some(self.file_system) {
            return Ok(None);
        }
        let view = u32::try_from(info.id).ok().map(ViewId).filter(|&view| view <= ViewId::MAX);
        let seconds = i64::try_from(info.created_seconds).unwrap_or(i64::MAX);
        Ok(view.map(|view| (view, Time { seconds, nanos: 0 })))
    }

    fn root(&self, view: ViewId, place: &Place) -> FsResult<OwnedFd> {
        let dir = open_path(&place.dir).map_err(refused)?;
        let (root, is_inner) = usable(open_snapshot(dir.as_fd(), &place.name))?.ok_or(FsError::NotFound)?;
        // Another program may have put something else in its place since the scan.
        let examined = self.examine(root.as_fd())?.filter(|_| is_inner == place.is_inner);
        if examined.is_some_and(|(found, _)| found == view) { Ok(root) } else { Err(FsError::NotFound) }
    }

    /// The open snapshots.
    pub(crate) fn stores(&self) -> Vec<Arc<Store>> {
        let mut state = self.state.lock();
        state.open.retain(|_, store| store.strong_count() > 0);
        state.open.values().filter_map(Weak::upgrade).collect()
    }
}

impl Scan {
    fn complain(&mut self, complaint: Complaint) {
        if self.complaints.len() < COMPLAINTS_MAX {
            self.complaints.insert(complaint);
        }
    }

    fn add(&mut self, view: ViewId, created: Time, place: Place) {
        let at = place.dir.join(OsStr::from_bytes(place.name.to_bytes()));
        let Ok(name) = place.name.to_str().map(str::to_owned) else {
            self.complain(Complaint::NotUtf8(at));
            return;
        };
        if !self.views.insert(view) {
            // One directory by two paths.
            return;
        }
        if self.names.insert(name.clone()) {
            self.found.push((Snapshot { view, name, created }, place));
        } else {
            self.complain(Complaint::SameName(at));
        }
    }

    /// Drops the oldest snapshots above a limit.
    fn limit(&mut self, count_max: usize) {
        self.found.sort_by_key(|(snapshot, _)| (snapshot.created, snapshot.view));
        let count = self.found.len();
        if count > count_max {
            self.found.drain(..count - count_max);
            // Without the count, so that each further one is no other complaint.
            self.complain(Complaint::TooMany(count_max));
        }
    }
}

fn open_path(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, DIR_FLAGS, Mode::empty())
}

/// Opens the subvolume `name`, or the subvolume `snapshot` in the directory `name`. Returns whether it is the inner one.
fn open_snapshot(dir: BorrowedFd<'_>, name: &CStr) -> Result<(OwnedFd, bool), Errno> {
    let outer = open_entry(dir, name)?;
    if is_subvolume(outer.as_fd()) {
        return Ok((outer, false));
    }
    let inner = open_entry(outer.as_fd(), INNER)?;
    if is_subvolume(inner.as_fd()) { Ok((inner, true)) } else { Err(Errno::NOTDIR) }
}

/// Opens a directory; follows no link and, if the kernel can, enters no mount.
fn open_entry(dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = DIR_FLAGS | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    match openat2(dir, name, flags, Mode::empty(), resolve) {
        // Linux before 5.6, or a sandbox.
        Err(Errno::NOSYS | Errno::PERM) => openat(dir, name, flags, Mode::empty()),
        opened => opened,
    }
}

/// Whether an error says nothing about the object: it would make good snapshots vanish.
fn is_of_storage(errno: Errno) -> bool {
    matches!(refused(errno), FsError::Resource | FsError::Io | FsError::Wait(_))
}

/// `None` if the object is no snapshot.
fn usable<T>(found: Result<T, Errno>) -> FsResult<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(errno) if is_of_storage(errno) => Err(refused(errno)),
        Err(_) => Ok(None),
    }
}

impl Snapshots for HostSnapshots {
    /// Other programs make them.
    fn create(&self, _: ViewId) -> FsResult<()> {
        Err(FsError::NotSupported)
    }

    fn list(&self) -> FsResult<Vec<ViewId>> {
        let mut views: Vec<_> = self.state.lock().found.keys().copied().collect();
        views.sort_unstable();
        Ok(views)
    }

    fn open(&self, view: ViewId) -> FsResult<Arc<dyn Backend>> {
        // Held, so that a scan sees the store if the snapshot is deleted meanwhile.
        let mut state = self.state.lock();
        let place = state.found.get(&view).ok_or(FsError::NotFound)?;
        if let Some(store) = state.open.get(&view).and_then(Weak::upgrade) {
            return Ok(store);
        }
        let mount = self.mount.snapshot(self.root(view, place)?, &self.options)?;
        let store = Store::over(mount, None)?;
        state.open.insert(view, Arc::downgrade(&store));
        Ok(store)
    }

    /// Other programs delete them.
    fn delete(&self, _: ViewId, _: &mut Pace<'_>) -> FsResult<bool> {
        Err(FsError::NotSupported)
    }

    /// Btrfs knows the space that a snapshot alone holds only with quota groups.
    /// Nothing is backed up from them.
    fn changes(&self, _: ViewId, _: ViewId) -> FsResult<Option<Arc<dyn ChangedRanges>>> {
        Ok(None)
    }

    fn usage(&self, view: ViewId) -> FsResult<SnapshotUsage> {
        let state = self.state.lock();
        state.found.get(&view).map(|_| SnapshotUsage::default()).ok_or(FsError::NotFound)
    }
}

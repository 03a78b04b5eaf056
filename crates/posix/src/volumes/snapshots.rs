//! Snapshots of a volume that is a subvolume of Btrfs: read-only subvolumes beside it.
//!
//! The kernel makes a snapshot in one step and commits it before it returns, so none is ever incomplete. Before its files
//! are deleted, a snapshot gets another name. docs/formats/data-directory.md draws the tree.

use super::extents::extents;
use super::store::Store;
use super::tree::{self, open_dir};
use crate::capacity::dir_lock::DirLock;
use crate::error::refused;
use crate::fs_type::is_subvolume;
use crate::node::mount::options::Options;
use crate::sys;
use rustix::fs::{AtFlags, fsync, renameat, statat, syncfs};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Weak};
use vfs::backend::snapshots::{ChangedRanges, Pace, Progress, SnapshotUsage, Snapshots};
use vfs::sync::Mutex;
use vfs::{Backend, FileKey, FsError, FsResult, ViewId};

/// The suffix of a snapshot whose deletion has begun.
const DELETED: &str = ".deleted";
/// The suffix of a copy of a snapshot that takes the place of the volume, or of the volume that it has replaced.
const REVERT: &str = ".revert";
/// Flushes before a snapshot.
const FLUSHES: u32 = 3;
/// Calls of `pace` for files are this far apart.
const PACE_FILES: u64 = 64;

/// The directory with the snapshots of a volume.
pub(crate) struct SnapshotDir {
    dir: OwnedFd,
    options: Options,
    open: Mutex<HashMap<ViewId, Weak<Store>>>,
    /// Locked while a snapshot is deleted.
    deleting: Mutex<()>,
    /// Locks the data directory as long as a snapshot is open.
    _dir_lock: Arc<DirLock>,
}

impl SnapshotDir {
    pub(crate) fn new(dir: OwnedFd, options: Options, dir_lock: Arc<DirLock>) -> Self {
        let (open, deleting) = (Mutex::default(), Mutex::default());
        Self { dir, options, open, deleting, _dir_lock: dir_lock }
    }

    /// The open snapshots.
    pub(crate) fn stores(&self) -> Vec<Arc<Store>> {
        let mut open = self.open.lock();
        open.retain(|_, store| store.strong_count() > 0);
        open.values().filter_map(Weak::upgrade).collect()
    }

    /// The root of a snapshot; [`FsError::NotFound`] if it does not exist.
    pub(crate) fn root(&self, view: ViewId) -> FsResult<OwnedFd> {
        root_in(&self.dir, view)
    }

    fn list(&self) -> FsResult<Vec<ViewId>> {
        let names = tree::entries(&self.dir)?;
        let views = names.iter().filter_map(|name| view_of(name));
        let mut views: Vec<_> = views.filter(|&view| self.root(view).is_ok()).collect();
        views.sort_unstable();
        Ok(views)
    }
}

/// The root of a snapshot in the directory of a volume's snapshots; [`FsError::NotFound`] if it does not exist.
pub(crate) fn root_in(dir: &OwnedFd, view: ViewId) -> FsResult<OwnedFd> {
    let root = open_dir(dir.as_fd(), name(view)).map_err(refused)?;
    if is_subvolume(root.as_fd()) { Ok(root) } else { Err(FsError::NotFound) }
}

/// The name of a snapshot: 16 hexadecimal digits.
fn name(view: ViewId) -> String {
    format!("{:016x}", view.0)
}

/// The name of the subvolume that a revert exchanges with the volume.
pub(crate) fn revert_name(view: ViewId) -> String {
    name(view) + REVERT
}

/// The snapshot of a name; `None` if it is not the name of a complete snapshot.
fn view_of(text: &CStr) -> Option<ViewId> {
    let text = text.to_str().ok()?;
    let view = ViewId(u32::from_str_radix(text, 16).ok()?);
    (view != ViewId::LIVE && name(view) == text).then_some(view)
}

/// Whether an entry beside the snapshots is the rest of an interrupted deletion or revert.
pub(crate) fn is_remainder(text: &CStr) -> bool {
    let Ok(text) = text.to_str() else { return false };
    [DELETED, REVERT]
        .iter()
        .filter_map(|suffix| CString::new(text.strip_suffix(suffix)?).ok())
        .any(|name| view_of(&name).is_some())
}

impl Store {
    fn snapshot_dir(&self) -> FsResult<&Arc<SnapshotDir>> {
        self.snapshots.as_ref().filter(|_| !self.mount.is_snapshot).ok_or(FsError::NotSupported)
    }
}

/// The data that changed from one snapshot to another: where the file has other blocks on the disk. Btrfs writes no block
/// in place that a snapshot has, and none of those is used anew while the snapshot exists.
struct ChangedExtents([Arc<Store>; 2]);

impl ChangedRanges for ChangedExtents {
    fn may_differ(&self, key: &FileKey, range: Range<u64>) -> bool {
        let [old, new] = self.0.each_ref().map(|store| extents(&store.mount, key, &range));
        match (old, new) {
            (Ok(Some(old)), Ok(Some(new))) => old != new,
            _ => true,
        }
    }
}

impl Store {
    fn open_snapshot(&self, view: ViewId) -> FsResult<Arc<Store>> {
        let snapshots = self.snapshot_dir()?;
        let mut open = snapshots.open.lock();
        if let Some(store) = open.get(&view).and_then(Weak::upgrade) {
            return Ok(store);
        }
        let mount = self.mount.snapshot(snapshots.root(view)?, &snapshots.options)?;
        let store = Store::over(mount, Some(Arc::clone(snapshots)))?;
        open.retain(|_, store| store.strong_count() > 0);
        open.insert(view, Arc::downgrade(&store));
        Ok(store)
    }
}

impl Snapshots for Store {
    fn create(&self, view: ViewId) -> FsResult<()> {
        let snapshots = self.snapshot_dir()?;
        if view == ViewId::LIVE || view > ViewId::MAX {
            return Err(FsError::Invalid);
        }
        let name = name(view);
        if statat(&snapshots.dir, &name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            return Err(FsError::Exists);
        }
        // The kernel writes all data of the volume while changes wait. Each flush leaves less for it.
        for _ in 0..FLUSHES {
            syncfs(&self.mount.root).map_err(refused)?;
        }
        let stopped = self.mount.stop_changes();
        let made = sys::make_snapshot(snapshots.dir.as_fd(), name.as_bytes(), self.mount.root.as_fd(), true);
        drop(stopped);
        made.and_then(|()| fsync(&snapshots.dir)).map_err(refused)
    }

    fn list(&self) -> FsResult<Vec<ViewId>> {
        self.snapshot_dir()?.list()
    }

    fn open(&self, view: ViewId) -> FsResult<Arc<dyn Backend>> {
        Ok(self.open_snapshot(view)?)
    }

    fn changes(&self, from: ViewId, to: ViewId) -> FsResult<Option<Arc<dyn ChangedRanges>>> {
        Ok(Some(Arc::new(ChangedExtents([self.open_snapshot(from)?, self.open_snapshot(to)?]))))
    }

    fn delete(&self, view: ViewId, pace: &mut Pace<'_>) -> FsResult<bool> {
        let snapshots = self.snapshot_dir()?;
        let _deleting = snapshots.deleting.lock();
        let doomed = name(view) + DELETED;
        {
            let mut open = snapshots.open.lock();
            match renameat(&snapshots.dir, name(view), &snapshots.dir, &doomed) {
                Ok(()) => fsync(&snapshots.dir).map_err(refused)?,
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(refused(errno)),
            }
            if let Some(store) = open.remove(&view).and_then(|store| store.upgrade()) {
                store.detach_all();
            }
        }
        let done = Cell::new(0);
        let pace = RefCell::new(pace);
        let stop = || {
            done.set(done.get() + 1);
            let progress = Progress { done: done.get(), total: None };
            done.get().is_multiple_of(PACE_FILES) && pace.borrow_mut()(progress).is_break()
        };
        let doomed = CString::new(doomed).map_err(|_| FsError::Invalid)?;
        match tree::delete(snapshots.dir.as_fd(), &doomed, &stop) {
            Ok(()) => {}
            Err(Errno::CANCELED) => return Ok(false),
            Err(errno) => return Err(refused(errno)),
        }
        fsync(&snapshots.dir).map_err(refused)?;
        let done = done.get().max(1);
        let _ends_anyway = pace.borrow_mut()(Progress { done, total: Some(done) });
        Ok(true)
    }

    /// Btrfs knows the space that a snapshot alone holds only with quota groups, which slow every change.
    fn usage(&self, view: ViewId) -> FsResult<SnapshotUsage> {
        self.snapshot_dir()?.root(view).map(|_| SnapshotUsage::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_name_matches_view() {
        for view in [ViewId(1), ViewId(77), ViewId::MAX] {
            assert_eq!(view_of(&CString::new(name(view)).unwrap()), Some(view));
        }
        for other in [c"0000000000000000", c"7", c"0000000000000007.deleted", c"0000000100000000", c"x"] {
            assert_eq!(view_of(other), None, "{other:?}");
        }
        assert!(is_remainder(c"0000000000000007.deleted") && is_remainder(c"0000000000000007.revert"));
        assert!(!is_remainder(c"0000000000000007") && !is_remainder(c"precious.deleted"));
    }
}

//! Volumes below one data directory: creates, opens and removes them, and enforces their capacity.
//!
//! ```text
//! volumes/ID          the root of a volume          usage/ID   its capacity and usage
//! quotas/ID           its usage by user and group, and its rules, if it has quotas
//! snapshots/ID/VIEW   a snapshot of it, on Btrfs    snapshots/ID   its undo store, elsewhere
//! trash/ID            a removed volume, until its files are deleted
//! ```
//!
//! Every operation may be interrupted and can be repeated. A volume exists if its name is in `volumes`; everything else
//! is repaired when the volume is created, opened or removed again. docs/formats/data-directory.md draws the tree.

mod extents;
pub(crate) mod host_snapshots;
mod projects;
mod quotas;
mod recount;
mod reserve;
mod snapshots;
pub(crate) mod store;
mod subvolumes;
mod trash;
pub(crate) mod tree;
mod undo_stores;

use crate::capacity::dir_lock::DirLock;
use crate::capacity::kernel::{KernelCounts, KernelSpace};
use crate::capacity::limit::{Limit, Space};
use crate::capacity::owner_files::{self, OwnerFiles, Place};
use crate::capacity::project::{self, Project};
use crate::capacity::usage_file::{OpenUsageFile, UsageFile};
use crate::error::refused;
use crate::fs_type::{file_system_stat, is_btrfs, is_subvolume};
use crate::node::mount::Mount;
use crate::node::mount::options::Options;
use recount::VolumeWalk;
use reserve::Reserve;
use rustix::fs::{AtFlags, fstat, fsync, statat, unlinkat};
use rustix::io::Errno;
use snapshots::SnapshotDir;
use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use storage::{
    Ledger, OwnerLedger, Recounter, Space as _, Trash, UsageRecord, volume_name as name, volume_of,
};
use store::Store;
use trash::TrashDir;
use tree::{entries, make_private, open_dir, reopen};
use vfs::sync::Mutex;
use vfs::{
    Backend, Capacity, Counting, FsError, FsResult, FsStat, Pace, Provisioner, ReserveGuard, Root, Usage,
    ViewId, VolumeId,
};

const VOLUMES: &str = "volumes";
const USAGE: &str = "usage";
const QUOTAS: &str = "quotas";
const TRASH: &str = "trash";
const SNAPSHOTS: &str = "snapshots";
/// Maximum wait for changes under way when the process ends.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(2);
/// Number of [`Volumes::sweep`] calls, one a second, between two saves of the usage.
const CHECKPOINT_TICKS: u32 = 60;

pub struct Volumes {
    data: PathBuf,
    volumes: OwnedFd,
    usage: OwnedFd,
    snapshots: OwnedFd,
    /// Volumes are subvolumes of Btrfs.
    has_subvolumes: bool,
    quotas: Arc<OwnedFd>,
    options: Options,
    slots: Mutex<HashMap<VolumeId, Arc<Mutex<Slot>>>>,
    ticks: AtomicU32,
    counter: Recounter<Space>,
    reserve: Arc<Reserve>,
    trash: Trash<TrashDir>,
    /// Prevents other processes from counting or deleting the same files while this, or one of its volumes, is in use.
    /// The last field, so that counting and deleting end first.
    dir_lock: Arc<DirLock>,
}

/// The open parts of a volume. Locked by every operation on it.
#[derive(Default)]
struct Slot {
    store: Weak<Store>,
    /// Outlives the store while a file of it is in use.
    limit: Weak<Limit>,
    snapshots: Weak<SnapshotDir>,
}

impl Slot {
    fn is_open(&self) -> bool {
        self.is_in_use() || self.snapshots.strong_count() > 0
    }

    /// Whether the live files are open.
    fn is_in_use(&self) -> bool {
        self.store.strong_count() > 0 || self.limit.strong_count() > 0
    }
}

impl Volumes {
    /// Opens the volumes below the directory `data`, which must exist, and continues deleting removed volumes.
    /// [`io::ErrorKind::ResourceBusy`] if another process, or another `Volumes`, has locked it.
    pub fn open(data: &Path, options: Options) -> io::Result<Arc<Self>> {
        let data_dir = tree::open_root(data)?;
        let reserve = Reserve::new(reopen(&data_dir)?);
        let _lease = reserve.lend();
        let [volumes, usage, quotas, trash, snapshots] =
            [VOLUMES, USAGE, QUOTAS, TRASH, SNAPSHOTS].map(|name| make_private(&data_dir, name));
        let (volumes, usage, quotas) = (volumes?, usage?, quotas?);
        let (trash, snapshots) = (trash?, snapshots?);
        let is_one = fstat(&snapshots)?.st_dev == fstat(&volumes)?.st_dev;
        let has_subvolumes = is_one && is_btrfs(data_dir.as_fd());
        fsync(&data_dir)?;
        let dir_lock = DirLock::new(reopen(&volumes)?)?;
        let has_owner_attribute = Mount::uses_owner_attribute(&options);
        let walk = VolumeWalk { undo_stores: reopen(&snapshots)?, has_owner_attribute };
        let threads_max = std::thread::available_parallelism().map_or(1, Into::into);
        let counter = Recounter::new(threads_max, Box::new(walk));
        let volumes = Self {
            data: data.to_owned(),
            volumes,
            usage,
            snapshots,
            has_subvolumes,
            quotas: Arc::new(quotas),
            dir_lock: Arc::new(dir_lock),
            options,
            slots: Mutex::default(),
            ticks: AtomicU32::new(0),
            counter,
            reserve: Arc::clone(&reserve),
            trash: Trash::start(TrashDir(trash))?,
        };
        volumes.drop_orphans().and_then(|()| volumes.drop_remainders()).map_err(io::Error::other)?;
        Ok(Arc::new(volumes))
    }

    /// [`Provisioner::open`] with the concrete type.
    pub fn open_store(&self, id: VolumeId) -> FsResult<Arc<Store>> {
        let slot = self.slot(id);
        let mut slot = slot.lock();
        if let Some(store) = slot.store.upgrade() {
            return Ok(store);
        }
        let _lease = self.reserve.lend();
        let dir = self.dir(id)?;
        if !slot.is_in_use() {
            self.finish_revert(id)?;
        }
        let snapshots = match slot.snapshots.upgrade() {
            Some(snapshots) => Some(snapshots),
            None => self.snapshot_dir(id, &dir)?,
        };
        let (limit, is_new) = match slot.limit.upgrade() {
            Some(limit) => (limit, false),
            None => (Arc::new(self.limit(id, dir)?), true),
        };
        let store = self.store(id, Some(Arc::clone(&limit)), snapshots.clone())?;
        slot.snapshots = snapshots.as_ref().map(Arc::downgrade).unwrap_or_default();
        (slot.store, slot.limit) = (Arc::downgrade(&store), Arc::downgrade(&limit));
        if is_new && limit.is_uncounted() {
            self.counter.add(id, &limit);
        }
        Ok(store)
    }

    /// Calls [`Store::sweep`] for all open volumes, and saves their usage once a minute. Call this about once a second.
    pub fn sweep(&self, idle_ticks: u32) {
        let slots: Vec<_> = {
            let mut slots = self.slots.lock();
            // Drops closed and removed volumes. No other thread can get a slot while the map is locked.
            slots.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.lock().is_open());
            slots.iter().map(|(&id, slot)| (id, Arc::clone(slot))).collect()
        };
        let checkpoint =
            self.ticks.fetch_add(1, Ordering::Relaxed) % CHECKPOINT_TICKS == CHECKPOINT_TICKS - 1;
        if checkpoint {
            self.reserve.restore();
        }
        for (id, slot) in slots {
            // A volume that is being opened or removed can wait.
            let Some((store, limit)) =
                slot.try_lock().map(|slot| (slot.store.upgrade(), slot.limit.upgrade()))
            else {
                continue;
            };
            if let Some(store) = store {
                store.sweep(idle_ticks);
            }
            if let Some(Err(error)) = limit.as_ref().map(|limit| limit.settle()) {
                tracing::error!(volume = name(id), %error, "cannot set what the files of a volume may take");
            }
            if checkpoint && let Some(limit) = limit {
                limit.checkpoint();
                limit.retry();
            }
        }
    }

    /// Ends the counts of all open volumes, so that the next start need not count them. Call this when clients have
    /// stopped. A volume that still changes is counted at the next start.
    pub fn close(&self) {
        let slots: Vec<_> = self.slots.lock().values().map(Arc::clone).collect();
        // One deadline for all: the end of the process must not take longer with many volumes.
        let until = Instant::now() + CLOSE_WAIT_MAX;
        for slot in slots {
            let (store, limit) = {
                let slot = slot.lock();
                (slot.store.upgrade(), slot.limit.upgrade())
            };
            let Some(limit) = limit else { continue };
            limit.close(until);
            if let Some(store) = store {
                store.release_unlinked();
                store.seal_undo();
            }
            limit.seal();
        }
    }

    /// Whether the kernel enforces the volume's capacity by a project quota; otherwise this process counts.
    pub fn is_counted_by_kernel(&self, id: VolumeId) -> FsResult<bool> {
        Ok(self.projects(id, self.dir(id)?)?.is_some())
    }

    /// Counts all files in the directory of a volume, to compare with the running count.
    pub fn recount(dir: &Path) -> io::Result<Usage> {
        Ok(tree::count(tree::open_root(dir)?, false, None, &mut |_, _| Ok(()))?)
    }

    /// Waits up to `patience` for the files of removed volumes to be deleted. Returns whether they
    /// are.
    pub fn wait_for_trash(&self, patience: Duration) -> bool {
        self.trash.wait_until_done(patience)
    }

    /// Waits up to `patience` for all counts to end. Returns whether every volume is counted.
    pub fn wait_for_counts(&self, patience: Duration) -> bool {
        self.counter.wait(patience)
    }

    fn slot(&self, id: VolumeId) -> Arc<Mutex<Slot>> {
        Arc::clone(self.slots.lock().entry(id).or_default())
    }

    /// The root of a volume; [`FsError::NotFound`] if it does not exist.
    fn dir(&self, id: VolumeId) -> FsResult<OwnedFd> {
        open_dir(self.volumes.as_fd(), name(id)).map_err(refused)
    }

    fn store(
        &self,
        id: VolumeId,
        limit: Option<Arc<Limit>>,
        snapshots: Option<Arc<SnapshotDir>>,
    ) -> FsResult<Arc<Store>> {
        let undo = if snapshots.is_some() { None } else { self.undo_place(id)? };
        Store::open_within(&self.data.join(VOLUMES).join(name(id)), &self.options, limit, snapshots, undo)
            .map_err(|error| {
                tracing::error!(volume = name(id), %error, "cannot open");
                Errno::from_io_error(&error).map_or(FsError::Io, refused)
            })
    }

    /// The limit of the volume with the root `dir`. Its ledger must be counted if the volume was in use when the last
    /// process ended.
    fn limit(&self, id: VolumeId, dir: OwnedFd) -> FsResult<Limit> {
        let space = self.space(id, dir)?;
        let owners = OwnerLedger::open(name(id), self.owner_files(id))?;
        Ok(Limit::new(space, owners, id, self.counter.queue()))
    }

    /// The place of the files for quotas.
    fn place(&self, id: VolumeId) -> Place {
        Place { dir: Arc::clone(&self.quotas), name: name(id) }
    }

    fn owner_files(&self, id: VolumeId) -> Box<OwnerFiles> {
        Box::new(OwnerFiles::new(self.place(id), Arc::clone(&self.dir_lock)))
    }

    fn space(&self, id: VolumeId, dir: OwnedFd) -> FsResult<Space> {
        // Waits for a close of the volume under way.
        let usage_file = UsageFile::open(self.usage.as_fd(), &name(id))?;
        let saved = usage_file.read()?;
        if let Some(projects) = self.projects(id, reopen(&dir).map_err(refused)?)? {
            // The saved count will be outdated when this process counts again.
            if let Some(entry) = saved.filter(|entry| entry.is_clean) {
                usage_file.write(&UsageRecord { is_clean: false, ..entry })?;
            }
            let capacity = saved.map_or_else(|| projects.live.capacity(), |entry| Ok(entry.capacity))?;
            return Ok(Space::Kernel(KernelSpace::new(Box::new(projects), dir, capacity)?));
        }
        if let Some(project) = Project::of(reopen(&dir).map_err(refused)?) {
            project.release();
        }
        let entry = match saved {
            Some(entry) if entry.is_clean => entry,
            // Without a usage file the capacity is unknown: no growth until it is set.
            saved => saved.unwrap_or(UsageRecord {
                is_clean: false,
                capacity: Capacity { bytes: 0, files: 0 },
                usage: Usage::default(),
                held: 0,
                bound: None,
            }),
        };
        let (root, dir_lock) = (Arc::new(dir), Arc::clone(&self.dir_lock));
        let store = OpenUsageFile { file: usage_file, root: Arc::clone(&root), _dir_lock: dir_lock };
        Ok(Space::Counted { ledger: Ledger::new(&entry, Box::new(store)), root })
    }

    fn set_limit(&self, slot: &Slot, id: VolumeId, is_new: bool, capacity: Capacity) -> FsResult<()> {
        let open = slot.limit.upgrade();
        if let Some(ledger) = open.as_deref().and_then(|limit| limit.ledger()) {
            return if ledger.capacity() == capacity { Ok(()) } else { ledger.set_capacity(capacity) };
        }
        let projects = self.projects(id, self.dir(id)?)?;
        match (open.as_deref().and_then(|limit| limit.kernel()), &projects) {
            (Some(kernel), _) => kernel.set_capacity(capacity)?,
            (None, Some(projects)) => projects.limit(capacity)?,
            (None, None) => {}
        }
        let usage_file = UsageFile::open(self.usage.as_fd(), &name(id))?;
        let saved = usage_file.read()?;
        let root_alone = Usage { bytes: 0, files: 1 };
        let first = UsageRecord { is_clean: is_new, capacity, usage: root_alone, held: 0, bound: None };
        let entry = saved.map_or(first, |saved| UsageRecord { capacity, ..saved });
        let entry = UsageRecord { is_clean: entry.is_clean && projects.is_none(), ..entry };
        if saved != Some(entry) {
            usage_file.write(&entry)?;
            fsync(&self.usage).map_err(refused)?;
        }
        Ok(())
    }

    fn apply_root_attrs(&self, slot: &Slot, id: VolumeId, root: &Root) -> FsResult<()> {
        let store = slot.store.upgrade().map_or_else(|| self.store(id, None, None), Ok)?;
        let dir = store.root();
        let now = dir.attrs(vfs::Blocking::Allowed)?;
        if (Root { mode: now.mode, uid: now.uid, gid: now.gid }) != *root {
            dir.set_attrs(&root.as_set())?;
        }
        dir.sync(vfs::SyncScope::All)
    }

    /// Makes the empty directory of a volume a project, if the kernel enforces project quotas.
    fn assign_project(&self, id: VolumeId, dir: &OwnedFd) -> FsResult<()> {
        if !project::is_possible(dir.as_fd()) || project::number_at(dir.as_fd()).is_some() {
            return Ok(());
        }
        if !entries(dir)?.is_empty() {
            // Existing files belong to no project and would not be counted, so this process counts.
            return Ok(());
        }
        Project::assign(dir.as_fd(), id.0)
    }

    /// Deletes the usage file and the quotas of a volume that does not exist.
    fn forget(&self, id: VolumeId) -> FsResult<()> {
        owner_files::remove(&self.place(id))?;
        match unlinkat(&self.usage, name(id), AtFlags::empty()) {
            Ok(()) => fsync(&self.usage).map_err(refused),
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(refused(errno)),
        }
    }

    /// Deletes the usage files and quotas that an interrupted removal left.
    fn drop_orphans(&self) -> FsResult<()> {
        let names = [entries(&self.usage)?, entries(&self.quotas)?].concat();
        for id in names.iter().filter_map(|name| id_of_file(name)) {
            if !self.has(id)? {
                self.forget(id)?;
            }
        }
        Ok(())
    }

    /// Whether a volume is a subvolume of Btrfs; [`FsError::NotFound`] if it does not exist.
    fn is_subvolume(&self, id: VolumeId) -> FsResult<bool> {
        Ok(is_subvolume(self.dir(id)?.as_fd()) && self.has_subvolumes)
    }

    fn has(&self, id: VolumeId) -> FsResult<bool> {
        match statat(&self.volumes, name(id), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(refused(errno)),
        }
    }
}

impl Provisioner for Volumes {
    fn make(&self, id: VolumeId, root: &Root, capacity: Capacity) -> FsResult<()> {
        let _lease = self.reserve.lend();
        let slot = self.slot(id);
        let slot = slot.lock();
        let is_new = !self.has(id)?;
        if is_new {
            // Before the directory: a new volume must never have the usage of an old one.
            self.forget(id)?;
            self.discard_snapshots(id)?;
            self.make_root(id)?;
        }
        self.assign_project(id, &self.dir(id)?)?;
        self.apply_root_attrs(&slot, id, root)?;
        fsync(&self.volumes).map_err(refused)?;
        self.set_limit(&slot, id, is_new, capacity)
    }

    fn open(&self, id: VolumeId) -> FsResult<Arc<dyn Backend>> {
        Ok(self.open_store(id)?)
    }

    fn set_capacity(&self, id: VolumeId, capacity: Capacity) -> FsResult<()> {
        let _lease = self.reserve.lend();
        let slot = self.slot(id);
        let slot = slot.lock();
        self.dir(id)?;
        self.set_limit(&slot, id, false, capacity)
    }

    fn set_snapshot_reserve(&self, id: VolumeId, bytes: u64) -> FsResult<()> {
        let slot = self.slot(id);
        let limit = slot.lock().limit.upgrade();
        limit.map_or_else(|| self.dir(id).map(drop), |limit| limit.set_reserve(bytes))
    }

    fn set_root(&self, id: VolumeId, root: &Root) -> FsResult<()> {
        let slot = self.slot(id);
        let slot = slot.lock();
        self.dir(id)?;
        self.apply_root_attrs(&slot, id, root)
    }

    fn usage(&self, id: VolumeId) -> FsResult<Usage> {
        let dir = self.dir(id)?;
        // The slot may be locked by an open that waits for the end of an earlier one.
        if let Some(limit) = self.slot(id).try_lock().and_then(|slot| slot.limit.upgrade()) {
            return limit.usage();
        }
        if let Some(projects) = self.projects(id, dir)? {
            let usage = projects.live()?;
            return Ok(Usage { bytes: usage.bytes.saturating_add(projects.held()?), ..usage });
        }
        Ok(UsageFile::peek(self.usage.as_fd(), &name(id))?.map(|entry| entry.usage).unwrap_or_default())
    }

    fn remove(&self, id: VolumeId) -> FsResult<()> {
        let _lease = self.reserve.lend();
        let slot = self.slot(id);
        let mut slot = slot.lock();
        if let Some(limit) = slot.limit.upgrade() {
            limit.set_removed();
        }
        let Slot { store, snapshots, .. } = std::mem::take(&mut *slot);
        let was_moved = self.trash.dir().take(&self.volumes, &name(id))?;
        let was_moved = self.discard_snapshots(id)? || was_moved;
        let open = snapshots.upgrade().map(|snapshots| snapshots.stores());
        for store in open.into_iter().flatten().chain(store.upgrade()) {
            // Referenced nodes would keep their blocks.
            store.detach_all();
        }
        self.forget(id)?;
        if was_moved {
            self.trash.wake();
        }
        Ok(())
    }

    fn revert(&self, id: VolumeId, view: ViewId, pace: &mut Pace<'_>) -> FsResult<bool> {
        let _lease = self.reserve.lend();
        let slot = self.slot(id);
        let slot = slot.lock();
        // Open files would stay in the old tree.
        if slot.is_in_use() {
            Err(FsError::Locked)
        } else if self.is_subvolume(id)? {
            self.revert_closed(id, view, pace)
        } else {
            self.revert_changes(id, view, pace)
        }
    }

    fn clone_volume(
        &self,
        source: VolumeId,
        view: ViewId,
        id: VolumeId,
        root: &Root,
        capacity: Capacity,
        pace: &mut Pace<'_>,
    ) -> FsResult<bool> {
        let _lease = self.reserve.lend();
        let slot = self.slot(id);
        let slot = slot.lock();
        if !self.has(id)? {
            self.forget(id)?;
            self.discard_snapshots(id)?;
            let is_made = if self.is_subvolume(source)? {
                self.make_clone(source, view, id, pace)?
            } else {
                self.copy_clone(source, view, id, pace)?
            };
            if !is_made {
                return Ok(false);
            }
        }
        self.apply_root_attrs(&slot, id, root)?;
        fsync(&self.volumes).map_err(refused)?;
        self.set_limit(&slot, id, false, capacity)?;
        Ok(true)
    }

    fn snapshot_bytes(&self, id: VolumeId) -> FsResult<Option<u64>> {
        if self.is_subvolume(id)? {
            return self.bytes_of_snapshots(id);
        }
        self.held_bytes(id).map(Some)
    }

    fn list(&self) -> FsResult<Vec<VolumeId>> {
        Ok(entries(&self.volumes)?.iter().filter_map(|name| volume_of(name.to_bytes())).collect())
    }

    fn lend_room(&self) -> ReserveGuard {
        Some(Box::new(self.reserve.lend()))
    }

    fn counting(&self) -> Counting {
        self.counter.progress()
    }

    fn room(&self) -> FsResult<FsStat> {
        file_system_stat(self.volumes.as_fd())
    }
}

/// The volume of a file's name, which may go on after a dot.
fn id_of_file(text: &CStr) -> Option<VolumeId> {
    volume_of(text.to_bytes().split(|&byte| byte == b'.').next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_and_closed_volumes_leave_slots() {
        let dir = tempfile::tempdir().unwrap();
        let volumes = Volumes::open(dir.path(), Options::default()).unwrap();
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let root = Root { mode: 0o755, uid: own.0, gid: own.1 };
        let ids: Vec<_> = (1..=20).map(VolumeId).collect();
        for &id in &ids {
            volumes.make(id, &root, Capacity { bytes: 1 << 20, files: 10 }).unwrap();
        }
        let open: Vec<_> = ids.iter().map(|&id| volumes.open(id).unwrap()).collect();
        volumes.sweep(4);
        assert_eq!(volumes.slots.lock().len(), 20);
        ids[1..].iter().for_each(|&id| volumes.remove(id).unwrap());
        drop(open);
        volumes.sweep(4);
        assert_eq!(volumes.slots.lock().len(), 0, "one is closed, the others are gone");
        assert!(volumes.open(ids[0]).is_ok() && volumes.open(ids[1]).is_err());
    }
}

//! Volumes below one directory of a CephFS: creates, opens and removes them, and enforces their capacity.
//!
//! ```text
//! volumes/ID          a volume; attributes: its capacity and usage, and its quota
//! volumes/ID/files    its root
//! volumes/ID/new      objects that are being made
//! volumes/ID/quotas   its usage by user and group, and its rules, if it has quotas
//! volumes/ID/held     files that a revert has taken out, as long as snapshots may have them
//! volumes/ID/clone    the root of a clone that is being made
//! trash/ID            a removed volume, until its files are deleted
//! gateways/NAME       a directory that one process changes
//! lock                locked by the process that uses all of this
//! ```
//!
//! Every operation may be interrupted and can be repeated. A volume exists if its root exists.

mod recount;
mod revert;
mod snapshots;
mod trash;

use crate::cluster::{Cluster, Options, Place, make_private};
use crate::error::{OpenError, refused};
use crate::ffi::{Inode, SetMask, Statx, Wanted};
use crate::node::tree::Tree;
use crate::owner_files::OwnerFiles;
use crate::snapshot::held;
use crate::space::{InUse, Limit, Space, file_system_stat, read_record, write_record};
use crate::store::Store;
use crate::walk;
use recount::{TreeList, VolumeWalk};
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use storage::{NodeBudget, OwnerLedger, Recounter, Trash, UsageRecord, volume_name, volume_of};
use trash::TrashDir;
use vfs::sync::Mutex;
use vfs::{
    Backend, Capacity, Counting, FsError, FsResult, FsStat, Pace, Provisioner, Root, Usage, ViewId, VolumeId,
    unpaced,
};

/// `max_file_size` of a new CephFS. A file system with a smaller one refuses earlier.
const FILE_BYTES_MAX: u64 = 1 << 40;
/// Maximum wait for changes under way when the process ends.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(2);
/// Number of [`Volumes::sweep`] calls, one a second, between two saves of the usage.
const CHECKPOINT_TICKS: u32 = 60;
const ROOT: &CStr = c"files";
const STAGING: &CStr = c"new";
/// The quota of a directory in bytes: the engine refuses writes a little after the volume's own count does.
const QUOTA: &CStr = c"ceph.quota.max_bytes";
/// Room for the service's own files, which a full volume needs too.
const QUOTA_SLACK_BYTES: u64 = 16 << 20;
/// Time until the next attempt, if the session with the cluster has ended.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

pub struct Volumes {
    cluster: Arc<Cluster>,
    volumes: Place,
    budget: Arc<NodeBudget>,
    slots: Mutex<HashMap<VolumeId, Arc<Mutex<Slot>>>>,
    ticks: AtomicU32,
    /// The trees of open volumes.
    trees: Arc<TreeList>,
    counter: Recounter<Space>,
    trash: Trash<TrashDir>,
}

/// The open parts of a volume. Locked by every operation on it.
#[derive(Default)]
struct Slot {
    store: Weak<Store>,
    /// Outlives the store while a file of it is in use.
    limit: Weak<Limit>,
    in_use: Arc<InUse>,
}

impl Slot {
    fn is_open(&self) -> bool {
        self.store.strong_count() > 0 || self.limit.strong_count() > 0 || Arc::strong_count(&self.in_use) > 1
    }
}

impl Volumes {
    /// Connects to the cluster and opens the volumes below the directory. Continues deleting removed volumes.
    pub fn open(options: &Options, budget: Arc<NodeBudget>) -> Result<Arc<Self>, OpenError> {
        let cluster = Cluster::connect(options)?;
        let failed =
            |error: FsError| OpenError::new(format!("cannot use {} of CephFS: {error}", options.directory));
        let [volumes, trash] = [c"volumes", c"trash"].map(|name| cluster.private_dir(name).map_err(failed));
        let trash = Trash::start(TrashDir(trash?)).map_err(|error| OpenError::new(error.to_string()))?;
        let trees = Arc::<TreeList>::default();
        let walk = VolumeWalk { trees: Arc::clone(&trees) };
        Ok(Arc::new(Self {
            cluster,
            volumes: volumes?,
            budget,
            slots: Mutex::default(),
            ticks: AtomicU32::new(0),
            trees,
            counter: Recounter::new(1, Box::new(walk)),
            trash,
        }))
    }

    /// Releases what was not used for `idle_ticks`, and saves the usage once a minute. Call this about once a second.
    pub fn sweep(&self, idle_ticks: u32) {
        let slots: Vec<_> = {
            let mut slots = self.slots.lock();
            // Drops closed and removed volumes. No other thread can get a slot while the map is locked.
            slots.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.lock().is_open());
            slots.values().map(Arc::clone).collect()
        };
        let checkpoint =
            self.ticks.fetch_add(1, Ordering::Relaxed) % CHECKPOINT_TICKS == CHECKPOINT_TICKS - 1;
        for slot in slots {
            // A volume that is being opened or removed can wait.
            let Some((store, limit)) =
                slot.try_lock().map(|slot| (slot.store.upgrade(), slot.limit.upgrade()))
            else {
                continue;
            };
            if let Some(store) = &store {
                store.tree.sweep(idle_ticks);
                store.snapshots.sweep(idle_ticks);
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
        let until = Instant::now() + CLOSE_WAIT_MAX;
        for slot in slots {
            let (store, limit) = {
                let slot = slot.lock();
                (slot.store.upgrade(), slot.limit.upgrade())
            };
            let Some(limit) = limit else { continue };
            limit.close(until);
            if let Some(store) = store {
                store.tree.release_nameless();
            }
            limit.seal();
        }
    }

    /// Stops the thread that watches the connection. For tests of a crash: a service that they forget must not use the
    /// library while the program ends.
    #[doc(hidden)]
    pub fn stop_watch(&self) {
        self.cluster.stop_watch();
    }

    /// Waits up to `patience` for the files of removed volumes to be deleted. Returns whether they are.
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

    /// The directory of a volume and its root; [`FsError::NotFound`] if it does not exist.
    fn dirs(&self, id: VolumeId) -> FsResult<(Inode, Inode)> {
        let (dir, _) = self.volumes.inode().and_then(|volumes| volumes.lookup(&name(id))).map_err(refused)?;
        let (root, _) = dir.lookup(ROOT).map_err(refused)?;
        Ok((dir, root))
    }

    /// The limit of the volume in `dir`. It must be counted if the volume was in use when the last process ended.
    fn limit(&self, id: VolumeId, dir: Inode, in_use: &Arc<InUse>) -> FsResult<Limit> {
        let space = Space::open(Place::new(&self.cluster, dir)?, in_use)?;
        let owners = OwnerLedger::open(volume_name(id), Box::new(OwnerFiles::new(&space.dir)))?;
        Ok(Limit::new(space, owners, id, self.counter.queue()))
    }

    fn open_store(&self, id: VolumeId) -> FsResult<Arc<Store>> {
        let slot = self.slot(id);
        let mut slot = slot.lock();
        if let Some(store) = slot.store.upgrade() {
            return Ok(store);
        }
        let (dir, root) = self.dirs(id)?;
        if let Some(view) = Self::interrupted_revert(&dir)? {
            self.revert_closed(id, view, &mut unpaced)?;
        }
        let staging = make_private(&dir, STAGING).map_err(refused)?;
        let (limit, is_new) = match slot.limit.upgrade() {
            Some(limit) => (limit, false),
            None => (Arc::new(self.limit(id, dir, &slot.in_use)?), true),
        };
        if is_new {
            // Objects of an earlier process that were never finished.
            walk::empty(&staging, &|| false).map_err(refused)?;
        }
        let staging = Place::new(&self.cluster, staging)?;
        let tree = Tree::new(&root, staging, Arc::clone(&limit), &self.budget, FILE_BYTES_MAX)?;
        let tree = Arc::new(tree);
        self.trees.add(id, &tree);
        let store = Arc::new(Store::new(tree, root, &self.budget)?);
        (slot.store, slot.limit) = (Arc::downgrade(&store), Arc::downgrade(&limit));
        if is_new && limit.is_uncounted() {
            if !limit.owners().is_uncounted() {
                limit.ledger.serve_while_counting();
            }
            self.counter.add(id, &limit);
        }
        Ok(store)
    }

    fn apply_root(&self, id: VolumeId, root: &Root) -> FsResult<()> {
        let (_, inode) = self.dirs(id)?;
        let mut mask = SetMask::MODE;
        mask.add(SetMask::UID);
        mask.add(SetMask::GID);
        let mode = u16::try_from(root.mode).map_err(|_| FsError::Invalid)?;
        let stat = Statx { mode, uid: root.uid, gid: root.gid, ..Statx::default() };
        let now = inode.attrs().map_err(refused)?;
        if (now.mode & 0o7777, now.uid, now.gid) != (stat.mode, stat.uid, stat.gid) {
            inode.set_attrs(mask, &stat).map_err(refused)?;
        }
        inode.sync(false).map_err(refused)
    }

    fn set_limit(&self, slot: &Slot, id: VolumeId, is_new: bool, capacity: Capacity) -> FsResult<()> {
        let (dir, _) = self.dirs(id)?;
        set_quota(&dir, Some(capacity.bytes));
        if let Some(limit) = slot.limit.upgrade() {
            let ledger = &limit.ledger;
            return if ledger.capacity() == capacity { Ok(()) } else { ledger.set_capacity(capacity) };
        }
        let saved = read_record(&dir)?;
        let root_alone = Usage { bytes: 0, files: 1 };
        let first = UsageRecord { is_clean: is_new, capacity, usage: root_alone, held: 0, bound: None };
        let record = saved.map_or(first, |saved| UsageRecord { capacity, ..saved });
        if saved == Some(record) { Ok(()) } else { write_record(&dir, &record) }
    }
}

impl Provisioner for Volumes {
    fn make(&self, id: VolumeId, root: &Root, capacity: Capacity) -> FsResult<()> {
        let slot = self.slot(id);
        let slot = slot.lock();
        let is_new = match self.dirs(id) {
            Ok(_) => false,
            Err(FsError::NotFound) => true,
            Err(error) => return Err(error),
        };
        if is_new {
            let volumes = self.volumes.inode().map_err(refused)?;
            let dir = make_private(&volumes, &name(id)).map_err(refused)?;
            make_private(&dir, STAGING).and_then(|_| make_private(&dir, ROOT)).map_err(refused)?;
            dir.sync(false).and_then(|()| volumes.sync(false)).map_err(refused)?;
        }
        self.apply_root(id, root)?;
        self.set_limit(&slot, id, is_new, capacity)
    }

    fn open(&self, id: VolumeId) -> FsResult<Arc<dyn Backend>> {
        Ok(self.open_store(id)?)
    }

    fn set_capacity(&self, id: VolumeId, capacity: Capacity) -> FsResult<()> {
        let slot = self.slot(id);
        let slot = slot.lock();
        self.set_limit(&slot, id, false, capacity)
    }

    fn set_snapshot_reserve(&self, id: VolumeId, bytes: u64) -> FsResult<()> {
        let slot = self.slot(id);
        match slot.lock().limit.upgrade() {
            Some(limit) => limit.ledger.set_reserve(bytes),
            None => drop(self.dirs(id)?),
        }
        Ok(())
    }

    fn set_root(&self, id: VolumeId, root: &Root) -> FsResult<()> {
        let slot = self.slot(id);
        let _locked = slot.lock();
        self.apply_root(id, root)
    }

    fn usage(&self, id: VolumeId) -> FsResult<Usage> {
        let (dir, _) = self.dirs(id)?;
        // The slot may be locked by an open that waits for the end of an earlier one.
        if let Some(limit) = self.slot(id).try_lock().and_then(|slot| slot.limit.upgrade()) {
            return Ok(limit.ledger.usage());
        }
        Ok(read_record(&dir)?.map(|record| record.usage).unwrap_or_default())
    }

    fn counting(&self) -> Counting {
        self.counter.progress()
    }

    fn remove(&self, id: VolumeId) -> FsResult<()> {
        let slot = self.slot(id);
        let mut slot = slot.lock();
        if let Some(limit) = slot.limit.upgrade() {
            limit.set_removed();
        }
        let store = std::mem::take(&mut slot.store).upgrade();
        slot.limit = Weak::new();
        slot.in_use = Arc::default();
        let was_moved = self.trash.dir().take(&*self.volumes.inode().map_err(refused)?, &name(id))?;
        if let Some(store) = store {
            store.tree.detach_all();
        }
        if was_moved {
            self.trash.wake();
        }
        Ok(())
    }

    fn revert(&self, id: VolumeId, view: ViewId, pace: &mut Pace<'_>) -> FsResult<bool> {
        let slot = self.slot(id);
        let slot = slot.lock();
        if slot.is_open() {
            return Err(FsError::Locked);
        }
        self.revert_closed(id, view, pace)
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
        let slot = self.slot(id);
        let slot = slot.lock();
        let is_missing = matches!(self.dirs(id), Err(FsError::NotFound));
        if is_missing && !self.copy_clone(source, view, id, pace)? {
            return Ok(false);
        }
        self.apply_root(id, root)?;
        self.set_limit(&slot, id, false, capacity)?;
        Ok(true)
    }

    fn snapshot_bytes(&self, id: VolumeId) -> FsResult<Option<u64>> {
        self.bytes_of_snapshots(id)
    }

    fn list(&self) -> FsResult<Vec<VolumeId>> {
        let mut entries = self.volumes.inode().and_then(|volumes| volumes.open_dir()).map_err(refused)?;
        let mut ids = Vec::new();
        while let Some(entry) = entries.next(Wanted::Nothing).map_err(refused)? {
            ids.extend(volume_of(&entry.name));
        }
        ids.retain(|&id| self.dirs(id).is_ok());
        Ok(ids)
    }

    fn room(&self) -> FsResult<FsStat> {
        file_system_stat(&*self.volumes.inode().map_err(refused)?)
    }
}

/// Sets the engine's own quota for a volume of this size; `None` is no quota.
fn set_quota(dir: &Inode, bytes: Option<u64>) {
    let value =
        bytes.map_or(0, |bytes| bytes.saturating_add(QUOTA_SLACK_BYTES).saturating_add(held::bytes(dir)));
    let value = value.to_string();
    let mut now = [0; 24];
    let is_set = dir.xattr(QUOTA, &mut now).is_ok_and(|len| now[..len] == *value.as_bytes());
    if !is_set && let Err(errno) = dir.set_xattr(QUOTA, value.as_bytes(), 0) {
        // Without the right to set quotas the volume's own count still holds.
        tracing::warn!(error = %io::Error::from(errno), "cannot set the quota of a volume in CephFS: give the Ceph user the capability `p`");
    }
}

/// The name of a volume's directory: 16 hexadecimal digits.
fn name(id: VolumeId) -> CString {
    CString::new(volume_name(id)).unwrap_or_default()
}

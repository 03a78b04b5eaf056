//! Volumes in memory, for tests of whatever makes and removes volumes.

use super::{Clock, MemFs, Options};
use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};
use vfs::backend::Backend;
use vfs::backend::provisioner::{Capacity, Provisioner, Root, Usage};
use vfs::backend::snapshots::{Pace, Progress, Snapshots};
use vfs::error::{FsError, FsResult};
use vfs::file_key::ViewId;
use vfs::model::attrs::FsStat;
use vfs::model::volume_id::VolumeId;
use vfs::sync::Mutex;

/// A provisioner of [`MemFs`] volumes. A removed volume lives until its last reference is dropped.
pub struct MemProvisioner {
    clock: Clock,
    room: Capacity,
    volumes: Mutex<BTreeMap<VolumeId, MemFs>>,
}

impl MemProvisioner {
    /// A provisioner without volumes. `room` is the reported size of the underlying storage; it does not limit volumes.
    pub fn new(clock: Clock, room: Capacity) -> Self {
        Self { clock, room, volumes: Mutex::default() }
    }

    /// Returns the durable state of all volumes, as after a power cut. Volumes of this provisioner continue unchanged.
    #[must_use]
    pub fn crash(&self) -> Self {
        let volumes = self.lock().iter().map(|(&id, fs)| (id, fs.crash())).collect();
        Self { clock: self.clock.clone(), room: self.room, volumes: Mutex::new(volumes) }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<VolumeId, MemFs>> {
        self.volumes.lock()
    }

    fn volume(&self, id: VolumeId) -> FsResult<MemFs> {
        self.lock().get(&id).cloned().ok_or(FsError::NotFound)
    }
}

impl Provisioner for MemProvisioner {
    fn make(&self, id: VolumeId, root: &Root, capacity: Capacity) -> FsResult<()> {
        let options =
            Options { bytes_total: capacity.bytes, files_total: capacity.files, ..Options::default() };
        self.lock().entry(id).or_insert_with(|| MemFs::with_options(self.clock.clone(), options));
        self.set_capacity(id, capacity)?;
        self.set_root(id, root)
    }

    fn open(&self, id: VolumeId) -> FsResult<Arc<dyn Backend>> {
        Ok(Arc::new(self.volume(id)?))
    }

    fn set_capacity(&self, id: VolumeId, capacity: Capacity) -> FsResult<()> {
        self.volume(id)?.set_capacity(capacity);
        Ok(())
    }

    fn set_snapshot_reserve(&self, id: VolumeId, bytes: u64) -> FsResult<()> {
        self.volume(id)?.set_reserve(bytes);
        Ok(())
    }

    fn set_root(&self, id: VolumeId, root: &Root) -> FsResult<()> {
        let fs = self.volume(id)?;
        fs.root().set_attrs(&root.as_set())?;
        fs.root().sync(vfs::backend::SyncScope::All)
    }

    fn usage(&self, id: VolumeId) -> FsResult<Usage> {
        Ok(self.volume(id)?.usage())
    }

    fn remove(&self, id: VolumeId) -> FsResult<()> {
        self.lock().remove(&id);
        Ok(())
    }

    fn revert(&self, id: VolumeId, view: ViewId, pace: &mut Pace<'_>) -> FsResult<bool> {
        let volumes = self.lock();
        let volume = volumes.get(&id).ok_or(FsError::NotFound)?;
        if volume.is_in_use() {
            return Err(FsError::Locked);
        }
        volume.snapshot(view)?;
        if pace(Progress { done: 0, total: Some(1) }).is_break() {
            return Ok(false);
        }
        volume.revert(view)?;
        let _ends_anyway = pace(Progress { done: 1, total: Some(1) });
        Ok(true)
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
        let mut volumes = self.lock();
        if !volumes.contains_key(&id) {
            volumes.get(&source).ok_or(FsError::NotFound)?.snapshot(view)?;
            if pace(Progress { done: 0, total: Some(1) }).is_break() {
                return Ok(false);
            }
            let copy = volumes.get(&source).ok_or(FsError::NotFound)?.clone_of(view)?;
            volumes.insert(id, copy);
        }
        drop(volumes);
        self.set_capacity(id, capacity)?;
        self.set_root(id, root)?;
        let _ends_anyway = pace(Progress { done: 1, total: Some(1) });
        Ok(true)
    }

    fn snapshot_bytes(&self, id: VolumeId) -> FsResult<Option<u64>> {
        Ok(Snapshots::list(&self.volume(id)?)?.is_empty().then_some(0))
    }

    fn list(&self) -> FsResult<Vec<VolumeId>> {
        Ok(self.lock().keys().copied().collect())
    }

    fn room(&self) -> FsResult<FsStat> {
        let usages: Vec<Usage> = self.lock().values().map(MemFs::usage).collect();
        let bytes = usages.iter().map(|usage| usage.bytes).sum();
        Ok(self.room.stat(Usage { bytes, files: usages.iter().map(|usage| usage.files).sum() }))
    }
}

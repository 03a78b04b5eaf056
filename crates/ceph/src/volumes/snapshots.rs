//! Volumes from snapshots: clones, and volumes that go back to one.

use super::revert::Revert;
use super::{FILE_BYTES_MAX, ROOT, STAGING, Volumes, name, set_quota};
use crate::cluster::{Place, make_private};
use crate::error::refused;
use crate::ffi::Inode;
use crate::node::tree::Tree;
use crate::owner_files::OwnerFiles;
use crate::snapshot::{self, held};
use crate::space::{read_record, unlimited, write_record};
use crate::store::Store;
use crate::walk;
use rustix::io::Errno;
use std::ffi::CStr;
use std::sync::Arc;
use storage::{OwnerLedger, UsageRecord};
use vfs::volume::copies::copy_tree;
use vfs::{Backend, Capacity, FsError, FsResult, Pace, Progress, Snapshots, ViewId, VolumeId};

/// The root of a clone that is being made.
const CLONE: &CStr = c"clone";
/// The attribute of a volume's directory with the number of the snapshot that it goes back to.
const REVERT: &CStr = c"trusted.plimsoll.revert";

impl Volumes {
    /// Makes a new volume from a snapshot of another one, file by file. False if `pace` ended it: then there is no volume.
    pub(super) fn copy_clone(
        &self,
        source: VolumeId,
        view: ViewId,
        id: VolumeId,
        pace: &mut Pace<'_>,
    ) -> FsResult<bool> {
        let source = self.open_store(source)?;
        let snapshot = source.snapshots.open(view)?;
        let volumes = self.volumes.inode().map_err(refused)?;
        let dir = Arc::new(make_private(&volumes, &name(id)).map_err(refused)?);
        let root = make_private(&dir, CLONE).map_err(refused)?;
        // The rest of an interrupted clone.
        walk::empty(&root, &|| false).map_err(refused)?;
        let target = self.private_store(id, &dir, root)?;
        if !copy_tree(&*snapshot, &target, pace)? {
            return Ok(false);
        }
        target.sync()?;
        let usage = target.tree.limit.ledger.usage();
        drop(target);
        // `set_limit` follows.
        let capacity = Capacity { bytes: 0, files: 0 };
        write_record(&dir, &UsageRecord { is_clean: true, capacity, usage, held: 0, bound: None })?;
        let renamed = dir.rename(CLONE, &dir, ROOT).and_then(|()| dir.sync(false));
        renamed.and_then(|()| volumes.sync(false)).map_err(refused)?;
        Ok(true)
    }

    /// A store of files that no client uses, without a limit.
    fn private_store(&self, id: VolumeId, dir: &Arc<Inode>, root: Inode) -> FsResult<Store> {
        let staging = make_private(dir, STAGING).map_err(refused)?;
        walk::empty(&staging, &|| false).map_err(refused)?;
        let staging = Place::new(&self.cluster, staging)?;
        let dir = Place::new(&self.cluster, Arc::clone(dir))?;
        let limit = Arc::new(unlimited(id, dir, self.counter.queue())?);
        let tree = Tree::new(&root, staging, limit, &self.budget, FILE_BYTES_MAX)?;
        Store::new(Arc::new(tree), root, &self.budget)
    }

    /// Brings a volume that is not open back to a snapshot. The next open counts its files, by owner too if it did
    /// before.
    pub(super) fn revert_closed(&self, id: VolumeId, view: ViewId, pace: &mut Pace<'_>) -> FsResult<bool> {
        let (dir, root) = self.dirs(id)?;
        let dir = Arc::new(dir);
        let store = self.private_store(id, &dir, root)?;
        let snapshot = store.snapshots.open(view)?;
        if pace(Progress::default()).is_break() {
            return Ok(false);
        }
        let record = read_record(&dir)?;
        if let Some(record) = record.filter(|record| record.is_clean || record.bound.is_some()) {
            write_record(&dir, &UsageRecord { is_clean: false, bound: None, ..record })?;
        }
        OwnerLedger::require_count(Box::new(OwnerFiles::new(&store.tree.limit.dir)))?;
        // While old and new files exist side by side, they may need more.
        set_quota(&dir, None);
        let mark = dir.set_xattr(REVERT, &view.0.to_be_bytes(), 0).and_then(|()| dir.sync(false));
        mark.map_err(refused)?;
        let held = make_private(&dir, held::HELD).map_err(refused)?;
        if !Revert::new(snapshot, &store, &held, pace).run()? {
            return Ok(false);
        }
        let snapshots = store.snapshots.dir()?;
        held::sweep(&dir, &snapshots)?;
        store.sync()?;
        dir.remove_xattr(REVERT).and_then(|()| dir.sync(false)).map_err(refused)?;
        set_quota(&dir, record.map(|record| record.capacity.bytes));
        Ok(true)
    }

    /// The snapshot to which a volume was going back when the last process ended.
    pub(super) fn interrupted_revert(dir: &Inode) -> FsResult<Option<ViewId>> {
        let mut number = [0; 4];
        match dir.xattr(REVERT, &mut number) {
            Ok(4) => Ok(Some(ViewId(u32::from_be_bytes(number)))),
            Ok(_) => Err(FsError::Io),
            Err(Errno::NODATA) => Ok(None),
            Err(errno) => Err(refused(errno)),
        }
    }

    /// The bytes that the snapshots of a volume hold: known only if there are none.
    pub(super) fn bytes_of_snapshots(&self, id: VolumeId) -> FsResult<Option<u64>> {
        let (_, root) = self.dirs(id)?;
        let (snapshots, _) = root.lookup(self.cluster.snapshot_dir()).map_err(refused)?;
        Ok(snapshot::list(&snapshots)?.is_empty().then_some(0))
    }
}

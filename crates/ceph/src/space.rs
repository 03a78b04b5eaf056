//! The count of an open volume, and its record in the file system.

use crate::cluster::Place;
use crate::error::refused;
use crate::ffi::Inode;
use rustix::io::Errno;
use std::sync::Arc;
use storage::{
    CountQueue, Ledger, OwnerLedger, OwnerStore, USAGE_RECORD_BYTES_MAX, UsageRecord, UsageStore, volume_name,
};
use vfs::sync::{Condvar, Mutex};
use vfs::{FsError, FsResult, FsStat, VolumeId, Wait};

/// The attribute of a volume's directory with its capacity and usage.
const USAGE: &std::ffi::CStr = c"trusted.plimsoll.usage";

/// Reads the record of the volume in `dir`; `None` if it has none, or an invalid one.
pub(crate) fn read_record(dir: &Inode) -> FsResult<Option<UsageRecord>> {
    let mut bytes = [0; USAGE_RECORD_BYTES_MAX + 1];
    match dir.xattr(USAGE, &mut bytes) {
        Ok(len) => Ok(UsageRecord::decode(&bytes[..len])),
        Err(Errno::NODATA | Errno::RANGE) => Ok(None),
        Err(errno) => Err(refused(errno)),
    }
}

/// Writes the record of the volume in `dir`, durably.
pub(crate) fn write_record(dir: &Inode, record: &UsageRecord) -> FsResult<()> {
    dir.set_xattr(USAGE, &record.encode(), 0).and_then(|()| dir.sync(false)).map_err(refused)
}

/// The directory of a volume.
pub(crate) struct VolumeDir {
    place: Place,
    /// The connection at the beginning.
    generation: u64,
}

impl VolumeDir {
    fn new(place: Place) -> Arc<Self> {
        Arc::new(Self { generation: place.cluster().generation(), place })
    }

    pub(crate) fn inode(&self) -> FsResult<Arc<Inode>> {
        self.place.inode().map_err(refused)
    }

    fn sync_files(&self) -> FsResult<()> {
        let cluster = self.place.cluster();
        // A change whose answer was lost with a session may have been made or not.
        if cluster.generation() != self.generation {
            return Err(FsError::Wait(Wait::Recall));
        }
        cluster.client().sync().map_err(refused)
    }
}

struct RecordStore(Arc<VolumeDir>);

impl UsageStore for RecordStore {
    fn write(&self, record: &UsageRecord) -> FsResult<()> {
        write_record(&*self.0.inode()?, record)
    }

    fn write_lazily(&self, record: &UsageRecord) -> FsResult<()> {
        self.0.inode()?.set_xattr(USAGE, &record.encode(), 0).map_err(refused)
    }

    fn sync_files(&self) -> FsResult<()> {
        self.0.sync_files()
    }

    fn keeps_bound(&self) -> bool {
        true
    }
}

/// The store of counts that are not saved.
struct NoStore;

impl UsageStore for NoStore {
    fn write(&self, _: &UsageRecord) -> FsResult<()> {
        Ok(())
    }

    fn write_lazily(&self, _: &UsageRecord) -> FsResult<()> {
        Ok(())
    }

    fn sync_files(&self) -> FsResult<()> {
        Ok(())
    }
}

impl OwnerStore for NoStore {
    fn open_table(&mut self, _: bool) -> FsResult<bool> {
        Ok(false)
    }

    fn read_table(&self) -> FsResult<Vec<u8>> {
        Ok(Vec::new())
    }

    fn write_table(&self, _: &[u8], _: bool) -> FsResult<()> {
        Ok(())
    }

    fn sync_table(&self) -> FsResult<()> {
        Ok(())
    }

    fn read_rules(&self) -> FsResult<Option<Vec<u8>>> {
        Ok(None)
    }

    fn replace_rules(&self, _: &[u8]) -> FsResult<()> {
        Err(FsError::NotSupported)
    }
}

/// Whether a volume has an open count. The next opening waits until the record of the last one is written.
#[derive(Default)]
pub(crate) struct InUse {
    is_open: Mutex<bool>,
    closed: Condvar,
}

impl InUse {
    fn begin(self: &Arc<Self>) -> InUseGuard {
        let mut is_open = self.is_open.lock();
        while *is_open {
            is_open = self.closed.wait(is_open);
        }
        *is_open = true;
        InUseGuard(Arc::clone(self))
    }
}

struct InUseGuard(Arc<InUse>);

impl Drop for InUseGuard {
    fn drop(&mut self) {
        *self.0.is_open.lock() = false;
        self.0.closed.notify_all();
    }
}

/// The capacity of an open volume, and the quotas of users and groups. Saved on drop.
pub(crate) type Limit = storage::Limit<Space>;

/// A count of new files that no client uses: nothing is refused or saved, and owners are not counted.
pub(crate) fn unlimited(id: VolumeId, dir: Place, queue: Arc<dyn CountQueue<Space>>) -> FsResult<Limit> {
    let capacity = vfs::Capacity { bytes: u64::MAX, files: u64::MAX };
    let usage = vfs::Usage { bytes: 0, files: 1 };
    let record = UsageRecord { is_clean: true, capacity, usage, held: 0, bound: None };
    let ledger = Ledger::new(&record, Box::new(NoStore));
    let space = Space { ledger, dir: VolumeDir::new(dir), _in_use: Arc::<InUse>::default().begin() };
    Ok(Limit::new(space, OwnerLedger::open(volume_name(id), Box::new(NoStore))?, id, queue))
}

/// The count of an open volume.
pub(crate) struct Space {
    pub(crate) ledger: Ledger,
    pub(crate) dir: Arc<VolumeDir>,
    _in_use: InUseGuard,
}

impl Space {
    /// Goes on from the record in the directory of the volume.
    pub(crate) fn open(place: Place, in_use: &Arc<InUse>) -> FsResult<Self> {
        let in_use = in_use.begin();
        // Without a record the capacity is unknown: no growth until it is set.
        let unknown = UsageRecord {
            is_clean: false,
            capacity: vfs::Capacity { bytes: 0, files: 0 },
            usage: vfs::Usage::default(),
            held: 0,
            bound: None,
        };
        let dir = VolumeDir::new(place);
        let record = read_record(&*dir.inode()?)?.unwrap_or(unknown);
        let ledger = Ledger::new(&record, Box::new(RecordStore(Arc::clone(&dir))));
        Ok(Self { ledger, dir, _in_use: in_use })
    }
}

impl storage::Space for Space {
    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.ledger)
    }

    fn sync_files(&self) -> FsResult<()> {
        self.dir.sync_files()
    }

    fn set_removed(&self) {
        self.ledger.set_removed();
    }
}

/// The space of the whole file system.
pub(crate) fn file_system_stat(root: &Inode) -> FsResult<FsStat> {
    let stat = root.statfs().map_err(refused)?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Ok(FsStat {
        bytes_total: bytes(stat.f_blocks),
        bytes_free: bytes(stat.f_bfree),
        bytes_available: bytes(stat.f_bavail),
        // CephFS has no fixed number of files.
        files_total: 0,
        files_free: 0,
        files_available: 0,
    })
}

//! The count of an open volume, and its record in the file system.

use crate::cluster::Place;
use crate::error::refused;
use crate::ffi::Inode;
use rustix::io::Errno;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;
use storage::{Ledger, USAGE_RECORD_BYTES, UsageRecord, UsageStore};
use vfs::sync::{Condvar, Mutex};
use vfs::{FsError, FsResult, FsStat, Wait};

/// The attribute of a volume's directory with its capacity and usage.
const USAGE: &std::ffi::CStr = c"trusted.plimsoll.usage";

/// Reads the record of the volume in `dir`; `None` if it has none, or an invalid one.
pub(crate) fn read_record(dir: &Inode) -> FsResult<Option<UsageRecord>> {
    let mut bytes = [0; USAGE_RECORD_BYTES + 1];
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

struct RecordStore {
    /// The directory of the volume.
    dir: Place,
    /// The connection at the opening.
    generation: u64,
}

impl RecordStore {
    fn dir(&self) -> FsResult<Arc<Inode>> {
        self.dir.inode().map_err(refused)
    }
}

impl UsageStore for RecordStore {
    fn write(&self, record: &UsageRecord) -> FsResult<()> {
        write_record(&*self.dir()?, record)
    }

    fn write_lazily(&self, record: &UsageRecord) -> FsResult<()> {
        self.dir()?.set_xattr(USAGE, &record.encode(), 0).map_err(refused)
    }

    fn sync_files(&self) -> FsResult<()> {
        // A change whose answer was lost with a session may have been made or not.
        if self.dir.cluster().generation() != self.generation {
            return Err(FsError::Wait(Wait::Recall));
        }
        self.dir.cluster().client().sync().map_err(refused)
    }
}

/// The store of a count that is not saved.
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

/// The count of an open volume. Saved on drop.
pub(crate) struct Space {
    ledger: Ledger,
    _in_use: InUseGuard,
}

impl Space {
    /// A count of new files, without a limit, that is not saved.
    pub(crate) fn unlimited() -> Self {
        let capacity = vfs::Capacity { bytes: u64::MAX, files: u64::MAX };
        let usage = vfs::Usage { bytes: 0, files: 1 };
        let record = UsageRecord { is_clean: true, capacity, usage, held: 0 };
        Self { ledger: Ledger::new(&record, Box::new(NoStore)), _in_use: Arc::<InUse>::default().begin() }
    }

    /// Goes on from the record in `dir`.
    pub(crate) fn open(dir: Place, in_use: &Arc<InUse>) -> FsResult<Self> {
        let in_use = in_use.begin();
        // Without a record the capacity is unknown: no growth until it is set.
        let unknown = UsageRecord {
            is_clean: false,
            capacity: vfs::Capacity { bytes: 0, files: 0 },
            usage: vfs::Usage::default(),
            held: 0,
        };
        let record = read_record(&*dir.inode().map_err(refused)?)?.unwrap_or(unknown);
        let generation = dir.cluster().generation();
        Ok(Self { ledger: Ledger::new(&record, Box::new(RecordStore { dir, generation })), _in_use: in_use })
    }
}

impl Deref for Space {
    type Target = Ledger;

    fn deref(&self) -> &Ledger {
        &self.ledger
    }
}

impl Drop for Space {
    /// The last reference is gone, so no change is under way.
    fn drop(&mut self) {
        self.ledger.close(Instant::now());
        self.ledger.seal();
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

//! A volume's capacity: who counts, and what is under way of it.

use super::ledger::{Ledger, PendingChange};
use super::project::Project;
use vfs::backend::charge::{INODE_BYTES, NAME_BYTES, blocks};
use vfs::{Capacity, FsResult, FsStat, Usage};

/// Who keeps a volume within its capacity.
pub(crate) enum Limit {
    /// This process.
    Counted(Ledger),
    /// The kernel.
    Project(Project),
}

impl Limit {
    /// What the volume holds.
    pub(crate) fn usage(&self) -> FsResult<Usage> {
        match self {
            Self::Counted(ledger) => Ok(ledger.usage()),
            Self::Project(project) => project.usage(),
        }
    }

    /// What this process counts with, if it does.
    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        match self {
            Self::Counted(ledger) => Some(ledger),
            Self::Project(_) => None,
        }
    }

    fn capacity(&self) -> FsResult<Capacity> {
        match self {
            Self::Counted(ledger) => Ok(ledger.capacity()),
            Self::Project(project) => project.capacity(),
        }
    }

    /// The state of the volume, of which no more is available than `below`, the file system, has.
    pub(crate) fn stat(&self, below: &FsStat) -> FsResult<FsStat> {
        let own = self.capacity()?.stat(self.usage()?);
        // Some file systems have no fixed number of files.
        let files_below = if below.files_total == 0 { u64::MAX } else { below.files_available };
        Ok(FsStat {
            bytes_available: own.bytes_available.min(below.bytes_available),
            files_available: own.files_available.min(files_below),
            ..own
        })
    }
}

/// Writes in parts that room was taken for: until they end, the file is charged as if it reached the farthest of them.
#[derive(Default)]
pub(crate) struct SpaceReservations(pub(crate) Vec<SpaceReservation>);

/// One of them.
pub(crate) struct SpaceReservation {
    pub(crate) finish: u64,
    /// The file system has set blocks aside for it.
    pub(crate) is_preallocated: bool,
}

impl SpaceReservations {
    /// The size that a file of `size` is charged for.
    #[inline]
    pub(crate) fn charged_size(&self, size: u64) -> u64 {
        self.0.iter().fold(size, |most, promise| most.max(promise.finish))
    }
}

/// A change of a file's size under way: what may be too much of it is given back by [`Resize::end`].
pub(crate) struct ResizeCharge<'l> {
    /// None where nobody counts, or the charge stays as it is.
    pub(crate) pending: Option<PendingChange<'l>>,
    /// Bytes that are charged for the file as long as the change is under way.
    pub(crate) charged: u64,
    /// The size that it is charged for at least.
    pub(crate) reserved_size: u64,
}

impl ResizeCharge<'_> {
    /// The change is over, and the file has this size.
    #[inline]
    pub(crate) fn end(self, size: u64) {
        if let Some(ledger) = self.pending {
            // Never more than was charged, unless somebody else has the file grow.
            ledger.refund(self.charged.saturating_sub(blocks(size.max(self.reserved_size))), 0);
        }
    }
}

/// A new object, or a new name of one, under way: given back if it is not kept.
pub(crate) struct NewEntryCharge<'l> {
    pub(crate) pending: Option<PendingChange<'l>>,
    /// Bytes that are charged for it.
    pub(crate) bytes: u64,
    pub(crate) files: u64,
}

impl NewEntryCharge<'_> {
    /// What an object with this content is charged, with one name.
    pub(crate) fn bytes(content: u64) -> u64 {
        content.saturating_add(INODE_BYTES + NAME_BYTES)
    }

    /// It is there.
    pub(crate) fn commit(mut self) {
        self.pending = None;
    }

    /// It is there, and has this content.
    pub(crate) fn commit_with(self, content: u64) {
        if let Some(ledger) = &self.pending {
            ledger.adjust(self.bytes, Self::bytes(content));
        }
        self.commit();
    }
}

impl Drop for NewEntryCharge<'_> {
    fn drop(&mut self) {
        if let Some(ledger) = self.pending.take() {
            ledger.refund(self.bytes, self.files);
        }
    }
}

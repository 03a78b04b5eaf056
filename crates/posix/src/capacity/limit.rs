//! A volume's capacity, and charges of changes under way.

use super::ledger::{Ledger, PendingChange};
use super::project::Project;
use vfs::backend::charge::{INODE_BYTES, NAME_BYTES, blocks};
use vfs::{Capacity, FsResult, FsStat, Usage};

/// The mechanism that enforces a volume's capacity.
pub(crate) enum Limit {
    /// This process counts.
    Counted(Ledger),
    /// The kernel counts, by a project quota.
    Project(Project),
}

impl Limit {
    pub(crate) fn usage(&self) -> FsResult<Usage> {
        match self {
            Self::Counted(ledger) => Ok(ledger.usage()),
            Self::Project(project) => project.usage(),
        }
    }

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

    /// State of the volume. Available space is at most that of `below`, the file system.
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

/// Reservations for writes in parts. Until they end, the file is charged as if it reached the farthest of them.
#[derive(Default)]
pub(crate) struct SpaceReservations(pub(crate) Vec<SpaceReservation>);

pub(crate) struct SpaceReservation {
    pub(crate) finish: u64,
    pub(crate) is_preallocated: bool,
}

impl SpaceReservations {
    #[inline]
    pub(crate) fn charged_size(&self, size: u64) -> u64 {
        self.0.iter().fold(size, |max, reservation| max.max(reservation.finish))
    }
}

/// The charge of a change of size under way. [`ResizeCharge::end`] refunds the surplus.
pub(crate) struct ResizeCharge<'l> {
    /// `None` if this process does not count, or if the charge stays the same.
    pub(crate) pending: Option<PendingChange<'l>>,
    pub(crate) charged: u64,
    /// The file is charged for at least this size.
    pub(crate) reserved_size: u64,
}

impl ResizeCharge<'_> {
    /// Refunds the surplus. The file now has `size` bytes.
    #[inline]
    pub(crate) fn end(self, size: u64) {
        if let Some(ledger) = self.pending {
            // Never more than was charged, unless another process extends the file.
            ledger.refund(self.charged.saturating_sub(blocks(size.max(self.reserved_size))), 0);
        }
    }
}

/// The charge of a new object, or of a new link to one. Refunded on drop unless committed.
pub(crate) struct NewEntryCharge<'l> {
    pub(crate) pending: Option<PendingChange<'l>>,
    pub(crate) bytes: u64,
    pub(crate) files: u64,
}

impl NewEntryCharge<'_> {
    /// The charge of an object with this content and one name.
    pub(crate) fn bytes(content: u64) -> u64 {
        content.saturating_add(INODE_BYTES + NAME_BYTES)
    }

    pub(crate) fn commit(mut self) {
        self.pending = None;
    }

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

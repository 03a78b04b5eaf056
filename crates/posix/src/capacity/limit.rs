//! A volume's capacity, and charges of changes under way.

use super::kernel::{InFlight, KernelSpace};
use super::owners::accounts::OwnerIds;
use super::owners::{OwnerCharge, OwnerLedger, OwnerResize};
use crate::error::refused;
use crate::sys;
use rustix::fs::syncfs;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;
use storage::{Ledger, PendingChange};
use vfs::backend::charge::{INODE_BYTES, NAME_BYTES, blocks};
use vfs::{Capacity, FsResult, FsStat, Usage, VolumeId};

/// The mechanism that enforces a volume's capacity.
pub(crate) enum Space {
    /// This process counts.
    Counted { ledger: Ledger, root: Arc<OwnedFd> },
    /// The kernel counts, by project quotas.
    Kernel(KernelSpace),
}

/// A queue of volumes whose files must be counted.
pub(crate) trait CountQueue: Send + Sync {
    fn add(&self, id: VolumeId, limit: &Arc<Limit>);
}

/// The capacity of a volume, and the quotas of users and groups. The owners are saved first: the ledger holds the lock
/// against the next open.
pub(crate) struct Limit {
    owners: OwnerLedger,
    pub(crate) space: Space,
    id: VolumeId,
    queue: Arc<dyn CountQueue>,
}

impl Limit {
    pub(crate) fn new(space: Space, owners: OwnerLedger, id: VolumeId, queue: Arc<dyn CountQueue>) -> Self {
        Self { owners, space, id, queue }
    }

    pub(crate) fn usage(&self) -> FsResult<Usage> {
        match &self.space {
            Space::Counted { ledger, .. } => Ok(ledger.usage()),
            Space::Kernel(kernel) => kernel.usage(),
        }
    }

    #[inline]
    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        match &self.space {
            Space::Counted { ledger, .. } => Some(ledger),
            Space::Kernel(_) => None,
        }
    }

    /// `None` if this process counts.
    pub(crate) fn kernel(&self) -> Option<&KernelSpace> {
        match &self.space {
            Space::Counted { .. } => None,
            Space::Kernel(kernel) => Some(kernel),
        }
    }

    /// Bytes that only snapshots need, a part of the usage.
    pub(crate) fn held(&self) -> FsResult<u64> {
        match &self.space {
            Space::Counted { ledger, .. } => Ok(ledger.held()),
            Space::Kernel(kernel) => kernel.held(),
        }
    }

    /// Charges bytes that only snapshots need. With `exceeds`, even past the capacity: the change releases as much.
    pub(crate) fn hold(&self, bytes: u64, exceeds: bool) -> FsResult<SnapshotCharge<'_>> {
        match &self.space {
            Space::Counted { ledger, .. } => {
                let _pending = ledger.begin()?;
                ledger.hold(bytes, exceeds).map(|()| SnapshotCharge::Ledger(ledger))
            }
            Space::Kernel(kernel) => kernel.hold(bytes, exceeds).map(SnapshotCharge::Kernel),
        }
    }

    /// Gives files what snapshots do not need any more.
    pub(crate) fn settle(&self) -> FsResult<()> {
        self.kernel().map_or(Ok(()), KernelSpace::settle)
    }

    #[inline]
    pub(crate) fn owners(&self) -> &OwnerLedger {
        &self.owners
    }

    /// Begins to count by owner, on another thread, if nothing did before.
    pub(crate) fn start_owners(self: &Arc<Self>) -> FsResult<()> {
        if self.owners.start()? {
            self.queue.add(self.id, self);
        }
        Ok(())
    }

    /// The root of the volume.
    pub(crate) fn root(&self) -> &OwnedFd {
        match &self.space {
            Space::Counted { root, .. } => root,
            Space::Kernel(kernel) => kernel.root(),
        }
    }

    pub(crate) fn is_uncounted(&self) -> bool {
        self.ledger().is_some_and(Ledger::is_uncounted) || self.owners.is_uncounted()
    }

    /// Ends counts that failed.
    pub(crate) fn set_uncountable(&self) {
        self.ledger().filter(|ledger| ledger.is_uncounted()).into_iter().for_each(Ledger::set_uncountable);
        if self.owners.is_uncounted() {
            self.owners.set_uncountable();
        }
    }

    /// Restarts counts that failed. Returns whether there was one.
    pub(crate) fn retry(&self) -> bool {
        let retries = self.ledger().is_some_and(Ledger::retry);
        self.owners.retry() || retries
    }

    pub(crate) fn set_reserve(&self, bytes: u64) -> FsResult<()> {
        match &self.space {
            Space::Counted { ledger, .. } => {
                ledger.set_reserve(bytes);
                Ok(())
            }
            Space::Kernel(kernel) => kernel.set_reserve(bytes),
        }
    }

    pub(crate) fn checkpoint(&self) {
        self.ledger().into_iter().for_each(Ledger::checkpoint);
        self.owners.checkpoint();
    }

    pub(crate) fn set_removed(&self) {
        match &self.space {
            Space::Counted { ledger, root } => {
                ledger.set_removed();
                // One open file of a subvolume of Btrfs holds the space of all its files.
                sys::detach(root.as_fd());
            }
            Space::Kernel(kernel) => kernel.set_removed(),
        }
        self.owners.set_removed();
    }

    /// Ends the counts: no change may begin. Waits until `until` for changes under way.
    pub(crate) fn close(&self, until: Instant) {
        self.ledger().into_iter().for_each(|ledger| ledger.close(until));
        self.owners.close(until);
    }

    /// Saves the counts. Call after [`Limit::close`].
    pub(crate) fn seal(&self) {
        self.ledger().into_iter().for_each(Ledger::seal);
        self.owners.seal(|| syncfs(self.root()).map_err(refused));
    }

    fn capacity(&self) -> Capacity {
        match &self.space {
            Space::Counted { ledger, .. } => ledger.capacity(),
            Space::Kernel(kernel) => kernel.capacity(),
        }
    }

    fn unused_reserve(&self) -> FsResult<u64> {
        match &self.space {
            Space::Counted { ledger, .. } => Ok(ledger.unused_reserve()),
            Space::Kernel(kernel) => kernel.unused_reserve(),
        }
    }

    /// State of the volume. Available space is without the reserve for snapshots, and at most that of `below`, the file system.
    pub(crate) fn stat(&self, below: &FsStat) -> FsResult<FsStat> {
        let own = self.capacity().stat(self.usage()?);
        let reserved = self.unused_reserve()?;
        // Some file systems have no fixed number of files.
        let files_below = if below.files_total == 0 { u64::MAX } else { below.files_available };
        Ok(FsStat {
            bytes_available: own.bytes_available.saturating_sub(reserved).min(below.bytes_available),
            files_available: own.files_available.min(files_below),
            ..own
        })
    }
}

impl Drop for Limit {
    /// The last reference is gone, so no change is under way.
    fn drop(&mut self) {
        self.close(Instant::now());
        self.seal();
    }
}

/// The charge of what a change preserves for snapshots.
pub(crate) enum SnapshotCharge<'l> {
    Ledger(&'l Ledger),
    Kernel(InFlight<'l>),
}

impl SnapshotCharge<'_> {
    /// Refunds bytes that were not used.
    pub(crate) fn refund(&self, bytes: u64) {
        match self {
            Self::Ledger(ledger) => ledger.release_held(bytes),
            Self::Kernel(in_flight) => in_flight.refund(bytes),
        }
    }
}

/// Reservations for writes in parts. Until they end, the file is charged as if it reached the farthest of them.
#[derive(Default)]
pub(crate) struct SpaceReservations(pub(crate) Vec<SpaceReservation>);

pub(crate) struct SpaceReservation {
    pub(crate) finish: u64,
    pub(crate) is_preallocated: bool,
    /// Whether it is a pending change of the count by owner.
    pub(crate) is_owner_pending: bool,
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
    pub(crate) owners: Option<OwnerResize<'l>>,
    pub(crate) charged: u64,
    /// The file is charged for at least this size.
    pub(crate) reserved_size: u64,
}

impl ResizeCharge<'_> {
    /// Refunds the surplus. The file now has `size` bytes.
    #[inline]
    pub(crate) fn end(self, size: u64) {
        // Never more than was charged, unless another process extends the file.
        let surplus = self.charged.saturating_sub(blocks(size.max(self.reserved_size)));
        if let Some(ledger) = self.pending {
            ledger.refund(surplus, 0);
        }
        if let Some(owners) = self.owners {
            owners.end(surplus);
        }
    }
}

/// The charge of a new object, or of a new link to one. Refunded on drop unless committed.
pub(crate) struct NewEntryCharge<'l> {
    pub(crate) pending: Option<PendingChange<'l>>,
    pub(crate) owners: Option<OwnerCharge<'l>>,
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

    /// Commits the charge of an object with this content, and with these owners if not those that were charged.
    pub(crate) fn commit_with(mut self, content: u64, owners: Option<OwnerIds>) {
        if let Some(ledger) = &self.pending {
            ledger.adjust(self.bytes, Self::bytes(content));
        }
        if let Some(charge) = self.owners.take() {
            charge.commit_to(owners);
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

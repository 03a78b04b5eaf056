//! A volume's capacity: the mechanism that enforces it.

use super::kernel::{InFlight, KernelSpace};
use crate::error::refused;
use crate::sys;
use rustix::fs::syncfs;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use storage::Ledger;
use vfs::{Capacity, FsResult, FsStat, Usage};

/// The capacity of a volume, and the quotas of users and groups.
pub(crate) type Limit = storage::Limit<Space>;

/// The mechanism that enforces a volume's capacity.
pub(crate) enum Space {
    /// This process counts.
    Counted { ledger: Ledger, root: Arc<OwnedFd> },
    /// The kernel counts, by project quotas.
    Kernel(KernelSpace),
}

impl storage::Space for Space {
    #[inline]
    fn ledger(&self) -> Option<&Ledger> {
        match self {
            Self::Counted { ledger, .. } => Some(ledger),
            Self::Kernel(_) => None,
        }
    }

    fn sync_files(&self) -> FsResult<()> {
        syncfs(self.root()).map_err(refused)
    }

    fn set_removed(&self) {
        match self {
            Self::Counted { ledger, root } => {
                ledger.set_removed();
                // One open file of a subvolume of Btrfs holds the space of all its files.
                sys::detach(root.as_fd());
            }
            Self::Kernel(kernel) => kernel.set_removed(),
        }
    }
}

impl Space {
    pub(crate) fn usage(&self) -> FsResult<Usage> {
        match self {
            Self::Counted { ledger, .. } => Ok(ledger.usage()),
            Self::Kernel(kernel) => kernel.usage(),
        }
    }

    /// `None` if this process counts.
    pub(crate) fn kernel(&self) -> Option<&KernelSpace> {
        match self {
            Self::Counted { .. } => None,
            Self::Kernel(kernel) => Some(kernel),
        }
    }

    /// Bytes that only snapshots need, a part of the usage.
    pub(crate) fn held(&self) -> FsResult<u64> {
        match self {
            Self::Counted { ledger, .. } => Ok(ledger.held()),
            Self::Kernel(kernel) => kernel.held(),
        }
    }

    /// Charges bytes that only snapshots need. With `exceeds`, even past the capacity: the change releases as much.
    pub(crate) fn hold(&self, bytes: u64, exceeds: bool) -> FsResult<SnapshotCharge<'_>> {
        match self {
            Self::Counted { ledger, .. } => {
                let _pending = ledger.begin()?;
                ledger.hold(bytes, exceeds).map(|()| SnapshotCharge::Ledger(ledger))
            }
            Self::Kernel(kernel) => kernel.hold(bytes, exceeds).map(SnapshotCharge::Kernel),
        }
    }

    /// Gives files what snapshots do not need any more.
    pub(crate) fn settle(&self) -> FsResult<()> {
        self.kernel().map_or(Ok(()), KernelSpace::settle)
    }

    /// The root of the volume.
    pub(crate) fn root(&self) -> &OwnedFd {
        match self {
            Self::Counted { root, .. } => root,
            Self::Kernel(kernel) => kernel.root(),
        }
    }

    pub(crate) fn set_reserve(&self, bytes: u64) -> FsResult<()> {
        match self {
            Self::Counted { ledger, .. } => {
                ledger.set_reserve(bytes);
                Ok(())
            }
            Self::Kernel(kernel) => kernel.set_reserve(bytes),
        }
    }

    fn capacity(&self) -> Capacity {
        match self {
            Self::Counted { ledger, .. } => ledger.capacity(),
            Self::Kernel(kernel) => kernel.capacity(),
        }
    }

    fn unused_reserve(&self) -> FsResult<u64> {
        match self {
            Self::Counted { ledger, .. } => Ok(ledger.unused_reserve()),
            Self::Kernel(kernel) => kernel.unused_reserve(),
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

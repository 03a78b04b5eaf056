//! Charges files to their users and groups, and moves the charge with the owner.

use super::attr::{set_mode, set_owner};
use super::mount::Mount;
use super::owner::{self, Owner};
use super::{ChangeGuard, Node};
use crate::error::refused;
use crate::fs_type::file_system_stat;
use rustix::fs::{Stat, fstat};
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, RwLockWriteGuard};
use std::time::Duration;
use storage::{LiveFiles, OwnerIds, OwnerLedger};
use vfs::backend::charge::blocks;
use vfs::model::attrs::MODE_BITS;
use vfs::{Attrs, FileType, FsError, FsResult, SetAttrs, Usage};

/// Time between two looks at a write in parts that is under way.
const SETTLE_PAUSE: Duration = Duration::from_millis(1);

/// A change of owners under way. Refunded on drop.
pub(crate) struct OwnerMove<'l> {
    charge: storage::OwnerMove<'l>,
    _naming: RwLockWriteGuard<'l, ()>,
}

pub(crate) fn ids_of(attrs: &Attrs) -> OwnerIds {
    OwnerIds::both(attrs.uid, attrs.gid)
}

impl Mount {
    /// `None` if the volume does not count by owner.
    #[inline]
    pub(crate) fn owner_ledger(&self) -> Option<&OwnerLedger> {
        self.counts().owners
    }

    /// [`FsError::NoSpace`] instead of a refusal by a quota if the volume has no room either, where the kernel counts it
    /// and would refuse the change only later.
    pub(super) fn volume_first(&self, error: FsError, more: Usage) -> FsError {
        let by_kernel = self.limit.as_deref().filter(|limit| limit.kernel().is_some());
        let (FsError::Quota, Some(limit)) = (error, by_kernel) else { return error };
        let stat = file_system_stat(self.root.as_fd()).and_then(|below| limit.stat(&below));
        let is_full =
            stat.is_ok_and(|stat| stat.bytes_available < more.bytes || stat.files_available < more.files);
        if is_full { FsError::NoSpace } else { error }
    }
}

impl Node {
    fn owners_now(&self, stat: &Stat) -> FsResult<OwnerIds> {
        let recorded = if self.mount.owner_attribute && owner::carries(self.kind) {
            Owner::read(self.fd(), None)?
        } else {
            None
        };
        let real = || OwnerIds::both(stat.st_uid, stat.st_gid);
        Ok(recorded.map_or_else(real, |owner| OwnerIds::both(owner.uid, owner.gid)))
    }

    /// Refunds what the owners of this file were charged.
    pub(super) fn refund_owners(&self, ledger: &OwnerLedger, stat: &Stat, amount: Usage) {
        match self.owners_now(stat) {
            Ok(ids) => ledger.refund(ids, amount),
            Err(_) => ledger.mark_doubtful(),
        }
    }

    /// Refunds the reserved bytes that were not used.
    pub(super) fn refund_reserved(&self, stat: &Stat, bytes: u64) {
        // A reservation of before the count was never charged; the count waits for its end.
        if let Some(ledger) = self.mount.owner_ledger().filter(|ledger| ledger.is_known()) {
            self.refund_owners(ledger, stat, Usage { bytes, files: 0 });
        }
    }

    /// Charges the new owners of this file, if `set` changes them and the volume counts by owner.
    pub(super) fn begin_owner_move(
        &self,
        guard: &ChangeGuard<'_>,
        before: &Attrs,
        set: &SetAttrs,
    ) -> FsResult<Option<OwnerMove<'_>>> {
        if set.uid.is_none() && set.gid.is_none() || self.kind == FileType::Directory {
            return Ok(None);
        }
        let Some(ledger) = self.mount.owner_ledger() else { return Ok(None) };
        // Those in `before` may be of an object that was just being made.
        let naming = self.mount.naming.write();
        let old = self.owners_now(&fstat(self.fd()).map_err(refused)?)?;
        let new = OwnerIds { user: set.uid.or(old.user), group: set.gid.or(old.group) };
        let size = before.size.max(set.size.unwrap_or(0));
        let charge = ledger.begin_move(old, new, self.owner_bytes(guard, size))?;
        Ok(charge.map(|charge| OwnerMove { charge, _naming: naming }))
    }

    fn owner_bytes(&self, guard: &ChangeGuard<'_>, size: u64) -> u64 {
        match self.kind {
            FileType::Regular => blocks(guard.reservations().charged_size(size)),
            _ => 0,
        }
    }

    /// The owners of this file, and the bytes that they are charged for.
    fn owners_charged(&self, guard: &ChangeGuard<'_>) -> FsResult<(OwnerIds, u64)> {
        let stat = fstat(self.fd()).map_err(refused)?;
        Ok((self.owners_now(&stat)?, self.owner_bytes(guard, u64::try_from(stat.st_size).unwrap_or(0))))
    }

    /// Sets owner and mode, in the owner attribute or directly, and moves the charge.
    pub(super) fn change_owner(
        &self,
        guard: &ChangeGuard<'_>,
        set: &SetAttrs,
        moving: Option<OwnerMove<'_>>,
    ) -> FsResult<()> {
        let changed =
            if self.mount.owner_attribute { self.change_record(set) } else { self.change_real(set) };
        if let Some(moving) = moving {
            moving.charge.end(self.owners_charged(guard).ok());
        }
        changed
    }

    fn change_real(&self, set: &SetAttrs) -> FsResult<()> {
        if set.uid.is_some() || set.gid.is_some() {
            set_owner(self.fd(), set.uid, set.gid).map_err(refused)?;
        }
        set.mode.map_or(Ok(()), |mode| set_mode(self.fd(), mode & MODE_BITS).map_err(refused))
    }

    /// Whether a reservation of this file goes past its end.
    fn is_reserved_past_end(&self) -> bool {
        let guarded = self.change_lock.lock();
        if guarded.reservations.is_empty() {
            return false;
        }
        let size = self.stat().map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
        blocks(guarded.reservations.charged_size(size)) > blocks(size)
    }

    /// Passes on the charge of this file, if it has no name left and was not refunded. With `begins`, the last close
    /// refunds it from now on; otherwise only a charge that it refunds counts. Both under the lock of a release.
    fn pass_nameless_charge(&self, begins: bool, take: &mut dyn FnMut(OwnerIds, Usage)) {
        let guarded = self.change_lock.lock();
        let Ok(stat) = fstat(self.fd()) else { return };
        if stat.st_nlink > 0 && !self.retained.load(Ordering::Acquire)
            || self.kind == FileType::Directory
            || self.space_released.load(Ordering::Acquire)
        {
            return;
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let bytes = match self.kind {
            FileType::Regular => blocks(guarded.reservations.charged_size(size)),
            _ => 0,
        };
        let Ok(ids) = self.owners_now(&stat) else { return };
        let is_charged = match begins {
            true => self.is_owner_charged.swap(true, Ordering::AcqRel),
            false => self.is_owner_charged.load(Ordering::Acquire),
        };
        if is_charged != begins {
            take(ids, Usage { bytes, files: 1 });
        }
    }
}

impl Mount {
    /// The unlinked files that are still open, each once.
    fn nameless_nodes(&self) -> Vec<Arc<Node>> {
        let nodes: HashMap<_, _> =
            self.unlinked_open.lock().iter().map(|node| (node.key, Arc::clone(node))).collect();
        nodes.into_values().collect()
    }
}

impl LiveFiles for Mount {
    fn settle(&self, is_cancelled: &dyn Fn() -> bool) -> bool {
        for node in self.table.all() {
            while node.is_reserved_past_end() {
                if is_cancelled() {
                    return false;
                }
                std::thread::sleep(SETTLE_PAUSE);
            }
        }
        true
    }

    fn count_nameless(&self, take: &mut dyn FnMut(OwnerIds, Usage)) {
        self.nameless_nodes().iter().for_each(|node| node.pass_nameless_charge(true, take));
    }

    fn nameless(&self, take: &mut dyn FnMut(OwnerIds, Usage)) {
        self.nameless_nodes().iter().for_each(|node| node.pass_nameless_charge(false, take));
    }
}

//! Charges files to their users and groups, and moves the charge with the owner.

use super::tree::Tree;
use super::{ChangeGuard, Node};
use crate::error::refused;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use storage::{LiveFiles, OwnerIds, OwnerMove};
use vfs::backend::charge::blocks;
use vfs::{Attrs, FileType, FsResult, SetAttrs, Usage};

/// Time between two looks at a write in parts that is under way.
const SETTLE_PAUSE: Duration = Duration::from_millis(1);

impl Node {
    /// Charges the new owners of this file, if `set` changes them and the volume counts by owner.
    pub(super) fn begin_owner_move(
        &self,
        guard: &ChangeGuard<'_>,
        before: &Attrs,
        set: &SetAttrs,
    ) -> FsResult<Option<OwnerMove<'_>>> {
        if self.kind == FileType::Directory {
            return Ok(None);
        }
        let Some(ledger) = self.tree.limit.counts().owners else { return Ok(None) };
        let old = OwnerIds::both(before.uid, before.gid);
        let new = OwnerIds::both(set.uid.unwrap_or(before.uid), set.gid.unwrap_or(before.gid));
        let size = before.size.max(set.size.unwrap_or(0));
        ledger.begin_move(old, new, self.owner_bytes(guard, size))
    }

    fn owner_bytes(&self, guard: &ChangeGuard<'_>, size: u64) -> u64 {
        match self.kind {
            FileType::Regular => blocks(guard.reservations.charged_size(size)),
            _ => 0,
        }
    }

    /// The owners of this file, and the bytes that they are charged for.
    pub(super) fn owners_charged(&self, guard: &ChangeGuard<'_>) -> FsResult<(OwnerIds, u64)> {
        let stat = self.inode()?.attrs().map_err(refused)?;
        Ok((OwnerIds::both(stat.uid, stat.gid), self.owner_bytes(guard, stat.size)))
    }

    /// Whether a reservation of this file goes past its end.
    fn is_reserved_past_end(&self) -> bool {
        let guard = self.lock_change();
        if guard.reservations.is_empty() {
            return false;
        }
        let size = self.stat_any().map_or(0, |now| now.stat.size);
        self.owner_bytes(&guard, size) > blocks(size)
    }

    /// Passes on the charge of this file, if it has no name left and was not refunded. With `begins`, the last close
    /// refunds it from now on; otherwise only a charge that it refunds counts. Both under the lock of a release.
    fn pass_nameless_charge(&self, begins: bool, take: &mut dyn FnMut(OwnerIds, Usage)) {
        let guard = self.lock_change();
        if !self.is_nameless.load(Ordering::SeqCst)
            || self.kind == FileType::Directory
            || self.space_released.load(Ordering::Acquire)
        {
            return;
        }
        let Ok((ids, bytes)) = self.owners_charged(&guard) else { return };
        let is_charged = match begins {
            true => self.is_owner_charged.swap(true, Ordering::AcqRel),
            false => self.is_owner_charged.load(Ordering::Acquire),
        };
        if is_charged != begins {
            take(ids, Usage { bytes, files: 1 });
        }
    }
}

impl Tree {
    pub(super) fn nameless_nodes(&self) -> Vec<Arc<Node>> {
        self.nameless.lock().clone()
    }
}

impl LiveFiles for Tree {
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

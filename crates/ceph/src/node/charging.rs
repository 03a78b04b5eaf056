//! Charges changes of files to the volume's capacity, and refunds them.

use super::tree::Tree;
use super::xattr_sizes::xattrs_charged;
use super::{ChangeGuard, Node};
use crate::ffi::Inode;
use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use storage::{EntriesCharge, NewEntryCharge, OwnerIds, ResizeCharge};
use vfs::backend::charge::{INODE_BYTES, NAME_BYTES, content};
use vfs::backend::quotas;
use vfs::{Attrs, AuthorizeWrite, FileType, FsError, FsResult, NewInode};

impl Tree {
    pub(super) fn charge_resize(
        &self,
        guard: &ChangeGuard<'_>,
        before: &Attrs,
        to: u64,
    ) -> FsResult<ResizeCharge<'_>> {
        self.limit.counts().charge_resize(&guard.reservations, before, to)
    }

    /// Charges a new object with this content, `name` in `dir`. An existing name is [`FsError::Exists`], even on a full
    /// volume.
    pub(super) fn charge_new_object(
        &self,
        dir: &Inode,
        name: &CStr,
        file_type: FileType,
        content: u64,
        new_inode: &NewInode,
    ) -> FsResult<NewEntryCharge<'_>> {
        let owned = (file_type != FileType::Directory).then(|| {
            let ids = OwnerIds::both(new_inode.uid, new_inode.gid);
            (ids, quotas::charge(file_type, new_inode.size))
        });
        let charge = self.limit.counts().charge_object(content, owned);
        charge.map_err(|error| taken_or_full(dir, name, error))
    }

    pub(super) fn charge_link(&self, dir: &Inode, name: &CStr) -> FsResult<NewEntryCharge<'_>> {
        self.limit.counts().charge_link().map_err(|error| taken_or_full(dir, name, error))
    }
}

/// [`FsError::Exists`] instead of a refusal for lack of space if `dir` has the name already.
fn taken_or_full(dir: &Inode, name: &CStr, error: FsError) -> FsError {
    let is_full = matches!(error, FsError::NoSpace | FsError::Quota);
    if is_full && dir.lookup(name).is_ok() { FsError::Exists } else { error }
}

impl Node {
    /// Refunds a removed name. If it was the last one, also refunds the file: once, after the last write under way, and
    /// after the last close.
    ///
    /// Never waits for a directory's lock, so removing a directory cannot deadlock with a rename.
    pub(super) fn on_unlinked(self: &Arc<Self>, is_owner_charged: bool) {
        self.counter_offset.advance();
        if is_owner_charged {
            self.is_owner_charged.store(true, Ordering::Release);
        }
        self.tree.limit.ledger.refund(NAME_BYTES, 0);
        // A directory has one name. A file gets no other one while this decides.
        let locked = (self.kind != FileType::Directory).then(|| self.lock_change());
        let is_last = locked.is_none()
            || match self.stat_any() {
                Ok(now) => now.stat.links == 0,
                Err(FsError::Stale) => true,
                // It may have other names.
                Err(_) => {
                    self.tree.mark_count_doubtful();
                    false
                }
            };
        self.is_nameless.store(is_last, Ordering::SeqCst);
        drop(locked);
        if is_last {
            if self.is_pinned() {
                self.tree.nameless.lock().push(Arc::clone(self));
            } else {
                self.release_if_nameless();
            }
        }
    }

    /// Refunds a file without a name, and releases it.
    pub(crate) fn release_if_nameless(&self) {
        if !self.is_nameless.load(Ordering::SeqCst) {
            return;
        }
        // A count that begins finds the charge, or its refund.
        let _passed = self.tree.gate.pass();
        if self.space_released.swap(true, Ordering::AcqRel) {
            return;
        }
        let counts = self.tree.limit.counts();
        let _pending = counts.begin_refund();
        let guard = match self.kind {
            FileType::Directory => self.try_lock_change(),
            _ => Some(self.lock_change()),
        };
        let now = self.inode().and_then(|inode| Ok((inode.attrs().map_err(crate::error::refused)?, inode)));
        if let Ok((stat, inode)) = &now {
            let _locked = self.dir.as_ref().map(|dir| dir.xattrs.lock());
            let size = guard.as_ref().map_or(stat.size, |guard| guard.reservations.charged_size(stat.size));
            let content = match &self.dir {
                Some(dir) => dir.charged.release(),
                None => content(self.kind, size),
            };
            self.tree.limit.ledger.refund(INODE_BYTES + content + self.xattrs_charged(inode), 1);
            if let Some(owners) = counts.owners
                && self.dir.is_none()
                && self.is_owner_charged.load(Ordering::Acquire)
            {
                owners.refund(OwnerIds::both(stat.uid, stat.gid), quotas::charge(self.kind, size));
            }
        } else {
            self.tree.mark_count_doubtful();
        }
        drop(guard);
        drop(now);
        self.detach();
        self.tree.table.remove(self);
    }

    pub(super) fn xattrs_charged(&self, inode: &Inode) -> u64 {
        if !matches!(self.kind, FileType::Regular | FileType::Directory) {
            return 0;
        }
        xattrs_charged(inode).unwrap_or_else(|_| {
            self.tree.mark_count_doubtful();
            0
        })
    }

    /// Begins a change of the entries of this directory, which has the size `before`.
    pub(super) fn begin_entry_change(
        &self,
        before: u64,
    ) -> FsResult<EntriesCharge<'_, impl Fn() -> Option<u64>>> {
        let size_now = || Some(self.stat_any().ok()?.stat.size);
        Ok(self.as_dir()?.charged.begin_change(self.tree.limit.counts(), before, size_now))
    }

    pub(super) fn reserve_space(
        &self,
        offset: u64,
        len: usize,
        authorize: AuthorizeWrite<'_>,
    ) -> FsResult<()> {
        self.check_regular()?;
        let end = self.check_end(offset, len as u64)?;
        let mut guard = self.lock_change();
        let before = self.attrs_now()?;
        authorize(&before)?;
        // Not ended: the charge stays until the release.
        let _charged = self.tree.charge_resize(&guard, &before, before.size.max(end))?;
        guard.reservations.add(self.tree.limit.counts(), end, false);
        Ok(())
    }

    pub(super) fn release_reserved(&self, offset: u64, len: usize) {
        let end = if len == 0 { 0 } else { offset.saturating_add(len as u64) };
        let mut guard = self.lock_change();
        let counts = self.tree.limit.counts();
        // A file that has lost its name is refunded whole, under this lock, by the call that removed the name.
        let is_refunded = self.space_released.load(Ordering::Acquire);
        let now = if is_refunded { None } else { self.stat_any().ok() };
        let size = now.map(|now| now.stat.size);
        let released = guard.reservations.release(counts, end, || size);
        let (Some(released), Some(now)) = (released, now) else { return };
        // A reservation of before the count by owner was never charged; the count waits for its end.
        if let Some(owners) = counts.owners.filter(|owners| owners.is_known()) {
            let ids = OwnerIds::both(now.stat.uid, now.stat.gid);
            owners.refund(ids, vfs::Usage { bytes: released.bytes, files: 0 });
        }
    }
}

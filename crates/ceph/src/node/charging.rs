//! Charges changes of files to the volume's capacity, and refunds them.

use super::tree::Tree;
use super::xattr_sizes::xattrs_charged;
use super::{ChangeGuard, Node, RELEASED};
use crate::ffi::Inode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use storage::PendingChange;
use vfs::backend::charge::{INODE_BYTES, NAME_BYTES, blocks, directory, symlink};
use vfs::{Attrs, AuthorizeWrite, FileType, FsError, FsResult};

/// Ends of reservations for writes in parts. Until they end, the file is charged as if it reached the farthest of them.
#[derive(Default)]
pub(super) struct SpaceReservations(Vec<u64>);

impl SpaceReservations {
    fn charged_size(&self, size: u64) -> u64 {
        self.0.iter().fold(size, |max, &end| max.max(end))
    }
}

/// The charge of a change of size under way. [`ResizeCharge::end`] refunds the surplus.
pub(super) struct ResizeCharge<'l> {
    /// `None` if the charge stays the same.
    pending: Option<PendingChange<'l>>,
    charged: u64,
    /// The file is charged for at least this size.
    reserved_size: u64,
}

impl ResizeCharge<'_> {
    /// Refunds the surplus. The file now has `size` bytes.
    pub(super) fn end(self, size: u64) {
        if let Some(ledger) = self.pending {
            ledger.refund(self.charged.saturating_sub(blocks(size.max(self.reserved_size))), 0);
        }
    }
}

/// The charge of a new object, or of a new name. Refunded on drop unless committed.
pub(super) struct NewEntryCharge<'l> {
    pending: Option<PendingChange<'l>>,
    bytes: u64,
    files: u64,
}

impl NewEntryCharge<'_> {
    pub(super) fn commit(mut self) {
        self.pending = None;
    }
}

impl Drop for NewEntryCharge<'_> {
    fn drop(&mut self) {
        if let Some(ledger) = self.pending.take() {
            ledger.refund(self.bytes, self.files);
        }
    }
}

/// A change of a directory's entries under way. The directory's charge follows its size.
pub(super) struct EntriesCharge<'n> {
    dir: Option<&'n Node>,
    before: u64,
}

impl EntriesCharge<'_> {
    pub(super) fn finish(mut self, size: u64) {
        if let Some(dir) = self.dir.take() {
            dir.charge_entries(self.before, size);
        }
    }
}

impl Drop for EntriesCharge<'_> {
    /// A failed change may have changed the directory too.
    fn drop(&mut self) {
        if let Some(dir) = self.dir.take()
            && let Ok(now) = dir.stat_any()
        {
            dir.charge_entries(self.before, now.stat.size);
        }
    }
}

impl Tree {
    pub(super) fn charge_resize(
        &self,
        guard: &ChangeGuard<'_>,
        before: &Attrs,
        to: u64,
    ) -> FsResult<ResizeCharge<'_>> {
        let reserved = guard.reservations.charged_size(0);
        let (held, after) = (blocks(before.size.max(reserved)), blocks(to.max(reserved)));
        let charged = held.max(after);
        let mut resize = ResizeCharge { pending: None, charged, reserved_size: reserved };
        if held != after {
            let ledger = self.ledger();
            resize.pending = Some(ledger.begin()?);
            if after > held {
                ledger.charge(after - held, 0)?;
            } else {
                ledger.mark_best_effort();
            }
        }
        Ok(resize)
    }

    /// Charges a new object with this content.
    pub(super) fn charge_object(&self, content: u64) -> FsResult<NewEntryCharge<'_>> {
        self.charge_entry(content.saturating_add(INODE_BYTES + NAME_BYTES), 1)
    }

    pub(super) fn charge_link(&self) -> FsResult<NewEntryCharge<'_>> {
        self.charge_entry(NAME_BYTES, 0)
    }

    fn charge_entry(&self, bytes: u64, files: u64) -> FsResult<NewEntryCharge<'_>> {
        let pending = self.ledger().begin()?;
        pending.charge(bytes, files)?;
        Ok(NewEntryCharge { pending: Some(pending), bytes, files })
    }

    pub(super) fn begin_entry_change<'n>(&self, dir: &'n Node, before: u64) -> EntriesCharge<'n> {
        EntriesCharge { dir: Some(dir), before }
    }
}

impl Node {
    /// Refunds a removed name. If it was the last one, also refunds the file: once, after the last write under way, and
    /// after the last close.
    ///
    /// Never waits for a directory's lock, so removing a directory cannot deadlock with a rename.
    pub(super) fn on_unlinked(self: &Arc<Self>) {
        self.counter_offset.advance();
        self.tree.ledger().refund(NAME_BYTES, 0);
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
        if !self.is_nameless.load(Ordering::SeqCst) || self.space_released.swap(true, Ordering::AcqRel) {
            return;
        }
        let pending = self.tree.ledger().begin_refund();
        let guard = match self.kind {
            FileType::Directory => self.try_lock_change(),
            _ => Some(self.lock_change()),
        };
        let now = self.inode().and_then(|inode| Ok((inode.attrs().map_err(crate::error::refused)?, inode)));
        if let Ok((stat, inode)) = &now {
            let _locked = self.dir.as_ref().map(|dir| dir.xattrs.lock());
            let size = guard.as_ref().map_or(stat.size, |guard| guard.reservations.charged_size(stat.size));
            let content = match &self.dir {
                Some(dir) => dir.charged.swap(RELEASED, Ordering::AcqRel),
                None => content(self.kind, size),
            };
            pending.refund(INODE_BYTES + content + self.xattrs_charged(inode), 1);
        } else {
            self.tree.mark_count_doubtful();
        }
        drop(guard);
        drop(now);
        self.detach();
        self.tree.table.remove(self);
    }

    fn xattrs_charged(&self, inode: &Inode) -> u64 {
        if !matches!(self.kind, FileType::Regular | FileType::Directory) {
            return 0;
        }
        xattrs_charged(inode).unwrap_or_else(|_| {
            self.tree.mark_count_doubtful();
            0
        })
    }

    fn charge_entries(&self, before: u64, after: u64) {
        let (from, to) = (directory(before), directory(after));
        let Some(dir) = &self.dir else { return };
        let keep = |charged: u64| (charged != RELEASED).then_some(to);
        // A directory removed meanwhile was already refunded with this charge.
        if from != to && dir.charged.fetch_update(Ordering::AcqRel, Ordering::Acquire, keep).is_ok() {
            self.tree.ledger().adjust(from, to);
        }
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
        // Pending until the release: its charge must not be saved as usage of the volume.
        std::mem::forget(self.tree.ledger().begin_refund());
        guard.reservations.0.push(end);
        Ok(())
    }

    pub(super) fn release_reserved(&self, offset: u64, len: usize) {
        let end = if len == 0 { 0 } else { offset.saturating_add(len as u64) };
        let mut guard = self.lock_change();
        let reserved = &mut guard.reservations;
        let Some(at) = reserved.0.iter().position(|&reserved| reserved == end) else { return };
        let pending = self.tree.ledger().resume();
        // A file that has lost its name is refunded whole, under this lock, by the call that removed the name.
        let is_refunded = self.space_released.load(Ordering::Acquire);
        let size = self.stat_any().ok().filter(|_| !is_refunded).map(|now| now.stat.size);
        let charged = |reserved: &SpaceReservations, size| blocks(reserved.charged_size(size));
        let before = size.map(|size| charged(reserved, size));
        reserved.0.swap_remove(at);
        let after = size.map(|size| charged(reserved, size));
        if let (Some(before), Some(after)) = (before, after) {
            pending.refund(before - after, 0);
        }
    }
}

/// The charge of an object's content, without its extended attributes.
pub(crate) fn content(kind: FileType, size: u64) -> u64 {
    match kind {
        FileType::Regular => blocks(size),
        FileType::Directory => directory(size),
        FileType::Symlink => symlink(size),
        FileType::Fifo | FileType::Socket | FileType::Block | FileType::Character => 0,
    }
}

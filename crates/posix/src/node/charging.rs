//! Charges changes of files to the volume's capacity, and refunds them.

use super::mount::Mount;
use super::preserve::Preserving;
use super::xattrs::xattrs_charged;
use super::{ChangeGuard, Node, RELEASED, Rights};
use crate::capacity::limit::{Limit, NewEntryCharge, ResizeCharge, SnapshotCharge, SpaceReservation};
use crate::capacity::owners::accounts::OwnerIds;
use crate::capacity::owners::{OwnerLedger, PendingOwnerChange};
use crate::error::refused;
use crate::fs_type::file_system_stat;
use crate::undo::Undo;
use rustix::fs::{AtFlags, FallocateFlags, fallocate, fstat, ftruncate, statat};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use storage::{Ledger, PendingChange};
use vfs::backend::charge::{INODE_BYTES, NAME_BYTES, blocks, directory, symlink};
use vfs::{Attrs, AuthorizeWrite, Blocking, FileType, FsError, FsResult, Usage};

impl Mount {
    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        self.limit.as_deref().and_then(Limit::ledger)
    }

    pub(crate) fn mark_count_doubtful(&self) {
        if let Some(ledger) = self.ledger() {
            ledger.mark_doubtful();
        }
        if let Some(ledger) = self.owner_ledger() {
            ledger.mark_doubtful();
        }
    }

    #[inline]
    pub(crate) fn charge_resize(
        &self,
        guard: &ChangeGuard<'_>,
        before: &Attrs,
        to: u64,
    ) -> FsResult<ResizeCharge<'_>> {
        let ledger = self.ledger();
        if ledger.is_none() && self.owner_ledger().is_none() {
            return Ok(ResizeCharge { pending: None, owners: None, charged: 0, reserved_size: 0 });
        }
        let reserved = guard.reservations().charged_size(0);
        let (held, after) = (blocks(before.size.max(reserved)), blocks(to.max(reserved)));
        let charged = held.max(after);
        if held == after {
            return Ok(ResizeCharge { pending: None, owners: None, charged, reserved_size: reserved });
        }
        let pending = ledger.map(Ledger::begin).transpose()?;
        if let Some(ledger) = ledger {
            if after > held {
                ledger.charge(after - held, 0)?;
            } else {
                ledger.mark_best_effort();
            }
        }
        let owners = self.resize_owners(before, held, after).inspect_err(|_| {
            ledger.into_iter().for_each(|ledger| ledger.refund(after.saturating_sub(held), 0));
        })?;
        Ok(ResizeCharge { pending, owners, charged, reserved_size: reserved })
    }

    /// Charges a new object with this content, `name` in `dir`; its owners too, unless it is a directory. An existing
    /// name is [`FsError::Exists`], even on a full volume.
    pub(crate) fn charge_new_object(
        &self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        content: u64,
        owned: Option<(OwnerIds, Usage)>,
    ) -> FsResult<NewEntryCharge<'_>> {
        let charge = || {
            let mut charge = self.charge_entry(NewEntryCharge::bytes(content), 1)?;
            if let (Some(owners), Some((ids, amount))) = (self.owner_ledger(), owned) {
                let charged = owners.charge(ids, amount);
                charge.owners = Some(charged.map_err(|error| self.volume_first(error, amount))?);
            }
            Ok(charge)
        };
        charge().map_err(|error| taken_or_full(dir, name, error))
    }

    pub(crate) fn charge_link(&self, dir: BorrowedFd<'_>, name: &[u8]) -> FsResult<NewEntryCharge<'_>> {
        // A walk that counts the files must not meet a new name.
        let _pending = self.owner_ledger().map(OwnerLedger::begin).transpose()?;
        self.charge_entry(NAME_BYTES, 0).map_err(|error| taken_or_full(dir, name, error))
    }

    fn charge_entry(&self, bytes: u64, files: u64) -> FsResult<NewEntryCharge<'_>> {
        let Some(ledger) = self.ledger() else {
            return Ok(NewEntryCharge { pending: None, owners: None, bytes, files });
        };
        let pending = ledger.begin()?;
        ledger.charge(bytes, files)?;
        Ok(NewEntryCharge { pending: Some(pending), owners: None, bytes, files })
    }

    pub(crate) fn begin_entry_change<'n>(&self, dir: &'n Node, before: u64) -> EntriesCharge<'n> {
        EntriesCharge { dir: self.ledger().map(|_| dir), before }
    }

    /// The node of `name` in `dir`, whose name is about to be removed. Opened only if it must be charged; `seen` is the
    /// node if the caller has looked it up.
    pub(crate) fn begin_unlink(
        self: &Arc<Self>,
        dir: BorrowedFd<'_>,
        name: &[u8],
        seen: Option<Arc<Node>>,
    ) -> FsResult<PendingUnlink<'_>> {
        let cached = seen.or_else(|| self.cached_node(dir, name));
        let has_snapshots = self.undo().is_some_and(|undo| !undo.is_empty());
        let (ledger, owners) = (self.ledger(), self.owner_ledger());
        if ledger.is_none() && owners.is_none() {
            let node = if has_snapshots && cached.is_none() { self.node_of_name(dir, name)? } else { cached };
            return Ok(PendingUnlink { node, _pending: None, owners: None, retaining: None });
        }
        let pending = ledger.map(Ledger::begin).transpose()?;
        let pending_owners = owners.map(OwnerLedger::begin).transpose()?;
        ledger.into_iter().for_each(Ledger::mark_best_effort);
        owners.into_iter().for_each(OwnerLedger::mark_best_effort);
        let found = cached.map_or_else(
            || self.adopt(self.open_name(dir, name, Blocking::Allowed)?).map(|(node, _)| node),
            Ok,
        );
        // An object that cannot be opened is removed all the same.
        let seen = found.inspect_err(|&error| {
            if error != FsError::NotFound {
                self.mark_count_doubtful();
            }
        });
        Ok(PendingUnlink { node: seen.ok(), _pending: pending, owners: pending_owners, retaining: None })
    }

    fn node_of_name(self: &Arc<Self>, dir: BorrowedFd<'_>, name: &[u8]) -> FsResult<Option<Arc<Node>>> {
        match self.open_name(dir, name, Blocking::Allowed) {
            Ok(fd) => self.adopt(fd).map(|(node, _)| Some(node)),
            Err(FsError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Node {
    /// Refunds a removed name. If it was the last one, also refunds the file: once, after the last write under way, and
    /// after the last close.
    ///
    /// Never waits for a directory's lock, so removing a directory cannot deadlock with a rename.
    pub(crate) fn on_unlinked(self: &Arc<Self>, is_owner_charged: bool) {
        self.counter_offset.advance();
        if is_owner_charged {
            self.is_owner_charged.store(true, Ordering::Release);
        }
        if let Some(ledger) = self.mount.ledger() {
            ledger.refund(NAME_BYTES, 0);
        }
        if self.is_pinned() {
            self.mount.unlinked_open.lock().push(Arc::clone(self));
        } else {
            self.release_if_unlinked();
        }
    }

    pub(crate) fn release_if_unlinked(&self) {
        let pending = self.mount.ledger().map(Ledger::begin_refund);
        let owners = self.mount.owner_ledger();
        let _pending_owners = owners.map(OwnerLedger::begin_refund);
        let guard = match self.kind {
            FileType::Directory => self.try_lock_change(),
            _ => Some(self.lock_change()),
        };
        let is_retained = self.retained.load(Ordering::Acquire);
        if let Ok(stat) = fstat(self.fd())
            && (stat.st_nlink == 0 || is_retained)
            && !self.space_released.swap(true, Ordering::AcqRel)
        {
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            let reserved =
                |size| guard.as_ref().map_or(size, |guard| guard.reservations().charged_size(size));
            let file_bytes = if self.kind == FileType::Regular { blocks(reserved(size)) } else { 0 };
            if let Some(ledger) = pending {
                let _locked = self.lock_xattrs();
                let content = match &self.dir {
                    Some(dir) => dir.charged.swap(RELEASED, Ordering::AcqRel),
                    None if self.kind == FileType::Regular => file_bytes,
                    None => content(self.kind, size),
                };
                if is_retained {
                    self.charge_retained(content);
                }
                ledger.refund(INODE_BYTES + content + self.xattrs_charged(), 1);
            }
            if let Some(owners) = owners
                && self.dir.is_none()
                && self.is_owner_charged.load(Ordering::Acquire)
            {
                self.refund_owners(owners, &stat, Usage { bytes: file_bytes, files: 1 });
            }
            if guard.is_some() && !is_retained {
                self.detach();
            }
            self.remove_from_table();
        }
    }

    /// Charges the content of a removed file to the snapshots that keep it, even past the capacity: it was charged before.
    fn charge_retained(&self, content: u64) {
        if let Some(ledger) = self.mount.ledger() {
            // It cannot fail past the capacity.
            let _held = ledger.hold(content, true);
        }
    }

    /// Takes the blocks of a removed file for the snapshots that keep it, where the kernel counts: its files must not get
    /// them again.
    fn hold_retained(&self) -> Option<SnapshotCharge<'_>> {
        let limit = self.mount.limit.as_deref().filter(|limit| limit.kernel().is_some())?;
        // It cannot be refused past the capacity.
        limit.hold(self.attrs_now().ok()?.used, true).ok()
    }

    /// Locks a directory's extended attributes against its removal.
    pub(crate) fn lock_xattrs(&self) -> Option<MutexGuard<'_, ()>> {
        self.dir.as_ref().map(|dir| dir.xattrs.lock())
    }

    fn xattrs_charged(&self) -> u64 {
        let carries = self.mount.xattrs && matches!(self.kind, FileType::Regular | FileType::Directory);
        let charged = if carries { xattrs_charged(self.fd()) } else { Ok(0) };
        charged.unwrap_or_else(|_| {
            self.mount.mark_count_doubtful();
            0
        })
    }

    pub(crate) fn charge_entries(&self, before: u64, after: u64) {
        let (from, to) = (directory(before), directory(after));
        let (Some(ledger), Some(dir)) = (self.mount.ledger(), &self.dir) else { return };
        let keep = |charged: u64| (charged != RELEASED).then_some(to);
        // A directory removed meanwhile was already refunded with this charge.
        if from != to && dir.charged.fetch_update(Ordering::AcqRel, Ordering::Acquire, keep).is_ok() {
            ledger.adjust(from, to);
        }
    }

    pub(crate) fn reserve_space(
        &self,
        offset: u64,
        len: usize,
        authorize: AuthorizeWrite<'_>,
    ) -> FsResult<()> {
        self.check_regular()?;
        let end = self.check_end(offset, len as u64)?;
        let fd = self.open(Rights::Write)?.as_fd();
        let mut guard = self.lock_change();
        let before = self.attrs_now()?;
        authorize(&before)?;
        let resize = self.mount.charge_resize(&guard, &before, before.size.max(end))?;
        match self.preallocate_if_scarce(fd, offset, len, before.size) {
            Ok(blocks) => {
                // Pending until the reservation is released: its charge must not be saved as usage of the volume.
                self.mount.ledger().map(Ledger::begin_refund).into_iter().for_each(std::mem::forget);
                let owners = self.mount.owner_ledger().map(OwnerLedger::begin_refund);
                let is_owner_pending = owners.map(std::mem::forget).is_some();
                let reservation = SpaceReservation { finish: end, is_preallocated: blocks, is_owner_pending };
                guard.reservations_mut().0.push(reservation);
            }
            Err(error) => {
                resize.end(before.size);
                return Err(error);
            }
        }
        Ok(())
    }

    pub(crate) fn release_reserved(&self, offset: u64, len: usize) {
        let end = if len == 0 { 0 } else { offset.saturating_add(len as u64) };
        let mut guard = self.lock_change();
        let reserved = guard.reservations_mut();
        let Some(at) = reserved.0.iter().position(|reservation| reservation.finish == end) else { return };
        let _pending = self.mount.ledger().map(Ledger::resume);
        let is_owner_pending = reserved.0[at].is_owner_pending;
        let _pending_owners = self.mount.owner_ledger().filter(|_| is_owner_pending).map(OwnerLedger::resume);
        // A file that has lost its name is refunded whole, under this lock, by the call that removed the name.
        let is_refunded = self.space_released.load(Ordering::Acquire);
        let Some(stat) = fstat(self.fd()).ok().filter(|_| !is_refunded) else {
            reserved.0.swap_remove(at);
            return;
        };
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let before = blocks(reserved.charged_size(size));
        let SpaceReservation { is_preallocated, .. } = reserved.0.swap_remove(at);
        let after = blocks(reserved.charged_size(size));
        if is_preallocated && size < end {
            // ftruncate(2) to the current size frees the blocks past the end.
            let _cut = ftruncate(self.fd(), size);
        }
        if let Some(ledger) = self.mount.ledger() {
            ledger.refund(before - after, 0);
        }
        self.refund_reserved(&stat, before - after);
    }

    /// Allocates blocks for a write if the file system has little space. Returns whether it did.
    fn preallocate_if_scarce(
        &self,
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        size: u64,
    ) -> FsResult<bool> {
        /// With more space than this, a single write does not fill the file system.
        const AMPLE_BYTES: u64 = 64 << 20;
        let below = file_system_stat(fd)?;
        let room = match self.mount.limit.as_deref() {
            Some(limit) if limit.ledger().is_none() => limit.stat(&below)?.bytes_available,
            Some(_) | None => below.bytes_available,
        };
        if len == 0 || room.saturating_sub(len as u64) > AMPLE_BYTES {
            return Ok(false);
        }
        match fallocate(fd, FallocateFlags::KEEP_SIZE, offset, len as u64) {
            Ok(()) => Ok(true),
            // Not supported: the write itself finds out.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(errno) => {
                // A part may have been allocated.
                let _cut = ftruncate(fd, size);
                Err(refused(errno))
            }
        }
    }

    /// Truncates a file after a write that ran out of space, so that a write on a volume succeeds whole or not at all.
    /// Returns the size of the file.
    pub(crate) fn truncate_growth(
        &self,
        fd: BorrowedFd<'_>,
        before: &Attrs,
        error: FsError,
    ) -> FsResult<u64> {
        let size = || Ok(u64::try_from(fstat(fd).map_err(refused)?.st_size).unwrap_or(0));
        let full = matches!(error, FsError::NoSpace | FsError::Quota | FsError::FileTooBig);
        if self.mount.limit.is_some() && full && size()? > before.size {
            ftruncate(fd.as_fd(), before.size).map_err(refused)?;
        }
        size()
    }
}

/// [`FsError::Exists`] instead of a refusal for lack of space if `dir` has the name already.
fn taken_or_full(dir: BorrowedFd<'_>, name: &[u8], error: FsError) -> FsError {
    let is_full = matches!(error, FsError::NoSpace | FsError::Quota);
    let is_taken = is_full && statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    if is_taken { FsError::Exists } else { error }
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

/// The removal of a name under way. Dropped without an end, the name is still there.
pub(crate) struct PendingUnlink<'l> {
    /// The object of the name, if it must be charged or preserved.
    node: Option<Arc<Node>>,
    _pending: Option<PendingChange<'l>>,
    owners: Option<PendingOwnerChange<'l>>,
    /// The snapshots that keep the file, which loses its last name.
    retaining: Option<(Arc<Undo>, Arc<Node>)>,
}

impl PendingUnlink<'_> {
    /// Preserves the name and its object. `dir` has `before`.
    pub(crate) fn preserve(
        &mut self,
        preserving: &Preserving<'_>,
        dir: &Node,
        before: &Attrs,
        name: &[u8],
    ) -> FsResult<()> {
        let Some(node) = &self.node else { return preserving.new_name(dir, before, name) };
        preserving.old_name(dir, before, name, node)?;
        if preserving.begin_retain(node)?
            && let Some(undo) = node.mount.undo()
        {
            self.retaining = Some((Arc::clone(undo), Arc::clone(node)));
        }
        Ok(())
    }

    /// The name is gone.
    pub(crate) fn finish(mut self) {
        let retaining = self.retaining.take();
        if let Some((undo, node)) = &retaining {
            let _held = node.hold_retained();
            node.retained.store(true, Ordering::Release);
            if let Err(error) = undo.finish_retain(&node.key) {
                // The next start finishes it.
                tracing::error!(%error, "cannot file a removed file that a snapshot has");
            }
        }
        if let Some(node) = self.node.take() {
            node.on_unlinked(self.owners.is_some());
        }
    }
}

impl Drop for PendingUnlink<'_> {
    fn drop(&mut self) {
        if let Some((undo, node)) = self.retaining.take()
            && let Err(error) = undo.cancel_retain(&node.key)
        {
            tracing::error!(%error, "cannot give up a file that was not removed");
        }
    }
}

/// A change of a directory's entries under way. The directory's charge follows its size.
pub(crate) struct EntriesCharge<'n> {
    /// `None` if this process does not count.
    pub(crate) dir: Option<&'n Node>,
    pub(crate) before: u64,
}

impl EntriesCharge<'_> {
    pub(crate) fn finish(mut self, size: u64) {
        if let Some(dir) = self.dir.take() {
            dir.charge_entries(self.before, size);
        }
    }
}

impl Drop for EntriesCharge<'_> {
    /// A failed change may have grown the directory too.
    fn drop(&mut self) {
        if let Some(dir) = self.dir.take()
            && let Ok(stat) = fstat(dir.fd())
        {
            dir.charge_entries(self.before, u64::try_from(stat.st_size).unwrap_or(0));
        }
    }
}

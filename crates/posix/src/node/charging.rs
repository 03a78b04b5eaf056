//! Charges changes of files to the volume's capacity, and refunds them.

use super::mount::Mount;
use super::preserve::Preserving;
use super::xattrs::xattrs_charged;
use super::{ChangeGuard, Node, Rights};
use crate::capacity::limit::{Limit, SnapshotCharge};
use crate::error::refused;
use crate::fs_type::file_system_stat;
use crate::undo::Undo;
use rustix::fs::{AtFlags, FallocateFlags, fallocate, fstat, ftruncate, statat};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use storage::{Counts, EntriesCharge, Ledger, NewEntryCharge, OwnerIds, PendingCounts, ResizeCharge};
use vfs::backend::charge::{INODE_BYTES, NAME_BYTES, blocks, content};
use vfs::{Attrs, AuthorizeWrite, Blocking, FileType, FsError, FsResult, Usage};

impl Mount {
    /// The counts that changes of files are charged to.
    #[inline]
    pub(crate) fn counts(&self) -> Counts<'_> {
        self.limit.as_deref().map(Limit::counts).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        self.counts().ledger
    }

    pub(crate) fn mark_count_doubtful(&self) {
        self.counts().mark_doubtful();
    }

    #[inline]
    pub(crate) fn charge_resize(
        &self,
        guard: &ChangeGuard<'_>,
        before: &Attrs,
        to: u64,
    ) -> FsResult<ResizeCharge<'_>> {
        let charge = self.counts().charge_resize(guard.reservations(), before, to);
        charge.map_err(|error| {
            let charged = |size| blocks(guard.reservations().charged_size(size));
            let bytes = charged(to).saturating_sub(charged(before.size));
            self.volume_first(error, Usage { bytes, files: 0 })
        })
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
        let more = owned.map(|(_, amount)| amount).unwrap_or_default();
        let charge = self.counts().charge_object(content, owned);
        charge.map_err(|error| taken_or_full(dir, name, self.volume_first(error, more)))
    }

    pub(crate) fn charge_link(&self, dir: BorrowedFd<'_>, name: &[u8]) -> FsResult<NewEntryCharge<'_>> {
        self.counts().charge_link().map_err(|error| taken_or_full(dir, name, error))
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
        let counts = self.counts();
        if counts.is_none() {
            let node = if has_snapshots && cached.is_none() { self.node_of_name(dir, name)? } else { cached };
            return Ok(PendingUnlink { node, pending: None, retaining: None });
        }
        let pending = Some(counts.begin_removal()?);
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
        Ok(PendingUnlink { node: seen.ok(), pending, retaining: None })
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
        let counts = self.mount.counts();
        let _pending = counts.begin_refund();
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
            if let Some(ledger) = counts.ledger {
                let _locked = self.lock_xattrs();
                let content = match &self.dir {
                    Some(dir) => dir.charged.release(),
                    None if self.kind == FileType::Regular => file_bytes,
                    None => content(self.kind, size),
                };
                if is_retained {
                    self.charge_retained(content);
                }
                ledger.refund(INODE_BYTES + content + self.xattrs_charged(), 1);
            }
            if let Some(owners) = counts.owners
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

    /// Begins a change of the entries of this directory, which has the size `before`.
    pub(crate) fn begin_entry_change(
        &self,
        before: u64,
    ) -> FsResult<EntriesCharge<'_, impl Fn() -> Option<u64>>> {
        let size_now = || u64::try_from(fstat(self.fd()).ok()?.st_size).ok();
        Ok(self.as_dir()?.charged.begin_change(self.mount.counts(), before, size_now))
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
            Ok(is_preallocated) => {
                guard.reservations_mut().add(self.mount.counts(), end, is_preallocated);
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
        // A file that has lost its name is refunded whole, under this lock, by the call that removed the name.
        let is_refunded = self.space_released.load(Ordering::Acquire);
        let stat = if is_refunded { None } else { fstat(self.fd()).ok() };
        let size = stat.as_ref().map(|stat| u64::try_from(stat.st_size).unwrap_or(0));
        let released = guard.reservations_mut().release(self.mount.counts(), end, || size);
        let (Some(released), Some(stat), Some(size)) = (released, stat, size) else { return };
        if released.is_preallocated && size < end {
            // ftruncate(2) to the current size frees the blocks past the end.
            let _cut = ftruncate(self.fd(), size);
        }
        self.refund_reserved(&stat, released.bytes);
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
            Some(limit) if limit.kernel().is_some() => limit.stat(&below)?.bytes_available,
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

/// The removal of a name under way. Dropped without an end, the name is still there.
pub(crate) struct PendingUnlink<'l> {
    /// The object of the name, if it must be charged or preserved.
    node: Option<Arc<Node>>,
    pending: Option<PendingCounts<'l>>,
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
            let is_owner_charged = self.pending.as_ref().is_some_and(|pending| pending.owners.is_some());
            node.on_unlinked(is_owner_charged);
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

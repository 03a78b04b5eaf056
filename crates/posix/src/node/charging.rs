//! The moments at which a volume's files take something of its capacity, or give it back.

use super::mount::Mount;
use super::xattrs::xattrs_charged;
use super::{ChangeGuard, Node, RELEASED, Rights};
use crate::capacity::ledger::{Ledger, PendingChange};
use crate::capacity::limit::{Limit, NewEntryCharge, ResizeCharge, SpaceReservation};
use crate::error::refused;
use crate::fs_type::file_system_stat;
use rustix::fs::{AtFlags, FallocateFlags, fallocate, fstat, ftruncate, statat};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use vfs::backend::charge::{INODE_BYTES, NAME_BYTES, blocks, directory, symlink};
use vfs::{Attrs, AuthorizeWrite, Blocking, FileType, FsError, FsResult};

impl Mount {
    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        self.limit.as_deref().and_then(Limit::ledger)
    }

    /// What is counted may be wrong from now on.
    pub(crate) fn mark_count_doubtful(&self) {
        if let Some(ledger) = self.ledger() {
            ledger.mark_doubtful();
        }
    }

    /// Takes what a file's growth from one size to another needs, before it is changed.
    #[inline]
    pub(crate) fn charge_resize(
        &self,
        held: &ChangeGuard<'_>,
        from: u64,
        to: u64,
    ) -> FsResult<ResizeCharge<'_>> {
        let Some(ledger) = self.ledger() else {
            return Ok(ResizeCharge { pending: None, charged: 0, reserved_size: 0 });
        };
        let promised = held.promised().charged_size(0);
        let (before, after) = (blocks(from.max(promised)), blocks(to.max(promised)));
        let pending = (before != after).then(|| ledger.begin()).transpose()?;
        if after > before {
            ledger.take(after - before, 0)?;
        } else if after < before {
            ledger.mark_best_effort();
        }
        Ok(ResizeCharge { pending, charged: before.max(after), reserved_size: promised })
    }

    /// Takes what one more object with this content, `name` in `dir`, needs. A name that is taken is [`FsError::Exists`], even
    /// on a full volume.
    pub(crate) fn charge_new_object(
        &self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        content: u64,
    ) -> FsResult<NewEntryCharge<'_>> {
        self.charge_entry(dir, name, NewEntryCharge::bytes(content), 1)
    }

    /// Takes what one more name of an object needs.
    pub(crate) fn charge_link(&self, dir: BorrowedFd<'_>, name: &[u8]) -> FsResult<NewEntryCharge<'_>> {
        self.charge_entry(dir, name, NAME_BYTES, 0)
    }

    fn charge_entry(
        &self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        bytes: u64,
        files: u64,
    ) -> FsResult<NewEntryCharge<'_>> {
        let Some(ledger) = self.ledger() else { return Ok(NewEntryCharge { pending: None, bytes, files }) };
        let pending = ledger.begin()?;
        match ledger.take(bytes, files) {
            Err(FsError::NoSpace) if statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() => {
                Err(FsError::Exists)
            }
            taken => taken.map(|()| NewEntryCharge { pending: Some(pending), bytes, files }),
        }
    }

    /// Begins a change of the entries of `dir`, which shows this size.
    pub(crate) fn begin_entry_change<'n>(&self, dir: &'n Node, before: u64) -> EntriesCharge<'n> {
        EntriesCharge { dir: self.ledger().map(|_| dir), before }
    }

    /// The node of `name` in `dir`, which is about to lose that name: only if it is known, unless it must be counted. It is
    /// `seen` if somebody has looked already.
    pub(crate) fn begin_unlink(
        self: &Arc<Self>,
        dir: BorrowedFd<'_>,
        name: &[u8],
        seen: Option<Arc<Node>>,
    ) -> FsResult<PendingUnlink<'_>> {
        let known = seen.or_else(|| self.cached_node(dir, name));
        let Some(ledger) = self.ledger() else { return Ok(PendingUnlink { node: known, pending: None }) };
        let pending = Some(ledger.begin()?);
        ledger.mark_best_effort();
        let found = known.map_or_else(
            || self.adopt(self.open_name(dir, name, Blocking::Allowed)?).map(|(node, _)| node),
            Ok,
        );
        // What cannot be looked at is removed all the same.
        let seen = found.inspect_err(|&error| {
            if error != FsError::NotFound {
                ledger.mark_doubtful()
            }
        });
        Ok(PendingUnlink { node: seen.ok(), pending })
    }
}

impl Node {
    /// Lets go of a file that has lost a name. If that was its last, what it was charged is given back: once, after the last write
    /// that had begun, and when nobody has the file open any more.
    ///
    /// No directory is waited for here, so a directory that is being removed cannot meet a rename half-way.
    pub(crate) fn on_unlinked(self: &Arc<Self>) {
        self.counter_offset.advance();
        if let Some(ledger) = self.mount.ledger() {
            ledger.refund(NAME_BYTES, 0);
        }
        if self.is_pinned() {
            self.mount.unlinked_open.lock().push(Arc::clone(self));
        } else {
            self.release_if_unlinked();
        }
    }

    /// Lets go of a file if it has no name.
    pub(crate) fn release_if_unlinked(&self) {
        let pending = self.mount.ledger().map(Ledger::begin_refund);
        let held = match self.kind {
            FileType::Directory => self.try_lock_change(),
            _ => Some(self.lock_change()),
        };
        if let Ok(stat) = fstat(self.fd())
            && stat.st_nlink == 0
            && !self.space_released.swap(true, Ordering::AcqRel)
        {
            if let Some(ledger) = pending {
                let _changing = self.lock_xattrs();
                let size = u64::try_from(stat.st_size).unwrap_or(0);
                let content = match &self.dir {
                    Some(dir) => dir.charged.swap(RELEASED, Ordering::AcqRel),
                    None if self.kind == FileType::Regular => {
                        blocks(held.as_ref().map_or(size, |held| held.promised().charged_size(size)))
                    }
                    None => content(self.kind, size),
                };
                ledger.refund(INODE_BYTES + content + self.xattrs_charged(), 1);
            }
            if held.is_some() {
                self.detach();
            }
            self.remove_from_table();
        }
    }

    /// Keeps changes of a directory's extended attributes away from its end.
    pub(crate) fn lock_xattrs(&self) -> Option<MutexGuard<'_, ()>> {
        self.dir.as_ref().map(|dir| dir.xattrs.lock())
    }

    /// What its extended attributes are charged.
    fn xattrs_charged(&self) -> u64 {
        let carries = self.mount.xattrs && matches!(self.kind, FileType::Regular | FileType::Directory);
        let charged = if carries { xattrs_charged(self.fd()) } else { Ok(0) };
        charged.unwrap_or_else(|_| {
            self.mount.mark_count_doubtful();
            0
        })
    }

    /// The entries of this directory were charged for one size and are for another one.
    pub(crate) fn charge_entries(&self, before: u64, after: u64) {
        let (from, to) = (directory(before), directory(after));
        let (Some(ledger), Some(dir)) = (self.mount.ledger(), &self.dir) else { return };
        let keep = |charged: u64| (charged != RELEASED).then_some(to);
        // One that was removed meanwhile was given back with what it was charged.
        if from != to && dir.charged.fetch_update(Ordering::AcqRel, Ordering::Acquire, keep).is_ok() {
            ledger.adjust(from, to);
        }
    }

    /// Takes what a write in parts needs, as [`vfs::Node::reserve`] says.
    pub(crate) fn reserve_space(
        &self,
        offset: u64,
        len: usize,
        authorize: AuthorizeWrite<'_>,
    ) -> FsResult<()> {
        self.check_regular()?;
        let end = self.check_end(offset, len as u64)?;
        let fd = self.open(Rights::Write)?.as_fd();
        let mut held = self.lock_change();
        let before = self.attrs_now()?;
        authorize(&before)?;
        let resize = self.mount.charge_resize(&held, before.size, before.size.max(end))?;
        match self.preallocate_if_scarce(fd, offset, len, before.size) {
            Ok(blocks) => {
                // Until it is given back: what is charged for it must not be written down as what the volume holds.
                self.mount.ledger().map(Ledger::begin_refund).into_iter().for_each(std::mem::forget);
                held.reservations_mut().0.push(SpaceReservation { finish: end, is_preallocated: blocks });
            }
            Err(error) => {
                resize.end(before.size);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Gives back what of [`Node::take_room`] was not used.
    pub(crate) fn release_reserved(&self, offset: u64, len: usize) {
        let end = if len == 0 { 0 } else { offset.saturating_add(len as u64) };
        let mut held = self.lock_change();
        let promised = held.reservations_mut();
        let Some(at) = promised.0.iter().position(|promise| promise.finish == end) else { return };
        let _pending = self.mount.ledger().map(Ledger::resume);
        // What a file without a name was charged has been given back.
        let Ok(size) = self.stat().map(|stat| u64::try_from(stat.st_size).unwrap_or(0)) else {
            promised.0.swap_remove(at);
            return;
        };
        let before = blocks(promised.charged_size(size));
        let SpaceReservation { is_preallocated: set_aside, .. } = promised.0.swap_remove(at);
        let after = blocks(promised.charged_size(size));
        if set_aside && size < end {
            // Cutting a file to the size that it has frees what lies past its end.
            let _cut = ftruncate(self.fd(), size);
        }
        if let Some(ledger) = self.mount.ledger() {
            ledger.refund(before - after, 0);
        }
    }

    /// Has the file system set blocks aside for a write, if it has little room; tells whether it did.
    fn preallocate_if_scarce(
        &self,
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        size: u64,
    ) -> FsResult<bool> {
        /// With more room than this the write is not the one that fills it.
        const AMPLE_BYTES: u64 = 64 << 20;
        let below = file_system_stat(fd)?;
        let room = match self.mount.limit.as_deref() {
            Some(limit @ Limit::Project(_)) => limit.stat(&below)?.bytes_available,
            Some(Limit::Counted(_)) | None => below.bytes_available,
        };
        if len == 0 || room.saturating_sub(len as u64) > AMPLE_BYTES {
            return Ok(false);
        }
        match fallocate(fd, FallocateFlags::KEEP_SIZE, offset, len as u64) {
            Ok(()) => Ok(true),
            // A file system that cannot tell before.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(errno) => {
                // Some of it may be set aside by now.
                let _cut = ftruncate(fd, size);
                Err(refused(errno))
            }
        }
    }

    /// Takes back what of a write was done before the storage was full, so that a write on a volume is done whole or not at
    /// all; tells the size of the file.
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

/// What an object is charged for what it holds, but for its extended attributes.
pub(crate) fn content(kind: FileType, size: u64) -> u64 {
    match kind {
        FileType::Regular => blocks(size),
        FileType::Directory => directory(size),
        FileType::Symlink => symlink(size),
        FileType::Fifo | FileType::Socket | FileType::Block | FileType::Character => 0,
    }
}

/// The loss of a name under way.
pub(crate) struct PendingUnlink<'l> {
    /// What loses it, if that is known.
    pub(crate) node: Option<Arc<Node>>,
    pub(crate) pending: Option<PendingChange<'l>>,
}

/// A change of a directory's entries under way: what the directory is charged follows its size.
pub(crate) struct EntriesCharge<'n> {
    /// None where nobody counts.
    pub(crate) dir: Option<&'n Node>,
    pub(crate) before: u64,
}

impl EntriesCharge<'_> {
    /// The change is over, and the directory shows this size.
    pub(crate) fn finish(mut self, size: u64) {
        if let Some(dir) = self.dir.take() {
            dir.charge_entries(self.before, size);
        }
    }
}

impl Drop for EntriesCharge<'_> {
    /// What failed may have grown the directory all the same.
    fn drop(&mut self) {
        if let Some(dir) = self.dir.take()
            && let Ok(stat) = fstat(dir.fd())
        {
            dir.charge_entries(self.before, u64::try_from(stat.st_size).unwrap_or(0));
        }
    }
}

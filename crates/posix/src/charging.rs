//! The moments at which a volume's files take something of its capacity, or give it back.

use crate::error::refused;
use crate::ledger::{Ledger, charge};
use crate::limit::{Limit, Newborn, Promise, Resize};
use crate::mount::Mount;
use crate::nature::file_system_stat;
use crate::node::{Changing, Node, Rights};
use rustix::fs::{AtFlags, FallocateFlags, fallocate, fstat, ftruncate, statat};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use vfs::{Attrs, AuthorizeWrite, Blocking, FileType, FsError, FsResult};

impl Mount {
    fn ledger(&self) -> Option<&Ledger> {
        self.limit.as_deref().and_then(Limit::ledger)
    }

    /// [`FsError::Delay`] as long as it is not known what the tree holds: then it must not change under those who count.
    pub(crate) fn check_counted(&self) -> FsResult<()> {
        self.ledger().map_or(Ok(()), Ledger::check_counted)
    }

    /// What is counted may be wrong from now on.
    pub(crate) fn doubt(&self) {
        if let Some(ledger) = self.ledger() {
            ledger.doubt();
        }
    }

    /// Takes what a file's growth from one size to another needs, before it is changed.
    #[inline]
    pub(crate) fn resize(&self, held: &Changing<'_>, from: u64, to: u64) -> FsResult<Resize<'_>> {
        let Some(ledger) = self.ledger() else { return Ok(Resize { ledger: None, charged: 0, promised: 0 }) };
        let promised = held.promised().reach(0);
        let (before, after) = (charge(from.max(promised)), charge(to.max(promised)));
        if after > before {
            ledger.take(after - before, 0)?;
        } else if after < before {
            ledger.announce()?;
        }
        Ok(Resize { ledger: Some(ledger), charged: before.max(after), promised })
    }

    /// Takes what one more object of `size` bytes, `name` in `dir`, needs. A name that is taken is [`FsError::Exists`], even
    /// on a full volume.
    pub(crate) fn newborn(&self, dir: BorrowedFd<'_>, name: &[u8], size: u64) -> FsResult<Newborn<'_>> {
        let bytes = charge(size);
        let Some(ledger) = self.ledger() else { return Ok(Newborn { ledger: None, bytes }) };
        match ledger.take(bytes, 1) {
            Err(FsError::NoSpace) if statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() => {
                Err(FsError::Exists)
            }
            taken => taken.map(|()| Newborn { ledger: Some(ledger), bytes }),
        }
    }

    /// The node of `name` in `dir`, which is about to lose that name: only if it is known, unless it must be counted. It is
    /// `seen` if somebody has looked already.
    pub(crate) fn victim(
        self: &Arc<Self>,
        dir: BorrowedFd<'_>,
        name: &[u8],
        seen: Option<Arc<Node>>,
    ) -> FsResult<Option<Arc<Node>>> {
        let known = seen.or_else(|| self.known(dir, name));
        let Some(ledger) = self.ledger() else { return Ok(known) };
        ledger.announce()?;
        let found = known.map_or_else(
            || self.adopt(self.open_name(dir, name, Blocking::Allowed)?).map(|(node, _)| node),
            Ok,
        );
        // What cannot be looked at is removed all the same.
        let seen = found.inspect_err(|&error| {
            if error != FsError::NotFound {
                ledger.doubt()
            }
        });
        Ok(seen.ok())
    }
}

impl Node {
    /// Lets go of a file that has lost a name. If that was its last, what it was charged is given back: once, after the last write
    /// that had begun, and when nobody has the file open any more.
    ///
    /// No directory is waited for here, so a directory that is being removed cannot meet a rename half-way.
    pub(crate) fn on_unlinked(self: &Arc<Self>) {
        self.ahead.advance();
        if self.is_pinned() {
            self.mount.nameless.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(self));
        } else {
            self.free();
        }
    }

    /// Lets go of a file if it has no name.
    pub(crate) fn free(&self) {
        let held = match self.kind {
            FileType::Directory => self.try_lock_change(),
            _ => Some(self.lock_change()),
        };
        if let Ok(stat) = fstat(self.fd())
            && stat.st_nlink == 0
            && !self.given_back.swap(true, Ordering::AcqRel)
        {
            if let Some(ledger) = self.mount.ledger() {
                let regular = self.kind == FileType::Regular;
                let size = if regular { u64::try_from(stat.st_size).unwrap_or(0) } else { 0 };
                let reach = held.as_ref().map_or(size, |held| held.promised().reach(size));
                ledger.give(charge(reach), 1);
            }
            if held.is_some() {
                self.let_go();
            }
            self.forget();
        }
    }

    /// Takes what a write in parts needs, as [`vfs::Node::reserve`] says.
    pub(crate) fn take_room(&self, offset: u64, len: usize, authorize: AuthorizeWrite<'_>) -> FsResult<()> {
        self.need_data()?;
        let end = self.check_end(offset, len as u64)?;
        let fd = self.open(Rights::Write)?.as_fd();
        let mut held = self.lock_change();
        let before = self.attrs_now()?;
        authorize(&before)?;
        let resize = self.mount.resize(&held, before.size, before.size.max(end))?;
        match self.set_blocks_aside(fd, offset, len, before.size) {
            Ok(blocks) => held.promised_mut().0.push(Promise { end, blocks }),
            Err(error) => {
                resize.end(before.size);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Gives back what of [`Node::take_room`] was not used.
    pub(crate) fn give_room_back(&self, offset: u64, len: usize) {
        let end = if len == 0 { 0 } else { offset.saturating_add(len as u64) };
        let mut held = self.lock_change();
        let promised = held.promised_mut();
        let Some(at) = promised.0.iter().position(|promise| promise.end == end) else { return };
        // What a file without a name was charged has been given back.
        let Ok(size) = self.stat().map(|stat| u64::try_from(stat.st_size).unwrap_or(0)) else { return };
        let before = charge(promised.reach(size));
        let Promise { blocks, .. } = promised.0.swap_remove(at);
        let after = charge(promised.reach(size));
        if blocks && size < end {
            // Cutting a file to the size that it has frees what lies past its end.
            let _cut = ftruncate(self.fd(), size);
        }
        if let Some(ledger) = self.mount.ledger() {
            ledger.give(before - after, 0);
        }
    }

    /// Has the file system set blocks aside for a write, if it has little room; tells whether it did.
    fn set_blocks_aside(&self, fd: BorrowedFd<'_>, offset: u64, len: usize, size: u64) -> FsResult<bool> {
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
    pub(crate) fn undo_growth(&self, fd: BorrowedFd<'_>, before: &Attrs, error: FsError) -> FsResult<u64> {
        let size = || Ok(u64::try_from(fstat(fd).map_err(refused)?.st_size).unwrap_or(0));
        let full = matches!(error, FsError::NoSpace | FsError::Quota | FsError::FileTooBig);
        if self.mount.limit.is_some() && full && size()? > before.size {
            ftruncate(fd.as_fd(), before.size).map_err(refused)?;
        }
        size()
    }
}

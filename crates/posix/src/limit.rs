//! A volume's capacity, as its files meet it: who counts, and the moments at which something is taken or given back.

use crate::error::refused;
use crate::ledger::{Ledger, charge};
use crate::mount::Mount;
use crate::node::Node;
use crate::project::Project;
use rustix::fs::{AtFlags, fstat, ftruncate, statat};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{Attrs, Capacity, FileType, FsError, FsResult, FsStat, Pace, Usage};

/// Who keeps a volume within its capacity.
pub(crate) enum Limit {
    /// This process.
    Counted(Ledger),
    /// The kernel.
    Project(Project),
}

impl Limit {
    /// What the volume holds.
    pub(crate) fn usage(&self) -> FsResult<Usage> {
        match self {
            Self::Counted(ledger) => Ok(ledger.usage()),
            Self::Project(project) => project.usage(),
        }
    }

    fn capacity(&self) -> FsResult<Capacity> {
        match self {
            Self::Counted(ledger) => Ok(ledger.capacity()),
            Self::Project(project) => project.capacity(),
        }
    }

    /// The state of the volume, of which no more is available than `below`, the file system, has.
    pub(crate) fn stat(&self, below: &FsStat) -> FsResult<FsStat> {
        let own = self.capacity()?.stat(self.usage()?);
        // Some file systems have no fixed number of files.
        let files_below = if below.files_total == 0 { u64::MAX } else { below.files_available };
        Ok(FsStat {
            bytes_available: own.bytes_available.min(below.bytes_available),
            files_available: own.files_available.min(files_below),
            ..own
        })
    }
}

/// A change of a file's size under way: what may be too much of it is given back by [`Resize::end`].
pub(crate) struct Resize<'l> {
    ledger: Option<&'l Ledger>,
    /// Bytes that are charged for the file as long as the change is under way.
    charged: u64,
}

impl Resize<'_> {
    /// The change is over, and the file has this size.
    #[inline]
    pub(crate) fn end(self, size: u64) {
        if let Some(ledger) = self.ledger {
            // Never more than was charged, unless somebody else has the file grow.
            ledger.give(self.charged.saturating_sub(charge(size)), 0);
        }
    }
}

/// A new object under way: given back if it is not kept.
pub(crate) struct Newborn<'l>(Option<&'l Ledger>);

impl Newborn<'_> {
    /// It is there.
    pub(crate) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Newborn<'_> {
    fn drop(&mut self) {
        if let Some(ledger) = self.0 {
            ledger.give(0, 1);
        }
    }
}

impl Mount {
    fn ledger(&self) -> Option<&Ledger> {
        match self.limit.as_deref() {
            Some(Limit::Counted(ledger)) => Some(ledger),
            Some(Limit::Project(_)) | None => None,
        }
    }

    /// What is counted may be wrong from now on.
    pub(crate) fn doubt(&self) {
        if let Some(ledger) = self.ledger() {
            ledger.doubt();
        }
    }

    /// Takes what a file's growth from one size to another needs, before it is changed.
    #[inline]
    pub(crate) fn resize(&self, from: u64, to: u64) -> FsResult<Resize<'_>> {
        let Some(ledger) = self.ledger() else { return Ok(Resize { ledger: None, charged: 0 }) };
        let (before, after) = (charge(from), charge(to));
        if after > before {
            ledger.take(after - before, 0)?;
        } else if after < before {
            ledger.announce();
        }
        Ok(Resize { ledger: Some(ledger), charged: before.max(after) })
    }

    /// Takes what one more object, `name` in `dir`, needs. A name that is taken is [`FsError::Exists`], even on a full
    /// volume.
    pub(crate) fn newborn(&self, dir: BorrowedFd<'_>, name: &[u8]) -> FsResult<Newborn<'_>> {
        let Some(ledger) = self.ledger() else { return Ok(Newborn(None)) };
        match ledger.take(0, 1) {
            Err(FsError::NoSpace) if statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() => {
                Err(FsError::Exists)
            }
            taken => taken.map(|()| Newborn(Some(ledger))),
        }
    }

    /// The node of `name` in `dir`, which is about to lose that name: only if it is known, unless it must be counted. It is
    /// `seen` if somebody has looked already.
    pub(crate) fn victim(
        self: &Arc<Self>,
        dir: BorrowedFd<'_>,
        name: &[u8],
        seen: Option<Arc<Node>>,
    ) -> Option<Arc<Node>> {
        let known = seen.or_else(|| self.known(dir, name));
        let Some(ledger) = self.ledger() else { return known };
        ledger.announce();
        let found = known
            .map_or_else(|| self.adopt(self.open_name(dir, name, Pace::Wait)?).map(|(node, _)| node), Ok);
        // What cannot be looked at is removed all the same.
        found
            .inspect_err(|&error| {
                if error != FsError::NotFound {
                    ledger.doubt()
                }
            })
            .ok()
    }
}

impl Node {
    /// Lets go of a file that has lost a name. If that was its last, what it was charged is given back: once, and after
    /// the last write that had begun.
    ///
    /// No directory is asked for its lock here, so a directory that is being removed cannot meet a rename half-way.
    pub(crate) fn bury(&self) {
        if let Some(ledger) = self.mount.ledger() {
            let _held = (self.kind != FileType::Directory).then(|| self.lock_change());
            if let Ok(stat) = fstat(self.fd())
                && stat.st_nlink == 0
                && !self.given_back.swap(true, Ordering::Relaxed)
            {
                let regular = self.kind == FileType::Regular;
                let size = if regular { u64::try_from(stat.st_size).unwrap_or(0) } else { 0 };
                ledger.give(charge(size), 1);
            }
        }
        // Asking for its state takes it out of the table.
        let _gone = self.stat();
    }

    /// Takes back what of a write was done before the storage was full, so that a write on a volume is done whole or not at
    /// all; tells the size of the file.
    pub(crate) fn undo_growth(&self, fd: BorrowedFd<'_>, before: &Attrs, error: FsError) -> FsResult<u64> {
        let size = || Ok(u64::try_from(fstat(fd).map_err(refused)?.st_size).unwrap_or(0));
        let full = matches!(error, FsError::NoSpace | FsError::Quota);
        if self.mount.limit.is_some() && full && size()? > before.size {
            ftruncate(fd.as_fd(), before.size).map_err(refused)?;
        }
        size()
    }
}

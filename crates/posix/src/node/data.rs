//! Reads, writes and syncs contents.

use super::attr::set_mode;
use super::owner::Owner;
use super::preserve::Space;
use super::{Node, Rights};
use crate::error::refused;
use crate::fs_type::OFFSET_MAX;
use crate::sys;
use rustix::fs::{SeekFrom, fdatasync, fsync, readlinkat, seek, syncfs};
use rustix::io::{Errno, pwrite};
use rustix::pipe::{SpliceFlags, splice};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::acl::access::set_id_bits;
use vfs::{Attrs, AuthorizeWrite, Blocking, Change, FileType, FsError, FsResult, SyncScope, Wait};

/// Unit of cachestat. With larger pages its count is smaller, and reading replaces splicing.
const PAGE_BYTES: u64 = 4096;

impl Node {
    pub(crate) fn read_data(
        &self,
        offset: u64,
        len: usize,
        into: &mut Vec<u8>,
        blocking: Blocking,
    ) -> FsResult<usize> {
        self.check_regular()?;
        // The kernel refuses ranges past the largest offset; no data can be there.
        let room = OFFSET_MAX.saturating_sub(offset);
        let len = len.min(usize::try_from(room).unwrap_or(usize::MAX));
        if len == 0 {
            return Ok(0);
        }
        let fd = self.open(Rights::Read)?.as_fd();
        let start = into.len();
        let read = if blocking == Blocking::Allowed || self.mount.is_memory {
            read_fully(fd, offset, len, into)
        } else {
            self.read_cached(fd, offset, len, into)
        };
        // A detached descriptor leads to an empty file.
        let read = if self.is_detached() { Err(FsError::Stale) } else { read };
        read.inspect_err(|_| into.truncate(start))
    }

    /// The size of the file, by lseek(2), which is faster than fstat(2).
    pub(crate) fn end(&self) -> FsResult<u64> {
        self.check_regular()?;
        let end = seek(self.open(Rights::Read)?, SeekFrom::End(0)).map_err(refused)?;
        // A detached descriptor leads to an empty file.
        if self.is_detached() { Err(FsError::Stale) } else { Ok(end) }
    }

    /// Reads from the page cache. A short read counts only at the end of the file.
    fn read_cached(
        &self,
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        into: &mut Vec<u8>,
    ) -> FsResult<usize> {
        if self.mount.no_nowait.load(Ordering::Relaxed) {
            return Err(FsError::Wait(Wait::Storage));
        }
        match sys::append(fd, offset, len, into, Blocking::Never) {
            Ok(read) if read == len => Ok(read),
            Ok(read) if offset + read as u64 >= self.attrs_now()?.size => Ok(read),
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Err(FsError::Wait(Wait::Storage)),
            Err(Errno::OPNOTSUPP) => {
                self.mount.no_nowait.store(true, Ordering::Relaxed);
                Err(FsError::Wait(Wait::Storage))
            }
            Err(errno) => Err(refused(errno)),
        }
    }

    /// Implements [`vfs::Node::descriptor`].
    pub(crate) fn splice_source(&self, offset: u64, len: usize, blocking: Blocking) -> Option<Arc<OwnedFd>> {
        if self.kind != FileType::Regular {
            return None;
        }
        let fd = self.open(Rights::Read).ok()?;
        let ready = blocking == Blocking::Allowed
            || self.mount.is_memory
            || self.is_cached(fd.as_fd(), offset, len as u64);
        ready.then(|| Arc::clone(fd))
    }

    /// Whether every page of the range, up to the end of the file, is in the page cache.
    fn is_cached(&self, fd: BorrowedFd<'_>, offset: u64, len: u64) -> bool {
        if self.mount.no_cachestat.load(Ordering::Relaxed) {
            return false;
        }
        let pages = |len: u64| match len {
            0 => 0,
            _ => (offset + len - 1) / PAGE_BYTES - offset / PAGE_BYTES + 1,
        };
        match sys::cached_pages(fd, offset, len) {
            Ok(cached) if cached >= pages(len) => true,
            Ok(cached) => self.attrs_now().is_ok_and(|now| {
                let end = now.size.min(offset.saturating_add(len));
                cached >= pages(end.saturating_sub(offset))
            }),
            Err(errno) => {
                self.mount
                    .no_cachestat
                    .store(errno == Errno::NOSYS || errno == Errno::PERM, Ordering::Relaxed);
                false
            }
        }
    }

    pub(crate) fn write_data(
        &self,
        offset: u64,
        data: &[u8],
        authorize: AuthorizeWrite<'_>,
    ) -> FsResult<Change> {
        self.write_with(offset, data.len(), authorize, |fd| write_fully(fd, offset, data))
    }

    pub(crate) fn write_piped(
        &self,
        offset: u64,
        pipe: BorrowedFd<'_>,
        len: usize,
        authorize: AuthorizeWrite<'_>,
    ) -> FsResult<Change> {
        self.write_with(offset, len, authorize, |fd| splice_fully(pipe, fd, offset, len))
    }

    pub(crate) fn write_with(
        &self,
        offset: u64,
        len: usize,
        authorize: AuthorizeWrite<'_>,
        write: impl FnOnce(BorrowedFd<'_>) -> FsResult<()>,
    ) -> FsResult<Change> {
        self.check_regular()?;
        let end = self.check_end(offset, len as u64)?;
        let touched = offset..end;
        Ok(self.alter((len > 0).then_some(end), touched, authorize, |fd, _| write(fd))?.1)
    }

    /// Changes the contents of this regular file with `act`, if `authorize` allows it: the bytes that are `touched`. The
    /// file then reaches at least to `end`. With `end` = `None` only the check is done.
    pub(crate) fn alter<T>(
        &self,
        end: Option<u64>,
        touched: Range<u64>,
        authorize: AuthorizeWrite<'_>,
        act: impl FnOnce(BorrowedFd<'_>, &Attrs) -> FsResult<T>,
    ) -> FsResult<(Option<T>, Change)> {
        let fd = self.open(Rights::Write)?.as_fd();
        let _changing = self.mount.begin_change();
        let mut guard = self.lock_change();
        let before = self.attrs_now()?;
        let clears = authorize(&before)?;
        let Some(end) = end else { return Ok((None, Change { before, after: before })) };
        if let Some(preserving) = self.preserving(Space::Needed) {
            preserving.data(self, &mut guard, &before, touched)?;
        }
        let resize = self.mount.charge_resize(&guard, &before, before.size.max(end))?;
        guard.begin();
        let set_id = if clears { set_id_bits(before.mode) } else { 0 };
        // First, so that nobody can run the new contents with the old set-id bits.
        if set_id != 0
            && let Err(error) = self.set_mode_bits(fd, &before, before.mode & !set_id)
        {
            resize.end(before.size);
            return Err(error);
        }
        let done = match act(fd, &before) {
            Ok(done) => done,
            Err(error) => {
                // These errors leave the contents unchanged.
                let is_refused =
                    matches!(error, FsError::Invalid | FsError::NotSupported | FsError::CrossVolume);
                if set_id != 0 && is_refused {
                    self.set_mode_bits(fd, &before, before.mode)?;
                }
                // If the size cannot be read, the file stays charged for all of it.
                self.truncate_growth(fd, &before, error).map(|size| resize.end(size))?;
                return Err(error);
            }
        };
        let after = guard.attrs_after(&before)?;
        resize.end(after.size);
        Ok((Some(done), Change { before, after }))
    }

    /// Sets the mode of a file with the attributes `before`, in the owner attribute or directly.
    fn set_mode_bits(&self, fd: BorrowedFd<'_>, before: &Attrs, mode: u32) -> FsResult<()> {
        match self.mount.owner_attribute {
            true => self.record_owner(Owner { mode, ..Owner::of(before) }),
            false => set_mode(fd, mode).map_err(refused),
        }
    }

    /// The end of a write: 0 for an empty write, [`FsError::FileTooBig`] past the largest size.
    pub(crate) fn check_end(&self, offset: u64, len: u64) -> FsResult<u64> {
        let end = offset.checked_add(len).filter(|&end| end <= self.mount.file_bytes_max);
        let end = end.ok_or(FsError::FileTooBig)?;
        Ok(if len == 0 { 0 } else { end })
    }

    /// Makes this file durable with one flush.
    ///
    /// A symbolic link, FIFO or device cannot be flushed alone: the whole file system is flushed.
    pub(crate) fn flush_data(&self, scope: SyncScope) -> FsResult<()> {
        let result = match self.kind {
            FileType::Regular | FileType::Directory => {
                let fd = self.open(Rights::Read)?;
                match scope {
                    SyncScope::Data if self.kind == FileType::Regular => fdatasync(fd),
                    _ => {
                        self.flush_children()?;
                        fsync(fd)
                    }
                }
            }
            _ => syncfs(&self.mount.root),
        };
        result.map_err(refused)
    }

    pub(crate) fn link_target(&self) -> FsResult<Vec<u8>> {
        self.stat()?;
        if self.kind != FileType::Symlink {
            return Err(FsError::Invalid);
        }
        readlinkat(self.fd(), "", Vec::new()).map(Into::into).map_err(|errno| self.or_stale(refused(errno)))
    }

    pub(crate) fn check_regular(&self) -> FsResult<()> {
        if self.kind == FileType::Regular {
            return Ok(());
        }
        self.stat()?;
        Err(if self.kind == FileType::Directory { FsError::IsDirectory } else { FsError::Invalid })
    }
}

fn read_fully(fd: BorrowedFd<'_>, offset: u64, len: usize, into: &mut Vec<u8>) -> FsResult<usize> {
    let mut done = 0;
    while done < len {
        match sys::append(fd, offset + done as u64, len - done, into, Blocking::Allowed) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(refused(errno)),
        }
    }
    Ok(done)
}

fn write_fully(fd: BorrowedFd<'_>, offset: u64, data: &[u8]) -> FsResult<()> {
    let mut done = 0;
    while done < data.len() {
        match pwrite(fd, &data[done..], offset + done as u64) {
            Ok(0) => return Err(FsError::NoSpace),
            Ok(written) => done += written,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(refused(errno)),
        }
    }
    Ok(())
}

fn splice_fully(pipe: BorrowedFd<'_>, fd: BorrowedFd<'_>, offset: u64, len: usize) -> FsResult<()> {
    let mut at = offset;
    let end = offset + len as u64;
    while at < end {
        let remaining = usize::try_from(end - at).map_err(|_| FsError::FileTooBig)?;
        match splice(pipe, None, fd, Some(&mut at), remaining, SpliceFlags::empty()) {
            Ok(0) => return Err(FsError::NoSpace),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(refused(errno)),
        }
    }
    Ok(())
}

//! Ranges of regular files: holes, allocation, copies within the kernel, shared blocks.

use super::{Node, Rights};
use crate::error::refused;
use crate::fs_type::file_system_stat;
use crate::sys;
use rustix::fs::{
    FallocateFlags, Mode, OFlags, SeekFrom, copy_file_range, fallocate, fstat, fstatvfs, ftruncate, openat,
    seek,
};
use rustix::io::{Errno, pread, pwrite, retry_on_intr};
use std::any::Any;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use vfs::backend::ranges::COPY_BYTES_MAX;
use vfs::{AuthorizeWrite, Change, FsError, FsResult, NodeRef, Ranges, Seek, Span};

/// Step size when this process itself copies or writes zeros.
const STEP_BYTES: usize = 128 << 10;
const PUNCH: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);
const ZERO: FallocateFlags = FallocateFlags::ZERO_RANGE.union(FallocateFlags::KEEP_SIZE);

impl Ranges for Node {
    fn seek(&self, offset: u64, what: Seek) -> FsResult<Option<u64>> {
        self.check_regular()?;
        let fd = self.open(Rights::Read)?.as_fd();
        let size = self.size()?;
        if offset >= size {
            return Err(FsError::NoDevice);
        }
        // Nothing else uses the position of the descriptor.
        let place = match what {
            Seek::Data => seek(fd, SeekFrom::Data(offset)),
            Seek::Hole => seek(fd, SeekFrom::Hole(offset)),
        };
        match (place, what) {
            _ if self.is_detached() => Err(FsError::Stale),
            (Ok(place), _) => Ok(Some(place)),
            (Err(Errno::NXIO), Seek::Data) => Ok(None),
            // Truncated meanwhile, or a file system without holes.
            (Err(Errno::NXIO | Errno::INVAL), Seek::Hole) => Ok(Some(size)),
            (Err(Errno::INVAL), Seek::Data) => Ok(Some(offset)),
            (Err(errno), _) => Err(refused(errno)),
        }
    }

    fn allocate(&self, offset: u64, len: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.check_regular()?;
        let end = self.check_end(offset, len)?;
        let change = self.alter((len > 0).then_some(end), 0..0, authorize, |fd, before| {
            // Some file systems allocate all free space before they report that it is not enough.
            if len.saturating_sub(before.used) > file_system_stat(fd)?.bytes_free {
                return Err(FsError::NoSpace);
            }
            retry_on_intr(|| fallocate(fd, FallocateFlags::empty(), offset, len)).map_err(|errno| {
                // Frees the blocks past the end. Those before the end may stay allocated.
                let _cut = ftruncate(fd, before.size);
                refused(errno)
            })
        })?;
        Ok(change.1)
    }

    fn preallocate(&self, len: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.check_regular()?;
        self.check_end(0, len)?;
        if self.mount.ledger().is_some() {
            return Err(FsError::NotSupported);
        }
        let change = self.alter(Some(0), 0..0, authorize, |fd, before| {
            let more = len.saturating_sub(before.size);
            if more == 0 {
                return Ok(());
            }
            if more > file_system_stat(fd)?.bytes_free {
                return Err(FsError::NoSpace);
            }
            let allocated = retry_on_intr(|| fallocate(fd, FallocateFlags::KEEP_SIZE, before.size, more));
            allocated.map_err(|errno| {
                // Frees the blocks past the end.
                let _cut = ftruncate(fd, before.size);
                refused(errno)
            })
        })?;
        Ok(change.1)
    }

    fn punch(&self, offset: u64, len: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.zero_range(offset, len, [PUNCH, ZERO], authorize)
    }

    fn zero(&self, offset: u64, len: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.zero_range(offset, len, [ZERO, PUNCH], authorize)
    }

    fn shares_storage(&self, target: &NodeRef) -> bool {
        let target: &dyn Any = &**target;
        target.downcast_ref::<Self>().is_some_and(|target| target.mount.is_same_file_system(&self.mount))
    }

    fn copy_to(
        &self,
        target: &NodeRef,
        span: &Span,
        authorize: AuthorizeWrite<'_>,
    ) -> FsResult<(u64, Change)> {
        let (target, fd) = self.as_source(target)?;
        let len = span.len.min(self.size()?.saturating_sub(span.source));
        let count = len.min(COPY_BYTES_MAX);
        let end = target.check_end(span.target, count)?;
        target
            .alter((count > 0).then_some(end), span.target..end, authorize, |target_fd, _| {
                self.check_overlap(target, &Span { len, ..*span })?;
                let copied = copy(fd, target_fd, &Span { len: count, ..*span })?;
                // A detached descriptor leads to an empty file.
                if copied < count && self.is_detached() { Err(FsError::Stale) } else { Ok(copied) }
            })
            .map(|(copied, change)| (copied.unwrap_or(0), change))
    }

    fn clone_to(&self, target: &NodeRef, span: &Span, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        let (target, fd) = self.as_source(target)?;
        let end = target.check_end(span.target, span.len)?;
        let touched = span.target..end;
        let change = target.alter((span.len > 0).then_some(end), touched, authorize, |target_fd, _| {
            self.check_overlap(target, span)?;
            sys::clone_range(fd, target_fd, span).map_err(refused)
        })?;
        Ok(change.1)
    }
}

impl Node {
    fn size(&self) -> FsResult<u64> {
        Ok(u64::try_from(self.stat()?.st_size).unwrap_or(0))
    }

    /// `target` as a node of this backend, and the descriptor to read from.
    fn as_source<'n>(&'n self, target: &'n NodeRef) -> FsResult<(&'n Self, BorrowedFd<'n>)> {
        self.check_regular()?;
        let target: &dyn Any = &**target;
        let target: &Self = target.downcast_ref().ok_or(FsError::CrossVolume)?;
        target.check_regular()?;
        Ok((target, self.open(Rights::Read)?.as_fd()))
    }

    /// Compares inode numbers, because two stores may show the same file as different nodes.
    fn check_overlap(&self, target: &Self, span: &Span) -> FsResult<()> {
        let [one, other] = [self.stat()?, target.stat()?];
        let same = (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino);
        if same && span.overlaps() { Err(FsError::Invalid) } else { Ok(()) }
    }

    /// Makes a range read as zeros by the first of `ways` that the file system supports, else by writing zeros.
    fn zero_range(
        &self,
        offset: u64,
        len: u64,
        modes: [FallocateFlags; 2],
        authorize: AuthorizeWrite<'_>,
    ) -> FsResult<Change> {
        self.check_regular()?;
        let touched = offset..offset.saturating_add(len);
        let change = self.alter((len > 0).then_some(0), touched, authorize, |fd, before| {
            let end = offset.saturating_add(len).min(before.size);
            if offset >= end {
                return Ok(());
            }
            clear(fd, &(offset..end), modes)
        })?;
        Ok(change.1)
    }
}

/// Alignment of clones in the file system of `dir`; `None` if it cannot share blocks.
pub(crate) fn clone_bytes(dir: &OwnedFd) -> Option<u64> {
    // The one sure test is to try, on a file without a name.
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = openat(dir, ".", flags, Mode::RUSR | Mode::WUSR).ok()?;
    sys::clone_range(file.as_fd(), file.as_fd(), &Span { source: 0, target: 0, len: 0 }).ok()?;
    Some(fstatvfs(dir).ok()?.f_bsize)
}

/// Copies a range, which must not overlap itself, up to the end of the source. Returns the number of bytes. After an
/// error a part may be copied.
pub(crate) fn copy(source: BorrowedFd<'_>, target: BorrowedFd<'_>, span: &Span) -> FsResult<u64> {
    let (mut from, mut to) = (span.source, span.target);
    while from < span.source + span.len {
        let remaining = usize::try_from(span.source + span.len - from).unwrap_or(usize::MAX);
        match copy_file_range(source, Some(&mut from), target, Some(&mut to), remaining) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            // Different types of file systems, or one without copy support.
            Err(Errno::XDEV | Errno::OPNOTSUPP | Errno::NOSYS) if from == span.source => {
                return copy_in_steps(source, target, span);
            }
            // A partial copy is a valid result.
            Err(_) if from > span.source => break,
            Err(errno) => return Err(refused(errno)),
        }
    }
    Ok(from - span.source)
}

fn copy_in_steps(source: BorrowedFd<'_>, target: BorrowedFd<'_>, span: &Span) -> FsResult<u64> {
    let mut buffer = vec![0; STEP_BYTES];
    let mut done = 0;
    while done < span.len {
        let room = usize::try_from(span.len - done).map_or(STEP_BYTES, |left| left.min(STEP_BYTES));
        let read =
            retry_on_intr(|| pread(source, &mut buffer[..room], span.source + done)).map_err(refused)?;
        if read == 0 {
            break;
        }
        match retry_on_intr(|| pwrite(target, &buffer[..read], span.target + done)) {
            Ok(written) => done += written as u64,
            Err(_) if done > 0 => break,
            Err(errno) => return Err(refused(errno)),
        }
    }
    Ok(done)
}

/// Makes a range of a file a hole.
pub(crate) fn punch(fd: BorrowedFd<'_>, bytes: &Range<u64>) -> FsResult<()> {
    clear(fd, bytes, [PUNCH, ZERO])
}

/// Makes a range read as zeros, in the first of these ways that works.
fn clear(fd: BorrowedFd<'_>, bytes: &Range<u64>, modes: [FallocateFlags; 2]) -> FsResult<()> {
    for mode in modes {
        match retry_on_intr(|| fallocate(fd, mode, bytes.start, bytes.end - bytes.start)) {
            // One way may need no space where the other does.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOSPC | Errno::DQUOT) => {}
            done => return done.map_err(refused),
        }
    }
    write_zeros(fd, bytes.start, bytes.end)
}

/// Makes a range read as zeros, and the file reach its end.
pub(crate) fn fill_zeros(fd: BorrowedFd<'_>, offset: u64, end: u64) -> FsResult<()> {
    write_zeros(fd, offset, end)?;
    let size = fstat(fd).map_err(refused)?.st_size.cast_unsigned();
    if size < end { ftruncate(fd, end).map_err(refused) } else { Ok(()) }
}

/// Writes zeros from `offset` to `end` where the file has data.
fn write_zeros(fd: BorrowedFd<'_>, mut offset: u64, end: u64) -> FsResult<()> {
    let zeros = vec![0; STEP_BYTES];
    while offset < end {
        offset = match seek(fd, SeekFrom::Data(offset)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(()),
            Err(Errno::INVAL) => offset,
            Err(errno) => return Err(refused(errno)),
        };
        let room =
            usize::try_from(end.saturating_sub(offset)).map_or(STEP_BYTES, |left| left.min(STEP_BYTES));
        offset += retry_on_intr(|| pwrite(fd, &zeros[..room], offset)).map_err(refused)? as u64;
    }
    Ok(())
}

//! The system calls that neither `std` nor `rustix` offers safely: the only place with `unsafe`.

#![allow(unsafe_code, reason = "the one room for it; every block says why it is sound")]

use rustix::io::Errno;
use rustix::path::Arg;
use std::ffi::{CStr, c_int, c_long, c_uint};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// The longest handle the kernel makes (`MAX_HANDLE_SZ`).
const HANDLE_BYTES_MAX: usize = 128;

/// `struct file_handle` with room for the longest.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Handle {
    bytes_used: c_uint,
    kind: c_int,
    bytes: [u8; HANDLE_BYTES_MAX],
}

impl Handle {
    /// A handle of these parts; `None` if it is longer than any the kernel makes.
    pub(crate) fn new(kind: c_int, parts: &[u8]) -> Option<Self> {
        let mut bytes = [0; HANDLE_BYTES_MAX];
        bytes.get_mut(..parts.len())?.copy_from_slice(parts);
        Some(Self { bytes_used: c_uint::try_from(parts.len()).ok()?, kind, bytes })
    }

    /// The type the file system gave it.
    pub(crate) fn kind(&self) -> c_int {
        self.kind
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..HANDLE_BYTES_MAX.min(self.bytes_used as usize)]
    }
}

/// Turns the kernel's return value into a result.
fn checked(value: c_long) -> Result<c_long, Errno> {
    if value >= 0 {
        return Ok(value);
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// The handle of `name` in `dir` (of `dir` itself if it is empty) and the mount it was found on. Follows no link.
pub(crate) fn name_to_handle(dir: BorrowedFd<'_>, name: &[u8]) -> Result<(Handle, i32), Errno> {
    let flags = if name.is_empty() { libc::AT_EMPTY_PATH } else { 0 };
    name.into_with_c_str(|name: &CStr| {
        let room = c_uint::try_from(HANDLE_BYTES_MAX).unwrap_or(0);
        let mut handle = Handle { bytes_used: room, kind: 0, bytes: [0; HANDLE_BYTES_MAX] };
        let mut mount_id: c_int = 0;
        // SAFETY: `handle` begins with the two fields of `struct file_handle` and has the room that `bytes_used`
        // declares; `name` ends with NUL; all live through the call.
        checked(unsafe {
            libc::syscall(
                libc::SYS_name_to_handle_at,
                dir.as_raw_fd(),
                name.as_ptr(),
                &raw mut handle,
                &raw mut mount_id,
                flags,
            )
        })?;
        Ok((handle, mount_id))
    })
}

/// Opens the file of `handle` on the mount that `mount` lies on.
pub(crate) fn open_by_handle(mount: BorrowedFd<'_>, handle: &Handle, flags: c_int) -> Result<OwnedFd, Errno> {
    let mut handle = *handle;
    // SAFETY: `handle` is laid out as `struct file_handle` with at least `bytes_used` bytes, and is only read.
    let fd = checked(unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_raw_fd(),
            &raw mut handle,
            flags | libc::O_CLOEXEC,
        )
    })?;
    let fd = RawFd::try_from(fd).map_err(|_| Errno::BADF)?;
    // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes the descriptor number of `target` stand for what `source` has open, in one step: who uses the number meanwhile
/// sees either the old or the new open file.
pub(crate) fn replace(target: BorrowedFd<'_>, source: OwnedFd) -> Result<(), Errno> {
    // SAFETY: both numbers are open descriptors; the owner of `target` goes on owning its number.
    checked(c_long::from(unsafe { libc::dup3(source.as_raw_fd(), target.as_raw_fd(), libc::O_CLOEXEC) }))
        .map(|_| ())
}

/// `chmod` of what `file` has open, even with `O_PATH` (`fchmodat2`, Linux 6.6); never a symbolic link's target.
pub(crate) fn chmod_path(file: BorrowedFd<'_>, mode: u32) -> Result<(), Errno> {
    /// The same number on every architecture; newer than the C library's headers.
    const SYS_FCHMODAT2: c_long = 452;
    // SAFETY: the path is a constant with a NUL; the other arguments are plain numbers.
    checked(unsafe {
        libc::syscall(SYS_FCHMODAT2, file.as_raw_fd(), c"".as_ptr(), mode, libc::AT_EMPTY_PATH)
    })
    .map(|_| ())
}

/// How many pages of `len` bytes at `offset` are in the page cache (`cachestat`, Linux 6.5).
pub(crate) fn cached_pages(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<u64, Errno> {
    /// The same number on every architecture; newer than the C library's headers.
    const SYS_CACHESTAT: c_long = 451;
    let range = [offset, len];
    let mut counts = [0u64; 5];
    // SAFETY: `struct cachestat_range` is two u64, `struct cachestat` five; both live through the call.
    checked(unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0 as c_uint)
    })?;
    Ok(counts[0])
}

/// Makes new files of this thread belong to these ids. Never fails for the ids the thread came with; for others the
/// caller sees by the file whether it worked.
pub(crate) fn set_fs_ids(uid: u32, gid: u32) {
    // SAFETY: both calls take plain numbers and change only this thread's credentials for file access.
    unsafe {
        libc::setfsgid(gid);
        libc::setfsuid(uid);
    }
}

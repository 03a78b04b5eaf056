//! System calls that neither `std` nor `rustix` offers safely: the only place with `unsafe`.

#![allow(unsafe_code, reason = "the one room for it; every block says why it is sound")]

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::path::Arg;
use std::ffi::{CStr, c_int, c_long, c_uint};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use vfs::model::caller::INVALID_ID;
use vfs::{Blocking, Span};

/// Unit of `st_blocks`.
pub(crate) const STAT_BLOCK_BYTES: u64 = 512;
/// The longest handle of the kernel (`MAX_HANDLE_SZ`).
const HANDLE_BYTES_MAX: usize = 128;

/// `struct file_handle` with space for the longest.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Handle {
    bytes_used: c_uint,
    kind: c_int,
    bytes: [u8; HANDLE_BYTES_MAX],
}

impl Handle {
    /// `None` if the parts are longer than any handle of the kernel.
    pub(crate) fn new(kind: c_int, parts: &[u8]) -> Option<Self> {
        let mut bytes = [0; HANDLE_BYTES_MAX];
        bytes.get_mut(..parts.len())?.copy_from_slice(parts);
        Some(Self { bytes_used: c_uint::try_from(parts.len()).ok()?, kind, bytes })
    }

    pub(crate) fn kind(&self) -> c_int {
        self.kind
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..HANDLE_BYTES_MAX.min(self.bytes_used as usize)]
    }
}

fn checked(value: c_long) -> Result<c_long, Errno> {
    if value >= 0 {
        return Ok(value);
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// The path in /proc of the file open as `file`. It is valid whatever name the file has now.
pub(crate) fn proc_path(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// The handle of `name` in `dir` (of `dir` itself if it is empty) and its mount. Follows no link.
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

/// Makes the descriptor number of `target` refer to the open file of `source`, in one step. Concurrent users of the
/// number see either the old or the new open file.
pub(crate) fn replace(target: BorrowedFd<'_>, source: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: both numbers are open descriptors; the owner of `target` goes on owning its number.
    checked(c_long::from(unsafe { libc::dup3(source.as_raw_fd(), target.as_raw_fd(), libc::O_CLOEXEC) }))
        .map(|_| ())
}

/// Makes a descriptor lead to an empty file without a name, so that the file that it led to can be freed. Without such a
/// file it fails: false.
pub(crate) fn detach(target: BorrowedFd<'_>) -> bool {
    static EMPTY_FILE: OnceLock<Option<OwnedFd>> = OnceLock::new();
    let empty_file = EMPTY_FILE.get_or_init(|| memfd_create("removed", MemfdFlags::CLOEXEC).ok());
    empty_file.as_ref().is_some_and(|empty_file| replace(target, empty_file.as_fd()).is_ok())
}

/// Gives this thread its own working directory. Returns whether that succeeded.
pub(crate) fn own_working_dir() -> bool {
    // SAFETY: the call takes no pointer. With CLONE_FS alone it changes nothing but that this thread's working directory, root and
    // umask are its own copies from now on.
    unsafe { libc::unshare(libc::CLONE_FS) == 0 }
}

/// Makes a write past the process's file size limit fail with `EFBIG` instead of killing the process.
pub(crate) fn ignore_file_size_signal() {
    // SAFETY: ignoring a signal runs no code of ours, and nobody relies on this one's being delivered.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// `chmod` of the file open as `file`, even with `O_PATH` (`fchmodat2`, Linux 6.6); never a symbolic link's target.
pub(crate) fn chmod_path(file: BorrowedFd<'_>, mode: u32) -> Result<(), Errno> {
    /// One number on every architecture; newer than the C library's headers.
    const SYS_FCHMODAT2: c_long = 452;
    // SAFETY: the path is a constant with a NUL; the other arguments are plain numbers.
    checked(unsafe {
        libc::syscall(SYS_FCHMODAT2, file.as_raw_fd(), c"".as_ptr(), mode, libc::AT_EMPTY_PATH)
    })
    .map(|_| ())
}

/// Appends up to `len` bytes at `offset` of `file` to `into`. Returns the number of bytes. [`Blocking::Never`] reads
/// only from the page cache (`RWF_NOWAIT`).
pub(crate) fn append(
    file: BorrowedFd<'_>,
    offset: u64,
    len: usize,
    into: &mut Vec<u8>,
    blocking: Blocking,
) -> Result<usize, Errno> {
    let offset = libc::off64_t::try_from(offset).map_err(|_| Errno::INVAL)?;
    into.reserve(len);
    let spare = into.spare_capacity_mut().as_mut_ptr().cast();
    // SAFETY: `len` bytes are writable behind the vector's contents, where nobody else looks while it is borrowed.
    let read = unsafe {
        match blocking {
            Blocking::Allowed => libc::pread64(file.as_raw_fd(), spare, len, offset),
            Blocking::Never => {
                let room = libc::iovec { iov_base: spare, iov_len: len };
                libc::preadv64v2(file.as_raw_fd(), &raw const room, 1, offset, libc::RWF_NOWAIT)
            }
        }
    };
    let read = usize::try_from(checked(read as c_long)?).map_err(|_| Errno::IO)?;
    // SAFETY: the kernel has written the first `read` of those bytes, and no more than `len`.
    unsafe { into.set_len(into.len() + read) };
    Ok(read)
}

/// The number of pages of `len` bytes at `offset` in the page cache (`cachestat`, Linux 6.5).
pub(crate) fn cached_pages(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<u64, Errno> {
    /// One number on every architecture; newer than the C library's headers.
    const SYS_CACHESTAT: c_long = 451;
    let range = [offset, len];
    let mut counts = [0u64; 5];
    // SAFETY: `struct cachestat_range` is two u64, `struct cachestat` five; both live through the call.
    checked(unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0 as c_uint)
    })?;
    Ok(counts[0])
}

/// Makes new files of this thread belong to these ids. Never fails for the initial ids of the thread. After an error
/// the thread may have one of them.
pub(crate) fn set_fs_ids(uid: u32, gid: u32) -> Result<(), Errno> {
    // Neither call reports success: both return the previous id. An invalid id changes nothing, so passing it reads the
    // current one.
    let now = {
        // SAFETY: all calls take plain numbers and change only this thread's credentials for file access.
        unsafe {
            libc::setfsgid(gid);
            libc::setfsuid(uid);
            (libc::setfsuid(INVALID_ID), libc::setfsgid(INVALID_ID))
        }
    };
    // A sandbox that forbids the calls makes each return -1, which is the invalid id.
    let is_done = (now.0.cast_unsigned(), now.1.cast_unsigned()) == (uid, gid);
    if is_done && uid != INVALID_ID && gid != INVALID_ID { Ok(()) } else { Err(Errno::INVAL) }
}

/// `struct file_clone_range`.
#[repr(C)]
struct CloneRange {
    source: i64,
    source_offset: u64,
    len: u64,
    target_offset: u64,
}

const FICLONERANGE: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<CloneRange>(0x94, 13);

/// Lets a range of `target` share the blocks of a range of `source`. A length of 0 means the rest of the source.
pub(crate) fn clone_range(source: BorrowedFd<'_>, target: BorrowedFd<'_>, span: &Span) -> Result<(), Errno> {
    let range = CloneRange {
        source: source.as_raw_fd().into(),
        source_offset: span.source,
        len: span.len,
        target_offset: span.target,
    };
    // SAFETY: FICLONERANGE reads one `struct file_clone_range`, which `CloneRange` is laid out as; `source` is open for as
    // long as the call takes.
    unsafe { rustix::ioctl::ioctl(target, rustix::ioctl::Setter::<FICLONERANGE, CloneRange>::new(range)) }
}

/// `struct btrfs_ioctl_vol_args_v2`.
#[repr(C)]
struct SubvolumeArgs {
    source: i64,
    transaction: u64,
    flags: u64,
    unused: [u64; 4],
    name: [u8; SUBVOLUME_NAME_BYTES],
}

const SUBVOLUME_NAME_BYTES: usize = 4040;
const _: () = assert!(size_of::<SubvolumeArgs>() == 4096);
/// `BTRFS_SUBVOL_RDONLY`.
const READ_ONLY: u64 = 1 << 1;
const BTRFS_SNAP_CREATE: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<SubvolumeArgs>(0x94, 23);
const BTRFS_SUBVOL_CREATE: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<SubvolumeArgs>(0x94, 24);
const BTRFS_SUBVOL_GETFLAGS: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<u64>(0x94, 25);
const BTRFS_SUBVOL_SETFLAGS: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<u64>(0x94, 26);
const BTRFS_SNAP_DESTROY: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<SubvolumeArgs>(0x94, 63);

/// Runs one of the commands of Btrfs for the entry `name` of `dir`.
fn subvolume<const COMMAND: rustix::ioctl::Opcode>(
    dir: BorrowedFd<'_>,
    name: &[u8],
    source: Option<BorrowedFd<'_>>,
    flags: u64,
) -> Result<(), Errno> {
    let source = source.map_or(0, |source| source.as_raw_fd().into());
    let mut args =
        SubvolumeArgs { source, transaction: 0, flags, unused: [0; 4], name: [0; SUBVOLUME_NAME_BYTES] };
    // The last byte stays NUL.
    args.name[..SUBVOLUME_NAME_BYTES - 1]
        .get_mut(..name.len())
        .ok_or(Errno::NAMETOOLONG)?
        .copy_from_slice(name);
    // SAFETY: the callers pass commands that read one `struct btrfs_ioctl_vol_args_v2`, which `SubvolumeArgs` is laid out
    // as; its name ends with NUL, and `source` is open for as long as the call takes.
    unsafe { rustix::ioctl::ioctl(dir, rustix::ioctl::Setter::<COMMAND, SubvolumeArgs>::new(args)) }
}

/// Makes an empty subvolume of Btrfs.
pub(crate) fn make_subvolume(dir: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    subvolume::<BTRFS_SUBVOL_CREATE>(dir, name, None, 0)
}

/// Makes a snapshot of the subvolume with the root `source`. It is on the disk when the call returns.
pub(crate) fn make_snapshot(
    dir: BorrowedFd<'_>,
    name: &[u8],
    source: BorrowedFd<'_>,
    is_read_only: bool,
) -> Result<(), Errno> {
    subvolume::<BTRFS_SNAP_CREATE>(dir, name, Some(source), if is_read_only { READ_ONLY } else { 0 })
}

/// Deletes a subvolume with all its files; the kernel frees their space later. Ordinary users may not, unless the mount
/// allows it.
pub(crate) fn destroy_subvolume(dir: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    subvolume::<BTRFS_SNAP_DESTROY>(dir, name, None, 0)
}

/// Makes the files of a subvolume writable.
pub(crate) fn clear_read_only(subvolume: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: BTRFS_IOC_SUBVOL_GETFLAGS fills one u64.
    let flags = unsafe {
        rustix::ioctl::ioctl(subvolume, rustix::ioctl::Getter::<BTRFS_SUBVOL_GETFLAGS, u64>::new())
    }?;
    if flags & READ_ONLY == 0 {
        return Ok(());
    }
    let flags = flags & !READ_ONLY;
    // SAFETY: BTRFS_IOC_SUBVOL_SETFLAGS reads one u64.
    unsafe {
        rustix::ioctl::ioctl(subvolume, rustix::ioctl::Setter::<BTRFS_SUBVOL_SETFLAGS, u64>::new(flags))
    }
}

/// `struct btrfs_ioctl_get_subvol_info_args`.
#[repr(C)]
struct SubvolumeInfoArgs {
    id: u64,
    name: [u8; 256],
    parent_id: u64,
    parent_dir: u64,
    generation: u64,
    flags: u64,
    uuid: [u8; 16],
    parent_uuid: [u8; 16],
    received_uuid: [u8; 16],
    transactions: [u64; 4],
    change_time: BtrfsTime,
    creation_time: BtrfsTime,
    other_times: [BtrfsTime; 2],
    reserved: [u64; 8],
}

/// `struct btrfs_ioctl_timespec`.
#[repr(C)]
struct BtrfsTime {
    seconds: u64,
    nanos: u32,
}

/// `struct btrfs_ioctl_fs_info_args`.
#[repr(C)]
struct FileSystemInfo {
    devices: [u64; 2],
    id: [u8; 16],
    rest: [u64; 124],
}

const _: () = assert!(size_of::<SubvolumeInfoArgs>() == 504 && size_of::<FileSystemInfo>() == 1024);
const BTRFS_FS_INFO: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<FileSystemInfo>(0x94, 31);
const BTRFS_GET_SUBVOL_INFO: rustix::ioctl::Opcode =
    rustix::ioctl::opcode::read::<SubvolumeInfoArgs>(0x94, 60);

/// A subvolume of Btrfs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SubvolumeInfo {
    /// No other subvolume of the file system ever has the same.
    pub(crate) id: u64,
    pub(crate) uuid: [u8; 16],
    /// The subvolume of which this one is a snapshot; zeros if it is none.
    pub(crate) parent_uuid: [u8; 16],
    pub(crate) is_read_only: bool,
    /// Since 1970.
    pub(crate) created_seconds: u64,
}

/// The subvolume with the root `root`.
pub(crate) fn subvolume_info(root: BorrowedFd<'_>) -> Result<SubvolumeInfo, Errno> {
    /// `BTRFS_ROOT_SUBVOL_RDONLY`.
    const ROOT_READ_ONLY: u64 = 1 << 0;
    // SAFETY: BTRFS_IOC_GET_SUBVOL_INFO fills one `struct btrfs_ioctl_get_subvol_info_args`, which `SubvolumeInfoArgs` is
    // laid out as; any bytes are valid.
    let info: SubvolumeInfoArgs = unsafe {
        rustix::ioctl::ioctl(root, rustix::ioctl::Getter::<BTRFS_GET_SUBVOL_INFO, SubvolumeInfoArgs>::new())
    }?;
    let SubvolumeInfoArgs { id, uuid, parent_uuid, flags, creation_time, .. } = info;
    let is_read_only = flags & ROOT_READ_ONLY != 0;
    Ok(SubvolumeInfo { id, uuid, parent_uuid, is_read_only, created_seconds: creation_time.seconds })
}

/// The identity of the Btrfs of `file`.
pub(crate) fn btrfs_id(file: BorrowedFd<'_>) -> Result<[u8; 16], Errno> {
    let mut info = FileSystemInfo { devices: [0; 2], id: [0; 16], rest: [0; 124] };
    // SAFETY: BTRFS_IOC_FS_INFO updates one `struct btrfs_ioctl_fs_info_args`, which `FileSystemInfo` is laid out as; any
    // bytes are valid.
    unsafe {
        rustix::ioctl::ioctl(file, rustix::ioctl::Updater::<BTRFS_FS_INFO, FileSystemInfo>::new(&mut info))
    }?;
    Ok(info.id)
}

/// `struct fs_disk_quota`: limits and usage of one project, space in units of 512 bytes.
#[repr(C)]
#[derive(Default)]
struct DiskQuota {
    version: i8,
    flags: i8,
    field_mask: u16,
    id: u32,
    block_hard: u64,
    block_soft: u64,
    inode_hard: u64,
    inode_soft: u64,
    blocks: u64,
    inodes: u64,
    /// Times, warnings and real-time space, unused here.
    rest: [u64; 7],
}

/// The used part of `struct fs_quota_stat`, with space for the rest.
#[repr(C)]
#[derive(Default)]
struct QuotaState {
    version: i8,
    flags: u16,
    rest: [u64; 15],
}

/// `struct fsxattr`.
#[repr(C)]
#[derive(Default)]
struct FileExtra {
    flags: u32,
    extent_bytes: u32,
    extents: u32,
    project: u32,
    cow_extent_bytes: u32,
    padding: [u8; 8],
}

/// `struct xfs_fs_eofblocks`: version, flags, user, group, project and padding, then the smallest size and padding.
#[repr(C)]
#[derive(Default)]
struct PreallocatedOf {
    what: [u32; 6],
    rest: [u64; 13],
}

const _: () = assert!(size_of::<DiskQuota>() == 112 && size_of::<FileExtra>() == 28);
const _: () = assert!(size_of::<PreallocatedOf>() == 128);

/// Usage and limits of a project, space in units of 512 bytes; 0 means no limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Quota {
    pub(crate) sectors: u64,
    pub(crate) files: u64,
    pub(crate) sectors_max: u64,
    pub(crate) files_max: u64,
}

pub(crate) struct DirProject {
    pub(crate) number: u32,
    /// New entries belong to the same project.
    pub(crate) inherits: bool,
}

/// `FS_XFLAG_PROJINHERIT`.
const INHERITS: u32 = 0x200;
const FS_IOC_FSGETXATTR: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<FileExtra>(b'X', 31);
const FS_IOC_FSSETXATTR: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<FileExtra>(b'X', 32);
const XFS_IOC_FREE_EOFBLOCKS: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<PreallocatedOf>(b'X', 58);
/// `Q_XGETQUOTA`, `Q_XSETQLIM`, `Q_XGETQSTAT`, for projects (`PRJQUOTA`).
const GET_QUOTA: c_uint = (0x5803 << 8) | 2;
const SET_LIMITS: c_uint = (0x5804 << 8) | 2;
const GET_STATE: c_uint = (0x5805 << 8) | 2;

/// `quotactl_fd` (Linux 5.14) on the file system of `file`. `T` must be the structure of `command`.
fn quotactl<T>(file: BorrowedFd<'_>, command: c_uint, id: u32, argument: &mut T) -> Result<(), Errno> {
    /// One number on every architecture; newer than the C library's headers.
    const SYS_QUOTACTL_FD: c_long = 443;
    // SAFETY: `argument` is as large as the kernel's structure of that command at least (the callers see to it), laid out
    // as C does, valid for any bytes, and lives through the call.
    checked(unsafe {
        libc::syscall(SYS_QUOTACTL_FD, file.as_raw_fd(), command, id, std::ptr::from_mut(argument))
    })
    .map(|_| ())
}

pub(crate) fn enforces_projects(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    /// `FS_QUOTA_PDQ_ACCT` and `FS_QUOTA_PDQ_ENFD`.
    const ON: u16 = 1 << 4 | 1 << 5;
    let mut state = QuotaState { version: 1, ..QuotaState::default() };
    quotactl(file, GET_STATE, 0, &mut state)?;
    Ok(state.flags & ON == ON)
}

pub(crate) fn project_quota(file: BorrowedFd<'_>, project: u32) -> Result<Quota, Errno> {
    let mut quota = DiskQuota::default();
    quotactl(file, GET_QUOTA, project, &mut quota)?;
    let DiskQuota { blocks, inodes, block_hard, inode_hard, .. } = quota;
    Ok(Quota { sectors: blocks, files: inodes, sectors_max: block_hard, files_max: inode_hard })
}

/// Sets the limits of a project, space in units of 512 bytes; 0 means no limit.
pub(crate) fn set_project_limits(
    file: BorrowedFd<'_>,
    project: u32,
    sectors: u64,
    files: u64,
) -> Result<(), Errno> {
    /// `FS_DQUOT_VERSION`; `FS_PROJ_QUOTA`; `FS_DQ_IHARD` and `FS_DQ_BHARD`.
    const WHAT: (i8, i8, u16) = (1, 2, 1 << 1 | 1 << 3);
    let (version, flags, field_mask) = WHAT;
    let mut quota = DiskQuota {
        version,
        flags,
        field_mask,
        id: project,
        block_hard: sectors,
        inode_hard: files,
        ..DiskQuota::default()
    };
    quotactl(file, SET_LIMITS, project, &mut quota)
}

pub(crate) fn project(dir: BorrowedFd<'_>) -> Result<DirProject, Errno> {
    let extra = file_extra(dir)?;
    Ok(DirProject { number: extra.project, inherits: extra.flags & INHERITS != 0 })
}

/// Assigns the directory `dir`, and future entries of it, to a project.
pub(crate) fn set_project(dir: BorrowedFd<'_>, number: u32) -> Result<(), Errno> {
    let mut extra = file_extra(dir)?;
    extra.project = number;
    extra.flags |= INHERITS;
    set_file_extra(dir, extra)
}

/// Moves `file`, which must not be a directory, to a project; 0 for none.
pub(crate) fn set_file_project(file: BorrowedFd<'_>, number: u32) -> Result<(), Errno> {
    let mut extra = file_extra(file)?;
    extra.project = number;
    set_file_extra(file, extra)
}

/// Sets the CoW extent size hint of XFS, unless the file has one: with 0, the default, the overwriting of one shared
/// block sets 128 KiB aside. New entries of a directory have the hint of it.
pub(crate) fn set_cow_extent_size(file: BorrowedFd<'_>, bytes: u64) -> Result<(), Errno> {
    /// `FS_XFLAG_COWEXTSIZE`.
    const HAS_SIZE: u32 = 0x1_0000;
    let mut extra = file_extra(file)?;
    if extra.flags & HAS_SIZE != 0 {
        return Ok(());
    }
    extra.flags |= HAS_SIZE;
    extra.cow_extent_bytes = u32::try_from(bytes).map_err(|_| Errno::INVAL)?;
    set_file_extra(file, extra)
}

/// Frees what XFS keeps ready for growing files of a project.
pub(crate) fn free_preallocated(file: BorrowedFd<'_>, project: u32) -> Result<(), Errno> {
    /// `XFS_EOFBLOCKS_VERSION`; `XFS_EOF_FLAGS_SYNC` and `XFS_EOF_FLAGS_PRID`.
    const WHAT: [u32; 2] = [1, 1 | 1 << 3];
    let mut request = PreallocatedOf::default();
    request.what[..2].copy_from_slice(&WHAT);
    request.what[4] = project;
    // SAFETY: XFS_IOC_FREE_EOFBLOCKS reads one `struct xfs_fs_eofblocks`, which `PreallocatedOf` is laid out as.
    unsafe {
        rustix::ioctl::ioctl(
            file,
            rustix::ioctl::Setter::<XFS_IOC_FREE_EOFBLOCKS, PreallocatedOf>::new(request),
        )
    }
}

fn set_file_extra(file: BorrowedFd<'_>, extra: FileExtra) -> Result<(), Errno> {
    // SAFETY: FS_IOC_FSSETXATTR reads one `struct fsxattr`, which `FileExtra` is laid out as.
    unsafe { rustix::ioctl::ioctl(file, rustix::ioctl::Setter::<FS_IOC_FSSETXATTR, FileExtra>::new(extra)) }
}

fn file_extra(file: BorrowedFd<'_>) -> Result<FileExtra, Errno> {
    // SAFETY: FS_IOC_FSGETXATTR fills one `struct fsxattr`, which `FileExtra` is laid out as; any bytes are valid.
    unsafe { rustix::ioctl::ioctl(file, rustix::ioctl::Getter::<FS_IOC_FSGETXATTR, FileExtra>::new()) }
}

/// A range of a file at one place of the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) bytes: Range<u64>,
    pub(crate) place: u64,
    /// Whether it reads as zeros.
    pub(crate) is_unwritten: bool,
    /// False if the place does not tell what the data is: it is compressed, among metadata, or not written yet.
    pub(crate) is_in_one_place: bool,
}

impl Extent {
    /// The part of it in a range.
    pub(crate) fn cut(&self, bytes: &Range<u64>) -> Option<Self> {
        let range = self.bytes.start.max(bytes.start)..self.bytes.end.min(bytes.end);
        let place = self.place + range.start.saturating_sub(self.bytes.start);
        (!range.is_empty()).then_some(Self { bytes: range, place, ..*self })
    }

    /// Whether another one follows it, in the file and on the disk.
    pub(crate) fn goes_on_in(&self, next: &Self) -> bool {
        self.bytes.end == next.bytes.start
            && self.place + (self.bytes.end - self.bytes.start) == next.place
            && self.is_unwritten == next.is_unwritten
            && self.is_in_one_place == next.is_in_one_place
    }
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct MappedExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

/// The extents of one call.
const EXTENTS: u32 = 64;

/// `struct fiemap` with space for extents.
#[repr(C)]
struct ExtentMap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [MappedExtent; EXTENTS as usize],
}

const MAP_BYTES: usize = 32;
const _: () =
    assert!(size_of::<MappedExtent>() == 56 && size_of::<ExtentMap>() == MAP_BYTES + 56 * EXTENTS as usize);
const FS_IOC_FIEMAP: rustix::ioctl::Opcode = rustix::ioctl::opcode::read_write::<[u8; MAP_BYTES]>(b'f', 11);

/// Passes the extents of a range of a file to `take`, in ascending order; they may reach beyond it. Holes have none. Returns
/// false if `take` does.
pub(crate) fn each_extent(
    file: BorrowedFd<'_>,
    bytes: Range<u64>,
    take: &mut dyn FnMut(Extent) -> bool,
) -> Result<bool, Errno> {
    /// `FIEMAP_EXTENT_LAST`.
    const LAST: u32 = 0x1;
    /// `FIEMAP_EXTENT_UNWRITTEN`.
    const UNWRITTEN: u32 = 0x800;
    /// `FIEMAP_EXTENT_UNKNOWN`, `_DELALLOC`, `_ENCODED`, `_DATA_ENCRYPTED`, `_NOT_ALIGNED`, `_DATA_INLINE`, `_DATA_TAIL`.
    const ELSEWHERE: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400;
    let mut start = bytes.start;
    while start < bytes.end {
        let mut map = ExtentMap {
            start,
            length: bytes.end - start,
            flags: 0,
            mapped: 0,
            count: EXTENTS,
            reserved: 0,
            extents: [MappedExtent::default(); EXTENTS as usize],
        };
        // SAFETY: FS_IOC_FIEMAP reads the head and fills up to `count` extents behind it, all of which `ExtentMap` has.
        unsafe {
            rustix::ioctl::ioctl(file, rustix::ioctl::Updater::<FS_IOC_FIEMAP, ExtentMap>::new(&mut map))
        }?;
        let mapped = &map.extents[..EXTENTS.min(map.mapped) as usize];
        for MappedExtent { logical, physical, length, flags, .. } in mapped.iter().copied() {
            let is_in_one_place = flags & ELSEWHERE == 0;
            let bytes = logical..logical.saturating_add(length);
            let is_unwritten = flags & UNWRITTEN != 0;
            start = start.max(bytes.end);
            if !take(Extent { bytes, place: physical, is_unwritten, is_in_one_place }) {
                return Ok(false);
            }
        }
        if map.mapped < EXTENTS || mapped.last().is_some_and(|last| last.flags & LAST != 0) {
            break;
        }
    }
    Ok(true)
}

/// Opens an existing file; `None` if it does not exist.
pub(crate) fn open_existing(
    dir: BorrowedFd<'_>,
    name: &str,
    flags: rustix::fs::OFlags,
) -> Result<Option<OwnedFd>, Errno> {
    match rustix::fs::openat(dir, name, flags, rustix::fs::Mode::empty()) {
        Ok(file) => Ok(Some(file)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

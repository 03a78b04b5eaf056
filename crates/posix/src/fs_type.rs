//! Capabilities and free space of the underlying file system.

use crate::capacity::project;
use crate::error::refused;
use crate::sys;
use rustix::fs::{
    Mode, OFlags, SeekFrom, Stat, fchmod, fgetxattr_query, fremovexattr, fstat, fstatfs, fstatvfs, major,
    minor, openat, seek,
};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use vfs::{FsResult, FsStat};

/// The end of the largest possible file (`loff_t`).
pub(crate) const OFFSET_MAX: u64 = i64::MAX.unsigned_abs();

/// File type of Btrfs (`BTRFS_SUPER_MAGIC`).
const BTRFS: u64 = 0x9123_683e;
/// Inode number of the root of each subvolume (`BTRFS_FIRST_FREE_OBJECTID`), and of no other file.
const SUBVOLUME_ROOT: u64 = 256;

pub(crate) struct FsType {
    pub(crate) is_memory: bool,
    pub(crate) new_inodes_follow_dir: bool,
    /// After a crash, a change is there only if all earlier changes of other files are (XFS).
    pub(crate) is_ordered: bool,
    pub(crate) links_max: u32,
    /// Block size: the most that an empty directory shows as its size.
    pub(crate) block_bytes: u64,
}

impl FsType {
    pub(crate) fn of(root: &OwnedFd, stat: &Stat) -> FsResult<Self> {
        const MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];
        const EXT: u32 = 0xef53;
        const XFS: u32 = 0x5846_5342;
        let state = fstatfs(root).map_err(refused)?;
        let magic = u32::try_from(state.f_type & 0xffff_ffff).unwrap_or(0);
        let memory = MEMORY.contains(&magic);
        // The C library's pathconf does not know most of these limits.
        let (new_inodes_follow_dir, links_max) = match magic {
            XFS => (true, i32::MAX.unsigned_abs()),
            _ if u64::from(magic) == BTRFS => (true, 65_535),
            EXT => (has_ext_journal(stat.st_dev), 65_000),
            _ if memory => (true, u32::MAX),
            _ => (false, 32_000),
        };
        let block_bytes = u64::try_from(state.f_bsize).unwrap_or(0);
        let is_ordered = magic == XFS;
        Ok(Self { is_memory: memory, new_inodes_follow_dir, is_ordered, links_max, block_bytes })
    }
}

pub(crate) fn is_btrfs(file: BorrowedFd<'_>) -> bool {
    fstatfs(file).is_ok_and(|state| u64::try_from(state.f_type) == Ok(BTRFS))
}

/// Whether `dir` is the root of a subvolume of Btrfs.
pub(crate) fn is_subvolume(dir: BorrowedFd<'_>) -> bool {
    is_btrfs(dir) && fstat(dir).is_ok_and(|stat| stat.st_ino == SUBVOLUME_ROOT)
}

/// The largest size of a file in `dir`: the smaller of the file system's limit and the process's limit.
pub(crate) fn file_bytes_max(dir: &OwnedFd) -> u64 {
    let own = getrlimit(Resource::Fsize).current.unwrap_or(OFFSET_MAX);
    // A directory may have no file to test with, so the test uses one without a name. Without it, the kernel refuses
    // later.
    let Some(file) = unnamed_file(dir) else { return OFFSET_MAX.min(own) };
    let (mut possible, mut impossible) = (0, OFFSET_MAX + 1);
    while impossible - possible > 1 {
        let between = possible + (impossible - possible) / 2;
        // lseek(2) fails past the largest size, and changes nothing.
        match seek(&file, SeekFrom::Start(between)) {
            Ok(_) => possible = between,
            Err(_) => impossible = between,
        }
    }
    possible.min(own)
}

/// A file without a name in the file system of `dir`, if that supports it.
fn unnamed_file(dir: &OwnedFd) -> Option<OwnedFd> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = openat(dir, ".", flags, Mode::empty()).ok()?;
    if project::number_at(dir.as_fd()).is_some() {
        // XFS frees the file a little after it is closed, and would charge it to the volume's project until then.
        let _left = sys::set_file_project(file.as_fd(), 0);
    }
    Some(file)
}

/// Whether every change after a `stat` gets a new change time. Linux 6.13 and later ensure it on most file systems;
/// others use the time of the last timer tick. Eight changes fit between two ticks, so an equal time shows up here.
pub(crate) fn has_fine_change_times(dir: &OwnedFd) -> bool {
    let Some(file) = unnamed_file(dir) else { return false };
    let changed = || fstat(&file).map(|stat| (stat.st_ctime, stat.st_ctime_nsec)).ok();
    (0..8).all(|round| {
        let before = changed();
        let mode = if round % 2 == 0 { Mode::RUSR } else { Mode::empty() };
        fchmod(&file, mode).is_ok() && before.is_some() && changed() != before
    })
}

pub(crate) fn supports_xattrs(dir: &OwnedFd) -> bool {
    let queried = fgetxattr_query(dir, "user.none");
    !matches!(queried, Err(Errno::OPNOTSUPP | Errno::NOSYS))
}

pub(crate) fn supports_acls(dir: &OwnedFd) -> bool {
    let queried = fgetxattr_query(dir.as_fd(), "system.posix_acl_access");
    !matches!(queried, Err(Errno::OPNOTSUPP | Errno::NOSYS))
}

/// Whether this process may set attributes of class `trusted.` in the file system of `dir`. Only then does the kernel
/// report that there is none to remove.
pub(crate) fn can_set_trusted_xattrs(dir: &OwnedFd) -> bool {
    fremovexattr(dir, "trusted.plimsoll.none") == Err(Errno::NODATA)
}

pub(crate) fn file_system_stat(file: BorrowedFd<'_>) -> FsResult<FsStat> {
    let state = fstatvfs(file).map_err(refused)?;
    let bytes = |blocks: u64| blocks.saturating_mul(state.f_frsize);
    Ok(FsStat {
        bytes_total: bytes(state.f_blocks),
        bytes_free: bytes(state.f_bfree),
        bytes_available: bytes(state.f_bavail),
        files_total: state.f_files,
        files_free: state.f_ffree,
        files_available: state.f_favail,
    })
}

/// Whether the kernel runs a journal for the ext file system on `device`; false if unknown.
fn has_ext_journal(device: u64) -> bool {
    let number = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    let Ok(disk) = std::fs::canonicalize(number) else { return false };
    disk.file_name()
        .is_some_and(|disk| std::path::Path::new("/sys/fs/ext4").join(disk).join("journal_task").exists())
}

//! The file system that a tree lies on: what it can do, and what room it has.

use crate::capacity::project;
use crate::error::refused;
use crate::sys;
use rustix::fs::{
    Mode, OFlags, SeekFrom, Stat, fchmod, fgetxattr_query, fremovexattr, fstat, fstatvfs, major, minor,
    openat, seek,
};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use vfs::{FsResult, FsStat};

/// The end of the largest file (`loff_t`).
pub(crate) const OFFSET_MAX: u64 = i64::MAX.unsigned_abs();

/// What kind of file system this is.
pub(crate) struct FsType {
    pub(crate) is_memory: bool,
    pub(crate) new_inodes_follow_dir: bool,
    pub(crate) links_max: u32,
    /// The size of a block: an empty directory shows no more.
    pub(crate) block_bytes: u64,
}

impl FsType {
    /// That of `root`.
    pub(crate) fn of(root: &OwnedFd, stat: &Stat) -> FsResult<Self> {
        const MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];
        const EXT: u32 = 0xef53;
        const XFS: u32 = 0x5846_5342;
        const BTRFS: u32 = 0x9123_683e;
        let state = rustix::fs::fstatfs(root).map_err(refused)?;
        let magic = u32::try_from(state.f_type & 0xffff_ffff).unwrap_or(0);
        let memory = MEMORY.contains(&magic);
        // The C library's pathconf does not know most of these limits.
        let (new_inodes_follow_dir, links_max) = match magic {
            XFS => (true, i32::MAX.unsigned_abs()),
            BTRFS => (true, 65_535),
            EXT => (has_ext_journal(stat.st_dev), 65_000),
            _ if memory => (true, u32::MAX),
            _ => (false, 32_000),
        };
        let block_bytes = u64::try_from(state.f_bsize).unwrap_or(0);
        Ok(Self { is_memory: memory, new_inodes_follow_dir, links_max, block_bytes })
    }
}

/// The largest size that a file in `dir` may have: what its file system says, and what this process may write.
pub(crate) fn file_bytes_max(dir: &OwnedFd) -> u64 {
    let own = getrlimit(Resource::Fsize).current.unwrap_or(OFFSET_MAX);
    // No file is there to be asked for sure, so one without a name is. Where none can be made the kernel refuses later.
    let Some(file) = unnamed_file(dir) else { return OFFSET_MAX.min(own) };
    let (mut possible, mut impossible) = (0, OFFSET_MAX + 1);
    while impossible - possible > 1 {
        let between = possible + (impossible - possible) / 2;
        // Seeking goes as far as a file may reach, and changes nothing.
        match seek(&file, SeekFrom::Start(between)) {
            Ok(_) => possible = between,
            Err(_) => impossible = between,
        }
    }
    possible.min(own)
}

/// A file without a name in the file system of `dir`, if it makes any.
fn unnamed_file(dir: &OwnedFd) -> Option<OwnedFd> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = openat(dir, ".", flags, Mode::empty()).ok()?;
    if project::number_at(dir.as_fd()).is_some() {
        // XFS frees it a little later than it is closed, and would count it in the volume's project until then.
        let _left = sys::leave_project(file.as_fd());
    }
    Some(file)
}

/// Whether a change that comes after a look at a file always has another change time than what was seen: Linux 6.13 and later do
/// that on most file systems, others stamp changes with the time of the last timer tick. Between two ticks there is time for all
/// of these.
pub(crate) fn has_fine_change_times(dir: &OwnedFd) -> bool {
    let Some(file) = unnamed_file(dir) else { return false };
    let changed = || fstat(&file).map(|stat| (stat.st_ctime, stat.st_ctime_nsec)).ok();
    (0..8).all(|round| {
        let before = changed();
        let mode = if round % 2 == 0 { Mode::RUSR } else { Mode::empty() };
        fchmod(&file, mode).is_ok() && before.is_some() && changed() != before
    })
}

/// Whether files in the file system of `dir` carry attributes.
pub(crate) fn supports_xattrs(dir: &OwnedFd) -> bool {
    let asked = fgetxattr_query(dir, "user.none");
    !matches!(asked, Err(Errno::OPNOTSUPP | Errno::NOSYS))
}

/// Whether files in the file system of `dir` may have lists.
pub(crate) fn supports_acls(dir: &OwnedFd) -> bool {
    let asked = fgetxattr_query(dir.as_fd(), "system.posix_acl_access");
    !matches!(asked, Err(Errno::OPNOTSUPP | Errno::NOSYS))
}

/// Whether this process may set attributes of class `trusted.` in the file system of `dir`: only then is it told that there is
/// none to remove.
pub(crate) fn can_set_trusted_xattrs(dir: &OwnedFd) -> bool {
    fremovexattr(dir, "trusted.plimsoll.none") == Err(Errno::NODATA)
}

/// The state of the file system that `file` lies on.
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

/// Whether the kernel runs a journal for the ext file system on `device`. Where it does not say, there is none.
fn has_ext_journal(device: u64) -> bool {
    let number = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    let Ok(disk) = std::fs::canonicalize(number) else { return false };
    disk.file_name()
        .is_some_and(|disk| std::path::Path::new("/sys/fs/ext4").join(disk).join("journal_task").exists())
}

//! Converts attributes between the kernel and the model.

use super::counter::VersionedStat;
use crate::sys::{self, STAT_BLOCK_BYTES, proc_path};
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, RawMode, Stat, Timespec, Timestamps, Uid, chmodat, chownat, fchmod, major,
    minor, utimensat,
};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use vfs::model::attrs::MODE_BITS;
use vfs::{Attrs, Device, FileType, FsError, FsResult, Time};

#[inline]
pub(crate) fn attrs(stat: &VersionedStat) -> FsResult<Attrs> {
    let file_type = file_type(stat)?;
    let device = match file_type {
        FileType::Block | FileType::Character => {
            Device { major: major(stat.st_rdev), minor: minor(stat.st_rdev) }
        }
        _ => Device::default(),
    };
    let changed = time(stat.st_ctime, stat.st_ctime_nsec);
    Ok(Attrs {
        file_type,
        mode: stat.st_mode & MODE_BITS,
        links: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        used: u64::try_from(stat.st_blocks).unwrap_or(0) * STAT_BLOCK_BYTES,
        device,
        file_id: stat.st_ino,
        accessed: time(stat.st_atime, stat.st_atime_nsec),
        modified: time(stat.st_mtime, stat.st_mtime_nsec),
        changed,
        change: stat.change(changed),
        born: None,
        view: vfs::ViewId::LIVE,
    })
}

/// The type of a file; [`FsError::BadType`] if the model has no such type.
pub(crate) fn file_type(stat: &Stat) -> FsResult<FileType> {
    use rustix::fs::FileType as Kind;
    Ok(match Kind::from_raw_mode(stat.st_mode as RawMode) {
        Kind::RegularFile => FileType::Regular,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::BlockDevice => FileType::Block,
        Kind::CharacterDevice => FileType::Character,
        Kind::Fifo => FileType::Fifo,
        Kind::Socket => FileType::Socket,
        Kind::Unknown => return Err(FsError::BadType),
    })
}

fn time(seconds: i64, nanos: u64) -> Time {
    Time { seconds, nanos: u32::try_from(nanos).unwrap_or(0) }
}

pub(crate) fn timespec(time: Time) -> Timespec {
    Timespec { tv_sec: time.seconds, tv_nsec: time.nanos.into() }
}

/// Sets owner and group of the file open as `file`, `O_PATH` or not.
pub(crate) fn set_owner(file: BorrowedFd<'_>, uid: Option<u32>, gid: Option<u32>) -> Result<(), Errno> {
    chownat(file, "", uid.map(Uid::from_raw), gid.map(Gid::from_raw), AtFlags::EMPTY_PATH)
}

/// Sets the mode of the file open as `file`, `O_PATH` or not. Must not be called for symbolic links.
pub(crate) fn set_mode(file: BorrowedFd<'_>, mode: u32) -> Result<(), Errno> {
    match fchmod(file, Mode::from_raw_mode(mode)) {
        // An O_PATH descriptor.
        Err(Errno::BADF) => {}
        done => return done,
    }
    match sys::chmod_path(file, mode) {
        Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => {
            chmodat(CWD, proc_path(file), Mode::from_raw_mode(mode), AtFlags::empty())
        }
        done => done,
    }
}

pub(crate) fn set_times(file: BorrowedFd<'_>, times: &Timestamps) -> Result<(), Errno> {
    match utimensat(file, "", times, AtFlags::EMPTY_PATH) {
        // Before Linux 5.8.
        Err(Errno::INVAL | Errno::BADF) => utimensat(CWD, proc_path(file), times, AtFlags::empty()),
        done => done,
    }
}

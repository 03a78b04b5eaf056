//! Attributes: from the kernel's words to the model's and back.

use crate::counter::Sight;
use crate::error::refused;
use crate::node::{Node, Rights};
use crate::owner::{self, Owner};
use crate::sys;
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, RawMode, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, chmodat,
    chownat, fchmod, ftruncate, major, minor, utimensat,
};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};
use vfs::access::set_id_bits;
use vfs::attrs::MODE_BITS;
use vfs::{Attrs, AuthorizeSetattr, Change, Device, FileType, FsError, FsResult, SetAttrs, SetTime, Time};

/// Bytes in the blocks that `st_blocks` counts.
const BLOCK_BYTES: u64 = 512;

/// The attributes of a file in this state.
#[inline]
pub(crate) fn attrs(stat: &Sight) -> FsResult<Attrs> {
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
        used: u64::try_from(stat.st_blocks).unwrap_or(0) * BLOCK_BYTES,
        device,
        file_id: stat.st_ino,
        accessed: time(stat.st_atime, stat.st_atime_nsec),
        modified: time(stat.st_mtime, stat.st_mtime_nsec),
        changed,
        change: stat.change(changed),
        born: None,
    })
}

/// The type of a file in this state; [`FsError::BadType`] if the model has no such type.
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

/// The kernel's form of a time.
pub(crate) fn timespec(time: Time) -> Timespec {
    Timespec { tv_sec: time.seconds, tv_nsec: time.nanos.into() }
}

/// Sets owner and group of what `file` has open, `O_PATH` or not.
pub(crate) fn set_owner(file: BorrowedFd<'_>, uid: Option<u32>, gid: Option<u32>) -> Result<(), Errno> {
    chownat(file, "", uid.map(Uid::from_raw), gid.map(Gid::from_raw), AtFlags::EMPTY_PATH)
}

/// Sets the mode of what `file` has open, `O_PATH` or not. Must not be called for symbolic links.
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

/// Sets the times of what `file` has open, `O_PATH` or not.
pub(crate) fn set_times(file: BorrowedFd<'_>, times: &Timestamps) -> Result<(), Errno> {
    match utimensat(file, "", times, AtFlags::EMPTY_PATH) {
        // Before Linux 5.8.
        Err(Errno::INVAL | Errno::BADF) => utimensat(CWD, proc_path(file), times, AtFlags::empty()),
        done => done,
    }
}

/// The name in /proc that leads to what `file` has open, without a look at any other name.
pub(crate) fn proc_path(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

impl Node {
    /// Sets attributes: size, then owner, then mode (a change of owner takes set-id bits away), then times (a change of
    /// size sets them).
    pub(crate) fn decide_attrs(&self, authorize: AuthorizeSetattr<'_>) -> FsResult<Change> {
        let mut held = self.lock_change();
        let before = self.attrs_now()?;
        let set = &authorize(&before)?;
        set.check_ids()?;
        if set.size.is_some() {
            match self.kind {
                FileType::Regular => {}
                FileType::Directory => return Err(FsError::IsDirectory),
                _ => return Err(FsError::Invalid),
            }
        }
        // A symbolic link has no mode of its own on Linux: it is always 0777.
        if set.mode.is_some() && self.kind == FileType::Symlink {
            return Err(FsError::NotSupported);
        }
        if let Some(size) = set.size {
            if size > self.mount.file_bytes_max {
                return Err(FsError::FileTooBig);
            }
            let fd = self.open(Rights::Write)?;
            let resize = self.mount.resize(&held, before.size, size)?;
            held.begin();
            let cut = ftruncate(fd, size);
            resize.end(if cut.is_ok() { size } else { before.size });
            cut.map_err(|errno| match errno {
                Errno::INVAL => FsError::FileTooBig,
                _ => refused(errno),
            })?;
        }
        held.begin();
        if self.mount.owner_attribute {
            self.change_record(set)?;
        } else {
            if set.uid.is_some() || set.gid.is_some() {
                set_owner(self.fd(), set.uid, set.gid).map_err(refused)?;
            }
            if let Some(mode) = set.mode {
                set_mode(self.fd(), mode & MODE_BITS).map_err(refused)?;
            }
        }
        if set.accessed.is_some() || set.modified.is_some() {
            let times = Timestamps {
                last_access: wanted_time(set.accessed),
                last_modification: wanted_time(set.modified),
            };
            set_times(self.fd(), &times).map_err(refused)?;
        }
        Ok(Change { before, after: held.attrs_after(&before)? })
    }
}

impl Node {
    /// As chown and chmod, on what the extended attribute says.
    fn change_record(&self, set: &SetAttrs) -> FsResult<()> {
        if set.uid.is_none() && set.gid.is_none() && set.mode.is_none() {
            return Ok(());
        }
        let now = Owner::of(&self.attrs_now()?);
        let new = Owner { uid: set.uid.unwrap_or(now.uid), gid: set.gid.unwrap_or(now.gid), mode: now.mode };
        let owned = set.uid.is_some() || set.gid.is_some();
        if !owner::carries(self.kind) {
            // What cannot carry the attribute keeps its real owner.
            if (new.uid, new.gid) != (now.uid, now.gid) {
                return Err(FsError::NotOwner);
            }
            return set.mode.map_or(Ok(()), |mode| set_mode(self.fd(), mode & MODE_BITS).map_err(refused));
        }
        // chown(2) takes the set-id bits of anything but a directory.
        let marks = if owned && self.kind == FileType::Regular { set_id_bits(now.mode) } else { 0 };
        self.record_owner(Owner { mode: set.mode.map_or(now.mode & !marks, |mode| mode & MODE_BITS), ..new })
    }

    /// Sets the extended attribute, and the real mode that goes with it.
    pub(crate) fn record_owner(&self, owner: Owner) -> FsResult<()> {
        owner.write(self.fd())?;
        set_mode(self.fd(), owner.real_mode(self.kind == FileType::Directory)).map_err(refused)
    }
}

fn wanted_time(set: Option<SetTime>) -> Timespec {
    match set {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(SetTime::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(SetTime::To(time)) => timespec(time),
    }
}

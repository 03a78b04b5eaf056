//! Directories that no other user can write.
//!
//! A benchmark often runs as root, in a directory that others can write. A planted link could redirect its writes and
//! removals to any file of the machine. So it works only below directories that it opens once, without following links,
//! and that belong to its own user; fio starts in them by their descriptors.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, fstatvfs, mkdirat, open, openat, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::error::Error;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Opening with these flags never blocks, even on a pipe or a device.
const SAFELY: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// A directory of this process's user that no other user can write.
#[derive(Debug)]
pub(crate) struct PrivateDir {
    fd: OwnedFd,
    /// For messages.
    shown: PathBuf,
}

impl PrivateDir {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let fd =
            open(path, DIRECTORY.difference(OFlags::NOFOLLOW), Mode::empty()).map_err(doing("open", path))?;
        Self::checked(fd, path.to_owned(), "name a directory of your own")
    }

    /// Creates the directory if it is missing. Messages call the parent `parent_path`.
    pub(crate) fn make(parent: BorrowedFd<'_>, parent_path: &Path, name: &str) -> Result<Self, Error> {
        let path = parent_path.join(name);
        let is_new = match mkdirat(parent, name, Mode::RWXU) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(doing("make", &path)(errno)),
        };
        let found = Self::find(parent, parent_path, name)?;
        match found {
            Some(made) if is_new && made.owner()? != geteuid().as_raw() => {
                // Best effort: the reason is the error to report.
                let _ = unlinkat(parent, name, AtFlags::REMOVEDIR);
                Err(Error::Plan(wrong_owner(&path)))
            }
            Some(made) => Self::checked(made.fd, path, "look at what is in it, and remove it"),
            None => Err(doing("open", &path)(Errno::NOENT)),
        }
    }

    pub(crate) fn existing(
        parent: BorrowedFd<'_>,
        parent_path: &Path,
        name: &str,
    ) -> Result<Option<Self>, Error> {
        let Some(found) = Self::find(parent, parent_path, name)? else { return Ok(None) };
        Self::checked(found.fd, found.shown, "look at what is in it, and remove it").map(Some)
    }

    fn find(parent: BorrowedFd<'_>, parent_path: &Path, name: &str) -> Result<Option<Self>, Error> {
        let shown = parent_path.join(name);
        match openat(parent, name, DIRECTORY, Mode::empty()) {
            Ok(fd) => Ok(Some(Self { fd, shown })),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => Err(Error::Plan(format!(
                "{} is a link or a file, and must be a directory that only the benchmark's user can write: remove it",
                shown.display()
            ))),
            Err(errno) => Err(doing("open", &shown)(errno)),
        }
    }

    fn owner(&self) -> Result<u32, Error> {
        fstat(&self.fd).map(|stat| stat.st_uid).map_err(doing("look at", &self.shown))
    }

    fn checked(fd: OwnedFd, shown: PathBuf, advice: &str) -> Result<Self, Error> {
        let stat = fstat(&fd).map_err(doing("look at", &shown))?;
        let (own, mode) = (geteuid().as_raw(), stat.st_mode & 0o7777);
        let path = shown.display();
        if stat.st_uid != own {
            return Err(Error::Plan(format!(
                "{path} belongs to user {}, who could redirect the writes of user {own} to any other file: {advice}",
                stat.st_uid
            )));
        }
        if mode & 0o022 != 0 {
            return Err(Error::Plan(format!(
                "{path} has mode {mode:04o}, so others can write there, and redirect writes to any other file: \
                 {advice}, or take the right away (chmod go-w {path})"
            )));
        }
        Ok(Self { fd, shown })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// For messages: the path may lead to another directory by now.
    pub(crate) fn path(&self) -> &Path {
        &self.shown
    }

    /// A path to the open directory for this process and its children. Renames do not affect it.
    pub(crate) fn by_descriptor(&self) -> PathBuf {
        descriptor_path(self.fd())
    }

    pub(crate) fn names(&self) -> Result<Vec<OsString>, Error> {
        let listing = Dir::read_from(&self.fd).map_err(doing("list", &self.shown))?;
        let mut names = Vec::new();
        for entry in listing {
            let entry = entry.map_err(doing("list", &self.shown))?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }

    /// Does not follow links. `None` if the name is missing.
    pub(crate) fn stat(&self, name: &str) -> Option<Stat> {
        statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    /// Opens an existing file for reading. The file must be regular, belong to this user, and have no other
    /// name.
    pub(crate) fn file(&self, name: &str) -> Result<Option<File>, Error> {
        let path = self.shown.join(name);
        let refuse = |wrong: String| {
            let path = path.display();
            Err(Error::Plan(format!("{path} {wrong}, and must be a file of the benchmark's own: remove it")))
        };
        let fd = match openat(&self.fd, name, SAFELY, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return refuse("is a link".to_owned()),
            // A socket, or a device without a driver.
            Err(Errno::NXIO | Errno::NODEV) => return refuse("is no regular file".to_owned()),
            Err(errno) => return Err(doing("open", &path)(errno)),
        };
        let stat = fstat(&fd).map_err(doing("look at", &path))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return refuse("is no regular file".to_owned());
        }
        if stat.st_uid != geteuid().as_raw() {
            return refuse(format!("belongs to user {}", stat.st_uid));
        }
        if stat.st_nlink != 1 {
            return refuse(format!("has {} names, so that it is a file elsewhere too", stat.st_nlink));
        }
        Ok(Some(fd.into()))
    }

    pub(crate) fn create(&self, name: &str) -> Result<File, Error> {
        let flags = SAFELY.union(OFlags::RDWR).union(OFlags::CREATE).union(OFlags::EXCL);
        let made = openat(&self.fd, name, flags, Mode::RUSR.union(Mode::WUSR));
        made.map(File::from).map_err(doing("make", &self.shown.join(name)))
    }

    /// Does not follow links.
    pub(crate) fn open_with(&self, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        openat(&self.fd, name, SAFELY.union(flags), Mode::empty())
    }

    pub(crate) fn move_to(&self, name: &str, to: &Self) -> Result<(), Error> {
        renameat(&self.fd, name, &to.fd, name).map_err(doing("rename", &self.shown.join(name)))
    }

    /// Accepts a missing name. Fails for a directory.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Error> {
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(doing("remove", &self.shown.join(name))(errno)),
        }
    }

    pub(crate) fn free_bytes(&self) -> Result<u64, Error> {
        let all = fstatvfs(&self.fd).map_err(doing("ask how much is free in", &self.shown))?;
        Ok(all.f_bavail.saturating_mul(all.f_frsize))
    }
}

pub(crate) fn remove_empty(parent: BorrowedFd<'_>, path: &Path, name: &str) -> Result<bool, Error> {
    match unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(errno) => Err(doing("remove", &path.join(name))(errno)),
    }
}

pub(crate) fn descriptor_path(fd: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

fn wrong_owner(path: &Path) -> String {
    format!(
        "the file system gives {} to a user other than its creator {}, as NFS does when it squashes root: other clients \
         may be that user too. Run this as a user that is not squashed, or turn squashing off (--squash none)",
        path.display(),
        geteuid().as_raw()
    )
}

fn doing(what: &str, path: &Path) -> impl FnOnce(Errno) -> Error {
    let doing = format!("{what} {}", path.display());
    move |errno| Error::io(doing)(errno.into())
}

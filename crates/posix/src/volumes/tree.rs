//! Opens directories, and walks trees without concurrent changes, to count or to delete them.
//!
//! Few descriptors are open and no function recurses, however deep the tree is: the way back up is `..`. No symbolic
//! link is followed and no other mount entered.

use crate::error::refused;
use crate::fs_type::is_subvolume;
use crate::node::owner::Owner;
use crate::node::xattrs::{xattrs_charged, xattrs_charged_at};
use crate::sys;
use rustix::fs::{
    AtFlags, CWD, FileType as Kind, Mode, OFlags, RawDir, ResolveFlags, Stat, chmodat, fchmod, fstat,
    mkdirat, openat, openat2, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::fchdir;
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use storage::{OwnerIds, Tally, add_to_tally};
use vfs::backend::charge::{INODE_BYTES, NAME_BYTES, ROOT_BYTES, blocks, directory, symlink};
use vfs::{FsError, FsResult, Usage};

/// Buffer size of one `getdents` call.
const READ_BYTES: usize = 32 * 1024;
/// Maximum number of attempts to empty a directory that another process fills again.
const TRIES: u32 = 8;

pub(crate) trait Visitor {
    /// Called before a directory is read.
    fn enter(&mut self, dir: BorrowedFd<'_>) -> Result<(), Errno>;
    /// Called if the directory `name` is not readable. `Ok` if it is now.
    fn grant_access(&mut self, _dir: BorrowedFd<'_>, _name: &CStr) -> Result<(), Errno> {
        Err(Errno::ACCESS)
    }

    /// Called for a subvolume of Btrfs with the root `root`. Returns the root to visit it; `None` if it is gone.
    fn subvolume(
        &mut self,
        _dir: BorrowedFd<'_>,
        _name: &CStr,
        _root: OwnedFd,
    ) -> Result<Option<OwnedFd>, Errno> {
        Err(Errno::XDEV)
    }

    /// Called for an object other than a directory.
    fn object(&mut self, dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno>;
    /// Called after the contents of the directory `name`. True to visit it again.
    fn leave(&mut self, dir: BorrowedFd<'_>, name: &CStr) -> Result<bool, Errno>;
}

struct Level {
    id: (u64, u64),
    unvisited: Vec<CString>,
    current: Option<CString>,
}

/// Opens the directory `path`, following no link at its end.
pub(crate) fn open_root(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty())
}

/// Opens the directory `name` in `parent`; creates it with mode 700 if it does not exist.
pub(crate) fn make_private(parent: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    match mkdirat(parent, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => open_dir(parent.as_fd(), name),
        Err(errno) => Err(errno),
    }
}

pub(crate) fn open_dir(parent: BorrowedFd<'_>, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

/// Another open file of the same directory, with its own position and locks.
pub(crate) fn reopen(dir: &OwnedFd) -> Result<OwnedFd, Errno> {
    open_dir(dir.as_fd(), ".")
}

/// The names in a directory, without `.` and `..`.
pub(crate) fn entries(dir: &OwnedFd) -> FsResult<Vec<CString>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = openat(dir, ".", flags, Mode::empty()).map_err(refused)?;
    let mut buffer = vec![MaybeUninit::uninit(); 8192];
    let mut raw = RawDir::new(&dir, &mut buffer);
    let mut names = Vec::new();
    while let Some(entry) = raw.next() {
        let entry = entry.map_err(refused)?;
        let name = entry.file_name();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Visits everything below `root`, contents before their directory.
pub(crate) fn walk(root: OwnedFd, visit: &mut dyn Visitor) -> Result<(), Errno> {
    let mut dir = root;
    let mut levels = vec![read(&dir, visit)?];
    while let Some(level) = levels.last_mut() {
        level.current = level.unvisited.pop();
        if let Some(name) = &level.current {
            let Some(child) = enter(dir.as_fd(), name, level.id.0, visit)? else { continue };
            levels.push(read(&child, visit)?);
            dir = child;
            continue;
        }
        levels.pop();
        let Some(parent) = levels.last_mut() else { break };
        dir = open_parent(&dir, parent.id)?;
        let Some(name) = parent.current.take() else { continue };
        if visit.leave(dir.as_fd(), &name)? {
            parent.unvisited.push(name);
        }
    }
    Ok(())
}

/// Opens a directory to visit; `None` if it is gone.
fn enter(
    dir: BorrowedFd<'_>,
    name: &CStr,
    device: u64,
    visit: &mut dyn Visitor,
) -> Result<Option<OwnedFd>, Errno> {
    let mut opened = open_child(dir, name, device);
    if opened.as_ref().err() == Some(&Errno::ACCESS) {
        visit.grant_access(dir, name)?;
        opened = open_child(dir, name, device);
    }
    match opened {
        // Another process has removed it.
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::XDEV) => {
            let root = open_subvolume(dir, name)?;
            visit.subvolume(dir, name, root)
        }
        opened => opened.map(Some),
    }
}

/// Opens the subvolume `name`; [`Errno::XDEV`] for a mount point. Btrfs shows a subvolume as another device, but it is in
/// the same mount.
fn open_subvolume(dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    let root = openat2(dir, name, flags, Mode::empty(), resolve).map_err(|_| Errno::XDEV)?;
    if is_subvolume(root.as_fd()) { Ok(root) } else { Err(Errno::XDEV) }
}

fn read(dir: &OwnedFd, visit: &mut dyn Visitor) -> Result<Level, Errno> {
    visit.enter(dir.as_fd())?;
    let mut buffer = vec![MaybeUninit::uninit(); READ_BYTES];
    let mut raw = RawDir::new(dir, &mut buffer);
    let mut unvisited = Vec::new();
    while let Some(entry) = raw.next() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            // Some file systems keep no types in their directories.
            Kind::Unknown => Kind::from_raw_mode(statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode),
            kind => kind,
        };
        if kind == Kind::Directory {
            unvisited.push(name.to_owned());
        } else {
            visit.object(dir.as_fd(), name)?;
        }
    }
    let stat = fstat(dir)?;
    Ok(Level { id: (stat.st_dev, stat.st_ino), unvisited, current: None })
}

fn open_child(dir: BorrowedFd<'_>, name: &CStr, device: u64) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    let child = match openat2(dir, name, flags, Mode::empty(), resolve) {
        // Linux before 5.6, or a sandbox.
        Err(Errno::NOSYS | Errno::PERM) => openat(dir, name, flags, Mode::empty())?,
        opened => opened?,
    };
    if fstat(&child)?.st_dev == device { Ok(child) } else { Err(Errno::XDEV) }
}

fn open_parent(dir: &OwnedFd, id: (u64, u64)) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = openat(dir, "..", flags, Mode::empty())?;
    let stat = fstat(&parent)?;
    // Another process moved the directory during the walk.
    if (stat.st_dev, stat.st_ino) == id { Ok(parent) } else { Err(Errno::STALE) }
}

/// The usage of the tree below and including `root`, charged as [`vfs::backend::charge`] says. `progress` receives the
/// number of files since its last call and in all; its error ends the walk.
///
/// With `tally`, it also counts by owner, as [`vfs::backend::quotas`] says. With `moves`, this thread has its own working directory, which follows the walk.
pub(crate) fn count(
    root: OwnedFd,
    moves: bool,
    tally: Option<OwnerTally<'_>>,
    progress: &mut dyn FnMut(u64, u64) -> Result<(), Errno>,
) -> Result<Usage, Errno> {
    let usage = Usage { bytes: 0, files: 0 };
    let mut counting =
        CountVisitor { usage, linked: HashSet::new(), reported: 0, moves, tally, look: progress };
    walk(root, &mut counting)?;
    counting.report()?;
    Ok(counting.usage)
}

/// The usage of users and groups.
pub(crate) struct OwnerTally<'t> {
    pub(crate) of: &'t mut Tally,
    /// Whether the owners are in an extended attribute.
    pub(crate) has_attribute: bool,
}

impl OwnerTally<'_> {
    fn add(&mut self, dir: BorrowedFd<'_>, name: &CStr, stat: &Stat) -> Result<(), Errno> {
        let kind = Kind::from_raw_mode(stat.st_mode);
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let bytes = if kind == Kind::RegularFile { blocks(size) } else { 0 };
        let recorded = match kind {
            Kind::RegularFile if self.has_attribute => Owner::read(dir, Some(name.to_bytes())),
            _ => Ok(None),
        };
        let recorded =
            recorded.map_err(|error| if error == FsError::NotFound { Errno::NOENT } else { Errno::IO })?;
        let ids = recorded.map_or((stat.st_uid, stat.st_gid), |owner| (owner.uid, owner.gid));
        add_to_tally(self.of, OwnerIds::both(ids.0, ids.1), Usage { bytes, files: 1 });
        Ok(())
    }
}

struct CountVisitor<'l> {
    usage: Usage,
    /// Files with several names that are already counted.
    linked: HashSet<u64>,
    /// Files at the last call of `progress`.
    reported: u64,
    moves: bool,
    tally: Option<OwnerTally<'l>>,
    look: &'l mut dyn FnMut(u64, u64) -> Result<(), Errno>,
}

impl CountVisitor<'_> {
    fn report(&mut self) -> Result<(), Errno> {
        let new = self.usage.files - self.reported;
        self.reported = self.usage.files;
        (self.look)(new, self.reported)
    }

    fn count_file(&mut self) -> Result<(), Errno> {
        /// Files between two calls of `progress`.
        const STEP: u64 = 256;
        self.usage.files += 1;
        if self.usage.files.is_multiple_of(STEP) { self.report() } else { Ok(()) }
    }
}

impl Visitor for CountVisitor<'_> {
    fn enter(&mut self, dir: BorrowedFd<'_>) -> Result<(), Errno> {
        if self.moves {
            fchdir(dir)?;
        }
        let size = u64::try_from(fstat(dir)?.st_size).unwrap_or(0);
        let charged = INODE_BYTES + NAME_BYTES + directory(size) + xattrs_charged(dir)?;
        // The root comes first. A part of it is free for every volume.
        let free = if self.usage.files == 0 { ROOT_BYTES } else { 0 };
        self.usage.bytes += charged - free;
        self.count_file()
    }

    fn object(&mut self, dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
        let stat: Stat = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            // Another process may remove files during the walk.
            Err(Errno::NOENT) => return Ok(()),
            found => found?,
        };
        self.usage.bytes += NAME_BYTES;
        if stat.st_nlink > 1 && !self.linked.insert(stat.st_ino) {
            return Ok(());
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if let Some(tally) = &mut self.tally {
            match tally.add(dir, name, &stat) {
                // Removed just now.
                Err(Errno::NOENT) => {}
                added => added?,
            }
        }
        self.usage.bytes += INODE_BYTES
            + match Kind::from_raw_mode(stat.st_mode) {
                Kind::RegularFile => match xattrs_charged_at(dir, name, self.moves) {
                    // Removed just now.
                    Err(Errno::NOENT) => blocks(size),
                    charged => blocks(size) + charged?,
                },
                Kind::Symlink => symlink(size),
                _ => 0,
            };
        self.count_file()
    }

    fn leave(&mut self, _: BorrowedFd<'_>, _: &CStr) -> Result<bool, Errno> {
        Ok(false)
    }
}

/// Deletes the directory `name` in `dir` and everything below it. Stops with [`Errno::CANCELED`] once `stop` returns
/// true.
pub(crate) fn delete(dir: BorrowedFd<'_>, name: &CStr, stop: &dyn Fn() -> bool) -> Result<(), Errno> {
    let device = fstat(dir)?.st_dev;
    let mut deleting = DeleteVisitor { stop, tries: 0 };
    loop {
        let root = match enter(dir, name, device, &mut deleting) {
            // Not a directory of ours, but everything in the trash is deleted.
            Err(Errno::NOTDIR | Errno::LOOP) => return unlinkat(dir, name, AtFlags::empty()),
            entered => entered?,
        };
        let Some(root) = root else { return Ok(()) };
        walk(root, &mut deleting)?;
        if !deleting.leave(dir, name)? {
            return Ok(());
        }
    }
}

struct DeleteVisitor<'s> {
    stop: &'s dyn Fn() -> bool,
    /// Consecutive directories that were unexpectedly not empty.
    tries: u32,
}

impl Visitor for DeleteVisitor<'_> {
    fn enter(&mut self, dir: BorrowedFd<'_>) -> Result<(), Errno> {
        if rustix::process::geteuid().is_root() {
            return Ok(());
        }
        // Deleting entries needs the right to write.
        fchmod(dir, Mode::RWXU)
    }

    fn grant_access(&mut self, dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
        // The owner of the tree may grant itself access.
        chmodat(dir, name, Mode::RWXU, AtFlags::empty())
    }

    fn subvolume(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &CStr,
        root: OwnedFd,
    ) -> Result<Option<OwnedFd>, Errno> {
        match sys::destroy_subvolume(dir, name.to_bytes()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(None),
            // An ordinary user, an old kernel, or subvolumes in it: its files are deleted one by one.
            Err(_) => sys::clear_read_only(root.as_fd())?,
        }
        Ok(Some(root))
    }

    fn object(&mut self, dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
        if (self.stop)() {
            return Err(Errno::CANCELED);
        }
        match unlinkat(dir, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            done => done,
        }
    }

    fn leave(&mut self, dir: BorrowedFd<'_>, name: &CStr) -> Result<bool, Errno> {
        if (self.stop)() {
            return Err(Errno::CANCELED);
        }
        match unlinkat(dir, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {
                self.tries = 0;
                Ok(false)
            }
            // A call that was under way when the volume was removed has created another entry.
            Err(Errno::NOTEMPTY | Errno::EXIST) if self.tries < TRIES => {
                self.tries += 1;
                Ok(true)
            }
            Err(errno) => Err(errno),
        }
    }
}

//! Making objects, so that none is ever seen with wider rights than it was asked for.

use crate::attr::{set_mode, set_owner, set_times, timespec};
use crate::error::refused;
use crate::node::{Node, Rights};
use rustix::fs::{
    AtFlags, FileType as Kind, Mode, OFlags, Stat, Timestamps, fstat, makedev, mkdirat, mknodat, openat,
    symlinkat, unlinkat,
};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use vfs::attrs::MODE_BITS;
use vfs::{Attrs, Birth, Change, Device, FileType, Found, FsResult, Made, Name, Pace, Special};

impl Node {
    /// Makes a regular file. Its node keeps the descriptor.
    pub(crate) fn make_file(&self, name: Name<'_>, birth: &Birth) -> FsResult<Made> {
        self.make(
            name,
            AtFlags::empty(),
            |dir, name| {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW;
                let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
                let fd = openat(dir.fd(), name, flags, first_mode(birth.mode)).map_err(refused)?;
                Ok((fd, Rights::Write))
            },
            birth,
        )
    }

    /// Makes a directory.
    pub(crate) fn make_directory(&self, name: Name<'_>, birth: &Birth) -> FsResult<Made> {
        self.make(
            name,
            AtFlags::REMOVEDIR,
            |dir, name| {
                mkdirat(dir.fd(), name, first_mode(birth.mode)).map_err(refused)?;
                Ok((dir.mount.open_name(dir.fd(), name, Pace::Wait)?, Rights::Path))
            },
            birth,
        )
    }

    /// Makes a symbolic link, FIFO, socket or device.
    pub(crate) fn make_other(&self, name: Name<'_>, special: Special<'_>, birth: &Birth) -> FsResult<Made> {
        let number = |device: Device| makedev(device.major, device.minor);
        self.make(
            name,
            AtFlags::empty(),
            |dir, name| {
                let make = |kind, device| mknodat(dir.fd(), name, kind, first_mode(birth.mode), device);
                match special {
                    Special::Symlink(target) => symlinkat(target, dir.fd(), name),
                    Special::Fifo => make(Kind::Fifo, 0),
                    Special::Socket => make(Kind::Socket, 0),
                    Special::Block(device) => make(Kind::BlockDevice, number(device)),
                    Special::Character(device) => make(Kind::CharacterDevice, number(device)),
                }
                .map_err(refused)?;
                Ok((dir.mount.open_name(dir.fd(), name, Pace::Wait)?, Rights::Path))
            },
            birth,
        )
    }

    /// Makes an object with `open`, gives it what `birth` says, and its node. On failure the name is taken away again.
    fn make(
        &self,
        name: Name<'_>,
        removal: AtFlags,
        open: impl FnOnce(&Self, &[u8]) -> FsResult<(OwnedFd, Rights)>,
        birth: &Birth,
    ) -> FsResult<Made> {
        let listing = self.as_dir()?;
        let _held = self.lock_change();
        let before = self.attrs_now()?;
        let (fd, rights) = open(self, name.bytes())?;
        let (node, attrs, mended) = self.finish(fd, rights, birth).inspect_err(|_| {
            // Best effort: the refusal is what the caller must hear.
            let _removed = unlinkat(self.fd(), name.bytes(), removal);
        })?;
        if mended {
            listing.remember(&node);
        }
        let dir = Change { before, after: self.attrs_now()? };
        Ok(Made { found: Found { node, attrs }, dir })
    }

    fn finish(&self, fd: OwnedFd, rights: Rights, birth: &Birth) -> FsResult<(Arc<Node>, Attrs, bool)> {
        let (stat, mended) = settle(&fd, birth)?;
        let key = self.mount.key_at(fd.as_fd(), b"")?;
        let node = Node::new(Arc::clone(&self.mount), key, fd, rights, &stat)?;
        let node = self.mount.table.insert(node);
        let attrs = node.attrs_from(&stat)?;
        Ok((node, attrs, mended))
    }
}

/// The mode to be born with while the owner is still the server's.
///
/// Before the owner is set, the owner-to-be and the members of the group-to-be are "others", and the server's group is
/// the group. So others and group get only what all three classes get in the end, the same for both. Usual modes
/// (0644, 0755, 0600) keep theirs and need no second step.
fn first_mode(mode: u32) -> Mode {
    let all = mode & mode >> 3 & mode >> 6 & 0o7;
    Mode::from_raw_mode(mode & 0o700 | all << 3 | all)
}

/// Gives a new object the owner, mode and times of `birth` where they differ; tells its state, and whether they did.
fn settle(fd: &OwnedFd, birth: &Birth) -> FsResult<(Stat, bool)> {
    let mut stat = fstat(fd).map_err(refused)?;
    let mut mended = false;
    if (stat.st_uid, stat.st_gid) != (birth.uid, birth.gid) {
        set_owner(fd.as_fd(), Some(birth.uid), Some(birth.gid)).map_err(refused)?;
        mended = true;
    }
    let is_link = crate::attr::file_type(&stat)? == FileType::Symlink;
    if stat.st_mode & MODE_BITS != birth.mode & MODE_BITS && !is_link {
        set_mode(fd.as_fd(), birth.mode & MODE_BITS).map_err(refused)?;
        mended = true;
    }
    if let Some((accessed, modified)) = birth.times {
        let times = Timestamps { last_access: timespec(accessed), last_modification: timespec(modified) };
        set_times(fd.as_fd(), &times).map_err(refused)?;
        mended = true;
    }
    if mended {
        stat = fstat(fd).map_err(refused)?;
    }
    Ok((stat, mended))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_has_more_before_the_owner_is_set() {
        for mode in 0..0o1000 {
            let first = first_mode(mode).as_raw_mode();
            let (owner, group, others) = (mode >> 6 & 7, mode >> 3 & 7, mode & 7);
            for class in [owner, group, others] {
                assert_eq!(first & 7 & !class, 0, "others of {mode:o}");
                assert_eq!(first >> 3 & 7 & !class, 0, "group of {mode:o}");
            }
        }
        assert_eq!(first_mode(0o755).as_raw_mode(), 0o755);
        assert_eq!(first_mode(0o600).as_raw_mode(), 0o600);
        assert_eq!(first_mode(0o640).as_raw_mode(), 0o600);
    }
}

//! Making objects, so that none is ever seen with wider rights than it was asked for.

use super::entries::link_open;
use crate::error::refused;
use crate::node::attr::{file_type, set_mode, set_owner, set_times, timespec};
use crate::node::counter::Sight;
use crate::node::fs_uid::{FsUidGuard, is_own, own_uid};
use crate::node::owner::{Owner, carries};
use crate::node::{Node, Rights};
use rustix::fs::{
    AtFlags, FileType as Kind, Mode, OFlags, Stat, Timestamps, fstat, ftruncate, makedev, mkdirat, mknodat,
    openat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::backend::charge;
use vfs::backend::charge::{BLOCK_BYTES, blocks};
use vfs::model::attrs::MODE_BITS;
use vfs::{
    Acls, Attrs, AuthorizeCreate, Blocking, Change, CreatedEntry, Device, FileType, FsError, FsResult,
    Lookup, Name, NewInode, Special,
};

/// The permissions among the bits of a mode.
const PERMISSIONS: u32 = 0o777;

/// A new object that has its name.
struct Created {
    node: Arc<Node>,
    attrs: Attrs,
    /// It was given something after it had its name.
    was_adjusted: bool,
}

/// What can be known of an object that was made and is then opened by its name.
struct Maker {
    file_type: FileType,
    /// Whom a new object belongs to.
    uid: u32,
}

impl Maker {
    /// Whether an object in this state can be the one that was made. Who may write the directory on this machine can put
    /// another one in its place, which must not be given away.
    fn can_have_made(&self, stat: &Stat, any_owner: bool) -> FsResult<bool> {
        let is_new = self.file_type == FileType::Directory || stat.st_nlink == 1;
        Ok(file_type(stat)? == self.file_type && is_new && (any_owner || stat.st_uid == self.uid))
    }
}

impl Node {
    /// Makes a regular file. Its node keeps the descriptor.
    pub(crate) fn make_file(&self, name: Name<'_>, authorize: AuthorizeCreate<'_>) -> FsResult<CreatedEntry> {
        self.make(name, 0, authorize, |new_inode| {
            let needs_adjusting =
                new_inode.times.is_some() || new_inode.size > 0 || !self.can_assume_owner(new_inode);
            if (self.mount.owner_attribute || needs_adjusting)
                && !self.mount.no_tmpfile.load(Ordering::Relaxed)
                && let Some(created) = self.make_complete(name, new_inode)?
            {
                return Ok(created);
            }
            self.make_named(name, FileType::Regular, new_inode, |dir, name, mode| {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW;
                let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
                openat(dir, name, flags, mode).map(Some)
            })
        })
    }

    /// Makes a directory.
    pub(crate) fn make_directory(
        &self,
        name: Name<'_>,
        authorize: AuthorizeCreate<'_>,
    ) -> FsResult<CreatedEntry> {
        self.make(name, BLOCK_BYTES, authorize, |new_inode| {
            self.make_named(name, FileType::Directory, new_inode, |dir, name, mode| {
                mkdirat(dir, name, mode).map(|()| None)
            })
        })
    }

    /// Makes a symbolic link, FIFO, socket or device.
    pub(crate) fn make_other(
        &self,
        name: Name<'_>,
        special: Special<'_>,
        authorize: AuthorizeCreate<'_>,
    ) -> FsResult<CreatedEntry> {
        let number = |device: Device| makedev(device.major, device.minor);
        let (file_type, kind, device) = match special {
            Special::Symlink(target) => {
                let content = charge::symlink(target.len() as u64);
                return self.make(name, content, authorize, |new_inode| {
                    self.make_named(name, FileType::Symlink, new_inode, |dir, name, _| {
                        symlinkat(target, dir, name).map(|()| None)
                    })
                });
            }
            Special::Fifo => (FileType::Fifo, Kind::Fifo, 0),
            Special::Socket => (FileType::Socket, Kind::Socket, 0),
            Special::Block(device) => (FileType::Block, Kind::BlockDevice, number(device)),
            Special::Character(device) => (FileType::Character, Kind::CharacterDevice, number(device)),
        };
        self.make(name, 0, authorize, |new_inode| {
            self.make_named(name, file_type, new_inode, |dir, name, mode| {
                mknodat(dir, name, kind, mode, device).map(|()| None)
            })
        })
    }

    /// Makes an object by `act`, if `authorize` allows it, and says what that did to this directory. `content` is what it is
    /// charged beside its size.
    fn make(
        &self,
        name: Name<'_>,
        content: u64,
        authorize: AuthorizeCreate<'_>,
        act: impl FnOnce(&NewInode) -> FsResult<Created>,
    ) -> FsResult<CreatedEntry> {
        let mut held = self.lock_change();
        let before = self.attrs_now()?;
        let new_inode = authorize(&before)?;
        new_inode.check_ids()?;
        if new_inode.size > self.mount.file_bytes_max {
            return Err(FsError::FileTooBig);
        }
        let directory = self.as_dir()?;
        let relisting = self.mount.relist(self, before.size);
        let most = content.saturating_add(blocks(new_inode.size));
        let newborn = self.mount.newborn(self.fd(), name.bytes(), most)?;
        let Created { node, attrs, was_adjusted } = act(&new_inode)?;
        // Other clients may have written to it since it got its name, and have paid for that.
        newborn.keep_with(match node.kind {
            FileType::Regular => blocks(new_inode.size),
            FileType::Directory => charge::directory(attrs.size.min(self.mount.block_bytes)),
            _ => content,
        });
        if was_adjusted || !self.mount.new_inodes_follow_dir {
            directory.remember(&node);
        }
        self.mount.record(&node.key, &self.key, name.bytes());
        let dir = Change { before, after: held.attrs_after(&before)? };
        relisting.end(dir.after.size);
        Ok(CreatedEntry { found: Lookup { node, attrs }, dir })
    }

    /// Makes an object with `open`, gives it what `new_inode` says, and its node. On failure the name is
    /// taken away again.
    fn make_named(
        &self,
        name: Name<'_>,
        file_type: FileType,
        new_inode: &NewInode,
        open: impl FnOnce(BorrowedFd<'_>, &[u8], Mode) -> Result<Option<OwnedFd>, Errno>,
    ) -> FsResult<Created> {
        let (opened, maker) = {
            let (guard, mode) = self.assume_owner(file_type, new_inode)?;
            let opened = open(self.fd(), name.bytes(), Mode::from_raw_mode(mode))
                .map_err(|errno| self.or_stale(refused(errno)))?;
            (opened, Maker { file_type, uid: if guard.is_some() { new_inode.uid } else { own_uid() } })
        };
        self.finish(name, opened, &maker, new_inode).inspect_err(|_| {
            let directory = file_type == FileType::Directory;
            let flags = if directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            // Best effort: the refusal is what the caller must hear.
            if unlinkat(self.fd(), name.bytes(), flags).is_err() {
                self.mount.doubt();
            }
        })
    }

    /// Makes a regular file without a name, gives it what `new_inode` says, and only then its name; `None` if
    /// the file system cannot. The name comes last, so the flush of the directory covers all of it.
    fn make_complete(&self, name: Name<'_>, new_inode: &NewInode) -> FsResult<Option<Created>> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let opened = {
            let (_acting, mode) = self.assume_owner(FileType::Regular, new_inode)?;
            openat(self.fd(), ".", flags, Mode::from_raw_mode(mode))
        };
        let fd = match opened {
            Ok(fd) => fd,
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => {
                self.mount.no_tmpfile.store(true, Ordering::Relaxed);
                return Ok(None);
            }
            Err(errno) => return Err(self.or_stale(refused(errno))),
        };
        self.adjust(fd.as_fd(), new_inode)?;
        link_open(fd.as_fd(), self.fd(), name.bytes()).map_err(|errno| self.or_stale(refused(errno)))?;
        let stat = fstat(&fd).map_err(refused)?;
        let (node, attrs) = self.enroll(fd, Rights::Write, &stat).inspect_err(|_| self.mount.doubt())?;
        Ok(Some(Created { node, attrs, was_adjusted: false }))
    }

    /// Whether a file of `new_inode` can be created with the right owner.
    fn can_assume_owner(&self, new_inode: &NewInode) -> bool {
        makes_own(new_inode) || FsUidGuard::is_possible()
    }

    /// Makes this thread create files as the owner of the new object, if it can; returns the mode to create
    /// with.
    fn assume_owner(&self, file_type: FileType, new_inode: &NewInode) -> FsResult<(Option<FsUidGuard>, u32)> {
        let owner = Owner { uid: new_inode.uid, gid: new_inode.gid, mode: new_inode.mode };
        if self.mount.owner_attribute {
            let mode = if carries(file_type) {
                owner.real_mode(file_type == FileType::Directory)
            } else {
                new_inode.mode & MODE_BITS
            };
            return Ok((None, mode));
        }
        if makes_own(new_inode) {
            return Ok((None, new_inode.mode & MODE_BITS));
        }
        Ok(match FsUidGuard::begin(new_inode.uid, new_inode.gid)? {
            Some(guard) => (Some(guard), new_inode.mode & MODE_BITS),
            None => (None, first_mode(new_inode.mode)),
        })
    }

    fn finish(
        &self,
        name: Name<'_>,
        opened: Option<OwnedFd>,
        maker: &Maker,
        new_inode: &NewInode,
    ) -> FsResult<Created> {
        let (fd, rights) = match opened {
            Some(fd) => (fd, Rights::Write),
            None => {
                let fd = self.mount.open_name(self.fd(), name.bytes(), Blocking::Allowed)?;
                let stat = fstat(&fd).map_err(refused)?;
                // With the owner attribute, who really owns it does not matter.
                if !maker.can_have_made(&stat, self.mount.owner_attribute)? {
                    return Err(FsError::NotOwner);
                }
                (fd, Rights::Path)
            }
        };
        let (stat, was_adjusted) = self.adjust(fd.as_fd(), new_inode)?;
        let (node, attrs) = self.enroll(fd, rights, &stat)?;
        Ok(Created { node, attrs, was_adjusted })
    }

    /// The node of a new object, which keeps the descriptor.
    fn enroll(&self, fd: OwnedFd, rights: Rights, stat: &Stat) -> FsResult<(Arc<Node>, Attrs)> {
        let key = self.mount.key_at(fd.as_fd(), b"")?;
        let node = Node::new(Arc::clone(&self.mount), key, fd, rights, stat)?;
        // Before the node is in the table: somebody may remove the file as soon as it has a name.
        let attrs = node.attrs_from(&Sight::new(*stat, node.ahead.distance()))?;
        Ok((self.mount.table.insert(node), attrs))
    }

    /// The mode that a new object of this directory is to have, which was made as `stat` says. The list that the directory hands on
    /// may have taken permissions of those asked for, and set again they would be a wider mask.
    fn mode_of_new(&self, new_inode: &NewInode, stat: &Stat) -> FsResult<u32> {
        let asked = new_inode.mode & MODE_BITS;
        // The owner attribute has the whole mode, which the real one does not tell.
        let is_exact = !self.mount.owner_attribute && (stat.st_mode ^ asked) & PERMISSIONS == 0;
        if is_exact || !self.mount.acls || file_type(stat)? == FileType::Symlink {
            return Ok(asked);
        }
        Ok(self.default_acl()?.map_or(asked, |acl| acl.mode_of_new(asked)))
    }

    /// Gives a new object the owner, mode, size and times of `new_inode` where they differ; tells its state,
    /// and whether any did. An error if it belongs to somebody else after all: the caller takes its name
    /// away.
    fn adjust(&self, fd: BorrowedFd<'_>, new_inode: &NewInode) -> FsResult<(Stat, bool)> {
        let stat = fstat(fd).map_err(refused)?;
        let file_type = file_type(&stat)?;
        let mut mode = self.mode_of_new(new_inode, &stat)?;
        let mut was_adjusted = false;
        if self.mount.owner_attribute {
            // What cannot carry the attribute belongs to whom it really belongs.
            if carries(file_type) {
                let owner = Owner { uid: new_inode.uid, gid: new_inode.gid, mode };
                owner.write(fd)?;
                mode = owner.real_mode(file_type == FileType::Directory);
                was_adjusted = true;
            }
        } else if (stat.st_uid, stat.st_gid) != (new_inode.uid, new_inode.gid) {
            set_owner(fd, Some(new_inode.uid), Some(new_inode.gid)).map_err(refused)?;
            was_adjusted = true;
        }
        // A change of owner may have taken set-id bits.
        let set_id = was_adjusted && mode & 0o7000 != 0;
        if file_type != FileType::Symlink && (set_id || stat.st_mode & MODE_BITS != mode) {
            set_mode(fd, mode).map_err(refused)?;
            was_adjusted = true;
        }
        if new_inode.size > 0 && file_type == FileType::Regular {
            ftruncate(fd, new_inode.size).map_err(refused)?;
            was_adjusted = true;
        }
        if let Some((accessed, modified)) = new_inode.times {
            let times = Timestamps { last_access: timespec(accessed), last_modification: timespec(modified) };
            set_times(fd, &times).map_err(refused)?;
            was_adjusted = true;
        }
        let stat = if was_adjusted { fstat(fd).map_err(refused)? } else { stat };
        // Some file systems take a change of owner and do nothing.
        let is_wrong =
            !self.mount.owner_attribute && (stat.st_uid, stat.st_gid) != (new_inode.uid, new_inode.gid);
        if is_wrong { Err(FsError::NotOwner) } else { Ok((stat, was_adjusted)) }
    }
}

/// Whether new files belong to the owner of `new_inode` by themselves.
fn makes_own(new_inode: &NewInode) -> bool {
    is_own(new_inode.uid, new_inode.gid)
}

/// The mode to create with while the owner is still the server's.
///
/// Before the owner is set, the owner-to-be and the members of the group-to-be are "others", and the server's group is
/// the group. So others and group get only what all three classes get in the end, the same for both. Usual modes
/// (0644, 0755, 0600) keep theirs and need no second step.
fn first_mode(mode: u32) -> u32 {
    let all = mode & mode >> 3 & mode >> 6 & 0o7;
    mode & 0o700 | all << 3 | all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_has_more_before_the_owner_is_set() {
        for mode in 0..0o1000 {
            let first = first_mode(mode);
            let (owner, group, others) = (mode >> 6 & 7, mode >> 3 & 7, mode & 7);
            for class in [owner, group, others] {
                assert_eq!(first & 7 & !class, 0, "others of {mode:o}");
                assert_eq!(first >> 3 & 7 & !class, 0, "group of {mode:o}");
            }
        }
        assert_eq!(first_mode(0o755), 0o755);
        assert_eq!(first_mode(0o600), 0o600);
        assert_eq!(first_mode(0o640), 0o600);
    }
}

//! Creates objects without ever exposing wider rights than requested.

use super::entries::link_open;
use crate::error::refused;
use crate::node::attr::{file_type, set_mode, set_owner, set_times, timespec};
use crate::node::counter::VersionedStat;
use crate::node::fs_uid::{FsUidGuard, is_own, own_uid};
use crate::node::owner::{Owner, carries};
use crate::node::owners::ids_of;
use crate::node::preserve::Space;
use crate::node::{Node, Rights};
use rustix::fs::{
    AtFlags, FileType as Kind, Mode, OFlags, Stat, Timestamps, fstat, ftruncate, makedev, mkdirat, mknodat,
    openat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use storage::OwnerIds;
use vfs::backend::charge;
use vfs::backend::charge::{BLOCK_BYTES, blocks};
use vfs::model::attrs::MODE_BITS;
use vfs::{
    Acls, Attrs, AuthorizeCreate, Blocking, Change, CreatedEntry, Device, FileType, FsError, FsResult,
    Lookup, Name, NewInode, Special,
};

const PERMISSIONS: u32 = 0o777;

struct Created {
    node: Arc<Node>,
    attrs: Attrs,
    /// An attribute was set after the object got its name.
    was_adjusted: bool,
}

/// Checks an object that was created and then opened by name.
struct ExpectedObject {
    file_type: FileType,
    uid: u32,
}

impl ExpectedObject {
    /// Whether an object with this `stat` can be the one just created. A local user who may write the directory can
    /// swap in another object, which must not be handed to the new owner.
    fn matches(&self, stat: &Stat, any_owner: bool) -> FsResult<bool> {
        let is_new = self.file_type == FileType::Directory || stat.st_nlink == 1;
        Ok(file_type(stat)? == self.file_type && is_new && (any_owner || stat.st_uid == self.uid))
    }
}

impl Node {
    /// Creates a regular file. Its node keeps the descriptor.
    pub(crate) fn make_file(&self, name: Name<'_>, authorize: AuthorizeCreate<'_>) -> FsResult<CreatedEntry> {
        self.make(name, FileType::Regular, 0, authorize, |new_inode| {
            let needs_adjusting =
                new_inode.times.is_some() || new_inode.size > 0 || !self.can_create_as_owner(new_inode);
            if (self.mount.owner_attribute || needs_adjusting)
                && !self.mount.no_tmpfile.load(Ordering::Relaxed)
                && let Some(created) = self.make_unnamed_then_link(name, new_inode)?
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

    pub(crate) fn make_directory(
        &self,
        name: Name<'_>,
        authorize: AuthorizeCreate<'_>,
    ) -> FsResult<CreatedEntry> {
        self.make(name, FileType::Directory, BLOCK_BYTES, authorize, |new_inode| {
            self.make_named(name, FileType::Directory, new_inode, |dir, name, mode| {
                mkdirat(dir, name, mode).map(|()| None)
            })
        })
    }

    /// Creates a symbolic link, FIFO, socket or device.
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
                return self.make(name, FileType::Symlink, content, authorize, |new_inode| {
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
        self.make(name, file_type, 0, authorize, |new_inode| {
            self.make_named(name, file_type, new_inode, |dir, name, mode| {
                mknodat(dir, name, kind, mode, device).map(|()| None)
            })
        })
    }

    /// Creates an object with `act`, if `authorize` allows it, and returns the change of this directory. `content` is
    /// the charge besides the object's size.
    fn make(
        &self,
        name: Name<'_>,
        file_type: FileType,
        content: u64,
        authorize: AuthorizeCreate<'_>,
        act: impl FnOnce(&NewInode) -> FsResult<Created>,
    ) -> FsResult<CreatedEntry> {
        let mut guard = self.lock_change();
        let before = self.attrs_now()?;
        let new_inode = authorize(&before)?;
        new_inode.check_ids()?;
        if new_inode.size > self.mount.file_bytes_max {
            return Err(FsError::FileTooBig);
        }
        let directory = self.as_dir()?;
        if let Some(preserving) = self.preserving(Space::Needed) {
            preserving.new_name(self, &before, name.bytes())?;
        }
        let entries_charge = self.begin_entry_change(before.size)?;
        let content_max = content.saturating_add(blocks(new_inode.size));
        let owned = (file_type != FileType::Directory).then(|| {
            let ids = OwnerIds::both(new_inode.uid, new_inode.gid);
            (ids, vfs::backend::quotas::charge(file_type, new_inode.size))
        });
        let charge_guard = self.mount.charge_new_object(self.fd(), name.bytes(), content_max, owned)?;
        let Created { node, attrs, was_adjusted } = act(&new_inode)?;
        // Writes since then are already charged by other calls.
        let content = match node.kind {
            FileType::Regular => blocks(new_inode.size),
            FileType::Directory => charge::directory(attrs.size.min(self.mount.block_bytes)),
            _ => content,
        };
        // A file that has its name may have another owner by now; one that cannot carry the attribute has no other.
        let has_real_owner = self.mount.owner_attribute && !carries(node.kind);
        charge_guard.commit_with(content, has_real_owner.then(|| ids_of(&attrs)));
        if was_adjusted || !self.mount.new_inodes_follow_dir {
            directory.unflushed.lock().add(&node);
        }
        self.mount.record(&node.key, &self.key, name.bytes());
        let dir = Change { before, after: guard.attrs_after(&before)? };
        entries_charge.finish(dir.after.size);
        Ok(CreatedEntry { found: Lookup { node, attrs }, dir })
    }

    /// Creates an object with `open`, applies `new_inode`, and makes its node. Removes the name on failure.
    fn make_named(
        &self,
        name: Name<'_>,
        file_type: FileType,
        new_inode: &NewInode,
        open: impl FnOnce(BorrowedFd<'_>, &[u8], Mode) -> Result<Option<OwnedFd>, Errno>,
    ) -> FsResult<Created> {
        let _naming = self.mount.owner_ledger().map(|_| self.mount.naming.read());
        let (opened, expected) = {
            let (guard, mode) = self.assume_owner(file_type, new_inode)?;
            let opened = open(self.fd(), name.bytes(), Mode::from_raw_mode(mode))
                .map_err(|errno| self.or_stale(refused(errno)))?;
            (
                opened,
                ExpectedObject { file_type, uid: if guard.is_some() { new_inode.uid } else { own_uid() } },
            )
        };
        self.finish(name, opened, &expected, new_inode).inspect_err(|_| {
            let directory = file_type == FileType::Directory;
            let flags = if directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            // Best effort: the caller needs the first error.
            if unlinkat(self.fd(), name.bytes(), flags).is_err() {
                self.mount.mark_count_doubtful();
            }
        })
    }

    /// Creates a regular file without a name, applies `new_inode`, then links it; `None` if the file system cannot. The
    /// name comes last, so a flush of the directory covers the attributes too.
    fn make_unnamed_then_link(&self, name: Name<'_>, new_inode: &NewInode) -> FsResult<Option<Created>> {
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
        let (node, attrs) =
            self.insert_node(fd, Rights::Write, &stat).inspect_err(|_| self.mount.mark_count_doubtful())?;
        Ok(Some(Created { node, attrs, was_adjusted: false }))
    }

    fn can_create_as_owner(&self, new_inode: &NewInode) -> bool {
        makes_own(new_inode) || FsUidGuard::is_possible()
    }

    /// Makes this thread create files as the owner of the new object, if possible. Returns the mode to create with.
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
            None => (None, mode_before_chown(new_inode.mode)),
        })
    }

    fn finish(
        &self,
        name: Name<'_>,
        opened: Option<OwnedFd>,
        expected: &ExpectedObject,
        new_inode: &NewInode,
    ) -> FsResult<Created> {
        let (fd, rights) = match opened {
            Some(fd) => (fd, Rights::Write),
            None => {
                let fd = self.mount.open_name(self.fd(), name.bytes(), Blocking::Allowed)?;
                let stat = fstat(&fd).map_err(refused)?;
                // With the owner attribute the real owner does not matter.
                if !expected.matches(&stat, self.mount.owner_attribute)? {
                    return Err(FsError::NotOwner);
                }
                (fd, Rights::Path)
            }
        };
        let (stat, was_adjusted) = self.adjust(fd.as_fd(), new_inode)?;
        let (node, attrs) = self.insert_node(fd, rights, &stat)?;
        Ok(Created { node, attrs, was_adjusted })
    }

    fn insert_node(&self, fd: OwnedFd, rights: Rights, stat: &Stat) -> FsResult<(Arc<Node>, Attrs)> {
        let key = self.mount.key_at(fd.as_fd(), b"")?;
        let node = Node::new(Arc::clone(&self.mount), key, fd, rights, stat)?;
        if let Some(undo) = self.mount.undo() {
            undo.note_birth(node.birth_time)?;
        }
        // Before the node is in the table: another call may remove the file as soon as it has a name.
        let attrs = node.attrs_from(&VersionedStat::new(*stat, node.counter_offset.load()))?;
        Ok((self.mount.table.insert(node), attrs))
    }

    /// The final mode of a new object that was created with `stat`. An inherited default ACL may have removed
    /// permissions; setting the requested mode again would widen the ACL mask.
    fn mode_of_new(&self, new_inode: &NewInode, stat: &Stat) -> FsResult<u32> {
        let requested = new_inode.mode & MODE_BITS;
        // The owner attribute holds the whole mode, the real mode only a part.
        let is_exact = !self.mount.owner_attribute && (stat.st_mode ^ requested) & PERMISSIONS == 0;
        if is_exact || !self.mount.acls || file_type(stat)? == FileType::Symlink {
            return Ok(requested);
        }
        Ok(self.default_acl()?.map_or(requested, |acl| acl.mode_of_new(requested)))
    }

    /// Sets the owner, mode, size and times of `new_inode` where they differ. Returns the new state and whether
    /// anything was set. An error if the owner is still wrong: the caller then removes the name.
    fn adjust(&self, fd: BorrowedFd<'_>, new_inode: &NewInode) -> FsResult<(Stat, bool)> {
        let stat = fstat(fd).map_err(refused)?;
        let file_type = file_type(&stat)?;
        let mut mode = self.mode_of_new(new_inode, &stat)?;
        let mut was_adjusted = false;
        if self.mount.owner_attribute {
            // Other types cannot carry the attribute and keep their real owner.
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
        // A change of owner may have cleared set-id bits.
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
        // Some file systems accept a change of owner and ignore it.
        let is_wrong =
            !self.mount.owner_attribute && (stat.st_uid, stat.st_gid) != (new_inode.uid, new_inode.gid);
        if is_wrong { Err(FsError::NotOwner) } else { Ok((stat, was_adjusted)) }
    }
}

fn makes_own(new_inode: &NewInode) -> bool {
    is_own(new_inode.uid, new_inode.gid)
}

/// The mode to create with while the owner is still the server's.
///
/// Until the owner is set, the future owner and the members of the future group are "others", and the server's group is
/// the group. So group and others get only the permissions that all three classes have in the end. Usual modes (0644,
/// 0755, 0600) stay the same and need no second step.
fn mode_before_chown(mode: u32) -> u32 {
    let all = mode & mode >> 3 & mode >> 6 & 0o7;
    mode & 0o700 | all << 3 | all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mode_before_chown_grants_no_extra_rights() {
        for mode in 0..0o1000 {
            let first = mode_before_chown(mode);
            let (owner, group, others) = (mode >> 6 & 7, mode >> 3 & 7, mode & 7);
            for class in [owner, group, others] {
                assert_eq!(first & 7 & !class, 0, "others of {mode:o}");
                assert_eq!(first >> 3 & 7 & !class, 0, "group of {mode:o}");
            }
        }
        assert_eq!(mode_before_chown(0o755), 0o755);
        assert_eq!(mode_before_chown(0o600), 0o600);
        assert_eq!(mode_before_chown(0o640), 0o600);
    }
}

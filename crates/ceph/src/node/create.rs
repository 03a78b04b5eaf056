//! Creates objects that are never visible half-made.

use super::setattr::set_size;
use super::{Node, c_name};
use crate::error::refused;
use crate::ffi::{Created, Handle, Inode, Object, SetMask, Statx};
use crate::stat::time_spec;
use rustix::fs::makedev;
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use vfs::backend::charge::{BLOCK_BYTES, blocks, symlink};
use vfs::model::attrs::{MODE_BITS, SET_GID};
use vfs::model::name::LINK_BYTES_MAX;
use vfs::{
    Attrs, AuthorizeCreate, Change, CreatedEntry, Device, FileType, FsError, FsResult, Lookup, Name,
    NewInode, Special,
};

/// A new object in its directory.
struct Made {
    created: Created,
    handle: Option<Handle>,
    /// Attributes were set after the creation.
    was_adjusted: bool,
}

impl Node {
    pub(super) fn make_file(&self, name: Name<'_>, authorize: AuthorizeCreate<'_>) -> FsResult<CreatedEntry> {
        self.make(name, FileType::Regular, 0, authorize, |dir, name, new_inode| {
            let owners = (new_inode.uid, new_inode.gid);
            let (created, handle) = dir.create(name, new_inode.mode & MODE_BITS, owners)?;
            Ok((created, Some(handle)))
        })
    }

    pub(super) fn make_directory(
        &self,
        name: Name<'_>,
        authorize: AuthorizeCreate<'_>,
    ) -> FsResult<CreatedEntry> {
        self.make(name, FileType::Directory, BLOCK_BYTES, authorize, |dir, name, new_inode| {
            make_object(dir, name, Object::Directory, new_inode)
        })
    }

    /// Creates a symbolic link, FIFO, socket or device.
    pub(super) fn make_other(
        &self,
        name: Name<'_>,
        special: Special<'_>,
        authorize: AuthorizeCreate<'_>,
    ) -> FsResult<CreatedEntry> {
        let number = |device: Device| makedev(device.major, device.minor);
        let (file_type, kind, device) = match special {
            Special::Symlink(target) => {
                let content = symlink(target.len() as u64);
                return self.make(name, FileType::Symlink, content, authorize, |dir, name, new_inode| {
                    let target = CString::new(target).map_err(|_| Errno::INVAL)?;
                    match target.count_bytes() {
                        0 => Err(Errno::INVAL),
                        len if len > LINK_BYTES_MAX => Err(Errno::NAMETOOLONG),
                        _ => make_object(dir, name, Object::Symlink(&target), new_inode),
                    }
                });
            }
            Special::Fifo => (FileType::Fifo, libc::S_IFIFO, 0),
            Special::Socket => (FileType::Socket, libc::S_IFSOCK, 0),
            Special::Block(device) => (FileType::Block, libc::S_IFBLK, number(device)),
            Special::Character(device) => (FileType::Character, libc::S_IFCHR, number(device)),
        };
        self.make(name, file_type, 0, authorize, |dir, name, new_inode| {
            make_object(dir, name, Object::Special { kind, device }, new_inode)
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
        act: impl FnOnce(&Inode, &CStr, &NewInode) -> Result<(Created, Option<Handle>), Errno>,
    ) -> FsResult<CreatedEntry> {
        let mut guard = self.lock_change();
        let before = self.attrs_now()?;
        let new_inode = authorize(&before)?;
        new_inode.check_ids()?;
        if new_inode.size > self.tree.file_bytes_max {
            return Err(FsError::FileTooBig);
        }
        let directory = self.as_dir()?;
        let (dir, c_name) = (self.inode()?, c_name(name)?);
        let entries_charge = self.begin_entry_change(before.size)?;
        let size = if file_type == FileType::Regular { blocks(new_inode.size) } else { 0 };
        let content = content.saturating_add(size);
        let charge = self.tree.charge_new_object(&dir, &c_name, file_type, content, &new_inode)?;
        let made = if is_visible_whole(&before, file_type, &new_inode) {
            let made = act(&dir, &c_name, &new_inode).map_err(|errno| self.or_stale(refused(errno)))?;
            Made { created: made.0, handle: made.1, was_adjusted: false }
        } else {
            self.make_then_rename(&dir, &c_name, &new_inode, act)?
        };
        self.tree.note_new(&made.created.stat);
        self.tree.cluster.note_change();
        charge.commit();
        let Made { created, handle, was_adjusted } = made;
        let node = self.tree.adopt(created.inode, &created.stat)?;
        if let Some(handle) = handle {
            node.set_writer(handle);
        }
        if was_adjusted {
            directory.unflushed.lock().add(&node);
        }
        let attrs = node.attrs_now()?;
        let dir = Change { before, after: guard.attrs_after(&before)? };
        entries_charge.finish(dir.after.size);
        Ok(CreatedEntry { found: Lookup { node, attrs }, dir })
    }

    /// Creates an object under a name that no client sees, gives it all its attributes, and moves it to its name.
    fn make_then_rename(
        &self,
        dir: &Inode,
        name: &CStr,
        new_inode: &NewInode,
        act: impl FnOnce(&Inode, &CStr, &NewInode) -> Result<(Created, Option<Handle>), Errno>,
    ) -> FsResult<Made> {
        // A rename would replace it. Only this service makes names here, and this directory is locked.
        if dir.lookup(name).is_ok() {
            return Err(FsError::Exists);
        }
        let (staging, draft) = self.tree.staging_name()?;
        let (created, handle) = act(&staging, &draft, new_inode).map_err(refused)?;
        let finished = adjust(&created.inode, new_inode).and_then(|()| staging.rename(&draft, dir, name));
        if let Err(errno) = finished {
            // Best effort: the next opening of the volume empties the directory.
            let _removed = staging.unlink(&draft).or_else(|_| staging.remove_dir(&draft));
            return Err(self.or_stale(refused(errno)));
        }
        Ok(Made { created, handle, was_adjusted: true })
    }
}

fn make_object(
    dir: &Inode,
    name: &CStr,
    object: Object<'_>,
    new_inode: &NewInode,
) -> Result<(Created, Option<Handle>), Errno> {
    let owners = (new_inode.uid, new_inode.gid);
    Ok((dir.make(name, object, new_inode.mode & MODE_BITS, owners)?, None))
}

/// Whether one call gives a new object all its attributes. In a set-group-id directory the engine sets the group, and the
/// bit of a directory, by itself.
fn is_visible_whole(dir: &Attrs, file_type: FileType, new_inode: &NewInode) -> bool {
    let inherits = dir.mode & SET_GID != 0;
    let is_inherited =
        new_inode.gid == dir.gid && (file_type != FileType::Directory || new_inode.mode & SET_GID != 0);
    new_inode.times.is_none() && new_inode.size == 0 && (!inherits || is_inherited)
}

/// Sets the size and the times of a new object.
fn adjust(inode: &Inode, new_inode: &NewInode) -> Result<(), Errno> {
    let (mut mask, mut stat) = (SetMask::default(), Statx::default());
    if new_inode.size > 0 {
        set_size(inode, new_inode.size)?;
    }
    if let Some((accessed, modified)) = new_inode.times {
        (stat.accessed, stat.modified) = (time_spec(accessed), time_spec(modified));
        mask.add(SetMask::ACCESSED);
        mask.add(SetMask::MODIFIED);
    }
    if mask.is_empty() { Ok(()) } else { inode.set_attrs(mask, &stat) }
}

//! Sets attributes.

use super::Node;
use crate::error::refused;
use crate::ffi::{Inode, SetMask, Statx};
use crate::stat::time_spec;
use rustix::io::Errno;
use std::time::{SystemTime, UNIX_EPOCH};
use vfs::acl::access::set_id_bits;
use vfs::model::attrs::MODE_BITS;
use vfs::{Attrs, AuthorizeSetattr, Change, FileType, FsError, FsResult, SetAttrs, SetTime, Time};

impl Node {
    pub(super) fn set_attributes(&self, authorize: AuthorizeSetattr<'_>) -> FsResult<Change> {
        let mut guard = self.lock_change();
        let before = self.attrs_now()?;
        let set = authorize(&before)?;
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
        if set.size.is_some_and(|size| size > self.tree.file_bytes_max) {
            return Err(FsError::FileTooBig);
        }
        let inode = self.inode()?;
        let moving = self.begin_owner_move(&guard, &before, &set)?;
        if let Some(size) = set.size {
            let resize = self.tree.charge_resize(&guard, &before, size)?;
            guard.begin();
            let result = set_size(&inode, size);
            resize.end(if result.is_ok() { size } else { before.size });
            result.map_err(refused)?;
        }
        let (mask, stat) = request(self.kind, &before, &set)?;
        guard.begin();
        if matches!(set.modified, Some(SetTime::To(_))) {
            self.close_writer()?;
        }
        let changed = if mask.is_empty() { Ok(()) } else { inode.set_attrs(mask, &stat) };
        if let Some(moving) = moving {
            moving.end(self.owners_charged(&guard).ok());
        }
        changed.map_err(refused)?;
        self.tree.cluster.note_change();
        Ok(Change { before, after: guard.attrs_after(&before)? })
    }
}

/// Sets the size. The modification time is set along with it: some versions of the library set it to 1970 for growth.
pub(super) fn set_size(inode: &Inode, size: u64) -> Result<(), Errno> {
    let mut mask = SetMask::SIZE;
    mask.add(SetMask::MODIFIED);
    inode.set_attrs(mask, &Statx { size, modified: time_spec(now()), ..Statx::default() })
}

/// The attributes to set besides the size.
fn request(kind: FileType, before: &Attrs, set: &SetAttrs) -> FsResult<(SetMask, Statx)> {
    let (mut mask, mut stat) = (SetMask::default(), Statx::default());
    if let Some(uid) = set.uid {
        stat.uid = uid;
        mask.add(SetMask::UID);
    }
    if let Some(gid) = set.gid {
        stat.gid = gid;
        mask.add(SetMask::GID);
    }
    // A change of owner clears the set-id bits of anything but a directory, unless a mode is given.
    let is_moved = set.uid.is_some() || set.gid.is_some();
    let cleared = before.mode & !set_id_bits(before.mode);
    let clears = is_moved && kind == FileType::Regular && cleared != before.mode;
    if let Some(mode) = set.mode.or_else(|| clears.then_some(cleared)) {
        stat.mode = u16::try_from(mode & MODE_BITS).map_err(|_| FsError::Invalid)?;
        mask.add(SetMask::MODE);
    }
    let now = now();
    let mut set_time = |time: Option<SetTime>, bit| {
        let time = time.map(|time| if let SetTime::To(time) = time { time } else { now });
        if time.is_some() {
            mask.add(bit);
        }
        time.map(time_spec).unwrap_or_default()
    };
    stat.accessed = set_time(set.accessed, SetMask::ACCESSED);
    stat.modified = set_time(set.modified, SetMask::MODIFIED);
    Ok((mask, stat))
}

/// The clock of this machine, from which the library takes change times too.
fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nanos: since.subsec_nanos() }
}

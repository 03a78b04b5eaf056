//! Sets attributes.

use super::attr::{set_mode, set_times, timespec};
use super::owner::{self, Owner};
use super::preserve::Space;
use super::{Node, Rights};
use crate::error::refused;
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, ftruncate};
use rustix::io::Errno;
use vfs::acl::access::set_id_bits;
use vfs::model::attrs::MODE_BITS;
use vfs::{AuthorizeSetattr, Change, FileType, FsError, FsResult, SetAttrs, SetTime};

impl Node {
    /// Sets the size, then the owner, then the mode (a change of owner clears set-id bits), then the times (a change of
    /// size sets them).
    pub(crate) fn set_attributes(&self, authorize: AuthorizeSetattr<'_>) -> FsResult<Change> {
        let mut guard = self.lock_change();
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
        if set.size.is_some_and(|size| size > self.mount.file_bytes_max) {
            return Err(FsError::FileTooBig);
        }
        if let Some(preserving) = self.preserving(Space::Needed) {
            let cut = set.size.map_or(0..0, |size| size..before.size);
            preserving.data(self, &mut guard, &before, cut)?;
        }
        let moving = self.begin_owner_move(&guard, &before, set)?;
        if let Some(size) = set.size {
            let fd = self.open(Rights::Write)?;
            let resize = self.mount.charge_resize(&guard, &before, size)?;
            guard.begin();
            let result = ftruncate(fd, size);
            resize.end(if result.is_ok() { size } else { before.size });
            result.map_err(|errno| match errno {
                Errno::INVAL => FsError::FileTooBig,
                _ => refused(errno),
            })?;
        }
        guard.begin();
        self.change_owner(&guard, set, moving)?;
        if set.accessed.is_some() || set.modified.is_some() {
            let times = Timestamps {
                last_access: set_time_spec(set.accessed),
                last_modification: set_time_spec(set.modified),
            };
            set_times(self.fd(), &times).map_err(refused)?;
        }
        Ok(Change { before, after: guard.attrs_after(&before)? })
    }
}

impl Node {
    pub(super) fn change_record(&self, set: &SetAttrs) -> FsResult<()> {
        if set.uid.is_none() && set.gid.is_none() && set.mode.is_none() {
            return Ok(());
        }
        let now = Owner::of(&self.attrs_now()?);
        let new = Owner { uid: set.uid.unwrap_or(now.uid), gid: set.gid.unwrap_or(now.gid), mode: now.mode };
        let owned = set.uid.is_some() || set.gid.is_some();
        if !owner::carries(self.kind) {
            // Other types cannot carry the attribute and keep their real owner.
            if (new.uid, new.gid) != (now.uid, now.gid) {
                return Err(FsError::NotOwner);
            }
            return set.mode.map_or(Ok(()), |mode| set_mode(self.fd(), mode & MODE_BITS).map_err(refused));
        }
        // chown(2) clears the set-id bits of anything but a directory.
        let set_id = if owned && self.kind == FileType::Regular { set_id_bits(now.mode) } else { 0 };
        self.record_owner(Owner { mode: set.mode.map_or(now.mode & !set_id, |mode| mode & MODE_BITS), ..new })
    }

    pub(crate) fn record_owner(&self, owner: Owner) -> FsResult<()> {
        owner.write(self.fd())?;
        set_mode(self.fd(), owner.real_mode(self.kind == FileType::Directory)).map_err(refused)
    }
}

fn set_time_spec(set: Option<SetTime>) -> Timespec {
    match set {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(SetTime::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(SetTime::To(time)) => timespec(time),
    }
}

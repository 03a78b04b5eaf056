//! POSIX ACLs: the kernel enforces them against other programs and exposes them as `system.posix_acl_access` and
//! `system.posix_acl_default`. The kernel also inherits them and keeps them in step with modes.
//!
//! An access ACL, or its absence, is cached under the change time, which every change of the ACL moves. Where the file
//! system uses the time of the last timer tick, only an ACL that is old enough is cached.

use super::Node;
use super::preserve::Space;
use crate::error::refused;
use crate::sys::proc_path;
use rustix::fs::{XattrFlags, fgetxattr, getxattr, removexattr, setxattr};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vfs::backend::xattrs::XATTR_VALUE_BYTES_MAX;
use vfs::{Acls, Attrs, Blocking, FileType, FsError, FsResult, PosixAcl, SetAttrs, Time, Wait};

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
/// Most ACLs are shorter.
const VALUE_BYTES: usize = 260;
/// Longest step of change times: of a timer tick, and of file systems with whole seconds only (ext4 with small inodes).
const STEP_MAX: Duration = Duration::from_millis(20);
const WHOLE_STEP_MAX: Duration = Duration::from_secs(2);

impl Acls for Node {
    fn access_acl(&self, attrs: &Attrs, blocking: Blocking) -> FsResult<Option<Arc<PosixAcl>>> {
        let (cache, changed) = (&self.acl, attrs.changed);
        if let Some(cached) = cache.get(changed) {
            return Ok(cached);
        }
        if self.kind == FileType::Symlink {
            return Ok(None);
        }
        let may_wait = !self.mount.is_memory && !cache.was_read();
        if blocking == Blocking::Never && may_wait {
            return Err(FsError::Wait(Wait::Storage));
        }
        // The ACL is read after the change time: an ACL set in between is cached under a time that has passed.
        let acl = self.read_acl(ACCESS)?.filter(PosixAcl::is_extended).map(Arc::new);
        cache.note_read();
        if self.mount.has_fine_change_times || is_past(attrs.changed) {
            cache.insert(changed, acl.as_ref());
        }
        Ok(acl)
    }

    fn default_acl(&self) -> FsResult<Option<Arc<PosixAcl>>> {
        if self.dir.is_none() || !self.mount.acls {
            return Ok(None);
        }
        Ok(self.read_acl(DEFAULT)?.map(Arc::new))
    }

    fn set_access_acl(&self, acl: &PosixAcl) -> FsResult<()> {
        self.change_acl(|| self.write_acl(ACCESS, acl))?;
        // The kernel changes the real mode. A recorded one follows here.
        let mode = vfs::Node::attrs(self, Blocking::Allowed)?.mode & !0o777 | acl.mode();
        vfs::Node::set_attrs(self, &SetAttrs { mode: Some(mode), ..SetAttrs::default() }).map(drop)
    }

    fn set_default_acl(&self, acl: Option<&PosixAcl>) -> FsResult<()> {
        if self.dir.is_none() {
            return Err(FsError::NotDirectory);
        }
        self.change_acl(|| match acl {
            Some(acl) => self.write_acl(DEFAULT, acl),
            None => self.remove_default_acl(),
        })
    }
}

impl Node {
    fn change_acl(&self, change: impl FnOnce() -> FsResult<()>) -> FsResult<()> {
        let mut guard = self.lock_change();
        if let Some(preserving) = self.preserving(Space::Needed) {
            preserving.attrs(self, &self.attrs_now()?)?;
        }
        guard.begin();
        change()
    }

    fn remove_default_acl(&self) -> FsResult<()> {
        self.check_attached()?;
        match removexattr(proc_path(self.fd()), DEFAULT) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
            Err(errno) => Err(refused(errno)),
        }
    }

    fn write_acl(&self, name: &str, acl: &PosixAcl) -> FsResult<()> {
        self.check_attached()?;
        // The kernel sets attributes through no `O_PATH` descriptor, but through its path.
        setxattr(proc_path(self.fd()), name, &acl.to_xattr(), XattrFlags::empty()).map_err(refused)
    }

    fn read_acl(&self, name: &str) -> FsResult<Option<PosixAcl>> {
        let mut short = [0; VALUE_BYTES];
        let acl = match value_of(self.fd(), name, &mut short) {
            Ok(len) => PosixAcl::from_xattr(&short[..len])?,
            Err(Errno::RANGE) => {
                let mut long = vec![0; XATTR_VALUE_BYTES_MAX];
                let len = value_of(self.fd(), name, &mut long).map_err(refused)?;
                PosixAcl::from_xattr(&long[..len])?
            }
            Err(Errno::NODATA | Errno::OPNOTSUPP) => None,
            Err(errno) => return Err(refused(errno)),
        };
        // A detached descriptor leads to an empty file.
        self.check_attached()?;
        Ok(acl)
    }
}

/// Reads an attribute of the file open as `fd`, `O_PATH` or not.
fn value_of(fd: BorrowedFd<'_>, name: &str, value: &mut [u8]) -> Result<usize, Errno> {
    match fgetxattr(fd, name, &mut *value) {
        Err(Errno::BADF) => getxattr(proc_path(fd), name, value),
        read => read,
    }
}

/// Whether a change made now gets a later change time than `changed`, even with the longest step.
fn is_past(changed: Time) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let step = if changed.nanos == 0 { WHOLE_STEP_MAX } else { STEP_MAX };
    i128::try_from(now.saturating_sub(step).as_nanos()).is_ok_and(|past| past > changed.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_change_time_is_not_past() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let time = |since: Duration| Time {
            seconds: i64::try_from(since.as_secs()).unwrap(),
            nanos: since.subsec_nanos(),
        };
        assert!(is_past(time(now - 2 * STEP_MAX)) && is_past(Time { seconds: -5, nanos: 0 }));
        assert!(!is_past(time(now + Duration::from_secs(5))));
        let whole = |ago: u64| is_past(Time { nanos: 0, ..time(now - Duration::from_secs(ago)) });
        assert!(!whole(1) && whole(4), "whole seconds may hide a change for longer");
    }
}

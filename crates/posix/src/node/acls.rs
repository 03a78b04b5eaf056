//! Lists of POSIX: what the kernel enforces against other programs, and shows as `system.posix_acl_access` and
//! `system.posix_acl_default`. It hands lists on itself, and keeps them in step with modes.
//!
//! An access list, or that there is none, is remembered under the change time, which moves with it whoever sets it. Where the file
//! system stamps changes with the time of the last timer tick, only what has not changed for a while is remembered.

use super::Node;
use super::attr::proc_path;
use crate::error::refused;
use rustix::fs::{fgetxattr, getxattr};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vfs::backend::xattrs::XATTR_VALUE_BYTES_MAX;
use vfs::{Acls, Attrs, Blocking, FileType, FsResult, PosixAcl, Time, Wait};

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
/// Most lists are shorter.
const VALUE_BYTES: usize = 260;
/// No step of a clock of change times is longer, nor one of those that have whole seconds only, as with small inodes of ext4.
const STEP_MAX: Duration = Duration::from_millis(20);
const WHOLE_STEP_MAX: Duration = Duration::from_secs(2);

impl Acls for Node {
    fn access_acl(&self, attrs: &Attrs, blocking: Blocking) -> FsResult<Option<Arc<PosixAcl>>> {
        let (memory, changed) = (&self.acl, attrs.changed);
        if let Some(known) = memory.get(changed) {
            return Ok(known);
        }
        if self.kind == FileType::Symlink {
            return Ok(None);
        }
        let may_wait = !self.mount.is_memory && !memory.was_read();
        if blocking == Blocking::Never && may_wait {
            return Err(vfs::FsError::Wait(Wait::Storage));
        }
        // It is read after the change time was: a list that is set in between is remembered under a time that has passed.
        let acl = self.read_acl(ACCESS)?.filter(PosixAcl::is_extended).map(Arc::new);
        memory.note_read();
        if self.mount.has_fine_change_times || is_past(attrs.changed) {
            memory.insert(changed, acl.as_ref());
        }
        Ok(acl)
    }

    fn default_acl(&self) -> FsResult<Option<Arc<PosixAcl>>> {
        if self.dir.is_none() || !self.mount.acls {
            return Ok(None);
        }
        Ok(self.read_acl(DEFAULT)?.map(Arc::new))
    }
}

impl Node {
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
        // Of a file that was let go meanwhile the descriptor shows nothing.
        self.check_attached()?;
        Ok(acl)
    }
}

/// Fills `value` from an attribute of what `fd` has open, `O_PATH` or not.
fn value_of(fd: BorrowedFd<'_>, name: &str, value: &mut [u8]) -> Result<usize, Errno> {
    match fgetxattr(fd, name, &mut *value) {
        Err(Errno::BADF) => getxattr(proc_path(fd), name, value),
        read => read,
    }
}

/// Whether a change that is made now has a later time than this, however long the steps are.
fn is_past(changed: Time) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let step = if changed.nanos == 0 { WHOLE_STEP_MAX } else { STEP_MAX };
    i128::try_from(now.saturating_sub(step).as_nanos()).is_ok_and(|past| past > changed.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_not_changed_lately_is_past() {
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

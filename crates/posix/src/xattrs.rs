//! Extended attributes: those of the kernel's class `user.`, without that prefix. What this service itself keeps there
//! (`plimsoll.*`, of class `trusted.` where the process may, else `user.`) is never listed.

use crate::attr::proc_path;
use crate::error::refused;
use crate::node::{Node, Rights};
use rustix::fs::{XattrFlags, fgetxattr, fgetxattr_query, flistxattr, fremovexattr, fsetxattr, getxattr};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};
use vfs::xattrs::{XATTR_NAME_BYTES_MAX, XATTR_VALUE_BYTES_MAX, check_room, page};
use vfs::{AuthorizeXattr, Change, FileType, FsError, FsResult, SetXattr, XattrName, XattrSink, Xattrs};

const PREFIX: &[u8] = b"user.";
/// Of our own, where the process may: nobody else on this machine but root sees or changes those.
const TRUSTED: &[u8] = b"trusted.";
/// The longest name that the kernel takes behind the prefix.
pub(crate) const NAME_BYTES_MAX: usize = XATTR_NAME_BYTES_MAX - PREFIX.len();
/// The longest list of names that the kernel returns (`XATTR_LIST_MAX`).
const LIST_BYTES_MAX: usize = 64 << 10;

/// Most values are shorter.
const VALUE_BYTES: usize = 256;

impl Xattrs for Node {
    fn get(&self, name: XattrName<'_>) -> FsResult<Vec<u8>> {
        let full_name = self.full(name)?;
        // Our own ones are looked at far more often than files are read, so that opens nothing.
        let fd = if name.is_own() { self.fd() } else { self.carrier()? };
        let mut value = vec![0; VALUE_BYTES];
        let mut read = value_of(fd, &full_name, &mut value);
        if read == Err(Errno::RANGE) {
            value.resize(XATTR_VALUE_BYTES_MAX, 0);
            read = value_of(fd, &full_name, &mut value);
        }
        self.check_here()?;
        value.truncate(read.map_err(xattr_refused)?);
        Ok(value)
    }

    fn list(&self, cookie: u64, sink: &mut XattrSink<'_>) -> FsResult<bool> {
        let names = list(self.carrier()?)?;
        self.check_here()?;
        Ok(page(bare_names(&names), cookie, sink))
    }

    fn set(
        &self,
        name: XattrName<'_>,
        value: &[u8],
        how: SetXattr,
        authorize: AuthorizeXattr<'_>,
    ) -> FsResult<Change> {
        let flags = match how {
            SetXattr::Either => XattrFlags::empty(),
            SetXattr::Create => XattrFlags::CREATE,
            SetXattr::Replace => XattrFlags::REPLACE,
        };
        self.change_xattrs(name, authorize, |fd, full_name| {
            let names = list(fd)?;
            let others = bare_names(&names).filter(|&other| other != name).filter_map(|other| {
                let value = fgetxattr_query(fd, &*self.full(other).ok()?).ok()?;
                Some((other.bytes().len(), value))
            });
            check_room(others, name, value)?;
            fsetxattr(fd, full_name, value, flags).map_err(xattr_refused)
        })
    }

    fn remove(&self, name: XattrName<'_>, authorize: AuthorizeXattr<'_>) -> FsResult<Change> {
        self.change_xattrs(name, authorize, |fd, name| fremovexattr(fd, name).map_err(xattr_refused))
    }
}

impl Node {
    fn change_xattrs(
        &self,
        name: XattrName<'_>,
        authorize: AuthorizeXattr<'_>,
        act: impl FnOnce(BorrowedFd<'_>, &[u8]) -> FsResult<()>,
    ) -> FsResult<Change> {
        let mut held = self.lock_change();
        let before = self.attrs_now()?;
        authorize(&before)?;
        let (fd, name) = (self.carrier()?, self.full(name)?);
        act(fd, &name)?;
        Ok(Change { before, after: held.attrs_after(&before)? })
    }

    /// The descriptor, if a file of this type carries attributes: the kernel keeps this class off everything else.
    fn carrier(&self) -> FsResult<BorrowedFd<'_>> {
        match self.kind {
            FileType::Regular | FileType::Directory => Ok(self.open(Rights::Read)?.as_fd()),
            _ => {
                self.stat()?;
                Err(FsError::NotSupported)
            }
        }
    }

    /// The kernel's name of an attribute.
    fn full(&self, name: XattrName<'_>) -> FsResult<Vec<u8>> {
        if name.bytes().len() > NAME_BYTES_MAX {
            return Err(FsError::NameTooLong);
        }
        let prefix = if name.is_own() && self.mount.trusted_xattrs { TRUSTED } else { PREFIX };
        Ok([prefix, name.bytes()].concat())
    }

    /// Of a file that was let go meanwhile the descriptor shows nothing.
    pub(crate) fn check_here(&self) -> FsResult<()> {
        if self.is_gone() { Err(FsError::Stale) } else { Ok(()) }
    }
}

/// Fills `value` from an attribute of what `fd` has open, `O_PATH` or not.
fn value_of(fd: BorrowedFd<'_>, name: &[u8], value: &mut [u8]) -> Result<usize, Errno> {
    match fgetxattr(fd, name, &mut *value) {
        Err(Errno::BADF) => getxattr(proc_path(fd), name, value),
        read => read,
    }
}

/// The names of all attributes of what `fd` has open, of every class, each with a NUL at its end.
fn list(fd: BorrowedFd<'_>) -> FsResult<Vec<u8>> {
    let mut names = vec![0; LIST_BYTES_MAX];
    let len = flistxattr(fd, &mut names[..]).map_err(xattr_refused)?;
    names.truncate(len);
    Ok(names)
}

fn bare_names(names: &[u8]) -> impl Iterator<Item = XattrName<'_>> {
    names.split(|&byte| byte == 0).filter_map(|name| XattrName::new(name.strip_prefix(PREFIX)?).ok())
}

fn xattr_refused(errno: Errno) -> FsError {
    match errno {
        Errno::NODATA => FsError::NotFound,
        // More than the file system keeps with a file.
        Errno::TOOBIG | Errno::RANGE => FsError::NoSpace,
        _ => refused(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_names_of_others_are_listed() {
        let listed = b"security.selinux\0user.a\0user.plimsoll.owner\0user.user.b\0trusted.c\0user.\0";
        let names: Vec<_> = bare_names(listed).map(XattrName::bytes).collect();
        assert_eq!(names, [&b"a"[..], b"user.b"]);
    }
}

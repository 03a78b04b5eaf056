//! Extended attributes of class `user.`, without that prefix. This service's own attributes (`plimsoll.*`, of class
//! `trusted.` if the process may set those, else `user.`) are never listed.

use super::mount::Mount;
use super::preserve::Space;
use super::{Node, Rights};
use crate::error::refused;
use crate::sys::proc_path;
use rustix::fs::{
    XattrFlags, fgetxattr, fgetxattr_query, flistxattr, fremovexattr, fsetxattr, getxattr, getxattr_query,
    lgetxattr_query, listxattr, llistxattr,
};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd};
use storage::XattrCharge;
use vfs::backend::charge;
use vfs::backend::xattrs::{XATTR_NAME_BYTES_MAX, XATTR_VALUE_BYTES_MAX, check_room, page};
use vfs::{AuthorizeXattr, Change, FileType, FsError, FsResult, SetXattr, XattrName, XattrSink, Xattrs};

const PREFIX: &[u8] = b"user.";
/// The class of our own attributes if the process may set it: only root sees or changes them.
const TRUSTED: &[u8] = b"trusted.";
/// The longest name that the kernel accepts after the prefix.
pub(crate) const NAME_BYTES_MAX: usize = XATTR_NAME_BYTES_MAX - PREFIX.len();
/// The longest list of names that the kernel returns (`XATTR_LIST_MAX`).
const LIST_BYTES_MAX: usize = 64 << 10;

/// Most lists of names are shorter.
const NAMES_BYTES: usize = 512;
/// Most values are shorter.
const VALUE_BYTES: usize = 256;

impl Xattrs for Node {
    fn get(&self, name: XattrName<'_>) -> FsResult<Vec<u8>> {
        // Our own attributes are read far more often than files, so this must not open the file.
        let fd = if name.is_own() { self.fd() } else { self.xattr_fd()? };
        let value = self.mount.xattr_of(fd, name);
        self.check_attached()?;
        value
    }

    fn list(&self, cookie: u64, sink: &mut XattrSink<'_>) -> FsResult<bool> {
        let names = self.xattr_names()?;
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
        self.change_xattrs(name, Some(value.len()), authorize, |fd, full_name| {
            let names = names_of(fd)?;
            let others = bare_names(&names).filter(|&other| other != name).filter_map(|other| {
                let value = fgetxattr_query(fd, &*self.mount.full_name(other).ok()?).ok()?;
                Some((other.bytes().len(), value))
            });
            check_room(others, name, value)?;
            fsetxattr(fd, full_name, value, flags).map_err(xattr_refused)
        })
    }

    fn remove(&self, name: XattrName<'_>, authorize: AuthorizeXattr<'_>) -> FsResult<Change> {
        self.change_xattrs(name, None, authorize, |fd, name| fremovexattr(fd, name).map_err(xattr_refused))
    }
}

impl Node {
    /// Sets an attribute with `act` to a value of length `value`, or removes it.
    fn change_xattrs(
        &self,
        name: XattrName<'_>,
        value: Option<usize>,
        authorize: AuthorizeXattr<'_>,
        act: impl FnOnce(BorrowedFd<'_>, &[u8]) -> FsResult<()>,
    ) -> FsResult<Change> {
        let _changing = self.mount.begin_change();
        let mut guard = self.lock_change();
        let before = self.attrs_now()?;
        authorize(&before)?;
        let (fd, name) = (self.xattr_fd()?, self.mount.full_name(name)?);
        let _locked = self.lock_xattrs();
        if self.dir.is_some() {
            // The directory may have been removed meanwhile, and its charge refunded.
            self.stat()?;
        }
        if let Some(preserving) = self.preserving(Space::Needed) {
            preserving.attrs(self, &before)?;
        }
        let charge_guard = self.mount.charge_xattr(fd, &name, value)?;
        act(fd, &name)?;
        charge_guard.commit();
        Ok(Change { before, after: guard.attrs_after(&before)? })
    }

    /// The descriptor, if a file of this type can have attributes: the kernel allows this class on nothing else.
    fn xattr_fd(&self) -> FsResult<BorrowedFd<'_>> {
        match self.kind {
            FileType::Regular | FileType::Directory => Ok(self.open(Rights::Read)?.as_fd()),
            _ => {
                self.stat()?;
                Err(FsError::NotSupported)
            }
        }
    }

    /// The names of all attributes, of every class, each with a NUL at its end.
    pub(crate) fn xattr_names(&self) -> FsResult<Vec<u8>> {
        let names = names_of(self.xattr_fd()?)?;
        self.check_attached()?;
        Ok(names)
    }

    /// A detached descriptor leads to an empty file.
    pub(crate) fn check_attached(&self) -> FsResult<()> {
        if self.is_detached() { Err(FsError::Stale) } else { Ok(()) }
    }
}

/// The charge of the extended attributes of the file open as `fd`, `O_PATH` or not.
pub(crate) fn xattrs_charged(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    charged_by(|names| flistxattr(fd, names), |name| fgetxattr_query(fd, name)).or_else(|errno| match errno {
        Errno::BADF => {
            let path = proc_path(fd);
            charged_by(|names| listxattr(&*path, names), |name| getxattr_query(&*path, name))
        }
        errno => Err(errno),
    })
}

/// The charge of the extended attributes of `name` in `dir`; a link is not followed. The path through /proc doubles the
/// time, so it is avoided if `dir` is the working directory of this thread.
pub(crate) fn xattrs_charged_at(
    dir: BorrowedFd<'_>,
    name: &CStr,
    is_working_dir: bool,
) -> Result<u64, Errno> {
    if is_working_dir {
        return charged_by(|names| llistxattr(name, names), |own| lgetxattr_query(name, own));
    }
    let path = CString::new([proc_path(dir).as_bytes(), b"/", name.to_bytes()].concat());
    let path = &*path.map_err(|_| Errno::INVAL)?;
    charged_by(|names| llistxattr(path, names), |own| lgetxattr_query(path, own))
}

fn charged_by(
    list: impl Fn(&mut [u8]) -> Result<usize, Errno>,
    length: impl Fn(&[u8]) -> Result<usize, Errno>,
) -> Result<u64, Errno> {
    let mut short_names = [0; NAMES_BYTES];
    let (mut long_names, len) = match list(&mut short_names) {
        Err(Errno::RANGE) => {
            let mut long_names = vec![0; LIST_BYTES_MAX];
            let len = list(&mut long_names)?;
            (long_names, len)
        }
        // The file system has no attributes.
        Err(Errno::OPNOTSUPP) => return Ok(0),
        len => (Vec::new(), len?),
    };
    let names = if long_names.is_empty() {
        &short_names[..len]
    } else {
        long_names.truncate(len);
        &long_names[..]
    };
    let mut charge = charge::Xattrs::default();
    for name in charged_names(names) {
        match length(name) {
            Ok(value) => charge.add(strip_class(name).len(), value),
            Err(Errno::NODATA) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(charge.bytes())
}

/// The names of the charged attributes: those that this service sets. The others belong to the kernel.
fn charged_names(names: &[u8]) -> impl Iterator<Item = &[u8]> {
    names.split(|&byte| byte == 0).filter(|name| name.starts_with(PREFIX) || name.starts_with(TRUSTED))
}

fn strip_class(name: &[u8]) -> &[u8] {
    name.strip_prefix(PREFIX).or_else(|| name.strip_prefix(TRUSTED)).unwrap_or(name)
}

impl Mount {
    fn full_name(&self, name: XattrName<'_>) -> FsResult<Vec<u8>> {
        if name.bytes().len() > NAME_BYTES_MAX {
            return Err(FsError::NameTooLong);
        }
        let prefix = if name.is_own() && self.trusted_xattrs { TRUSTED } else { PREFIX };
        Ok([prefix, name.bytes()].concat())
    }

    /// Reads an attribute of the file open as `fd`.
    pub(crate) fn xattr_of(&self, fd: BorrowedFd<'_>, name: XattrName<'_>) -> FsResult<Vec<u8>> {
        let full_name = self.full_name(name)?;
        let mut value = vec![0; VALUE_BYTES];
        let mut read = value_of(fd, &full_name, &mut value);
        if read == Err(Errno::RANGE) {
            value.resize(XATTR_VALUE_BYTES_MAX, 0);
            read = value_of(fd, &full_name, &mut value);
        }
        value.truncate(read.map_err(xattr_refused)?);
        Ok(value)
    }

    /// Charges an attribute of the file open as `fd` before it is set to a value of length `value` or removed.
    fn charge_xattr<'l>(
        &'l self,
        fd: BorrowedFd<'l>,
        name: &[u8],
        value: Option<usize>,
    ) -> FsResult<XattrCharge<'l, impl Fn() -> Option<u64>>> {
        let counts = self.counts();
        let names = if counts.ledger.is_some() { names_of(fd)? } else { Vec::new() };
        let (mut charged_now, mut then) = (charge::Xattrs::default(), charge::Xattrs::default());
        for other in charged_names(&names) {
            let Ok(value) = fgetxattr_query(fd, other) else { continue };
            charged_now.add(strip_class(other).len(), value);
            if other != name {
                then.add(strip_class(other).len(), value);
            }
        }
        value.into_iter().for_each(|value| then.add(strip_class(name).len(), value));
        counts.charge_xattrs(charged_now.bytes(), then.bytes(), move || xattrs_charged(fd).ok())
    }
}

/// Reads an attribute of the file open as `fd`, `O_PATH` or not.
fn value_of(fd: BorrowedFd<'_>, name: &[u8], value: &mut [u8]) -> Result<usize, Errno> {
    match fgetxattr(fd, name, &mut *value) {
        Err(Errno::BADF) => getxattr(proc_path(fd), name, value),
        read => read,
    }
}

/// The names of all attributes of the file open as `fd`, of every class, each with a NUL at its end.
pub(crate) fn names_of(fd: BorrowedFd<'_>) -> FsResult<Vec<u8>> {
    let mut short_names = [0; NAMES_BYTES];
    match flistxattr(fd, &mut short_names) {
        Err(Errno::RANGE) => {}
        len => return Ok(short_names[..len.map_err(xattr_refused)?].to_vec()),
    }
    let mut names = vec![0; LIST_BYTES_MAX];
    let len = flistxattr(fd, &mut names[..]).map_err(xattr_refused)?;
    names.truncate(len);
    Ok(names)
}

/// The names of the attributes that clients see.
pub(crate) fn bare_names(names: &[u8]) -> impl Iterator<Item = XattrName<'_>> {
    names.split(|&byte| byte == 0).filter_map(|name| XattrName::new(name.strip_prefix(PREFIX)?).ok())
}

fn xattr_refused(errno: Errno) -> FsError {
    match errno {
        Errno::NODATA => FsError::NotFound,
        // More than the file system can store with a file.
        Errno::TOOBIG | Errno::RANGE => FsError::NoSpace,
        _ => refused(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_and_foreign_classes_are_not_listed() {
        let listed = b"security.selinux\0user.a\0user.plimsoll.owner\0user.user.b\0trusted.c\0user.\0";
        let names: Vec<_> = bare_names(listed).map(XattrName::bytes).collect();
        assert_eq!(names, [&b"a"[..], b"user.b"]);
    }
}

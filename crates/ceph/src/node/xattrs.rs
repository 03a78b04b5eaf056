//! Extended attributes of class `user.`, without that prefix. This service's own attributes (`trusted.plimsoll.*`) are
//! never listed.

use super::Node;
use super::xattr_sizes::{PREFIX, TRUSTED, lengths, strip_class, xattrs_charged};
use crate::error::refused;
use crate::ffi::Inode;
use rustix::io::Errno;
use std::ffi::CString;
use storage::XattrCharge;
use vfs::backend::charge;
use vfs::backend::xattrs::{check_room, page};
use vfs::{AuthorizeXattr, Change, FileType, FsError, FsResult, SetXattr, XattrName, XattrSink, Xattrs};

/// The prefix `user.` takes a part of the longest name.
pub(crate) const XATTR_NAME_BYTES_MAX: usize = 250;

impl Xattrs for Node {
    fn get(&self, name: XattrName<'_>) -> FsResult<Vec<u8>> {
        let inode = self.xattr_inode()?;
        value_of(&inode, &full_name(name)?)
    }

    fn list(&self, cookie: u64, sink: &mut XattrSink<'_>) -> FsResult<bool> {
        let names = self.xattr_inode()?.xattr_names().map_err(xattr_refused)?;
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
            SetXattr::Either => 0,
            SetXattr::Create => libc::XATTR_CREATE,
            SetXattr::Replace => libc::XATTR_REPLACE,
        };
        self.change_xattrs(name, Some(value.len()), authorize, |inode, full_name| {
            let names = inode.xattr_names().map_err(xattr_refused)?;
            let others = bare_names(&names).filter(|&other| other != name).filter_map(|other| {
                let len = inode.xattr(&crate::node::xattrs::full_name(other).ok()?, &mut []).ok()?;
                Some((other.bytes().len(), len))
            });
            check_room(others, name, value)?;
            inode.set_xattr(full_name, value, flags).map_err(xattr_refused)
        })
    }

    fn remove(&self, name: XattrName<'_>, authorize: AuthorizeXattr<'_>) -> FsResult<Change> {
        self.change_xattrs(name, None, authorize, |inode, name| {
            inode.remove_xattr(name).map_err(xattr_refused)
        })
    }
}

impl Node {
    /// Sets an attribute with `act` to a value of length `value`, or removes it.
    fn change_xattrs(
        &self,
        name: XattrName<'_>,
        value: Option<usize>,
        authorize: AuthorizeXattr<'_>,
        act: impl FnOnce(&Inode, &CString) -> FsResult<()>,
    ) -> FsResult<Change> {
        let mut guard = self.lock_change();
        let before = self.attrs_now()?;
        authorize(&before)?;
        let (inode, name) = (self.xattr_inode()?, full_name(name)?);
        let _locked = self.dir.as_ref().map(|dir| dir.xattrs.lock());
        // A directory may have been removed meanwhile, and its charge refunded.
        self.stat()?;
        let charge = self.charge_xattr(&inode, &name, value)?;
        guard.begin();
        act(&inode, &name)?;
        self.tree.cluster.note_change();
        charge.commit();
        Ok(Change { before, after: guard.attrs_after(&before)? })
    }

    fn xattr_inode(&self) -> FsResult<std::sync::Arc<Inode>> {
        self.stat()?;
        match self.kind {
            FileType::Regular | FileType::Directory => self.inode(),
            _ => Err(FsError::NotSupported),
        }
    }

    /// Charges an attribute before it is set to a value of length `value` or removed.
    fn charge_xattr<'l>(
        &'l self,
        inode: &'l Inode,
        name: &CString,
        value: Option<usize>,
    ) -> FsResult<XattrCharge<'l, impl Fn() -> Option<u64>>> {
        let (mut charged_now, mut then) = (charge::Xattrs::default(), charge::Xattrs::default());
        for (other, len) in lengths(inode).map_err(xattr_refused)? {
            charged_now.add(strip_class(&other).len(), len);
            if other != name.as_bytes() {
                then.add(strip_class(&other).len(), len);
            }
        }
        value.into_iter().for_each(|value| then.add(strip_class(name.as_bytes()).len(), value));
        let counts = self.tree.limit.counts();
        counts.charge_xattrs(charged_now.bytes(), then.bytes(), move || xattrs_charged(inode).ok())
    }
}

/// Reads a value of unknown length.
pub(crate) fn value_of(inode: &Inode, name: &CString) -> FsResult<Vec<u8>> {
    /// Most values are shorter.
    const SHORT_BYTES: usize = 256;
    let mut value = vec![0; SHORT_BYTES];
    let mut read = inode.xattr(name, &mut value);
    if read == Err(Errno::RANGE) {
        value.resize(vfs::XATTR_VALUE_BYTES_MAX, 0);
        read = inode.xattr(name, &mut value);
    }
    value.truncate(read.map_err(xattr_refused)?);
    Ok(value)
}

pub(crate) fn full_name(name: XattrName<'_>) -> FsResult<CString> {
    if name.bytes().len() > XATTR_NAME_BYTES_MAX {
        return Err(FsError::NameTooLong);
    }
    let prefix = if name.is_own() { TRUSTED } else { PREFIX };
    CString::new([prefix, name.bytes()].concat()).map_err(|_| FsError::Invalid)
}

/// The names of the attributes that clients see.
pub(crate) fn bare_names(names: &[u8]) -> impl Iterator<Item = XattrName<'_>> {
    names.split(|&byte| byte == 0).filter_map(|name| XattrName::new(name.strip_prefix(PREFIX)?).ok())
}

pub(crate) fn xattr_refused(errno: Errno) -> FsError {
    match errno {
        Errno::NODATA => FsError::NotFound,
        // More than the engine can store with a file.
        Errno::TOOBIG | Errno::RANGE => FsError::NoSpace,
        _ => refused(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_and_foreign_classes_are_not_listed() {
        let listed =
            b"security.selinux\0user.a\0user.plimsoll.owner\0user.user.b\0trusted.c\0user.\0ceph.dir\0";
        let names: Vec<_> = bare_names(listed).map(XattrName::bytes).collect();
        assert_eq!(names, [&b"a"[..], b"user.b"]);
    }
}

//! Extended attributes: reading, listing, setting, removing.

use super::acl::check_mode;
use super::core::File;
use crate::acl::Rights;
use crate::acl::access::Access;
use crate::claims::{IoKind, Span};
use crate::model::attrs::STICKY;
use crate::{
    Attrs, Blocking, Caller, Change, FileType, FsError, FsResult, NodeRef, PendingSync, SetXattr, SyncScope,
    Wait, XattrName, XattrSink, Xattrs, XattrsSize,
};
use std::ops::ControlFlow;

impl File {
    /// The value of an attribute of a file that `caller` may read. [`FsError::NotFound`] if it does not exist.
    pub fn get_xattr(&self, caller: &Caller, name: &[u8]) -> FsResult<Vec<u8>> {
        let (name, xattrs) = (XattrName::new(name)?, self.xattrs()?);
        self.check_reads_xattrs(caller)?;
        xattrs.get(name)
    }

    /// Lists the names of the attributes of a file that `caller` may read, as [`Xattrs::list`] says.
    pub fn list_xattrs(&self, caller: &Caller, cookie: u64, sink: &mut XattrSink<'_>) -> FsResult<bool> {
        let xattrs = self.xattrs()?;
        self.check_reads_xattrs(caller)?;
        xattrs.list(cookie, sink)
    }

    /// Returns the size of this file's extended attributes. A file type without any has size 0.
    pub fn xattrs_size(&self, attrs: &Attrs, blocking: Blocking) -> FsResult<XattrsSize> {
        let carries = matches!(attrs.file_type, FileType::Regular | FileType::Directory);
        let Some(xattrs) = self.node.xattrs().filter(|_| carries) else { return Ok(XattrsSize::default()) };
        let slot = self.volume().extra_attrs_cache().slot(&self.key());
        if let Some(size) = slot.recall_xattrs(attrs) {
            return Ok(size);
        }
        if blocking == Blocking::Never {
            return Err(FsError::Wait(Wait::Storage));
        }
        let mut names = Vec::new();
        xattrs.list(0, &mut |name, _| {
            names.push(name.bytes().to_vec());
            ControlFlow::Continue(())
        })?;
        let mut size = XattrsSize { count: names.len(), bytes: 0 };
        for name in names {
            match xattrs.get(XattrName::new(&name)?) {
                Ok(value) => size.bytes += name.len() + value.len(),
                // It went away meanwhile.
                Err(FsError::NotFound) => size.count -= 1,
                Err(error) => return Err(error),
            }
        }
        slot.remember_xattrs(attrs, size);
        Ok(size)
    }

    pub fn set_xattr(
        &self,
        caller: &Caller,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        self.check_writable(caller)?;
        let name = XattrName::new(name)?;
        let rights = self.rights(caller, &self.attrs(Blocking::Allowed)?, Blocking::Allowed)?;
        let change =
            self.xattrs()?.set(name, value, how, &|attrs| self.authorize_xattr(caller, rights, attrs))?;
        self.require_sync(pending, SyncScope::All);
        Ok(change)
    }

    pub fn remove_xattr(&self, caller: &Caller, name: &[u8], pending: &mut PendingSync) -> FsResult<Change> {
        self.check_writable(caller)?;
        let name = XattrName::new(name)?;
        let rights = self.rights(caller, &self.attrs(Blocking::Allowed)?, Blocking::Allowed)?;
        let authorize = |attrs: &Attrs| self.authorize_xattr(caller, rights, attrs);
        let change = self.xattrs()?.remove(name, &authorize)?;
        self.require_sync(pending, SyncScope::All);
        Ok(change)
    }

    /// Whether `caller` may change the extended attributes of this file; `rights` are those of a list, where lists
    /// rule.
    fn authorize_xattr(&self, caller: &Caller, rights: Option<Rights>, attrs: &Attrs) -> FsResult<()> {
        match rights {
            None => check_change(&self.node, caller, attrs)?,
            Some(rights) if rights.has(Rights::WRITE_XATTRS) => {}
            Some(_) => return Err(FsError::Access),
        }
        self.check_claims(caller.by, IoKind::SetAttrs, || Span::ALL)
    }

    fn xattrs(&self) -> FsResult<&dyn Xattrs> {
        self.node.xattrs().ok_or(FsError::NotSupported)
    }
}

/// RFC 8276 §8.5: a caller that may write a file may change its attributes; in a sticky directory, as on Linux, only
/// its owner.
fn check_change(node: &NodeRef, caller: &Caller, attrs: &Attrs) -> FsResult<()> {
    let is_sticky = attrs.file_type == FileType::Directory && attrs.mode & STICKY != 0;
    if is_sticky && !caller.is_root() && caller.uid != attrs.uid {
        return Err(FsError::NotOwner);
    }
    check_mode(node, attrs, caller, Access::WRITE)
}

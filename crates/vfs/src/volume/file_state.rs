//! Everything of a file but its data: read from one file, given to another.

use super::extra_attrs::ExtraAttrs;
use crate::acl::posix_acl::PosixAcl;
use crate::backend::xattrs::{SetXattr, XattrName, Xattrs};
use crate::backend::{Blocking, NewInode, NodeRef, Special};
use crate::error::{FsError, FsResult};
use crate::model::attrs::{Attrs, FileType, SetAttrs, SetTime};
use crate::model::name::Name;
use std::ops::ControlFlow;

/// The service's own extended attributes that go with a file. The record of the owner is in the attributes.
const OWN: [XattrName<'static>; 2] = [XattrName::EXTRA_ATTRS, XattrName::ACL];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileState {
    pub attrs: Attrs,
    /// The target of a symbolic link.
    pub target: Vec<u8>,
    /// Extended attributes, with the service's own, in the order of their names.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    pub access_acl: Option<PosixAcl>,
    pub default_acl: Option<PosixAcl>,
}

impl FileState {
    /// The state of a file that has `attrs`.
    pub fn read(node: &NodeRef, attrs: &Attrs) -> FsResult<Self> {
        let mut state = Self::of_stream(attrs);
        if attrs.file_type == FileType::Symlink {
            state.target = node.read_link()?;
            return Ok(state);
        }
        if state.carries_xattrs() {
            state.xattrs = read_xattrs(node)?;
        }
        if let Some(acls) = node.acls() {
            state.access_acl =
                acls.access_acl(attrs, Blocking::Allowed)?.map(|acl| acl.with_mode(attrs.mode));
            if attrs.file_type == FileType::Directory {
                state.default_acl = acls.default_acl()?.map(|acl| (*acl).clone());
            }
        }
        Ok(state)
    }

    /// The state of a stream: it has attributes alone.
    pub fn of_stream(attrs: &Attrs) -> Self {
        Self { attrs: *attrs, target: Vec::new(), xattrs: Vec::new(), access_acl: None, default_acl: None }
    }

    fn carries_xattrs(&self) -> bool {
        matches!(self.attrs.file_type, FileType::Regular | FileType::Directory)
    }

    fn new_inode(&self) -> NewInode {
        let Attrs { mode, uid, gid, file_type, size, .. } = self.attrs;
        let size = if file_type == FileType::Regular { size } else { 0 };
        NewInode { mode, uid, gid, times: None, size }
    }

    /// Makes an object of this type, owner, mode and size. [`FileState::put`] follows, when its data are there.
    pub fn make(&self, dir: &NodeRef, name: Name<'_>) -> FsResult<NodeRef> {
        let new = |_: &_| Ok(self.new_inode());
        let device = self.attrs.device;
        let made = match self.attrs.file_type {
            FileType::Directory => dir.make_dir(name, &new),
            FileType::Regular => dir.create(name, &new),
            FileType::Symlink => dir.make_special(name, Special::Symlink(&self.target), &new),
            FileType::Fifo => dir.make_special(name, Special::Fifo, &new),
            FileType::Socket => dir.make_special(name, Special::Socket, &new),
            FileType::Block => dir.make_special(name, Special::Block(device), &new),
            FileType::Character => dir.make_special(name, Special::Character(device), &new),
        };
        Ok(made?.found.node)
    }

    /// Gives all of this but the size to an object of the same type. What it had besides is removed.
    pub fn put(&self, node: &NodeRef) -> FsResult<()> {
        self.put_xattrs(node)?;
        self.put_acls(node)?;
        let attrs = &self.attrs;
        let now = node.attrs(Blocking::Allowed)?;
        let has_mode = attrs.file_type != FileType::Symlink;
        let is_new_owner = (now.uid, now.gid) != (attrs.uid, attrs.gid);
        let set = SetAttrs {
            mode: has_mode.then_some(attrs.mode),
            uid: is_new_owner.then_some(attrs.uid),
            gid: is_new_owner.then_some(attrs.gid),
            ..SetAttrs::default()
        };
        if !set.is_empty() {
            node.set_attrs(&set)?;
        }
        node.set_attrs(&SetAttrs {
            accessed: Some(SetTime::To(attrs.accessed)),
            modified: Some(SetTime::To(attrs.modified)),
            ..SetAttrs::default()
        })?;
        // Last, because it names the change time before it.
        self.put_extra(node)
    }

    fn put_xattrs(&self, node: &NodeRef) -> FsResult<()> {
        if !self.carries_xattrs() {
            return Ok(());
        }
        let Some(xattrs) = node.xattrs() else {
            return if self.xattrs.is_empty() { Ok(()) } else { Err(FsError::NotSupported) };
        };
        let has = |name: &[u8]| self.xattrs.iter().any(|(other, _)| other == name);
        for name in names(xattrs)?.iter().filter(|name| !has(name)) {
            xattrs.remove(XattrName::new(name)?, &|_| Ok(()))?;
        }
        for own in OWN.into_iter().filter(|own| !has(own.bytes())) {
            match xattrs.remove(own, &|_| Ok(())) {
                Ok(_) | Err(FsError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        for (name, value) in &self.xattrs {
            match OWN.into_iter().find(|own| own.bytes() == name) {
                Some(XattrName::EXTRA_ATTRS) => {}
                Some(own) => set(xattrs, own, value)?,
                None => set(xattrs, XattrName::new(name)?, value)?,
            }
        }
        Ok(())
    }

    /// Also removes lists that the directory has passed on.
    fn put_acls(&self, node: &NodeRef) -> FsResult<()> {
        let Some(acls) = node.acls() else {
            let has_any = self.access_acl.is_some() || self.default_acl.is_some();
            return if has_any { Err(FsError::NotSupported) } else { Ok(()) };
        };
        if self.attrs.file_type == FileType::Symlink {
            return Ok(());
        }
        let now = node.attrs(Blocking::Allowed)?;
        match &self.access_acl {
            Some(acl) => acls.set_access_acl(acl)?,
            None if acls.access_acl(&now, Blocking::Allowed)?.is_some() => {
                acls.set_access_acl(&list_of_mode(self.attrs.mode))?;
            }
            None => {}
        }
        let is_dir = self.attrs.file_type == FileType::Directory;
        if is_dir && (self.default_acl.is_some() || acls.default_acl()?.is_some()) {
            acls.set_default_acl(self.default_acl.as_ref())?;
        }
        Ok(())
    }

    /// Gives Windows attributes, and the creation time, which no file system lets a service set.
    fn put_extra(&self, node: &NodeRef) -> FsResult<()> {
        let Some(xattrs) = node.xattrs().filter(|_| self.carries_xattrs()) else { return Ok(()) };
        let now = node.attrs(Blocking::Allowed)?;
        let record = self.xattrs.iter().find(|(name, _)| name == XattrName::EXTRA_ATTRS.bytes());
        if record.is_none() && (self.attrs.born.is_none() || self.attrs.born == now.born) {
            return Ok(());
        }
        let extra = record.map_or_else(ExtraAttrs::default, |(_, value)| ExtraAttrs::decode(value));
        set(xattrs, XattrName::EXTRA_ATTRS, &extra.of_copy(&self.attrs, &now).encode())
    }
}

fn set(xattrs: &dyn Xattrs, name: XattrName<'_>, value: &[u8]) -> FsResult<()> {
    xattrs.set(name, value, SetXattr::Either, &|_| Ok(())).map(drop)
}

fn names(xattrs: &dyn Xattrs) -> FsResult<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    xattrs.list(0, &mut |name, _| {
        names.push(name.bytes().to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(names)
}

fn read_xattrs(node: &NodeRef) -> FsResult<Vec<(Vec<u8>, Vec<u8>)>> {
    let Some(xattrs) = node.xattrs() else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for name in names(xattrs)? {
        let value = xattrs.get(XattrName::new(&name)?)?;
        all.push((name, value));
    }
    // No list contains those of this service.
    for name in OWN {
        match xattrs.get(name) {
            Ok(value) => all.push((name.bytes().to_vec(), value)),
            Err(FsError::NotFound) => {}
            Err(error) => return Err(error),
        }
    }
    all.sort();
    Ok(all)
}

/// The list that says no more than a mode, so that the storage keeps the mode alone.
fn list_of_mode(mode: u32) -> PosixAcl {
    let [owner, group, other] = [6, 3, 0].map(|shift| mode >> shift & 7);
    PosixAcl { owner, group, mask: None, other, users: [].into(), groups: [].into() }
}

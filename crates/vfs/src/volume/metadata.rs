//! All that a file has besides its data, names and streams, to read it from one file and give it to another.

use super::extra_attrs::ExtraAttrs;
use crate::acl::posix_acl::PosixAcl;
use crate::backend::xattrs::{SetXattr, XattrName, Xattrs};
use crate::backend::{Blocking, NodeRef};
use crate::error::{FsError, FsResult};
use crate::model::attrs::{Attrs, FileType, SetAttrs, SetTime};
use std::ops::ControlFlow;

/// This service's own attributes that go with a file. The record of the owner is in the attributes.
const OWN: [XattrName<'static>; 2] = [XattrName::EXTRA_ATTRS, XattrName::ACL];

/// Extended attributes with those of this service, in the order of their names.
pub type StoredXattrs = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    pub attrs: Attrs,
    pub xattrs: StoredXattrs,
    pub access_acl: Option<PosixAcl>,
    pub default_acl: Option<PosixAcl>,
}

impl Metadata {
    /// Reads that of a file with these attributes.
    pub fn read(node: &NodeRef, attrs: &Attrs) -> FsResult<Self> {
        let mut read = Self { attrs: *attrs, xattrs: Vec::new(), access_acl: None, default_acl: None };
        if is_plain(attrs) {
            read.xattrs = read_xattrs(node)?;
        }
        if let Some(acls) = node.acls().filter(|_| attrs.file_type != FileType::Symlink) {
            read.access_acl = acls.access_acl(attrs, Blocking::Allowed)?.map(|acl| acl.with_mode(attrs.mode));
            if attrs.file_type == FileType::Directory {
                read.default_acl = acls.default_acl()?.map(|acl| (*acl).clone());
            }
        }
        Ok(read)
    }

    /// Metadata of a stream: attributes alone.
    pub fn of_stream(attrs: &Attrs) -> Self {
        Self { attrs: *attrs, xattrs: Vec::new(), access_acl: None, default_acl: None }
    }

    /// Gives it to a file of the same type that no client uses: extended attributes, lists, mode and owner, last the
    /// times. What the file had besides is removed.
    pub fn restore(&self, node: &NodeRef) -> FsResult<()> {
        let attrs = &self.attrs;
        if is_plain(attrs) {
            self.restore_xattrs(node)?;
        }
        self.restore_acls(node)?;
        let is_link = attrs.file_type == FileType::Symlink;
        let mode = SetAttrs { mode: (!is_link).then_some(attrs.mode), ..SetAttrs::default() };
        let now = node.attrs(Blocking::Allowed)?;
        // A root that exists has the owner of its maker; all else was made with its own.
        let set = match (now.uid, now.gid) == (attrs.uid, attrs.gid) {
            true => mode,
            false => SetAttrs { uid: Some(attrs.uid), gid: Some(attrs.gid), ..mode },
        };
        let times = SetAttrs {
            accessed: Some(SetTime::To(attrs.accessed)),
            modified: Some(SetTime::To(attrs.modified)),
            ..SetAttrs::default()
        };
        if !set.is_empty() {
            node.set_attrs(&set)?;
        }
        node.set_attrs(&times)?;
        if is_plain(attrs) { self.restore_extra(node) } else { Ok(()) }
    }

    fn restore_xattrs(&self, node: &NodeRef) -> FsResult<()> {
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
            // The record of the extra attributes is written last, because it names the change time before it.
            match OWN.into_iter().find(|own| own.bytes() == name) {
                Some(XattrName::EXTRA_ATTRS) => {}
                Some(own) => set(xattrs, own, value)?,
                None => set(xattrs, XattrName::new(name)?, value)?,
            }
        }
        Ok(())
    }

    /// Restores Windows attributes, and the creation time, which no file system lets a service set.
    fn restore_extra(&self, node: &NodeRef) -> FsResult<()> {
        let Some(xattrs) = node.xattrs() else { return Ok(()) };
        let now = node.attrs(Blocking::Allowed)?;
        let record = self.xattrs.iter().find(|(name, _)| name == XattrName::EXTRA_ATTRS.bytes());
        if record.is_none() && (self.attrs.born.is_none() || self.attrs.born == now.born) {
            return Ok(());
        }
        let extra = record.map_or_else(ExtraAttrs::default, |(_, value)| ExtraAttrs::decode(value));
        set(xattrs, XattrName::EXTRA_ATTRS, &extra.of_copy(&self.attrs, &now).encode())
    }

    /// Restores POSIX ACLs, and removes those that the directory has passed on.
    fn restore_acls(&self, node: &NodeRef) -> FsResult<()> {
        let is_dir = self.attrs.file_type == FileType::Directory;
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
        if is_dir && (self.default_acl.is_some() || acls.default_acl()?.is_some()) {
            acls.set_default_acl(self.default_acl.as_ref())?;
        }
        Ok(())
    }
}

fn is_plain(attrs: &Attrs) -> bool {
    matches!(attrs.file_type, FileType::Regular | FileType::Directory)
}

fn names(xattrs: &dyn Xattrs) -> FsResult<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    xattrs.list(0, &mut |name, _| {
        names.push(name.bytes().to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(names)
}

fn read_xattrs(node: &NodeRef) -> FsResult<StoredXattrs> {
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

fn set(xattrs: &dyn Xattrs, name: XattrName<'_>, value: &[u8]) -> FsResult<()> {
    xattrs.set(name, value, SetXattr::Either, &|_| Ok(())).map(drop)
}

/// The list that says no more than a mode, so that the storage keeps the mode alone.
fn list_of_mode(mode: u32) -> PosixAcl {
    let [owner, group, other] = [6, 3, 0].map(|shift| mode >> shift & 7);
    PosixAcl { owner, group, mask: None, other, users: [].into(), groups: [].into() }
}

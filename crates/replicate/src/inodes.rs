//! Reading a file of a backend: its data without holes, and everything else.

use crate::format::records::Inode;
use std::ops::{ControlFlow, Range};
use vfs::backend::xattrs::XattrName;
use vfs::{Attrs, Blocking, FileType, FsError, FsResult, NodeRef, Seek};

/// The next range with data from `offset` on.
pub(crate) fn next_data(node: &NodeRef, offset: u64, size: u64) -> FsResult<Option<Range<u64>>> {
    if offset >= size {
        return Ok(None);
    }
    let Some(ranges) = node.ranges() else { return Ok(Some(offset..size)) };
    let start = match ranges.seek(offset, Seek::Data) {
        Err(FsError::NotSupported) => return Ok(Some(offset..size)),
        found => found?.filter(|&start| start < size),
    };
    let Some(start) = start else { return Ok(None) };
    let end = ranges.seek(start, Seek::Hole)?.unwrap_or(size);
    Ok(Some(start..end.clamp(start + 1, size)))
}

/// Reads everything of a file but its data.
pub(crate) fn read_inode(node: &NodeRef, attrs: &Attrs, is_stream: bool) -> FsResult<Inode> {
    let target = if attrs.file_type == FileType::Symlink { node.read_link()? } else { Vec::new() };
    let mut inode = Inode { attrs: *attrs, target, xattrs: Vec::new(), access_acl: None, default_acl: None };
    if is_stream {
        return Ok(inode);
    }
    if matches!(attrs.file_type, FileType::Regular | FileType::Directory) {
        inode.xattrs = read_xattrs(node)?;
    }
    if let Some(acls) = node.acls().filter(|_| attrs.file_type != FileType::Symlink) {
        inode.access_acl = acls.access_acl(attrs, Blocking::Allowed)?.map(|acl| acl.with_mode(attrs.mode));
        if attrs.file_type == FileType::Directory {
            inode.default_acl = acls.default_acl()?.map(|acl| (*acl).clone());
        }
    }
    Ok(inode)
}

fn read_xattrs(node: &NodeRef) -> FsResult<Vec<(Vec<u8>, Vec<u8>)>> {
    let Some(xattrs) = node.xattrs() else { return Ok(Vec::new()) };
    let mut names: Vec<Vec<u8>> = Vec::new();
    xattrs.list(0, &mut |name, _| {
        names.push(name.bytes().to_vec());
        ControlFlow::Continue(())
    })?;
    let mut all = Vec::new();
    for name in &names {
        all.push((name.clone(), xattrs.get(XattrName::new(name)?)?));
    }
    // No list contains those of this service. The record of the owner is in the attributes.
    for name in [XattrName::EXTRA_ATTRS, XattrName::ACL] {
        match xattrs.get(name) {
            Ok(value) => all.push((name.bytes().to_vec(), value)),
            Err(FsError::NotFound) => {}
            Err(error) => return Err(error),
        }
    }
    all.sort();
    Ok(all)
}

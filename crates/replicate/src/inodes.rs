//! Reading a file of a backend: its data without holes, and everything else.

use crate::format::records::Inode;
use std::ops::Range;
use vfs::volume::metadata::Metadata;
use vfs::{Attrs, FileType, FsError, FsResult, NodeRef, Seek};

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
    let metadata = match is_stream {
        true => Metadata { attrs: *attrs, xattrs: Vec::new(), access_acl: None, default_acl: None },
        false => Metadata::read(node, attrs)?,
    };
    Ok(Inode { metadata, target })
}

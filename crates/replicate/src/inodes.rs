//! Reading a file of a backend: everything but its data.

use crate::format::records::Inode;
use vfs::volume::copies::link_of;
use vfs::volume::metadata::Metadata;
use vfs::{Attrs, FsResult, NodeRef};

/// Reads everything of a file but its data.
pub(crate) fn read_inode(node: &NodeRef, attrs: &Attrs, is_stream: bool) -> FsResult<Inode> {
    let metadata = if is_stream { Metadata::of_stream(attrs) } else { Metadata::read(node, attrs)? };
    Ok(Inode { metadata, target: link_of(node, attrs)? })
}

//! Lists as they are stored with files.

use super::{Acl, Record};
use crate::attrs::Attrs;
use crate::backend::NodeRef;
use crate::error::{FsError, FsResult};
use crate::xattrs::XattrName;

/// The list that rules a file with `attrs`, read anew: its own, or that of its mode.
pub(crate) fn list_of(node: &NodeRef, attrs: &Attrs) -> FsResult<Acl> {
    let record = read(node)?.filter(|record| record.is_of(attrs));
    Ok(record.map_or_else(|| Acl::of_mode(attrs), |record| record.acl))
}

/// The record of a file, if it has any that is one.
pub(crate) fn read(node: &NodeRef) -> FsResult<Option<Record>> {
    match node.xattrs().map(|xattrs| xattrs.get(XattrName::ACL)) {
        Some(Ok(bytes)) => Ok(Record::decode(&bytes)),
        Some(Err(FsError::NotFound)) | None => Ok(None),
        Some(Err(error)) => Err(error),
    }
}

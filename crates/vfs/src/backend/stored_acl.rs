//! Lists as they are stored with files.

use super::xattrs::XattrName;
use super::{Blocking, NodeRef};
use crate::acl::{Acl, Record};
use crate::error::{FsError, FsResult};
use crate::model::attrs::Attrs;

/// Reads the list of a file with `attrs` anew; without one, returns the equivalent of its mode.
pub(crate) fn list_of(node: &NodeRef, attrs: &Attrs) -> FsResult<Acl> {
    match read(node)?.filter(|record| record.is_of(attrs)) {
        Some(record) => Ok(record.acl),
        None => list_of_mode(node, attrs, Blocking::Allowed),
    }
}

/// Returns the list equivalent to the mode of a file with `attrs` and its POSIX ACL, if any.
pub(crate) fn list_of_mode(node: &NodeRef, attrs: &Attrs, blocking: Blocking) -> FsResult<Acl> {
    let acl = node.acls().map_or(Ok(None), |acls| acls.access_acl(attrs, blocking))?;
    Ok(acl.map_or_else(|| Acl::from_mode(attrs), |acl| Acl::from_posix(attrs, &acl)))
}

/// Reads the record of a file, if it has a valid one.
pub(crate) fn read(node: &NodeRef) -> FsResult<Option<Record>> {
    match node.xattrs().map(|xattrs| xattrs.get(XattrName::ACL)) {
        Some(Ok(bytes)) => Ok(Record::decode(&bytes)),
        Some(Err(FsError::NotFound)) | None => Ok(None),
        Some(Err(error)) => Err(error),
    }
}

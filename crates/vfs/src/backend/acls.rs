//! POSIX access control lists as a capability of a backend.

use super::blocking::Blocking;
use crate::acl::posix_acl::PosixAcl;
use crate::error::FsResult;
use crate::model::attrs::Attrs;
use std::sync::Arc;

/// The POSIX ACLs of a file. A backend with this capability behaves like Linux. A new mode of a file with an ACL sets
/// the owner's permissions, the mask and the others'. A new object in a directory with a default ACL inherits it.
///
/// The methods that read may be called by an authorizing closure ([`super::Node`]): they take no lock that the backend
/// holds then.
pub trait Acls {
    /// The access ACL of this file, which has `attrs`; `None` if mode bits are equivalent.
    /// The entries for owner, mask and others may show an earlier mode.
    fn access_acl(&self, attrs: &Attrs, blocking: Blocking) -> FsResult<Option<Arc<PosixAcl>>>;

    /// The default ACL of this directory; `None` without one, and for other file types.
    fn default_acl(&self) -> FsResult<Option<Arc<PosixAcl>>>;

    /// Sets the access ACL, as setfacl(1) does: the mode follows it. For a restore; no protocol offers it.
    fn set_access_acl(&self, acl: &PosixAcl) -> FsResult<()>;

    /// Sets or removes the default ACL of this directory; [`crate::FsError::NotDirectory`] for other file types.
    fn set_default_acl(&self, acl: Option<&PosixAcl>) -> FsResult<()>;
}

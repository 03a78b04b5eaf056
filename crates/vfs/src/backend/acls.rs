//! POSIX access control lists as a capability of a backend.

use super::Blocking;
use crate::acl::posix_acl::PosixAcl;
use crate::error::FsResult;
use crate::model::attrs::Attrs;
use std::sync::Arc;

/// The lists of a file. A backend that has this capability does what Linux does: a new mode of a file with a list sets the
/// owner's permissions, the mask and the others', and what is made in a directory with a default list inherits it.
///
/// Both verbs may be called while a decision is asked for ([`super::Node`]): they take no lock of the backend's that is
/// held then.
pub trait Acls {
    /// The access list of this file, which has `attrs`; `None` if mode bits say all. Owner, mask and others of it may be those of
    /// an earlier mode.
    fn access_acl(&self, attrs: &Attrs, blocking: Blocking) -> FsResult<Option<Arc<PosixAcl>>>;

    /// The list that this directory hands on; `None` if there is none, or this is no directory.
    fn default_acl(&self) -> FsResult<Option<Arc<PosixAcl>>>;
}

//! Errors of libcephfs and their counterparts in the model.

use rustix::io::Errno;
use std::fmt;
use vfs::{FsError, Wait};

/// The error of the model for `errno`. Unlisted numbers are failures of the storage or of this crate: [`FsError::Io`].
pub(crate) fn refused(errno: Errno) -> FsError {
    match errno {
        Errno::PERM => FsError::NotOwner,
        Errno::NOENT => FsError::NotFound,
        Errno::NXIO | Errno::NODEV => FsError::NoDevice,
        Errno::ACCESS => FsError::Access,
        Errno::EXIST => FsError::Exists,
        Errno::XDEV => FsError::CrossVolume,
        Errno::NOTDIR | Errno::LOOP => FsError::NotDirectory,
        Errno::ISDIR => FsError::IsDirectory,
        Errno::INVAL | Errno::ILSEQ => FsError::Invalid,
        Errno::FBIG | Errno::OVERFLOW => FsError::FileTooBig,
        // The quota of the engine is a backstop behind the volume's own count.
        Errno::NOSPC | Errno::DQUOT => FsError::NoSpace,
        Errno::ROFS => FsError::ReadOnly,
        Errno::MLINK => FsError::TooManyLinks,
        Errno::NAMETOOLONG => FsError::NameTooLong,
        Errno::NOTEMPTY => FsError::NotEmpty,
        Errno::STALE => FsError::Stale,
        Errno::OPNOTSUPP | Errno::NOSYS => FsError::NotSupported,
        // The session ended: the service mounts again.
        Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT | Errno::SHUTDOWN | Errno::NOTCONN => {
            FsError::Wait(Wait::Recall)
        }
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS => FsError::Resource,
        _ => FsError::Io,
    }
}

/// The reason why a cluster cannot be used.
#[derive(Debug)]
pub struct OpenError(String);

impl OpenError {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OpenError {}

//! Maps errors of libcephfs to errors of the model.

use rustix::io::Errno;
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

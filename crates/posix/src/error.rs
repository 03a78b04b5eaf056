//! Maps errors of the kernel to errors of the model.

use rustix::io::Errno;
use vfs::{FsError, Wait};

/// The error of the model for `errno`. Unlisted numbers are failures of the storage or of this crate: [`FsError::Io`].
pub(crate) fn refused(errno: Errno) -> FsError {
    match errno {
        Errno::PERM => FsError::NotOwner,
        Errno::NOENT => FsError::NotFound,
        Errno::NXIO | Errno::NODEV => FsError::NoDevice,
        // A running program or a mount point is busy and cannot be changed now.
        Errno::ACCESS | Errno::TXTBSY | Errno::BUSY => FsError::Access,
        Errno::EXIST => FsError::Exists,
        Errno::XDEV => FsError::CrossVolume,
        // A symbolic link in place of a directory: links are never followed here.
        Errno::NOTDIR | Errno::LOOP => FsError::NotDirectory,
        Errno::ISDIR => FsError::IsDirectory,
        // EILSEQ: the file system cannot store the bytes of the name.
        Errno::INVAL | Errno::ILSEQ => FsError::Invalid,
        Errno::FBIG | Errno::OVERFLOW => FsError::FileTooBig,
        Errno::NOSPC => FsError::NoSpace,
        Errno::ROFS => FsError::ReadOnly,
        Errno::MLINK => FsError::TooManyLinks,
        Errno::NAMETOOLONG => FsError::NameTooLong,
        Errno::NOTEMPTY => FsError::NotEmpty,
        Errno::DQUOT => FsError::Quota,
        Errno::STALE => FsError::Stale,
        Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY => FsError::NotSupported,
        // A lease of another process, or a file system that asks for a retry.
        Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT => FsError::Wait(Wait::Recall),
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS => FsError::Resource,
        _ => FsError::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errno_maps_to_model_error() {
        let expected = [
            (libc::ENAMETOOLONG, FsError::NameTooLong),
            (libc::ENOTEMPTY, FsError::NotEmpty),
            (libc::EDQUOT, FsError::Quota),
            (libc::ENOSPC, FsError::NoSpace),
            (libc::EROFS, FsError::ReadOnly),
            (libc::EMLINK, FsError::TooManyLinks),
            (libc::ESTALE, FsError::Stale),
            (libc::EXDEV, FsError::CrossVolume),
            (libc::ENOTDIR, FsError::NotDirectory),
            (libc::EISDIR, FsError::IsDirectory),
            (libc::EINVAL, FsError::Invalid),
            (libc::EOPNOTSUPP, FsError::NotSupported),
            (libc::EFBIG, FsError::FileTooBig),
            (libc::EPERM, FsError::NotOwner),
            (libc::EACCES, FsError::Access),
            (libc::EMFILE, FsError::Resource),
            (libc::ENFILE, FsError::Resource),
            (libc::ENOMEM, FsError::Resource),
            (libc::ELOOP, FsError::NotDirectory),
            (libc::EIO, FsError::Io),
            (libc::EUCLEAN, FsError::Io),
        ];
        for (errno, refusal) in expected {
            assert_eq!(refused(Errno::from_raw_os_error(errno)), refusal, "errno {errno}");
        }
    }
}

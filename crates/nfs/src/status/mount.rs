//! The one place where a file system's refusal becomes a MOUNT status.
#![deny(clippy::wildcard_enum_match_arm)]

use nfs_wire::mount::Status;
use vfs::FsError;

/// The status of an error, RFC 1813 §5.1.5. The list is short, and MNT meets few errors.
pub(crate) fn status(error: FsError) -> Status {
    match error {
        FsError::NotOwner => Status::PERM,
        // A directory removed during the walk is as if it had never existed.
        FsError::NotFound | FsError::Stale => Status::NOENT,
        FsError::Io | FsError::NoDevice => Status::IO,
        FsError::Access => Status::ACCES,
        FsError::NotDirectory => Status::NOTDIR,
        FsError::Invalid => Status::INVAL,
        FsError::NameTooLong => Status::NAMETOOLONG,
        FsError::NotSupported => Status::NOTSUPP,
        FsError::Exists
        | FsError::CrossVolume
        | FsError::IsDirectory
        | FsError::FileTooBig
        | FsError::NoSpace
        | FsError::ReadOnly
        | FsError::TooManyLinks
        | FsError::NotEmpty
        | FsError::Quota
        | FsError::BadHandle
        | FsError::GuardMismatch
        | FsError::BadType
        | FsError::TooSmall
        | FsError::Wait(_)
        | FsError::DeletePending
        | FsError::Locked
        | FsError::Resource => Status::SERVERFAULT,
    }
}

//! The one place where a file system's refusal becomes an NFSv4 status.
#![deny(clippy::wildcard_enum_match_arm)]

use nfs_wire::v4::Status;
use vfs::FsError;

/// The status of an error, RFC 8881 §15.1.
pub(crate) fn status(error: FsError) -> Status {
    match error {
        FsError::NotOwner => Status::PERM,
        FsError::NotFound => Status::NOENT,
        FsError::Io => Status::IO,
        FsError::NoDevice => Status::NXIO,
        FsError::Access => Status::ACCESS,
        // Not FILE_OPEN, which WRITE and SETATTR do not have.
        FsError::DeletePending => Status::ACCESS,
        FsError::Exists => Status::EXIST,
        FsError::CrossVolume => Status::XDEV,
        FsError::NotDirectory => Status::NOTDIR,
        FsError::IsDirectory => Status::ISDIR,
        FsError::Invalid => Status::INVAL,
        FsError::FileTooBig => Status::FBIG,
        FsError::NoSpace => Status::NOSPC,
        FsError::ReadOnly => Status::ROFS,
        FsError::TooManyLinks => Status::MLINK,
        FsError::NameTooLong => Status::NAMETOOLONG,
        FsError::NotEmpty => Status::NOTEMPTY,
        FsError::Quota => Status::DQUOT,
        FsError::Stale => Status::STALE,
        FsError::BadHandle => Status::BADHANDLE,
        // No operation of this protocol has a guard: VERIFY is an operation of its own.
        FsError::GuardMismatch => Status::SERVERFAULT,
        FsError::NotSupported => Status::NOTSUPP,
        FsError::BadType => Status::BADTYPE,
        FsError::TooSmall => Status::TOOSMALL,
        FsError::Locked => Status::LOCKED,
        // RESOURCE exists only in 4.0, and clients do not retry after it.
        FsError::Wait(_) | FsError::Resource => Status::DELAY,
    }
}

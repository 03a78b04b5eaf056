//! The one place where a file system's refusal becomes an NFSv3 status.
#![deny(clippy::wildcard_enum_match_arm)]

use nfs_wire::v3::Status;
use vfs::FsError;

/// The status of an error, RFC 1813 §2.6.
pub(crate) fn status(error: FsError) -> Status {
    match error {
        FsError::NotOwner => Status::PERM,
        FsError::NotFound => Status::NOENT,
        FsError::Io => Status::IO,
        FsError::NoDevice => Status::NXIO,
        FsError::Access => Status::ACCES,
        // Not JUKEBOX: the file may stay open for hours.
        FsError::DeletePending => Status::ACCES,
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
        FsError::GuardMismatch => Status::NOT_SYNC,
        FsError::NotSupported => Status::NOTSUPP,
        FsError::BadType => Status::BADTYPE,
        FsError::TooSmall => Status::TOOSMALL,
        // JUKEBOX is the only status after which clients retry.
        FsError::Wait(_) | FsError::Locked | FsError::Resource => Status::JUKEBOX,
    }
}

//! Errors of a file system.

use std::fmt;

/// Why a file operation was refused: a closed set, so that each protocol maps it with one exhaustive `match`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FsError {
    /// The caller is not the owner, or the operation is for the superuser alone (`EPERM`).
    NotOwner,
    /// No such name (`ENOENT`).
    NotFound,
    /// The storage failed (`EIO`).
    Io,
    /// No such device or address (`ENXIO`, `ENODEV`).
    NoDevice,
    /// The mode bits forbid it (`EACCES`).
    Access,
    /// The name exists (`EEXIST`).
    Exists,
    /// The two names lie in different volumes or file systems (`EXDEV`).
    CrossVolume,
    /// Not a directory (`ENOTDIR`).
    NotDirectory,
    /// Is a directory (`EISDIR`).
    IsDirectory,
    /// An argument is invalid (`EINVAL`).
    Invalid,
    /// Past the largest offset a file may have (`EFBIG`).
    FileTooBig,
    /// The file system is full (`ENOSPC`).
    NoSpace,
    /// The volume or the export is read-only (`EROFS`).
    ReadOnly,
    /// The file has too many links (`EMLINK`).
    TooManyLinks,
    /// The name or the path is too long (`ENAMETOOLONG`).
    NameTooLong,
    /// The directory is not empty (`ENOTEMPTY`).
    NotEmpty,
    /// A quota is used up (`EDQUOT`).
    Quota,
    /// The file was deleted (`ESTALE`), or its volume is no longer served.
    Stale,
    /// The handle was not made by this service.
    BadHandle,
    /// The guard of a SETATTR does not match the change time of the file.
    GuardMismatch,
    /// The backend cannot do this at all (`EOPNOTSUPP`).
    NotSupported,
    /// This call cannot make files of this type.
    BadType,
    /// The reply does not fit the size that the caller allows.
    TooSmall,
    /// The operation cannot finish yet, and changed nothing: run it again once the cause has passed.
    Wait(Wait),
    /// A client has the file open and has marked it for deletion.
    DeletePending,
    /// A client has the file open, or bytes of it locked, and denies this access.
    Locked,
    /// Out of a bounded resource of this process (descriptors, memory).
    Resource,
}

/// The cause for which an operation waits, in every protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// The storage has to be read or written, and the caller may not block ([`crate::Blocking::Never`]).
    Storage,
    /// Another client has to return a lease, a delegation or an oplock, or the grace period has to end.
    Recall,
    /// A service level's limit has no tokens left.
    Tokens,
    /// An event that the client asked for: a lock that becomes free, a change of a directory.
    Event,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Storage => "waiting for storage",
            Self::Recall => "waiting for another client to return a lease",
            Self::Tokens => "waiting for a limit",
            Self::Event => "waiting for an event",
        })
    }
}

pub type FsResult<T> = Result<T, FsError>;

impl fmt::Display for FsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotOwner => "not the owner",
            Self::NotFound => "no such file or directory",
            Self::Io => "input/output error",
            Self::NoDevice => "no such device",
            Self::Access => "permission denied",
            Self::Exists => "file exists",
            Self::CrossVolume => "not on the same volume",
            Self::NotDirectory => "not a directory",
            Self::IsDirectory => "is a directory",
            Self::Invalid => "invalid argument",
            Self::FileTooBig => "file too large",
            Self::NoSpace => "no space left",
            Self::ReadOnly => "read-only",
            Self::TooManyLinks => "too many links",
            Self::NameTooLong => "name too long",
            Self::NotEmpty => "directory not empty",
            Self::Quota => "quota exceeded",
            Self::Stale => "stale file handle",
            Self::BadHandle => "bad file handle",
            Self::GuardMismatch => "the file changed since the guard was taken",
            Self::NotSupported => "not supported",
            Self::BadType => "file type not supported",
            Self::TooSmall => "reply size too small",
            Self::Wait(cause) => return cause.fmt(f),
            Self::DeletePending => "deleted when its last open is closed",
            Self::Locked => "locked by another open or lock",
            Self::Resource => "out of descriptors or memory",
        })
    }
}

impl std::error::Error for FsError {}

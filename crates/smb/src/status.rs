//! `FsError` to the statuses of MS-ERREF.

use smb_wire::NtStatus;
use vfs::FsError;
use vfs::claims::Conflict;

/// The status of an error, the same for every command. Errors that wait are retried elsewhere; their status here is for
/// calls that cannot wait.
pub(crate) fn from_fs_error(error: FsError) -> NtStatus {
    match error {
        FsError::NotOwner | FsError::Access => NtStatus::ACCESS_DENIED,
        FsError::NotFound => NtStatus::OBJECT_NAME_NOT_FOUND,
        FsError::Io => NtStatus::IO_DEVICE_ERROR,
        FsError::NoDevice => NtStatus::NO_SUCH_DEVICE,
        FsError::Exists => NtStatus::OBJECT_NAME_COLLISION,
        FsError::CrossVolume => NtStatus::NOT_SAME_DEVICE,
        FsError::NotDirectory => NtStatus::NOT_A_DIRECTORY,
        FsError::IsDirectory => NtStatus::FILE_IS_A_DIRECTORY,
        FsError::Invalid | FsError::GuardMismatch | FsError::FileTooBig => NtStatus::INVALID_PARAMETER,
        FsError::NoSpace => NtStatus::DISK_FULL,
        FsError::ReadOnly => NtStatus::MEDIA_WRITE_PROTECTED,
        FsError::TooManyLinks => NtStatus::TOO_MANY_LINKS,
        FsError::NameTooLong => NtStatus::OBJECT_NAME_INVALID,
        FsError::NotEmpty => NtStatus::DIRECTORY_NOT_EMPTY,
        FsError::Quota => NtStatus::DISK_FULL,
        FsError::Stale | FsError::BadHandle => NtStatus::FILE_CLOSED,
        FsError::NotSupported | FsError::BadType => NtStatus::NOT_SUPPORTED,
        FsError::TooSmall => NtStatus::BUFFER_TOO_SMALL,
        FsError::DeletePending => NtStatus::DELETE_PENDING,
        FsError::Locked => NtStatus::FILE_LOCK_CONFLICT,
        FsError::Wait(_) | FsError::Resource => NtStatus::INSUFFICIENT_RESOURCES,
    }
}

/// The status of a refused claim; `None`: retry.
pub(crate) fn from_conflict(conflict: Conflict) -> Option<NtStatus> {
    Some(match conflict {
        Conflict::Share => NtStatus::SHARING_VIOLATION,
        // Its client may reconnect (MS-SMB2 §3.3.5.9).
        Conflict::Absent => NtStatus::FILE_NOT_AVAILABLE,
        Conflict::DeletePending => NtStatus::DELETE_PENDING,
        Conflict::Range { .. } => NtStatus::LOCK_NOT_GRANTED,
        Conflict::Recalling | Conflict::Grace => return None,
        Conflict::NoGrace | Conflict::NotHeld => NtStatus::FILE_CLOSED,
        Conflict::Denied => NtStatus::ACCESS_DENIED,
        Conflict::TooMany => NtStatus::INSUFFICIENT_RESOURCES,
    })
}

//! The one place where a refusal becomes a status of the lock manager.
#![deny(clippy::wildcard_enum_match_arm)]

use nfs_wire::nlm::{Status, VERSION_4};
use vfs::claims::Conflict;
use vfs::{FsError, Wait};

/// The status of an error, RFC 1813 §6.1.3. `DENIED` would have a client ask again, so it is for locks of
/// others alone; `DENIED_GRACE_PERIOD` is the one word for "ask again".
pub(crate) fn from_error(error: FsError) -> Status {
    match error {
        FsError::Stale | FsError::BadHandle => Status::STALE_FH,
        FsError::ReadOnly => Status::ROFS,
        FsError::FileTooBig => Status::FBIG,
        FsError::Wait(Wait::Recall) => Status::DENIED_GRACE_PERIOD,
        FsError::Resource | FsError::Locked | FsError::Wait(_) => Status::DENIED_NOLOCKS,
        FsError::NotOwner
        | FsError::NotFound
        | FsError::Io
        | FsError::NoDevice
        | FsError::Access
        | FsError::DeletePending
        | FsError::Exists
        | FsError::CrossVolume
        | FsError::NotDirectory
        | FsError::IsDirectory
        | FsError::Invalid
        | FsError::NoSpace
        | FsError::TooManyLinks
        | FsError::NameTooLong
        | FsError::NotEmpty
        | FsError::Quota
        | FsError::GuardMismatch
        | FsError::NotSupported
        | FsError::BadType
        | FsError::TooSmall => Status::FAILED,
    }
}

pub(crate) fn from_conflict(conflict: Conflict) -> Status {
    match conflict {
        Conflict::Share
        | Conflict::Absent
        | Conflict::DeletePending
        | Conflict::Range { .. }
        | Conflict::NoGrace
        | Conflict::NotHeld
        | Conflict::Denied => Status::DENIED,
        // The client with the delegation is being recalled.
        Conflict::Grace | Conflict::Recalling => Status::DENIED_GRACE_PERIOD,
        Conflict::TooMany => Status::DENIED_NOLOCKS,
    }
}

/// The status in a version of the protocol: versions before 4 have fewer.
pub(crate) fn in_version(status: Status, version: u32) -> Status {
    if version == VERSION_4 || status <= Status::DEADLCK { status } else { Status::DENIED_NOLOCKS }
}

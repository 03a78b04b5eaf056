//! The result of a command.

use crate::status::{from_conflict, from_fs_error};
use smb_wire::{Malformed, NtStatus};
use vfs::claims::Conflict;
use vfs::{FsError, Wait};

/// The status of a command that has written its reply. Any error gets a reply without a body.
pub(crate) type CommandResult = Result<NtStatus, CommandError>;

/// A command that has written no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandError {
    Status(NtStatus),
    /// The command runs again from its beginning when the cause has ended. [`Wait::Event`]: the command has a waker
    /// ([`super::context::RequestContext::suspend`]).
    Wait(Wait),
    /// The connection ends, since its earlier messages cannot be trusted.
    Disconnect,
}

impl From<NtStatus> for CommandError {
    fn from(status: NtStatus) -> Self {
        Self::Status(status)
    }
}

impl From<FsError> for CommandError {
    fn from(error: FsError) -> Self {
        match error {
            // The other causes need a waker, which the file system does not take.
            FsError::Wait(cause @ (Wait::Storage | Wait::Recall)) => Self::Wait(cause),
            error => Self::Status(from_fs_error(error)),
        }
    }
}

impl From<Conflict> for CommandError {
    fn from(conflict: Conflict) -> Self {
        from_conflict(conflict).map_or(Self::Wait(Wait::Recall), Self::Status)
    }
}

impl From<Malformed> for CommandError {
    fn from(_: Malformed) -> Self {
        Self::Status(NtStatus::INVALID_PARAMETER)
    }
}

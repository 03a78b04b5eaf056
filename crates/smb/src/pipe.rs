//! Pipes of IPC$ as a client has them open (MS-SMB2 §3.3.1.10, MS-RPCE §2.1.1.2).

use crate::counts::lock;
use smb_wire::rpc::{Association, Call, Fault, PartOfReply, WriteError};
use smb_wire::types::AccessMask;
use smb_wire::{FileId, NtStatus};
use std::sync::Mutex;

/// What is spoken over a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// `srvsvc`: which shares there are.
    Server,
    /// `wkssvc`: what the host is called.
    Workstation,
    /// `lsarpc`: whose a SID is.
    Authority,
}

/// A pipe as a client has it open.
pub(crate) struct Pipe {
    pub(crate) id: FileId,
    /// The tree connect it was opened by.
    pub(crate) tree_id: u32,
    pub(crate) speaks: Speaks,
    granted: AccessMask,
    /// Nothing once the client has written what is no RPC.
    association: Mutex<Option<Association>>,
}

impl Pipe {
    pub(crate) fn new(
        id: FileId,
        tree_id: u32,
        granted: AccessMask,
        speaks: Speaks,
        association: Association,
    ) -> Self {
        Self { id, tree_id, speaks, granted, association: Mutex::new(Some(association)) }
    }

    /// `STATUS_ACCESS_DENIED` unless all of `rights` were granted.
    pub(crate) fn check(&self, rights: AccessMask) -> Result<(), NtStatus> {
        if self.granted.contains(rights) { Ok(()) } else { Err(NtStatus::ACCESS_DENIED) }
    }

    /// Takes what a client writes, and has the calls answered that are whole with it.
    pub(crate) fn write(
        &self,
        bytes: &[u8],
        answer: impl FnMut(Call<'_>) -> Result<Vec<u8>, Fault>,
    ) -> Result<(), NtStatus> {
        let mut association = lock(&self.association);
        let open = association.as_mut().ok_or(NtStatus::PIPE_DISCONNECTED)?;
        match open.write(bytes, answer) {
            Ok(()) => Ok(()),
            Err(WriteError::Unread) => Err(NtStatus::PIPE_BUSY),
            Err(WriteError::Malformed(malformed)) => {
                tracing::info!(what = malformed.0, "a pipe is closed");
                *association = None;
                Err(NtStatus::PIPE_DISCONNECTED)
            }
        }
    }

    /// At most `length` bytes of what was answered. Nobody waits here for answers to what is still to be asked.
    pub(crate) fn read(&self, length: u32) -> Result<PartOfReply, NtStatus> {
        let mut association = lock(&self.association);
        let open = association.as_mut().ok_or(NtStatus::PIPE_DISCONNECTED)?;
        open.read(usize::try_from(length).unwrap_or(usize::MAX)).ok_or(NtStatus::PIPE_EMPTY)
    }

    /// Whether something was answered that is not read.
    pub(crate) fn has_unread(&self) -> Result<bool, NtStatus> {
        let association = lock(&self.association);
        let open = association.as_ref().ok_or(NtStatus::PIPE_DISCONNECTED)?;
        Ok(open.has_unread())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smb_wire::rpc::srvsvc;

    fn pipe(granted: AccessMask) -> Pipe {
        let association = Association::new("\\PIPE\\srvsvc", &[srvsvc::INTERFACE]);
        Pipe::new(FileId { persistent: 1, volatile: 1 }, 1, granted, Speaks::Server, association)
    }

    #[test]
    fn what_is_no_rpc_closes_the_pipe() {
        let pipe = pipe(AccessMask::FILE_ALL);
        let refuse = |_: Call<'_>| Err(Fault::ACCESS_DENIED);
        assert_eq!(pipe.read(100), Err(NtStatus::PIPE_EMPTY));
        assert_eq!(pipe.write(&[0xff; 64], refuse), Err(NtStatus::PIPE_DISCONNECTED));
        assert_eq!(pipe.write(&[], refuse), Err(NtStatus::PIPE_DISCONNECTED));
        assert_eq!(pipe.read(100), Err(NtStatus::PIPE_DISCONNECTED));
        assert_eq!(pipe.has_unread(), Err(NtStatus::PIPE_DISCONNECTED));
    }

    #[test]
    fn all_rights_of_a_call_are_needed() {
        let both = AccessMask::READ_DATA | AccessMask::WRITE_DATA;
        let reading = pipe(AccessMask::READ_DATA);
        assert_eq!(reading.check(AccessMask::READ_DATA), Ok(()));
        assert_eq!(reading.check(AccessMask::WRITE_DATA), Err(NtStatus::ACCESS_DENIED));
        assert_eq!(reading.check(both), Err(NtStatus::ACCESS_DENIED));
        assert_eq!(pipe(both).check(both), Ok(()));
    }
}

//! The open files of a process over NFSv4 and SMB: a small file during an operation, and the files of streams
//! until their end.

use nfs_wire::v4::ShareAccess;

use super::mix::Operation;
use wire_client::Handle;
use wire_client::Version;
use wire_client::call::OpenId;

/// Slots for open files: one for an operation on small files, one for the stream of reads, one for the stream of
/// writes. Each has its own open owner, so that two opens of one file stay separate.
pub(super) const OPEN_SLOTS: usize = 3;

#[derive(Debug, Default)]
pub(super) struct Opens([Option<OpenFile>; OPEN_SLOTS]);

#[derive(Clone, Debug)]
pub(super) struct OpenFile {
    pub file: Handle,
    pub id: OpenId,
}

pub(super) fn open_slot_of(operation: Operation) -> usize {
    match operation {
        Operation::SequentialRead => 1,
        Operation::SequentialWrite => 2,
        Operation::Stat
        | Operation::Access
        | Operation::RandomWrite
        | Operation::WriteFile
        | Operation::RandomRead
        | Operation::ReadFile
        | Operation::Create
        | Operation::Mkdir
        | Operation::Unlink
        | Operation::UnlinkFull
        | Operation::Chmod => 0,
    }
}

/// `None` if the operation opens no file in this version.
pub(super) fn access_of(operation: Operation, version: Version) -> Option<ShareAccess> {
    match (version, operation) {
        (Version::V3, _) => None,
        (_, Operation::RandomRead | Operation::ReadFile | Operation::SequentialRead) => {
            Some(ShareAccess::READ)
        }
        (_, Operation::RandomWrite | Operation::WriteFile | Operation::SequentialWrite) => {
            Some(ShareAccess::WRITE)
        }
        _ => None,
    }
}

impl Opens {
    pub(super) fn get(&self, place: usize) -> Option<&OpenFile> {
        self.0[place].as_ref()
    }

    pub(super) fn set(&mut self, place: usize, open: OpenFile) {
        self.0[place] = Some(open);
    }

    /// Frees a slot. A file that could not be closed is closed with the client.
    pub(super) fn clear(&mut self, place: usize) {
        self.0[place] = None;
    }

    /// The first of `places` slots with an open file.
    pub(super) fn first(&self, places: usize) -> Option<usize> {
        self.0[..places].iter().position(Option::is_some)
    }
}

//! The files that a process has open over NFSv4 and SMB: a small one while an operation works in it, and those of its
//! streams from one end to the other.

use nfs_wire::v4::ShareAccess;

use super::mix::Operation;
use wire_client::Handle;
use wire_client::Version;
use wire_client::call::OpenId;

/// Which file of a process: that of an operation on small files, that of its stream of reads, that of its stream
/// of writes. Each is opened by another owner, so that two opens of one file are two.
pub(super) const OPEN_SLOTS: usize = 3;

/// The open files of a process.
#[derive(Debug, Default)]
pub(super) struct Opens([Option<OpenFile>; OPEN_SLOTS]);

/// A file, and by what the server knows that it is open.
#[derive(Clone, Debug)]
pub(super) struct OpenFile {
    pub file: Handle,
    pub id: OpenId,
}

/// The slot of an operation's file.
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

/// For what an operation opens its file; `None` where it works in none, or nothing is opened in this version.
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
    /// The file that is open in a place.
    pub(super) fn get(&self, place: usize) -> Option<&OpenFile> {
        self.0[place].as_ref()
    }

    /// A file was opened.
    pub(super) fn set(&mut self, place: usize, open: OpenFile) {
        self.0[place] = Some(open);
    }

    /// Frees a slot. A file that could not be closed is closed with the client.
    pub(super) fn clear(&mut self, place: usize) {
        self.0[place] = None;
    }

    /// The first of so many places with an open file.
    pub(super) fn first(&self, places: usize) -> Option<usize> {
        self.0[..places].iter().position(Option::is_some)
    }
}

//! QUERY_DIRECTORY and CHANGE_NOTIFY, MS-SMB2 §2.2.33 to §2.2.36.

use crate::sets::{bit_set, open_set};
use crate::{FileId, Utf16, Wire};

open_set! {
    /// `FileInformationClass` of a directory listing, MS-SMB2 §2.2.33; `POSIX` belongs to the POSIX extensions to SMB3.
    pub struct DirectoryClass: u8 {
        DIRECTORY = 0x01,
        FULL_DIRECTORY = 0x02,
        BOTH_DIRECTORY = 0x03,
        NAMES = 0x0c,
        ID_BOTH_DIRECTORY = 0x25,
        ID_FULL_DIRECTORY = 0x26,
        ID_EXTD_DIRECTORY = 0x3c,
        POSIX = 0x64,
    }
}

bit_set! {
    /// `Flags`, MS-SMB2 §2.2.33.
    pub struct QueryDirectoryFlags: u8 {
        RESTART_SCANS = 0x1,
        RETURN_SINGLE_ENTRY = 0x2,
        INDEX_SPECIFIED = 0x4,
        REOPEN = 0x10,
    }

    /// `Flags`, MS-SMB2 §2.2.35.
    pub struct ChangeNotifyFlags: u16 {
        WATCH_TREE = 0x1,
    }

    /// `CompletionFilter`, MS-SMB2 §2.2.35.
    pub struct CompletionFilter: u32 {
        FILE_NAME = 0x1,
        DIR_NAME = 0x2,
        ATTRIBUTES = 0x4,
        SIZE = 0x8,
        LAST_WRITE = 0x10,
        LAST_ACCESS = 0x20,
        CREATION = 0x40,
        EA = 0x80,
        SECURITY = 0x100,
        STREAM_NAME = 0x200,
        STREAM_SIZE = 0x400,
        STREAM_WRITE = 0x800,
    }
}

/// `SMB2 QUERY_DIRECTORY Request`, MS-SMB2 §2.2.33.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 33)]
pub struct QueryDirectoryRequest<'a> {
    pub file_information_class: DirectoryClass,
    pub flags: QueryDirectoryFlags,
    pub file_index: u32,
    pub file_id: FileId,
    #[wire(offset = u16, length = u16)]
    pub file_name: Utf16<'a>,
    pub output_buffer_length: u32,
}

/// `SMB2 CHANGE_NOTIFY Request`, MS-SMB2 §2.2.35.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 32, end = 4)]
pub struct ChangeNotifyRequest {
    pub flags: ChangeNotifyFlags,
    pub output_buffer_length: u32,
    pub file_id: FileId,
    pub completion_filter: CompletionFilter,
}

/// A response with a single buffer: `SMB2 QUERY_DIRECTORY Response` (MS-SMB2 §2.2.34), `SMB2 CHANGE_NOTIFY Response`
/// (§2.2.36) and `SMB2 QUERY_INFO Response` (§2.2.38).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 9)]
pub struct OutputResponse<B> {
    #[wire(offset = u16, length = u32)]
    pub output: B,
}

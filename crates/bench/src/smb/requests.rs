//! Requests as loads and their set-up make them.

use smb_wire::classes::FileClass;
use smb_wire::create::{
    CreateContexts, CreateDisposition, CreateOptions, CreateRequest, ImpersonationLevel, OplockLevel,
    ShareAccess,
};
use smb_wire::dir::{DirectoryClass, QueryDirectoryFlags, QueryDirectoryRequest};
use smb_wire::file::{
    Channel, CloseFlags, CloseRequest, FlushRequest, ReadFlags, ReadRequest, WriteFlags, WriteRequest,
};
use smb_wire::info::{InfoType, QueryInfoFlags, QueryInfoRequest, SecurityInformation, SetInfoRequest};
use smb_wire::types::{AccessMask, FileAttributes};
use smb_wire::{ExternalBuffer, FileId, Utf16};

/// Most bytes of a listing's page.
pub(crate) const PAGE_BYTES: u32 = 64 << 10;
/// Everybody else may do everything.
const SHARED: ShareAccess = ShareAccess(ShareAccess::READ.0 | ShareAccess::WRITE.0 | ShareAccess::DELETE.0);

/// How a file is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    access: AccessMask,
    disposition: CreateDisposition,
    options: CreateOptions,
}

impl Opening {
    /// To read and write a file that is there.
    pub(crate) const DATA: Self = Self {
        access: AccessMask(AccessMask::GENERIC_READ.0 | AccessMask::GENERIC_WRITE.0),
        disposition: CreateDisposition::OPEN,
        options: CreateOptions::NON_DIRECTORY_FILE,
    };
    /// To read a file that is there.
    pub(crate) const READING: Self = Self { access: AccessMask(AccessMask::GENERIC_READ.0), ..Self::DATA };
    /// To write one.
    pub(crate) const WRITING: Self = Self { access: AccessMask(AccessMask::GENERIC_WRITE.0), ..Self::DATA };
    /// To do with one whatever is allowed.
    pub(crate) const WHATEVER: Self = Self { access: AccessMask::MAXIMUM_ALLOWED, ..Self::DATA };
    /// To look at what is there.
    pub(crate) const ATTRIBUTES: Self = Self {
        access: AccessMask::READ_ATTRIBUTES,
        disposition: CreateDisposition::OPEN,
        options: CreateOptions::empty(),
    };
    /// To set attributes.
    pub(crate) const SETTING: Self = Self { access: AccessMask::WRITE_ATTRIBUTES, ..Self::ATTRIBUTES };
    /// A file that is made where there is none.
    pub(crate) const FILE: Self = Self { disposition: CreateDisposition::OPEN_IF, ..Self::DATA };
    /// A directory that is made.
    pub(crate) const NEW_DIRECTORY: Self = Self {
        access: AccessMask::READ_ATTRIBUTES,
        disposition: CreateDisposition::CREATE,
        options: CreateOptions::DIRECTORY_FILE,
    };
    /// To list a directory.
    pub(crate) const LISTING: Self = Self {
        access: AccessMask(AccessMask::LIST_DIRECTORY.0 | AccessMask::READ_ATTRIBUTES.0),
        disposition: CreateDisposition::OPEN,
        options: CreateOptions::DIRECTORY_FILE,
    };
    /// To remove what is there when it is closed.
    pub(crate) const REMOVAL: Self = Self {
        access: AccessMask(AccessMask::DELETE.0 | AccessMask::READ_ATTRIBUTES.0),
        disposition: CreateDisposition::OPEN,
        options: CreateOptions::DELETE_ON_CLOSE,
    };
    /// To rename what is there.
    pub(crate) const RENAMING: Self = Self { options: CreateOptions::empty(), ..Self::REMOVAL };

    /// CREATE of a path from the root of the share, in UTF-16.
    pub(crate) fn request(self, path: Utf16<'_>) -> CreateRequest<'_> {
        CreateRequest {
            requested_oplock_level: OplockLevel::NONE,
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: self.access,
            file_attributes: FileAttributes::NORMAL,
            share_access: SHARED,
            create_disposition: self.disposition,
            create_options: self.options,
            name: path,
            contexts: CreateContexts::default(),
        }
    }
}

/// A text in UTF-16LE.
pub(crate) fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// CLOSE.
pub(crate) fn close(file_id: FileId) -> CloseRequest {
    CloseRequest { flags: CloseFlags::empty(), file_id }
}

/// FLUSH.
pub(crate) fn flush(file_id: FileId) -> FlushRequest {
    FlushRequest { reserved1: 0, file_id }
}

/// READ.
pub(crate) fn read(file_id: FileId, offset: u64, length: u32) -> ReadRequest<'static> {
    // The data wherever the server puts it: behind the response's fixed part.
    let padding = 0x50;
    ReadRequest {
        padding,
        flags: ReadFlags::empty(),
        length,
        offset,
        file_id,
        minimum_count: 0,
        channel: Channel::NONE,
        remaining_bytes: 0,
        read_channel_info: &[],
    }
}

/// WRITE of data that follows.
pub(crate) fn write(
    file_id: FileId,
    offset: u64,
    length: usize,
    flags: WriteFlags,
) -> WriteRequest<ExternalBuffer> {
    let data = ExternalBuffer { offset: 0, length };
    WriteRequest { data, offset, file_id, channel: Channel::NONE, remaining_bytes: 0, flags }
}

/// QUERY_INFO of what a client shows of a file: `FileNetworkOpenInformation`.
pub(crate) fn query(file_id: FileId) -> QueryInfoRequest<'static> {
    query_info(InfoType::FILE, FileClass::NETWORK_OPEN.0, file_id)
}

/// QUERY_INFO.
pub(crate) fn query_info(info_type: InfoType, class: u8, file_id: FileId) -> QueryInfoRequest<'static> {
    QueryInfoRequest {
        info_type,
        file_info_class: class,
        output_buffer_length: 4096,
        input: &[],
        additional_information: SecurityInformation::empty(),
        flags: QueryInfoFlags::empty(),
        file_id,
    }
}

/// SET_INFO of a file.
pub(crate) fn set_info(class: FileClass, buffer: &[u8], file_id: FileId) -> SetInfoRequest<'_> {
    SetInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: class.0,
        buffer,
        additional_information: SecurityInformation::empty(),
        file_id,
    }
}

/// QUERY_DIRECTORY of all names, from the start or going on. `all` is `*` in UTF-16.
pub(crate) fn list(
    class: DirectoryClass,
    file_id: FileId,
    is_first: bool,
    all: Utf16<'_>,
) -> QueryDirectoryRequest<'_> {
    QueryDirectoryRequest {
        file_information_class: class,
        flags: if is_first { QueryDirectoryFlags::RESTART_SCANS } else { QueryDirectoryFlags::empty() },
        file_index: 0,
        file_id,
        file_name: all,
        output_buffer_length: PAGE_BYTES,
    }
}

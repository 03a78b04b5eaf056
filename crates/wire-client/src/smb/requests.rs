//! Requests with the fields that clients set.

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

use crate::object::PAGE_BYTES;
pub use crate::object::utf16;

/// Share access that denies nothing to others.
const SHARE_ALL: ShareAccess =
    ShareAccess(ShareAccess::READ.0 | ShareAccess::WRITE.0 | ShareAccess::DELETE.0);

#[derive(Clone, Copy, Debug)]
pub struct OpenMode {
    access: AccessMask,
    disposition: CreateDisposition,
    options: CreateOptions,
}

impl OpenMode {
    pub const DATA: Self = Self {
        access: AccessMask(AccessMask::GENERIC_READ.0 | AccessMask::GENERIC_WRITE.0),
        disposition: CreateDisposition::OPEN,
        options: CreateOptions::NON_DIRECTORY_FILE,
    };
    pub const READING: Self = Self { access: AccessMask(AccessMask::GENERIC_READ.0), ..Self::DATA };
    pub const WRITING: Self = Self { access: AccessMask(AccessMask::GENERIC_WRITE.0), ..Self::DATA };
    /// Requests all rights that the user has.
    pub const MAXIMUM: Self = Self { access: AccessMask::MAXIMUM_ALLOWED, ..Self::DATA };
    pub const ATTRIBUTES: Self = Self {
        access: AccessMask::READ_ATTRIBUTES,
        disposition: CreateDisposition::OPEN,
        options: CreateOptions::empty(),
    };
    pub const SET_ATTRIBUTES: Self = Self { access: AccessMask::WRITE_ATTRIBUTES, ..Self::ATTRIBUTES };
    pub const OPEN_OR_CREATE: Self = Self { disposition: CreateDisposition::OPEN_IF, ..Self::DATA };
    pub const NEW_DIRECTORY: Self = Self {
        access: AccessMask::READ_ATTRIBUTES,
        disposition: CreateDisposition::CREATE,
        options: CreateOptions::DIRECTORY_FILE,
    };
    pub const LISTING: Self = Self {
        access: AccessMask(AccessMask::LIST_DIRECTORY.0 | AccessMask::READ_ATTRIBUTES.0),
        disposition: CreateDisposition::OPEN,
        options: CreateOptions::DIRECTORY_FILE,
    };
    pub const DELETE_ON_CLOSE: Self = Self {
        access: AccessMask(AccessMask::DELETE.0 | AccessMask::READ_ATTRIBUTES.0),
        disposition: CreateDisposition::OPEN,
        options: CreateOptions::DELETE_ON_CLOSE,
    };
    /// For a rename, or to set delete-pending.
    pub const DELETE_ACCESS: Self = Self { options: CreateOptions::empty(), ..Self::DELETE_ON_CLOSE };

    #[inline]
    pub fn request(self, path: Utf16<'_>) -> CreateRequest<'_> {
        CreateRequest {
            requested_oplock_level: OplockLevel::NONE,
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: self.access,
            file_attributes: FileAttributes::NORMAL,
            share_access: SHARE_ALL,
            create_disposition: self.disposition,
            create_options: self.options,
            name: path,
            contexts: CreateContexts::default(),
        }
    }
}

#[inline]
pub fn close(file_id: FileId) -> CloseRequest {
    CloseRequest { flags: CloseFlags::empty(), file_id }
}

#[inline]
pub fn flush(file_id: FileId) -> FlushRequest {
    FlushRequest { reserved1: 0, file_id }
}

#[inline]
pub fn read(file_id: FileId, offset: u64, length: u32) -> ReadRequest<'static> {
    // The requested offset of the data in the response: right behind its fixed part.
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

#[inline]
pub fn write(file_id: FileId, offset: u64, length: usize, flags: WriteFlags) -> WriteRequest<ExternalBuffer> {
    let data = ExternalBuffer { offset: 0, length };
    WriteRequest { data, offset, file_id, channel: Channel::NONE, remaining_bytes: 0, flags }
}

/// QUERY_INFO of `FileNetworkOpenInformation`, MS-FSCC §2.4.29.
#[inline]
pub fn query(file_id: FileId) -> QueryInfoRequest<'static> {
    query_info(InfoType::FILE, FileClass::NETWORK_OPEN.0, file_id)
}

#[inline]
pub fn query_info(info_type: InfoType, class: u8, file_id: FileId) -> QueryInfoRequest<'static> {
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

#[inline]
pub fn set_info(class: FileClass, buffer: &[u8], file_id: FileId) -> SetInfoRequest<'_> {
    SetInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: class.0,
        buffer,
        additional_information: SecurityInformation::empty(),
        file_id,
    }
}

/// QUERY_DIRECTORY of all names, from the start or from the last position. `all` is `*` in UTF-16.
#[inline]
pub fn list(
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

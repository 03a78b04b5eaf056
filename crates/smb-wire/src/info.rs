//! QUERY_INFO and SET_INFO, MS-SMB2 §2.2.37 to §2.2.40. The response to QUERY_INFO is
//! [`OutputResponse`](crate::dir::OutputResponse).

use crate::sets::{bit_set, open_set};
use crate::{FileId, Wire};

open_set! {
    /// `InfoType`, MS-SMB2 §2.2.37.
    pub struct InfoType: u8 {
        FILE = 0x01,
        FILESYSTEM = 0x02,
        SECURITY = 0x03,
        QUOTA = 0x04,
    }
}

bit_set! {
    /// `AdditionalInformation` for a security descriptor, MS-SMB2 §2.2.37.
    pub struct SecurityInformation: u32 {
        OWNER = 0x1,
        GROUP = 0x2,
        DACL = 0x4,
        SACL = 0x8,
        LABEL = 0x10,
        ATTRIBUTE = 0x20,
        SCOPE = 0x40,
        BACKUP = 0x1_0000,
    }

    /// `Flags` for extended attributes, MS-SMB2 §2.2.37.
    pub struct QueryInfoFlags: u32 {
        RESTART_SCAN = 0x1,
        RETURN_SINGLE_ENTRY = 0x2,
        INDEX_SPECIFIED = 0x4,
    }
}

/// `SMB2 QUERY_INFO Request`, MS-SMB2 §2.2.37. The value of `info_type` selects the set of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 41)]
pub struct QueryInfoRequest<'a> {
    pub info_type: InfoType,
    pub file_info_class: u8,
    pub output_buffer_length: u32,
    #[wire(offset = u16, gap = 2, length = u32)]
    pub input: &'a [u8],
    pub additional_information: SecurityInformation,
    pub flags: QueryInfoFlags,
    pub file_id: FileId,
}

/// `SMB2 SET_INFO Request`, MS-SMB2 §2.2.39.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 33)]
pub struct SetInfoRequest<'a> {
    pub info_type: InfoType,
    pub file_info_class: u8,
    #[wire(length = u32, offset = u16, gap = 2)]
    pub buffer: &'a [u8],
    pub additional_information: SecurityInformation,
    pub file_id: FileId,
}

/// `SMB2 SET_INFO Response`, MS-SMB2 §2.2.40.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
#[wire(size = 2)]
pub struct SetInfoResponse;

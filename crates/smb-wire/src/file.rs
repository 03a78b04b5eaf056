//! CLOSE, FLUSH, READ and WRITE, MS-SMB2 §2.2.15 to §2.2.22.

use crate::sets::{bit_set, open_set};
use crate::types::FileAttributes;
use crate::{FileId, FileTime, Wire};

bit_set! {
    /// `Flags`, MS-SMB2 §2.2.15 and §2.2.16.
    pub struct CloseFlags: u16 {
        POSTQUERY_ATTRIB = 0x1,
    }

    /// `Flags`, MS-SMB2 §2.2.19.
    pub struct ReadFlags: u8 {
        READ_UNBUFFERED = 0x1,
        REQUEST_COMPRESSED = 0x2,
    }

    /// `Flags`, MS-SMB2 §2.2.21.
    pub struct WriteFlags: u32 {
        WRITE_THROUGH = 0x1,
        WRITE_UNBUFFERED = 0x2,
    }
}

open_set! {
    /// `Channel`, MS-SMB2 §2.2.19 and §2.2.21.
    pub struct Channel: u32 {
        NONE = 0,
        RDMA_V1 = 1,
        RDMA_V1_INVALIDATE = 2,
        RDMA_TRANSFORM = 3,
    }
}

/// `SMB2 CLOSE Request`, MS-SMB2 §2.2.15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 24)]
pub struct CloseRequest {
    pub flags: CloseFlags,
    #[wire(pad = 4)]
    pub file_id: FileId,
}

/// `SMB2 CLOSE Response`, MS-SMB2 §2.2.16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
#[wire(size = 60)]
pub struct CloseResponse {
    pub flags: CloseFlags,
    #[wire(pad = 4)]
    pub creation_time: FileTime,
    pub last_access_time: FileTime,
    pub last_write_time: FileTime,
    pub change_time: FileTime,
    pub allocation_size: u64,
    pub end_of_file: u64,
    pub file_attributes: FileAttributes,
}

/// `SMB2 FLUSH Request`, MS-SMB2 §2.2.17. `Reserved1` marks Apple's F_FULLFSYNC. The response is
/// [`Empty`](crate::session::Empty).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 24)]
pub struct FlushRequest {
    pub reserved1: u16,
    #[wire(pad = 4)]
    pub file_id: FileId,
}

/// `SMB2 READ Request`, MS-SMB2 §2.2.19.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 49)]
pub struct ReadRequest<'a> {
    /// `DataOffset` that the client prefers in the response.
    pub padding: u8,
    pub flags: ReadFlags,
    pub length: u32,
    pub offset: u64,
    pub file_id: FileId,
    pub minimum_count: u32,
    pub channel: Channel,
    pub remaining_bytes: u32,
    #[wire(offset = u16, length = u16, optional)]
    pub read_channel_info: &'a [u8],
}

/// `SMB2 READ Response`, MS-SMB2 §2.2.20. The data is `&[u8]`, or [`ExternalBuffer`](crate::ExternalBuffer) if it is
/// sent separately behind the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 17)]
pub struct ReadResponse<B> {
    #[wire(offset = u8, gap = 1, length = u32)]
    pub data: B,
    pub data_remaining: u32,
    /// Reserved except for RDMA.
    pub flags: u32,
}

/// `SMB2 WRITE Request`, MS-SMB2 §2.2.21, without the channel info of RDMA. The data is `&[u8]`, or
/// [`ExternalBuffer`](crate::ExternalBuffer) if it has not arrived yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 49)]
pub struct WriteRequest<B> {
    #[wire(offset = u16, length = u32)]
    pub data: B,
    pub offset: u64,
    pub file_id: FileId,
    pub channel: Channel,
    pub remaining_bytes: u32,
    #[wire(pad = 4)]
    pub flags: WriteFlags,
}

/// Bytes of a WRITE before its data, as all clients send it: header and fixed part.
pub const WRITE_HEADER_SIZE: usize = 112;
/// Bytes of a READ response before its data: header and fixed part.
pub const READ_HEADER_SIZE: usize = 80;

/// `SMB2 WRITE Response`, MS-SMB2 §2.2.22.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 17, end = 4)]
pub struct WriteResponse {
    #[wire(pad = 2)]
    pub count: u32,
    pub remaining: u32,
}

//! IOCTL, MS-SMB2 §2.2.31 and §2.2.32.

use crate::sets::{bit_set, open_set};
use crate::{FileId, Wire};

open_set! {
    /// `CtlCode`, MS-SMB2 §2.2.31 and MS-FSCC §2.3.
    pub struct CtlCode: u32 {
        DFS_GET_REFERRALS = 0x0006_0194,
        DFS_GET_REFERRALS_EX = 0x0006_01b0,
        OFFLOAD_READ = 0x0009_4264,
        OFFLOAD_WRITE = 0x0009_8268,
        SET_REPARSE_POINT = 0x0009_00a4,
        GET_REPARSE_POINT = 0x0009_00a8,
        DELETE_REPARSE_POINT = 0x0009_00ac,
        GET_COMPRESSION = 0x0009_003c,
        SET_COMPRESSION = 0x0009_c040,
        CREATE_OR_GET_OBJECT_ID = 0x0009_00c0,
        SET_SPARSE = 0x0009_00c4,
        SET_ZERO_DATA = 0x0009_80c8,
        QUERY_ALLOCATED_RANGES = 0x0009_40cf,
        FILE_LEVEL_TRIM = 0x0009_8208,
        GET_INTEGRITY_INFORMATION = 0x0009_027c,
        SET_INTEGRITY_INFORMATION = 0x0009_c280,
        QUERY_FILE_REGIONS = 0x0009_0284,
        DUPLICATE_EXTENTS_TO_FILE = 0x0009_8344,
        DUPLICATE_EXTENTS_TO_FILE_EX = 0x0009_83e8,
        PIPE_PEEK = 0x0011_400c,
        PIPE_WAIT = 0x0011_0018,
        PIPE_TRANSCEIVE = 0x0011_c017,
        SRV_REQUEST_RESUME_KEY = 0x0014_0078,
        SRV_ENUMERATE_SNAPSHOTS = 0x0014_4064,
        SRV_COPYCHUNK = 0x0014_40f2,
        SRV_COPYCHUNK_WRITE = 0x0014_80f2,
        SRV_READ_HASH = 0x0014_41bb,
        LMR_REQUEST_RESILIENCY = 0x0014_01d4,
        QUERY_NETWORK_INTERFACE_INFO = 0x0014_01fc,
        VALIDATE_NEGOTIATE_INFO = 0x0014_0204,
    }
}

bit_set! {
    /// `Flags`, MS-SMB2 §2.2.31.
    pub struct IoctlFlags: u32 {
        IS_FSCTL = 0x1,
    }
}

/// `SMB2 IOCTL Request`, MS-SMB2 §2.2.31.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 57, end = 4)]
pub struct IoctlRequest<'a> {
    #[wire(pad = 2)]
    pub ctl_code: CtlCode,
    pub file_id: FileId,
    #[wire(offset = u32, length = u32)]
    pub input: &'a [u8],
    pub max_input_response: u32,
    #[wire(offset = u32, length = u32, optional)]
    pub output: &'a [u8],
    pub max_output_response: u32,
    pub flags: IoctlFlags,
}

/// `SMB2 IOCTL Response`, MS-SMB2 §2.2.32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 49, end = 4)]
pub struct IoctlResponse<'a> {
    #[wire(pad = 2)]
    pub ctl_code: CtlCode,
    pub file_id: FileId,
    #[wire(offset = u32, length = u32)]
    pub input: &'a [u8],
    #[wire(offset = u32, length = u32)]
    pub output: &'a [u8],
    pub flags: IoctlFlags,
}

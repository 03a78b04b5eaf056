//! Data of create contexts, MS-SMB2 §2.2.13.2 and §2.2.14.2.

use crate::types::AccessMask;
use crate::{NtStatus, Wire};

/// `SMB2_CREATE_QUERY_MAXIMAL_ACCESS_RESPONSE`, MS-SMB2 §2.2.14.2.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct MaximalAccess {
    pub query_status: NtStatus,
    pub maximal_access: AccessMask,
}

impl MaximalAccess {
    /// `SMB2_CREATE_QUERY_MAXIMAL_ACCESS_REQUEST`.
    pub const NAME: &'static [u8] = b"MxAc";
}

/// `SMB2_CREATE_ALLOCATION_SIZE`, MS-SMB2 §2.2.13.2.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct AllocationSize {
    pub allocation_size: u64,
}

impl AllocationSize {
    pub const NAME: &'static [u8] = b"AlSi";
}

/// `SMB2_CREATE_SD_BUFFER`, MS-SMB2 §2.2.13.2.2: the create context with a security descriptor.
pub const SD_BUFFER: &[u8] = b"SecD";

/// `SMB2_CREATE_QUERY_ON_DISK_ID`, MS-SMB2 §2.2.14.2.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(end = 16)]
pub struct OnDiskId {
    pub disk_file_id: u64,
    pub volume_id: u64,
}

impl OnDiskId {
    pub const NAME: &'static [u8] = b"QFid";
}

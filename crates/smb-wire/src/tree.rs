//! TREE_CONNECT, MS-SMB2 §2.2.9 and §2.2.10. TREE_DISCONNECT is [`Empty`](crate::session::Empty) both ways.

use crate::sets::{bit_set, open_set};
use crate::types::AccessMask;
use crate::{Utf16, Wire};

bit_set! {
    /// `Flags`, MS-SMB2 §2.2.9.
    pub struct TreeConnectFlags: u16 {
        CLUSTER_RECONNECT = 0x1,
        REDIRECT_TO_OWNER = 0x2,
        EXTENSION_PRESENT = 0x4,
    }

    /// `ShareFlags`, MS-SMB2 §2.2.10. Two bits select the caching mode; the others are independent.
    pub struct ShareFlags: u32 {
        MANUAL_CACHING = 0x0,
        AUTO_CACHING = 0x10,
        VDO_CACHING = 0x20,
        NO_CACHING = 0x30,
        DFS = 0x1,
        DFS_ROOT = 0x2,
        RESTRICT_EXCLUSIVE_OPENS = 0x100,
        FORCE_SHARED_DELETE = 0x200,
        ALLOW_NAMESPACE_CACHING = 0x400,
        ACCESS_BASED_DIRECTORY_ENUM = 0x800,
        FORCE_LEVELII_OPLOCK = 0x1000,
        ENABLE_HASH_V1 = 0x2000,
        ENABLE_HASH_V2 = 0x4000,
        ENCRYPT_DATA = 0x8000,
        IDENTITY_REMOTING = 0x4_0000,
        COMPRESS_DATA = 0x10_0000,
        ISOLATED_TRANSPORT = 0x20_0000,
    }

    /// `Capabilities` of a share, MS-SMB2 §2.2.10.
    pub struct ShareCapabilities: u32 {
        DFS = 0x8,
        CONTINUOUS_AVAILABILITY = 0x10,
        SCALEOUT = 0x20,
        CLUSTER = 0x40,
        ASYMMETRIC = 0x80,
        REDIRECT_TO_OWNER = 0x100,
    }
}

open_set! {
    /// `ShareType`, MS-SMB2 §2.2.10.
    pub struct ShareType: u8 {
        DISK = 0x1,
        PIPE = 0x2,
        PRINT = 0x3,
    }
}

/// `SMB2 TREE_CONNECT Request`, MS-SMB2 §2.2.9; with `EXTENSION_PRESENT` the buffer has more than a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 9)]
pub struct TreeConnectRequest<'a> {
    pub flags: TreeConnectFlags,
    #[wire(offset = u16, length = u16)]
    pub path: Utf16<'a>,
}

/// `SMB2 TREE_CONNECT Response`, MS-SMB2 §2.2.10.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 16)]
pub struct TreeConnectResponse {
    pub share_type: ShareType,
    #[wire(pad = 1)]
    pub share_flags: ShareFlags,
    pub capabilities: ShareCapabilities,
    pub maximal_access: AccessMask,
}

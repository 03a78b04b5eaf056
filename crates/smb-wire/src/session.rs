//! SESSION_SETUP, LOGOFF, ECHO and CANCEL, MS-SMB2 §2.2.5 to §2.2.8 and §2.2.28 to §2.2.30.

use crate::Wire;
use crate::negotiate::Capabilities;
use crate::sets::bit_set;

bit_set! {
    /// `Flags`, MS-SMB2 §2.2.5.
    pub struct SessionSetupFlags: u8 {
        BINDING = 0x1,
    }

    /// `SecurityMode` of one byte, MS-SMB2 §2.2.5.
    pub struct SessionSecurityMode: u8 {
        SIGNING_ENABLED = 0x1,
        SIGNING_REQUIRED = 0x2,
    }

    /// `SessionFlags`, MS-SMB2 §2.2.6.
    pub struct SessionFlags: u16 {
        IS_GUEST = 0x1,
        IS_NULL = 0x2,
        ENCRYPT_DATA = 0x4,
    }
}

/// `SMB2 SESSION_SETUP Request`, MS-SMB2 §2.2.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 25)]
pub struct SessionSetupRequest<'a> {
    pub flags: SessionSetupFlags,
    pub security_mode: SessionSecurityMode,
    pub capabilities: Capabilities,
    pub channel: u32,
    #[wire(offset = u16, length = u16)]
    pub security_buffer: &'a [u8],
    pub previous_session_id: u64,
}

/// `SMB2 SESSION_SETUP Response`, MS-SMB2 §2.2.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 9)]
pub struct SessionSetupResponse<'a> {
    pub session_flags: SessionFlags,
    #[wire(offset = u16, length = u16)]
    pub security_buffer: &'a [u8],
}

/// The empty structure of four bytes: `SMB2 LOGOFF` (§2.2.7, §2.2.8), `SMB2 TREE_DISCONNECT` (§2.2.11, §2.2.12), `SMB2
/// ECHO` (§2.2.28, §2.2.29), each request and response; `SMB2 CANCEL Request` (§2.2.30); the responses of FLUSH
/// (§2.2.18) and LOCK (§2.2.27).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
#[wire(size = 4, end = 2)]
pub struct Empty;

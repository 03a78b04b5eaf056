//! OPLOCK_BREAK for oplocks and leases, MS-SMB2 §2.2.23 to §2.2.25.

use crate::create::OplockLevel;
use crate::sets::{bit_set, open_set};
use crate::{Decode, FileId, Malformed, Reader, Wire};

/// `SMB2 OPLOCK_BREAK` of an oplock: notification (MS-SMB2 §2.2.23.1), acknowledgment (§2.2.24.1) and response
/// (§2.2.25.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 24)]
pub struct OplockBreak {
    pub oplock_level: OplockLevel,
    #[wire(pad = 5)]
    pub file_id: FileId,
}

bit_set! {
    /// `LeaseState`, MS-SMB2 §2.2.13.2.8.
    pub struct LeaseState: u32 {
        READ_CACHING = 0x1,
        HANDLE_CACHING = 0x2,
        WRITE_CACHING = 0x4,
    }

    /// `Flags` of a lease break, MS-SMB2 §2.2.23.2.
    pub struct LeaseBreakFlags: u32 {
        ACK_REQUIRED = 0x1,
    }
}

open_set! {
    /// `BreakReason`, MS-SMB2 §2.2.23.2.
    pub struct BreakReason: u32 {
        PARENT_LEASE_KEY_NOT_SET = 0x1,
    }
}

/// `LeaseKey`, MS-SMB2 §2.2.13.2.8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Wire)]
pub struct LeaseKey(pub [u8; 16]);

/// `SMB2 Lease Break Notification`, MS-SMB2 §2.2.23.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 44)]
pub struct LeaseBreakNotification {
    pub new_epoch: u16,
    pub flags: LeaseBreakFlags,
    pub lease_key: LeaseKey,
    pub current_lease_state: LeaseState,
    pub new_lease_state: LeaseState,
    pub break_reason: BreakReason,
    pub access_mask_hint: u32,
    pub share_mask_hint: u32,
}

/// `SMB2 Lease Break Acknowledgment` (MS-SMB2 §2.2.24.2) and response (§2.2.25.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 36)]
pub struct LeaseBreakAck {
    #[wire(pad = 2)]
    pub flags: LeaseBreakFlags,
    pub lease_key: LeaseKey,
    pub lease_state: LeaseState,
    pub lease_duration: u64,
}

/// The acknowledgment in an OPLOCK_BREAK. The two kinds differ only by `StructureSize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakAck {
    Oplock(OplockBreak),
    Lease(LeaseBreakAck),
}

impl Decode<'_> for BreakAck {
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        match u16::decode(&mut r.clone())? {
            24 => OplockBreak::decode(r).map(Self::Oplock),
            _ => LeaseBreakAck::decode(r).map(Self::Lease),
        }
    }
}

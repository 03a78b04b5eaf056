//! Leases as create contexts, MS-SMB2 §2.2.13.2.8, §2.2.13.2.10, §2.2.14.2.10 and §2.2.14.2.11.

use crate::oplock::{LeaseKey, LeaseState};
use crate::sets::bit_set;
use crate::{Decode, Encode, Malformed, Reader, Wire, Writer};

bit_set! {
    /// `LeaseFlags` and `Flags` of a lease, MS-SMB2 §2.2.13.2.10 and §2.2.14.2.10.
    pub struct LeaseFlags: u32 {
        BREAK_IN_PROGRESS = 0x2,
        PARENT_LEASE_KEY_SET = 0x4,
    }
}

/// `SMB2_CREATE_REQUEST_LEASE` (MS-SMB2 §2.2.13.2.8) and `SMB2_CREATE_RESPONSE_LEASE` (§2.2.14.2.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(end = 8)]
pub struct LeaseV1 {
    pub lease_key: LeaseKey,
    pub lease_state: LeaseState,
    pub lease_flags: LeaseFlags,
}

/// `SMB2_CREATE_REQUEST_LEASE_V2` (MS-SMB2 §2.2.13.2.10) and `SMB2_CREATE_RESPONSE_LEASE_V2` (§2.2.14.2.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(end = 2)]
pub struct LeaseV2 {
    pub lease_key: LeaseKey,
    pub lease_state: LeaseState,
    pub flags: LeaseFlags,
    #[wire(pad = 8)]
    pub parent_lease_key: LeaseKey,
    pub epoch: u16,
}

/// A lease of either version. Both share one name and differ only by length (MS-SMB2 §3.3.5.9.8 and §3.3.5.9.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    V1(LeaseV1),
    V2(LeaseV2),
}

const V1_SIZE: usize = 32;
const V2_SIZE: usize = 52;

impl Lease {
    /// `SMB2_CREATE_REQUEST_LEASE` and `SMB2_CREATE_REQUEST_LEASE_V2`.
    pub const NAME: &'static [u8] = b"RqLs";

    pub fn lease_key(&self) -> LeaseKey {
        match self {
            Self::V1(lease) => lease.lease_key,
            Self::V2(lease) => lease.lease_key,
        }
    }

    pub fn lease_state(&self) -> LeaseState {
        match self {
            Self::V1(lease) => lease.lease_state,
            Self::V2(lease) => lease.lease_state,
        }
    }

    /// `ParentLeaseKey`, if the flags declare it valid.
    pub fn parent_lease_key(&self) -> Option<LeaseKey> {
        match self {
            Self::V2(lease) if lease.flags.contains(LeaseFlags::PARENT_LEASE_KEY_SET) => {
                Some(lease.parent_lease_key)
            }
            Self::V1(_) | Self::V2(_) => None,
        }
    }
}

impl Encode for Lease {
    fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Self::V1(lease) => lease.encode(w),
            Self::V2(lease) => lease.encode(w),
        }
    }
}

/// Consumes all remaining bytes.
impl Decode<'_> for Lease {
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        match r.rest().len() {
            V1_SIZE => LeaseV1::decode(r).map(Self::V1),
            V2_SIZE => LeaseV2::decode(r).map(Self::V2),
            _ => Err(Malformed("a lease with the length of neither version")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_version_follows_length() {
        let first = Lease::V1(LeaseV1 {
            lease_key: LeaseKey([1; 16]),
            lease_state: LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING,
            lease_flags: LeaseFlags::empty(),
        });
        let second = LeaseV2 {
            lease_key: LeaseKey([2; 16]),
            lease_state: LeaseState::WRITE_CACHING,
            flags: LeaseFlags::PARENT_LEASE_KEY_SET,
            parent_lease_key: LeaseKey([3; 16]),
            epoch: 0x0504,
        };
        let bytes = first.to_bytes();
        assert_eq!((bytes.len(), &bytes[16..]), (32, &[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..]));
        assert_eq!(Lease::from_bytes(&bytes), Ok(first));
        assert_eq!((first.lease_key(), first.parent_lease_key()), (LeaseKey([1; 16]), None));
        let bytes = Lease::V2(second).to_bytes();
        assert_eq!((bytes.len(), &bytes[16..24]), (52, &[4, 0, 0, 0, 4, 0, 0, 0][..]));
        assert_eq!((&bytes[32..48], &bytes[48..]), (&[3; 16][..], &[4, 5, 0, 0][..]));
        assert_eq!(Lease::from_bytes(&bytes), Ok(Lease::V2(second)));
        assert_eq!(Lease::V2(second).parent_lease_key(), Some(LeaseKey([3; 16])));
        let orphan = LeaseV2 { flags: LeaseFlags::empty(), ..second };
        assert_eq!(Lease::V2(orphan).parent_lease_key(), None, "a key that no flag vouches for");
        for length in (0..60).filter(|length| ![32, 52].contains(length)) {
            assert!(Lease::from_bytes(&[bytes.clone(), vec![0; 8]].concat()[..length]).is_err(), "{length}");
        }
    }
}

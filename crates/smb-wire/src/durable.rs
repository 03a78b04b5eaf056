//! Create contexts of durable handles, MS-SMB2 §2.2.13.2 and §2.2.14.2.

use crate::sets::bit_set;
use crate::{FileId, Guid, Wire};

/// `SMB2_CREATE_DURABLE_HANDLE_REQUEST`, MS-SMB2 §2.2.13.2.3: 16 reserved bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
#[wire(end = 16)]
pub struct DurableRequest;

impl DurableRequest {
    /// `SMB2_CREATE_DURABLE_HANDLE_REQUEST`, shared with the response.
    pub const NAME: &'static [u8] = b"DHnQ";
}

/// `SMB2_CREATE_DURABLE_HANDLE_RESPONSE`, MS-SMB2 §2.2.14.2.3: 8 reserved bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
#[wire(end = 8)]
pub struct DurableResponse;

/// `SMB2_CREATE_DURABLE_HANDLE_RECONNECT`, MS-SMB2 §2.2.13.2.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct DurableReconnect {
    pub file_id: FileId,
}

impl DurableReconnect {
    pub const NAME: &'static [u8] = b"DHnC";
}

bit_set! {
    /// `Flags` of a durable handle, MS-SMB2 §2.2.13.2.11.
    pub struct DurableFlags: u32 {
        PERSISTENT = 0x2,
    }
}

/// `SMB2_CREATE_DURABLE_HANDLE_REQUEST_V2`, MS-SMB2 §2.2.13.2.11.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct DurableRequestV2 {
    /// A duration in milliseconds; 0 lets the server choose.
    pub timeout: u32,
    pub flags: DurableFlags,
    #[wire(pad = 8)]
    pub create_guid: Guid,
}

impl DurableRequestV2 {
    /// `SMB2_CREATE_DURABLE_HANDLE_REQUEST_V2`, shared with the response.
    pub const NAME: &'static [u8] = b"DH2Q";
}

/// `SMB2_CREATE_DURABLE_HANDLE_RESPONSE_V2`, MS-SMB2 §2.2.14.2.12.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct DurableResponseV2 {
    /// A duration in milliseconds.
    pub timeout: u32,
    pub flags: DurableFlags,
}

/// `SMB2_CREATE_DURABLE_HANDLE_RECONNECT_V2`, MS-SMB2 §2.2.13.2.12.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct DurableReconnectV2 {
    pub file_id: FileId,
    pub create_guid: Guid,
    pub flags: DurableFlags,
}

impl DurableReconnectV2 {
    pub const NAME: &'static [u8] = b"DH2C";
}

/// `SMB2_CREATE_APP_INSTANCE_ID`, MS-SMB2 §2.2.13.2.13.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 20)]
pub struct AppInstanceId {
    #[wire(pad = 2)]
    pub app_instance_id: Guid,
}

impl AppInstanceId {
    pub const NAME: &'static [u8] = &0x45bc_a66a_efa7_f74a_9008_fa46_2e14_4d74_u128.to_be_bytes();
}

/// `SMB2_CREATE_APP_INSTANCE_VERSION`, MS-SMB2 §2.2.13.2.15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(size = 24)]
pub struct AppInstanceVersion {
    #[wire(pad = 6)]
    pub app_instance_version_high: u64,
    pub app_instance_version_low: u64,
}

impl AppInstanceVersion {
    pub const NAME: &'static [u8] = &0xb982_d0b7_3b56_074f_a07b_524a_8116_a010_u128.to_be_bytes();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decode, Encode};

    #[test]
    fn structures_match_figures() {
        assert_eq!(DurableRequest.to_bytes(), [0; 16]);
        assert_eq!(DurableResponse.to_bytes(), [0; 8]);
        let file_id = FileId { persistent: 1, volatile: 2 };
        assert_eq!(DurableReconnect { file_id }.to_bytes(), [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        let request = DurableRequestV2 {
            timeout: 0x0403_0201,
            flags: DurableFlags::PERSISTENT,
            create_guid: Guid([9; 16]),
        };
        let bytes = request.to_bytes();
        assert_eq!(bytes[..16], [1, 2, 3, 4, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[16..], [9; 16]);
        assert_eq!(DurableRequestV2::from_bytes(&bytes), Ok(request));
        let response = DurableResponseV2 { timeout: 5, flags: DurableFlags::empty() };
        assert_eq!(response.to_bytes(), [5, 0, 0, 0, 0, 0, 0, 0]);
        let reconnect =
            DurableReconnectV2 { file_id, create_guid: Guid([9; 16]), flags: DurableFlags::PERSISTENT };
        let bytes = reconnect.to_bytes();
        assert_eq!((bytes.len(), &bytes[32..]), (36, &[2, 0, 0, 0][..]));
        assert_eq!(DurableReconnectV2::from_bytes(&bytes), Ok(reconnect));
    }

    #[test]
    fn app_instance_starts_with_its_size() {
        let id = AppInstanceId { app_instance_id: Guid([7; 16]) };
        let bytes = id.to_bytes();
        assert_eq!((bytes.len(), &bytes[..4]), (20, &[20, 0, 0, 0][..]));
        assert_eq!(AppInstanceId::from_bytes(&bytes), Ok(id));
        let version = AppInstanceVersion { app_instance_version_high: 1, app_instance_version_low: 2 };
        let bytes = version.to_bytes();
        assert_eq!((bytes.len(), &bytes[..9]), (24, &[24, 0, 0, 0, 0, 0, 0, 0, 1][..]));
        assert_eq!(AppInstanceVersion::from_bytes(&bytes), Ok(version));
        assert_eq!(AppInstanceId::NAME[..4], [0x45, 0xbc, 0xa6, 0x6a]);
        assert_eq!(AppInstanceVersion::NAME[14..], [0xa0, 0x10]);
    }
}

//! The data of IOCTL, MS-SMB2 §2.2.31 and §2.2.32.

use std::net::IpAddr;

use crate::negotiate::{Capabilities, SecurityMode};
use crate::sets::bit_set;
use crate::types::Dialect;
use crate::{Decode, Encode, Guid, Malformed, Reader, Utf16, Wire, Writer, decode_list, encode_list};

/// `VALIDATE_NEGOTIATE_INFO Request`, MS-SMB2 §2.2.31.4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidateNegotiateRequest {
    pub capabilities: Capabilities,
    pub guid: Guid,
    pub security_mode: SecurityMode,
    pub dialects: Vec<Dialect>,
}

impl Encode for ValidateNegotiateRequest {
    fn encode(&self, w: &mut Writer<'_>) {
        self.capabilities.encode(w);
        self.guid.encode(w);
        self.security_mode.encode(w);
        w.length::<u16>(self.dialects.len());
        encode_list(&self.dialects, w);
    }
}

impl Decode<'_> for ValidateNegotiateRequest {
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let capabilities = Decode::decode(r)?;
        let guid = Decode::decode(r)?;
        let security_mode = Decode::decode(r)?;
        let count = u16::decode(r)?;
        Ok(Self { capabilities, guid, security_mode, dialects: decode_list(r, usize::from(count))? })
    }
}

/// `VALIDATE_NEGOTIATE_INFO Response`, MS-SMB2 §2.2.32.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct ValidateNegotiateResponse {
    pub capabilities: Capabilities,
    pub guid: Guid,
    pub security_mode: SecurityMode,
    pub dialect: Dialect,
}

bit_set! {
    /// `Capability`, MS-SMB2 §2.2.32.5.
    pub struct InterfaceCapabilities: u32 {
        RSS_CAPABLE = 0x1,
        RDMA_CAPABLE = 0x2,
    }
}

/// `NETWORK_INTERFACE_INFO Response`, MS-SMB2 §2.2.32.5, with a single interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkInterface {
    pub if_index: u32,
    pub capability: InterfaceCapabilities,
    /// In bits per second.
    pub link_speed: u64,
    pub address: IpAddr,
}

/// Bytes of `SockAddr_Storage`, MS-SMB2 §2.2.32.5.1.
const SOCKADDR_SIZE: usize = 128;
const FAMILY_IPV4: u16 = 0x0002;
const FAMILY_IPV6: u16 = 0x0017;

impl Encode for NetworkInterface {
    fn encode(&self, w: &mut Writer<'_>) {
        w.u32(0);
        self.if_index.encode(w);
        self.capability.encode(w);
        w.zeros(4);
        self.link_speed.encode(w);
        let start = w.position();
        // Port, flow label and scope are 0.
        match self.address {
            IpAddr::V4(address) => {
                w.u16(FAMILY_IPV4);
                w.zeros(2);
                w.bytes(&address.octets());
            }
            IpAddr::V6(address) => {
                w.u16(FAMILY_IPV6);
                w.zeros(6);
                w.bytes(&address.octets());
            }
        }
        w.zeros(start + SOCKADDR_SIZE - w.position());
    }
}

/// `COMPRESSION_FORMAT_NONE` of `FSCTL_GET_COMPRESSION` and `FSCTL_SET_COMPRESSION`, MS-FSCC §2.3.
pub const COMPRESSION_FORMAT_NONE: u16 = 0;

/// `FILE_OBJECTID_BUFFER`, MS-FSCC §2.1.3.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct ObjectIdBuffer {
    pub object_id: Guid,
    pub birth_volume_id: Guid,
    pub birth_object_id: Guid,
    pub domain_id: Guid,
}

/// `FSCTL_PIPE_WAIT Request`, MS-FSCC §2.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipeWait<'a> {
    /// In units of 100 ns, if specified.
    pub timeout: i64,
    pub timeout_specified: bool,
    pub name: Utf16<'a>,
}

impl Encode for PipeWait<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        self.timeout.encode(w);
        w.length::<u32>(self.name.bytes().len());
        self.timeout_specified.encode(w);
        w.zeros(1);
        w.bytes(self.name.bytes());
    }
}

impl<'a> Decode<'a> for PipeWait<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let timeout = Decode::decode(r)?;
        let length = u32::decode(r)?;
        let timeout_specified = Decode::decode(r)?;
        r.skip(1)?;
        let name = Utf16::new(r.bytes(usize::try_from(length).unwrap_or(usize::MAX))?)?;
        Ok(Self { timeout, timeout_specified, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_interface_is_152_bytes() {
        let interface = |address: &str| NetworkInterface {
            if_index: 1,
            capability: InterfaceCapabilities::RSS_CAPABLE,
            link_speed: 10_000_000_000,
            address: address.parse().unwrap(),
        };
        let v4 = interface("192.0.2.7").to_bytes();
        assert_eq!((v4.len(), &v4[24..32]), (152, &[2, 0, 0, 0, 192, 0, 2, 7][..]));
        let v6 = interface("2001:db8::1").to_bytes();
        assert_eq!((v6.len(), &v6[24..36]), (152, &[0x17, 0, 0, 0, 0, 0, 0, 0, 0x20, 1, 0xd, 0xb8][..]));
    }

    #[test]
    fn validate_negotiate_dialect_count_must_match() {
        let request = ValidateNegotiateRequest {
            capabilities: Capabilities::DFS,
            guid: Guid([3; 16]),
            security_mode: SecurityMode::SIGNING_ENABLED,
            dialects: vec![Dialect::SMB210, Dialect::SMB302],
        };
        let bytes = request.to_bytes();
        assert_eq!(bytes.len(), 28);
        assert_eq!(ValidateNegotiateRequest::from_bytes(&bytes), Ok(request));
        assert!(ValidateNegotiateRequest::from_bytes(&bytes[..27]).is_err());
    }

    #[test]
    fn pipe_wait_round_trips() {
        let name = Utf16::new(b"a\0b\0").unwrap();
        let wait = PipeWait { timeout: 1, timeout_specified: true, name };
        let mut bytes = wait.to_bytes();
        assert_eq!(bytes, [1, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1, 0, b'a', 0, b'b', 0]);
        assert_eq!(PipeWait::from_bytes(&bytes), Ok(wait));
        for length in [3, 5, 0xff] {
            bytes[8] = length;
            assert!(PipeWait::from_bytes(&bytes).is_err(), "{length} bytes of name");
        }
        assert_eq!(ObjectIdBuffer::default().to_bytes().len(), 64);
    }
}

//! The headers around encrypted and compressed messages, MS-SMB2 §2.2.41 and §2.2.42.

use crate::header::ProtocolId;
use crate::negotiate::CompressionAlgorithm;
use crate::sets::bit_set;
use crate::{Decode, Encode, Malformed, Reader, Wire, Writer};

pub const TRANSFORM_SIZE: usize = 52;
pub const TRANSFORM_SIGNATURE_OFFSET: usize = 4;
/// The offset of the authenticated bytes, behind the signature.
pub const TRANSFORM_AAD_OFFSET: usize = 20;

bit_set! {
    /// `Flags`, MS-SMB2 §2.2.41. Before 3.1.1 the field is `EncryptionAlgorithm`, where AES-128-CCM is also 1.
    pub struct TransformFlags: u16 {
        ENCRYPTED = 0x1,
    }
}

/// `SMB2 TRANSFORM_HEADER`, MS-SMB2 §2.2.41.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransformHeader {
    pub signature: [u8; 16],
    /// CCM uses the first 11 bytes, GCM the first 12.
    pub nonce: [u8; 16],
    pub original_message_size: u32,
    pub flags: TransformFlags,
    pub session_id: u64,
}

impl TransformHeader {
    /// The header as on the wire, for encryption in place.
    pub fn to_array(&self) -> [u8; TRANSFORM_SIZE] {
        let mut bytes = [0; TRANSFORM_SIZE];
        bytes[..4].copy_from_slice(&ProtocolId::TRANSFORM.0.to_le_bytes());
        bytes[TRANSFORM_SIGNATURE_OFFSET..TRANSFORM_AAD_OFFSET].copy_from_slice(&self.signature);
        bytes[20..36].copy_from_slice(&self.nonce);
        bytes[36..40].copy_from_slice(&self.original_message_size.to_le_bytes());
        bytes[42..44].copy_from_slice(&self.flags.0.to_le_bytes());
        bytes[44..].copy_from_slice(&self.session_id.to_le_bytes());
        bytes
    }
}

impl Encode for TransformHeader {
    fn encode(&self, w: &mut Writer<'_>) {
        w.bytes(&self.to_array());
    }
}

impl Decode<'_> for TransformHeader {
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        if ProtocolId::decode(r)? != ProtocolId::TRANSFORM {
            return Err(Malformed("not a transform header"));
        }
        let signature = Decode::decode(r)?;
        let nonce = Decode::decode(r)?;
        let original_message_size = Decode::decode(r)?;
        r.skip(2)?;
        Ok(Self {
            signature,
            nonce,
            original_message_size,
            flags: Decode::decode(r)?,
            session_id: Decode::decode(r)?,
        })
    }
}

bit_set! {
    /// `Flags`, MS-SMB2 §2.2.42.1 and §2.2.42.2.1.
    pub struct CompressionTransformFlags: u16 {
        CHAINED = 0x1,
    }
}

/// `SMB2_COMPRESSION_TRANSFORM_HEADER_UNCHAINED`, MS-SMB2 §2.2.42.1. A chained header (§2.2.42.2) has the first two
/// fields, then its first [`CompressionPayload`], whose `Length` is in `Offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct CompressionTransform {
    pub protocol_id: ProtocolId,
    pub original_compressed_segment_size: u32,
    pub compression_algorithm: CompressionAlgorithm,
    pub flags: CompressionTransformFlags,
    pub offset: u32,
}

/// Bytes of a `SMB2_COMPRESSION_TRANSFORM_HEADER_CHAINED` before its first payload.
pub const CHAINED_HEADER_SIZE: usize = 8;

/// `SMB2_COMPRESSION_CHAINED_PAYLOAD_HEADER`, MS-SMB2 §2.2.42.2.1, without `OriginalPayloadSize`, which only some
/// payloads have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct CompressionPayload {
    pub compression_algorithm: CompressionAlgorithm,
    /// `CHAINED` in the first payload. Windows leaves stale bits in the others.
    pub flags: CompressionTransformFlags,
    /// Bytes that follow, including `OriginalPayloadSize`.
    pub length: u32,
}

/// `SMB2_COMPRESSION_PATTERN_PAYLOAD_V1`, MS-SMB2 §2.2.42.2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct PatternPayload {
    pub pattern: u8,
    #[wire(pad = 3)]
    pub repetitions: u32,
}

//! NEGOTIATE, MS-SMB2 §2.2.3 and §2.2.4, and its contexts.

use crate::sets::{bit_set, open_set};
use crate::types::Dialect;
use crate::{
    Decode, Encode, FileTime, Guid, Malformed, Reader, Utf16, Wire, Writer, decode_list, encode_list,
};

bit_set! {
    /// `SecurityMode`, MS-SMB2 §2.2.3 and §2.2.4.
    pub struct SecurityMode: u16 {
        SIGNING_ENABLED = 0x1,
        SIGNING_REQUIRED = 0x2,
    }

    /// `Capabilities`, MS-SMB2 §2.2.3 and §2.2.4.
    pub struct Capabilities: u32 {
        DFS = 0x1,
        LEASING = 0x2,
        LARGE_MTU = 0x4,
        MULTI_CHANNEL = 0x8,
        PERSISTENT_HANDLES = 0x10,
        DIRECTORY_LEASING = 0x20,
        ENCRYPTION = 0x40,
        NOTIFICATIONS = 0x80,
    }

    /// `Flags` of a `SMB2_COMPRESSION_CAPABILITIES`, MS-SMB2 §2.2.3.1.3.
    pub struct CompressionFlags: u32 {
        CHAINED = 0x1,
    }

    /// `Flags` of a `SMB2_TRANSPORT_CAPABILITIES`, MS-SMB2 §2.2.3.1.5.
    pub struct TransportFlags: u32 {
        ACCEPT_TRANSPORT_LEVEL_SECURITY = 0x1,
    }
}

open_set! {
    /// `ContextType`, MS-SMB2 §2.2.3.1; `POSIX_EXTENSIONS` belongs to the POSIX extensions to SMB3.
    pub struct ContextType: u16 {
        PREAUTH_INTEGRITY_CAPABILITIES = 0x0001,
        ENCRYPTION_CAPABILITIES = 0x0002,
        COMPRESSION_CAPABILITIES = 0x0003,
        NETNAME_NEGOTIATE_CONTEXT_ID = 0x0005,
        TRANSPORT_CAPABILITIES = 0x0006,
        RDMA_TRANSFORM_CAPABILITIES = 0x0007,
        SIGNING_CAPABILITIES = 0x0008,
        POSIX_EXTENSIONS_AVAILABLE = 0x0100,
    }

    /// A hash algorithm, MS-SMB2 §2.2.3.1.1.
    pub struct HashAlgorithm: u16 {
        SHA_512 = 0x0001,
    }

    /// A cipher, MS-SMB2 §2.2.3.1.2.
    pub struct Cipher: u16 {
        AES_128_CCM = 0x0001,
        AES_128_GCM = 0x0002,
        AES_256_CCM = 0x0003,
        AES_256_GCM = 0x0004,
    }

    /// A compression algorithm, MS-SMB2 §2.2.3.1.3.
    pub struct CompressionAlgorithm: u16 {
        NONE = 0x0000,
        LZNT1 = 0x0001,
        LZ77 = 0x0002,
        LZ77_HUFFMAN = 0x0003,
        PATTERN_V1 = 0x0004,
        LZ4 = 0x0005,
    }

    /// A signing algorithm, MS-SMB2 §2.2.3.1.7.
    pub struct SigningAlgorithm: u16 {
        HMAC_SHA256 = 0x0000,
        AES_CMAC = 0x0001,
        AES_GMAC = 0x0002,
    }
}

/// `SMB2 NEGOTIATE Request`, MS-SMB2 §2.2.3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NegotiateRequest<'a> {
    pub security_mode: SecurityMode,
    pub capabilities: Capabilities,
    pub client_guid: Guid,
    pub dialects: Vec<Dialect>,
    /// Encoded only if the dialects include 3.1.1.
    pub contexts: Vec<NegotiateContext<'a>>,
}

impl Encode for NegotiateRequest<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        let with_contexts = self.dialects.contains(&Dialect::SMB311);
        w.u16(36);
        w.length::<u16>(self.dialects.len());
        self.security_mode.encode(w);
        w.zeros(2);
        self.capabilities.encode(w);
        self.client_guid.encode(w);
        let contexts = w.position();
        w.zeros(8);
        encode_list(&self.dialects, w);
        if with_contexts {
            w.align(8);
            w.patch::<u32>(contexts, w.position());
            w.patch::<u16>(contexts + 4, self.contexts.len());
            encode_contexts(&self.contexts, w);
        }
    }
}

impl<'a> Decode<'a> for NegotiateRequest<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        r.structure_size(36)?;
        let count = u16::decode(r)?;
        let security_mode = Decode::decode(r)?;
        r.skip(2)?;
        let capabilities = Decode::decode(r)?;
        let client_guid = Decode::decode(r)?;
        let offset = u32::decode(r)?;
        let context_count = u16::decode(r)?;
        r.skip(2)?;
        let dialects: Vec<Dialect> = decode_list(r, usize::from(count))?;
        let mut contexts = Vec::new();
        if dialects.contains(&Dialect::SMB311) && context_count != 0 {
            contexts = decode_contexts(r, offset, context_count)?;
        }
        Ok(Self { security_mode, capabilities, client_guid, dialects, contexts })
    }
}

/// `SMB2 NEGOTIATE Response`, MS-SMB2 §2.2.4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NegotiateResponse<'a> {
    pub security_mode: SecurityMode,
    pub dialect: Dialect,
    pub server_guid: Guid,
    pub capabilities: Capabilities,
    pub max_transact_size: u32,
    pub max_read_size: u32,
    pub max_write_size: u32,
    pub system_time: FileTime,
    pub server_start_time: FileTime,
    pub security_buffer: &'a [u8],
    /// Encoded only if the dialect is 3.1.1.
    pub contexts: Vec<NegotiateContext<'a>>,
}

/// The fixed part of the response.
#[derive(Clone, Copy, Debug, Wire)]
#[wire(size = 65)]
struct ResponseFixedPart<'a> {
    security_mode: SecurityMode,
    dialect: Dialect,
    context_count: u16,
    server_guid: Guid,
    capabilities: Capabilities,
    max_transact_size: u32,
    max_read_size: u32,
    max_write_size: u32,
    system_time: FileTime,
    server_start_time: FileTime,
    #[wire(offset = u16, length = u16)]
    security_buffer: &'a [u8],
    context_offset: u32,
}

impl Encode for NegotiateResponse<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        let with_contexts = self.dialect == Dialect::SMB311;
        let head = ResponseFixedPart {
            security_mode: self.security_mode,
            dialect: self.dialect,
            context_count: 0,
            server_guid: self.server_guid,
            capabilities: self.capabilities,
            max_transact_size: self.max_transact_size,
            max_read_size: self.max_read_size,
            max_write_size: self.max_write_size,
            system_time: self.system_time,
            server_start_time: self.server_start_time,
            security_buffer: self.security_buffer,
            context_offset: 0,
        };
        let start = w.position();
        head.encode(w);
        if with_contexts {
            w.align(8);
            w.patch::<u16>(start + 6, self.contexts.len());
            w.patch::<u32>(start + 60, w.position());
            encode_contexts(&self.contexts, w);
        }
    }
}

impl<'a> Decode<'a> for NegotiateResponse<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let head = ResponseFixedPart::decode(r)?;
        let mut contexts = Vec::new();
        if head.dialect == Dialect::SMB311 && head.context_count != 0 {
            contexts = decode_contexts(r, head.context_offset, head.context_count)?;
        }
        Ok(Self {
            security_mode: head.security_mode,
            dialect: head.dialect,
            server_guid: head.server_guid,
            capabilities: head.capabilities,
            max_transact_size: head.max_transact_size,
            max_read_size: head.max_read_size,
            max_write_size: head.max_write_size,
            system_time: head.system_time,
            server_start_time: head.server_start_time,
            security_buffer: head.security_buffer,
            contexts,
        })
    }
}

/// `SMB2_NEGOTIATE_CONTEXT`, MS-SMB2 §2.2.3.1 and §2.2.4.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NegotiateContext<'a> {
    /// §2.2.3.1.1.
    Preauth { hash_algorithms: Vec<HashAlgorithm>, salt: &'a [u8] },
    /// §2.2.3.1.2.
    Encryption(Vec<Cipher>),
    /// §2.2.3.1.3.
    Compression { flags: CompressionFlags, algorithms: Vec<CompressionAlgorithm> },
    /// §2.2.3.1.4.
    Netname(Utf16<'a>),
    /// §2.2.3.1.5.
    Transport(TransportFlags),
    /// §2.2.3.1.6: `RDMATransformIds`.
    RdmaTransform(Vec<u16>),
    /// §2.2.3.1.7.
    Signing(Vec<SigningAlgorithm>),
    /// Any other context, including those of unknown extensions.
    Other { context_type: ContextType, data: &'a [u8] },
}

impl NegotiateContext<'_> {
    pub fn context_type(&self) -> ContextType {
        match self {
            Self::Preauth { .. } => ContextType::PREAUTH_INTEGRITY_CAPABILITIES,
            Self::Encryption(_) => ContextType::ENCRYPTION_CAPABILITIES,
            Self::Compression { .. } => ContextType::COMPRESSION_CAPABILITIES,
            Self::Netname(_) => ContextType::NETNAME_NEGOTIATE_CONTEXT_ID,
            Self::Transport(_) => ContextType::TRANSPORT_CAPABILITIES,
            Self::RdmaTransform(_) => ContextType::RDMA_TRANSFORM_CAPABILITIES,
            Self::Signing(_) => ContextType::SIGNING_CAPABILITIES,
            Self::Other { context_type, .. } => *context_type,
        }
    }

    fn encode_data(&self, w: &mut Writer<'_>) {
        match self {
            Self::Preauth { hash_algorithms, salt } => {
                w.length::<u16>(hash_algorithms.len());
                w.length::<u16>(salt.len());
                encode_list(hash_algorithms, w);
                w.bytes(salt);
            }
            Self::Encryption(ciphers) => encode_counted(ciphers, w),
            Self::Compression { flags, algorithms } => {
                w.length::<u16>(algorithms.len());
                w.zeros(2);
                flags.encode(w);
                encode_list(algorithms, w);
            }
            Self::Netname(name) => w.bytes(name.bytes()),
            Self::Transport(flags) => flags.encode(w),
            Self::RdmaTransform(ids) => {
                w.length::<u16>(ids.len());
                w.zeros(6);
                encode_list(ids, w);
            }
            Self::Signing(algorithms) => encode_counted(algorithms, w),
            Self::Other { data, .. } => w.bytes(data),
        }
    }
}

impl<'a> NegotiateContext<'a> {
    fn decode_data(context_type: ContextType, data: &'a [u8]) -> Result<Self, Malformed> {
        let r = &mut Reader::new(data);
        Ok(match context_type {
            ContextType::PREAUTH_INTEGRITY_CAPABILITIES => {
                let (count, salt) = (u16::decode(r)?, u16::decode(r)?);
                let hash_algorithms = decode_list(r, usize::from(count))?;
                Self::Preauth { hash_algorithms, salt: r.bytes(usize::from(salt))? }
            }
            ContextType::ENCRYPTION_CAPABILITIES => Self::Encryption(decode_counted(r, 0)?),
            ContextType::COMPRESSION_CAPABILITIES => {
                let count = u16::decode(r)?;
                r.skip(2)?;
                let flags = Decode::decode(r)?;
                Self::Compression { flags, algorithms: decode_list(r, usize::from(count))? }
            }
            ContextType::NETNAME_NEGOTIATE_CONTEXT_ID => Self::Netname(Utf16::new(data)?),
            ContextType::TRANSPORT_CAPABILITIES => Self::Transport(Decode::decode(r)?),
            ContextType::RDMA_TRANSFORM_CAPABILITIES => Self::RdmaTransform(decode_counted(r, 6)?),
            ContextType::SIGNING_CAPABILITIES => Self::Signing(decode_counted(r, 0)?),
            _ => Self::Other { context_type, data },
        })
    }
}

fn encode_counted<T: Encode>(items: &[T], w: &mut Writer<'_>) {
    w.length::<u16>(items.len());
    encode_list(items, w);
}

fn decode_counted<'a, T: Decode<'a>>(r: &mut Reader<'a>, reserved: usize) -> Result<Vec<T>, Malformed> {
    let count = u16::decode(r)?;
    r.skip(reserved)?;
    decode_list(r, usize::from(count))
}

/// Each context starts at a multiple of 8; no padding follows the last.
fn encode_contexts(contexts: &[NegotiateContext<'_>], w: &mut Writer<'_>) {
    for context in contexts {
        w.align(8);
        context.context_type().encode(w);
        let length = w.position();
        w.zeros(6);
        let start = w.position();
        context.encode_data(w);
        w.patch::<u16>(length, w.position() - start);
    }
}

fn decode_contexts<'a>(
    r: &mut Reader<'a>,
    offset: u32,
    count: u16,
) -> Result<Vec<NegotiateContext<'a>>, Malformed> {
    r.move_to(usize::try_from(offset).unwrap_or(usize::MAX))?;
    let mut contexts = Vec::new();
    for _ in 0..count {
        r.align(8);
        let context_type = Decode::decode(r)?;
        let length = u16::decode(r)?;
        r.skip(4)?;
        contexts.push(NegotiateContext::decode_data(context_type, r.bytes(usize::from(length))?)?);
    }
    Ok(contexts)
}

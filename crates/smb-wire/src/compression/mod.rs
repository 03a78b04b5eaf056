//! Compressed messages: plain LZ77 and `Pattern_V1`, MS-SMB2 §3.1.4.4 and §3.1.5.3.

pub mod lz77;
pub mod pattern;

use crate::header::ProtocolId;
use crate::negotiate::{CompressionAlgorithm, CompressionFlags};
use crate::transform::{
    CHAINED_HEADER_SIZE, CompressionPayload, CompressionTransform, CompressionTransformFlags, PatternPayload,
};
use crate::{Decode, Encode, Malformed, Reader, Writer};

/// Bytes of a `SMB2_COMPRESSION_PATTERN_PAYLOAD_V1`.
const PATTERN_SIZE: usize = 8;
/// Shorter data between patterns stays uncompressed.
const LZ77_BYTES_MIN: usize = 512;

/// The negotiated compression of a connection: `SupportsChainedCompression` and `CompressionIds`, MS-SMB2 §3.3.1.7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// Whether a message may have several payloads, each compressed separately.
    pub is_chained: bool,
    pub lz77: bool,
    /// Whether payloads of a repeated byte are allowed; only in chains.
    pub pattern: bool,
}

impl Compression {
    /// Negotiates compression with a client (MS-SMB2 §3.3.5.4). `None` if no algorithm is shared.
    pub fn choose(flags: CompressionFlags, offered: &[CompressionAlgorithm]) -> Option<Self> {
        let is_chained = flags.contains(CompressionFlags::CHAINED);
        let chosen = Self {
            is_chained,
            lz77: offered.contains(&CompressionAlgorithm::LZ77),
            pattern: is_chained && offered.contains(&CompressionAlgorithm::PATTERN_V1),
        };
        (chosen.lz77 || chosen.pattern).then_some(chosen)
    }

    pub fn flags(self) -> CompressionFlags {
        if self.is_chained { CompressionFlags::CHAINED } else { CompressionFlags::empty() }
    }

    pub fn algorithms(self) -> Vec<CompressionAlgorithm> {
        let all = [(self.lz77, CompressionAlgorithm::LZ77), (self.pattern, CompressionAlgorithm::PATTERN_V1)];
        all.into_iter().filter(|(is_chosen, _)| *is_chosen).map(|(_, algorithm)| algorithm).collect()
    }

    /// Compresses `message` except for its first `head` bytes. `None` if the result is not shorter.
    pub fn compress(self, message: &[u8], head: usize) -> Option<Vec<u8>> {
        let size = u32::try_from(message.len()).ok()?;
        let (head, data) = message.split_at(head.min(message.len()));
        let mut packed = CompressedOutput { out: Vec::with_capacity(message.len()), room: message.len() };
        if self.is_chained {
            self.compress_chained(size, head, data, &mut packed)?;
        } else if self.lz77 {
            self.compress_unchained(head, data, &mut packed)?;
        } else {
            return None;
        }
        Some(packed.out).filter(|out| out.len() < message.len())
    }

    /// Decompresses a message of at most `max` bytes. Never allocates more.
    pub fn decompress(self, message: &[u8], max: usize) -> Result<Vec<u8>, Malformed> {
        let mut r = Reader::new(message);
        let header = CompressionTransform::decode(&mut r)?;
        if header.protocol_id != ProtocolId::COMPRESSION_TRANSFORM {
            return Err(Malformed("not a compressed message"));
        }
        let size = check_length(header.original_compressed_segment_size, max)?;
        match header.flags {
            CompressionTransformFlags::CHAINED if self.is_chained => {
                self.decompress_chained(&message[CHAINED_HEADER_SIZE..], size)
            }
            CompressionTransformFlags(0)
                if self.lz77 && header.compression_algorithm == CompressionAlgorithm::LZ77 =>
            {
                let head = r.bytes(check_length(header.offset, max - size)?)?;
                let mut plain = Vec::with_capacity(head.len() + size);
                plain.extend_from_slice(head);
                lz77::decompress(r.rest(), &mut plain, size)?;
                Ok(plain)
            }
            _ => Err(Malformed("a compression algorithm that was not negotiated")),
        }
    }

    fn compress_unchained(self, head: &[u8], data: &[u8], packed: &mut CompressedOutput) -> Option<()> {
        let header = CompressionTransform {
            protocol_id: ProtocolId::COMPRESSION_TRANSFORM,
            original_compressed_segment_size: u32::try_from(data.len()).ok()?,
            compression_algorithm: CompressionAlgorithm::LZ77,
            flags: CompressionTransformFlags::empty(),
            offset: u32::try_from(head.len()).ok()?,
        };
        packed.push(&header);
        packed.out.extend_from_slice(head);
        packed.lz77(data).then_some(())
    }

    fn compress_chained(
        self,
        size: u32,
        head: &[u8],
        data: &[u8],
        packed: &mut CompressedOutput,
    ) -> Option<()> {
        packed.push(&ProtocolId::COMPRESSION_TRANSFORM);
        packed.push(&size);
        packed.plain(head);
        let count = |found: &Option<PatternPayload>| found.map_or(0, |found| found.repetitions as usize);
        let front = self.pattern.then(|| pattern::forward(data)).flatten();
        let data = &data[count(&front)..];
        let back = self.pattern.then(|| pattern::backward(data)).flatten();
        let data = &data[..data.len() - count(&back)];
        packed.pattern(front);
        if self.lz77 && data.len() >= LZ77_BYTES_MIN {
            packed.lz77_payload(data)?;
        } else if !data.is_empty() {
            packed.plain(data);
        }
        packed.pattern(back);
        Some(())
    }

    fn decompress_chained(self, payloads: &[u8], size: usize) -> Result<Vec<u8>, Malformed> {
        let mut r = Reader::new(payloads);
        let mut plain = Vec::with_capacity(size);
        while !r.rest().is_empty() {
            let payload = CompressionPayload::decode(&mut r)?;
            let mut data = Reader::new(r.bytes(check_length(payload.length, r.rest().len())?)?);
            let room = size - plain.len();
            match payload.compression_algorithm {
                CompressionAlgorithm::NONE => {
                    let bytes = data.rest();
                    if bytes.len() > room {
                        return Err(LONG);
                    }
                    plain.extend_from_slice(bytes);
                }
                CompressionAlgorithm::PATTERN_V1 if self.pattern && data.rest().len() == PATTERN_SIZE => {
                    let PatternPayload { pattern, repetitions } = PatternPayload::decode(&mut data)?;
                    let count = check_length(repetitions, room)?;
                    plain.resize(plain.len() + count, pattern);
                }
                CompressionAlgorithm::LZ77 if self.lz77 => {
                    let count = check_length(u32::decode(&mut data)?, room)?;
                    lz77::decompress(data.rest(), &mut plain, count)?;
                }
                _ => return Err(Malformed("a payload with a compression algorithm that was not negotiated")),
            }
        }
        if plain.len() == size { Ok(plain) } else { Err(Malformed("payloads are shorter than declared")) }
    }
}

const LONG: Malformed = Malformed("payloads are longer than declared");

fn check_length(length: u32, max: usize) -> Result<usize, Malformed> {
    usize::try_from(length).ok().filter(|length| *length <= max).ok_or(LONG)
}

struct CompressedOutput {
    out: Vec<u8>,
    /// The size at which the result is too long.
    room: usize,
}

impl CompressedOutput {
    fn push(&mut self, value: &impl Encode) {
        value.encode(&mut Writer::new(&mut self.out));
    }

    fn payload(&mut self, compression_algorithm: CompressionAlgorithm, length: usize) {
        let is_first = self.out.len() == CHAINED_HEADER_SIZE;
        let flags = CompressionTransformFlags(u16::from(is_first));
        // No message is longer.
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.push(&CompressionPayload { compression_algorithm, flags, length });
    }

    fn plain(&mut self, data: &[u8]) {
        self.payload(CompressionAlgorithm::NONE, data.len());
        self.out.extend_from_slice(data);
    }

    fn pattern(&mut self, found: Option<PatternPayload>) {
        if let Some(found) = found {
            self.payload(CompressionAlgorithm::PATTERN_V1, PATTERN_SIZE);
            self.push(&found);
        }
    }

    /// Appends `data` in LZ77, or uncompressed if that is not longer. `None` if the message would not become shorter.
    fn lz77_payload(&mut self, data: &[u8]) -> Option<()> {
        let header = self.out.len();
        self.payload(CompressionAlgorithm::LZ77, 0);
        let start = self.out.len();
        self.push(&u32::try_from(data.len()).ok()?);
        if self.lz77(data) {
            let length = u32::try_from(self.out.len() - start).ok()?;
            self.out[start - 4..start].copy_from_slice(&length.to_le_bytes());
        } else {
            self.out.truncate(header);
            self.plain(data);
        }
        (self.out.len() < self.room).then_some(())
    }

    /// Appends `data` in LZ77. Returns whether that is shorter and fits.
    fn lz77(&mut self, data: &[u8]) -> bool {
        let room = self.room.saturating_sub(self.out.len()).min(data.len());
        lz77::compress(data, &mut self.out, room)
    }
}

#[cfg(test)]
mod tests;

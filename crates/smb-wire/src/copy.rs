//! Copies and clones between files of one server: the data of IOCTL, MS-SMB2 §2.2.31 and §2.2.32, MS-FSCC §2.3.

use crate::sets::bit_set;
use crate::{Decode, Encode, FileId, Malformed, Reader, Wire, Writer, decode_list, encode_list};

/// The identifier of an open file for a server-side copy, MS-SMB2 §2.2.32.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Wire)]
pub struct ResumeKey(pub [u8; 24]);

/// `SRV_REQUEST_RESUME_KEY Response`, MS-SMB2 §2.2.32.3, without a context, as servers send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(end = 8)]
pub struct ResumeKeyResponse {
    pub resume_key: ResumeKey,
}

/// `SRV_COPYCHUNK`, MS-SMB2 §2.2.31.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(end = 4)]
pub struct CopyChunk {
    pub source_offset: u64,
    pub target_offset: u64,
    pub length: u32,
}

/// `SRV_COPYCHUNK_COPY`, MS-SMB2 §2.2.31.1. macOS copies a whole file with an empty list of chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyChunkCopy {
    pub source_key: ResumeKey,
    pub chunks: Vec<CopyChunk>,
}

impl Encode for CopyChunkCopy {
    fn encode(&self, w: &mut Writer<'_>) {
        self.source_key.encode(w);
        w.length::<u32>(self.chunks.len());
        w.zeros(4);
        encode_list(&self.chunks, w);
    }
}

impl Decode<'_> for CopyChunkCopy {
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let source_key = Decode::decode(r)?;
        let count = u32::decode(r)?;
        r.skip(4)?;
        Ok(Self { source_key, chunks: decode_list(r, usize::try_from(count).unwrap_or(usize::MAX))? })
    }
}

/// `SRV_COPYCHUNK_RESPONSE`, MS-SMB2 §2.2.32.1: the progress, or, with `INVALID_PARAMETER`, the limits of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct CopyChunkResponse {
    pub chunks_written: u32,
    pub chunk_bytes_written: u32,
    pub total_bytes_written: u32,
}

/// `DUPLICATE_EXTENTS_DATA` of `FSCTL_DUPLICATE_EXTENTS_TO_FILE`, MS-FSCC §2.3. Signed on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct DuplicateExtents {
    pub source_file_id: FileId,
    pub source_file_offset: i64,
    pub target_file_offset: i64,
    pub byte_count: i64,
}

bit_set! {
    /// `Flags` of `DUPLICATE_EXTENTS_DATA_EX`, MS-FSCC §2.3.
    pub struct DuplicateExtentsFlags: u32 {
        SOURCE_ATOMIC = 0x1,
    }
}

/// `DUPLICATE_EXTENTS_DATA_EX` of `FSCTL_DUPLICATE_EXTENTS_TO_FILE_EX`, MS-FSCC §2.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuplicateExtentsEx {
    pub extents: DuplicateExtents,
    pub flags: DuplicateExtentsFlags,
}

/// `StructureSize` of a [`DuplicateExtentsEx`].
const DUPLICATE_EXTENTS_EX_SIZE: u64 = 0x30;

impl Encode for DuplicateExtentsEx {
    fn encode(&self, w: &mut Writer<'_>) {
        DUPLICATE_EXTENTS_EX_SIZE.encode(w);
        self.extents.encode(w);
        self.flags.encode(w);
        w.zeros(4);
    }
}

impl Decode<'_> for DuplicateExtentsEx {
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        if u64::decode(r)? != DUPLICATE_EXTENTS_EX_SIZE {
            return Err(Malformed("StructureSize is not the structure's"));
        }
        let value = Self { extents: Decode::decode(r)?, flags: Decode::decode(r)? };
        r.skip(4)?;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_count_must_match() {
        let chunk = CopyChunk { source_offset: 1, target_offset: 2, length: 3 };
        let copy = CopyChunkCopy { source_key: ResumeKey([7; 24]), chunks: vec![chunk; 2] };
        let mut bytes = copy.to_bytes();
        assert_eq!((bytes.len(), &bytes[24..33]), (80, &[2, 0, 0, 0, 0, 0, 0, 0, 1][..]));
        assert_eq!(CopyChunkCopy::from_bytes(&bytes), Ok(copy));
        for count in [3, 0xff] {
            bytes[24..28].fill(count);
            assert!(CopyChunkCopy::from_bytes(&bytes).is_err());
        }
    }

    #[test]
    fn structures_match_figures() {
        assert_eq!(ResumeKeyResponse { resume_key: ResumeKey([7; 24]) }.to_bytes().len(), 32);
        let extents = DuplicateExtents {
            source_file_id: FileId { persistent: 1, volatile: 2 },
            source_file_offset: 3,
            target_file_offset: 4,
            byte_count: -1,
        };
        assert_eq!(
            (extents.to_bytes().len(), DuplicateExtents::from_bytes(&extents.to_bytes())),
            (40, Ok(extents))
        );
        let ex = DuplicateExtentsEx { extents, flags: DuplicateExtentsFlags::SOURCE_ATOMIC };
        let mut bytes = ex.to_bytes();
        assert_eq!((bytes.len(), bytes[0], bytes[48]), (56, 0x30, 1));
        assert_eq!(DuplicateExtentsEx::from_bytes(&bytes), Ok(ex));
        bytes[0] = 0x38;
        assert!(DuplicateExtentsEx::from_bytes(&bytes).is_err());
    }
}

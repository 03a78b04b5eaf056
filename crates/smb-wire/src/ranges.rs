//! File ranges in IOCTL requests and responses, MS-FSCC §2.3.

use crate::sets::bit_set;
use crate::{Decode, Encode, Malformed, Reader, Wire, Writer, decode_list, encode_list};

/// `FILE_SET_SPARSE_BUFFER` of `FSCTL_SET_SPARSE`, MS-FSCC §2.3; an empty request means `true`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetSparse(pub bool);

impl Encode for SetSparse {
    fn encode(&self, w: &mut Writer<'_>) {
        self.0.encode(w);
    }
}

/// Consumes all remaining bytes.
impl Decode<'_> for SetSparse {
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        if r.rest().is_empty() { Ok(Self(true)) } else { Decode::decode(r).map(Self) }
    }
}

/// `FILE_ZERO_DATA_INFORMATION` of `FSCTL_SET_ZERO_DATA`, MS-FSCC §2.3. Signed on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct ZeroData {
    pub file_offset: i64,
    pub beyond_final_zero: i64,
}

/// `FILE_ALLOCATED_RANGE_BUFFER` of `FSCTL_QUERY_ALLOCATED_RANGES`, MS-FSCC §2.3. The request has one, the response as
/// many as fit. Signed on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct AllocatedRange {
    pub file_offset: i64,
    pub length: i64,
}

/// `FILE_LEVEL_TRIM_RANGE`, MS-FSCC §2.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct TrimRange {
    pub offset: u64,
    pub length: u64,
}

/// `FILE_LEVEL_TRIM` of `FSCTL_FILE_LEVEL_TRIM`, MS-FSCC §2.3. The response is the number of processed ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLevelTrim {
    pub ranges: Vec<TrimRange>,
}

impl Encode for FileLevelTrim {
    fn encode(&self, w: &mut Writer<'_>) {
        w.zeros(4);
        w.length::<u32>(self.ranges.len());
        encode_list(&self.ranges, w);
    }
}

impl Decode<'_> for FileLevelTrim {
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.skip(4)?;
        let count = u32::decode(r)?;
        Ok(Self { ranges: decode_list(r, usize::try_from(count).unwrap_or(usize::MAX))? })
    }
}

/// `FILE_REGION_INPUT` of `FSCTL_QUERY_FILE_REGIONS`, MS-FSCC §2.3.55. Signed on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(end = 4)]
pub struct RegionRequest {
    pub file_offset: i64,
    pub length: i64,
    pub desired_usage: RegionUsage,
}

bit_set! {
    /// `DesiredUsage` of a [`FileRegion`], MS-FSCC §2.3.56.1.
    pub struct RegionUsage: u32 {
        VALID_CACHED_DATA = 0x1,
        VALID_NONCACHED_DATA = 0x2,
    }
}

/// `FILE_REGION_INFO`, MS-FSCC §2.3.56.1. Signed on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[wire(end = 4)]
pub struct FileRegion {
    pub file_offset: i64,
    pub length: i64,
    pub usage: RegionUsage,
}

/// `FILE_REGION_OUTPUT`, MS-FSCC §2.3.56, complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRegions {
    pub regions: Vec<FileRegion>,
}

impl Encode for FileRegions {
    fn encode(&self, w: &mut Writer<'_>) {
        w.zeros(4);
        w.length::<u32>(self.regions.len());
        w.length::<u32>(self.regions.len());
        w.zeros(4);
        encode_list(&self.regions, w);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_set_sparse_means_true() {
        assert_eq!(SetSparse::from_bytes(&[]), Ok(SetSparse(true)));
        assert_eq!(SetSparse::from_bytes(&[0]), Ok(SetSparse(false)));
        assert_eq!(SetSparse::from_bytes(&[2]), Ok(SetSparse(true)));
    }

    #[test]
    fn regions_match_figures() {
        let request =
            RegionRequest { file_offset: 1, length: 2, desired_usage: RegionUsage::VALID_CACHED_DATA };
        let bytes = request.to_bytes();
        assert_eq!((bytes.len(), bytes[0], bytes[8], bytes[16]), (24, 1, 2, 1));
        assert_eq!(RegionRequest::from_bytes(&bytes), Ok(request));
        let region = FileRegion { file_offset: 3, length: 4, usage: RegionUsage::VALID_NONCACHED_DATA };
        let bytes = FileRegions { regions: vec![region; 2] }.to_bytes();
        assert_eq!((bytes.len(), bytes[4], bytes[8], bytes[16], bytes[24], bytes[32]), (64, 2, 2, 3, 4, 2));
    }

    #[test]
    fn negative_range_decodes_where_signed() {
        let zero = ZeroData { file_offset: 1, beyond_final_zero: -1 };
        let bytes = zero.to_bytes();
        assert_eq!(bytes, [1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
        assert_eq!(ZeroData::from_bytes(&bytes), Ok(zero));
        let trim = FileLevelTrim { ranges: vec![TrimRange { offset: 2, length: 3 }] };
        let mut bytes = trim.to_bytes();
        assert_eq!((bytes.len(), &bytes[..9]), (24, &[0, 0, 0, 0, 1, 0, 0, 0, 2][..]));
        assert_eq!(FileLevelTrim::from_bytes(&bytes), Ok(trim));
        bytes[4] = 2;
        assert!(FileLevelTrim::from_bytes(&bytes).is_err(), "a range that is not there");
    }
}

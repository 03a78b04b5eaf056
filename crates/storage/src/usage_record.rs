//! The capacity and usage of a volume between two runs. docs/formats/usage-file.md draws the bytes.

use vfs::{Capacity, Usage};

const VERSION_BOUNDED: u8 = 4;
/// The version without a bound, which has none to say: a clean record, or a storage that keeps none.
const VERSION: u8 = 3;
/// The version before snapshots.
const VERSION_LIVE_ONLY: u8 = 2;
const BYTES_LIVE_ONLY: usize = 40;
/// The version that counted only the sizes of regular files: its usage is too low.
const VERSION_SIZES_ONLY: u8 = 1;
const IN_USE: u8 = 0;
const CLEAN: u8 = 1;
const BYTES: usize = 48;
pub const USAGE_RECORD_BYTES_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageRecord {
    /// The usage is exact; otherwise it is the last known usage.
    pub is_clean: bool,
    pub capacity: Capacity,
    pub usage: Usage,
    /// The part of the bytes that only snapshots need.
    pub held: u64,
    /// The usage was never more than this, until the record is written again.
    pub bound: Option<Usage>,
}

impl UsageRecord {
    pub fn encode(&self) -> Vec<u8> {
        let Self { capacity, usage, held, bound, .. } = self;
        let version = if bound.is_some() { VERSION_BOUNDED } else { VERSION };
        let mut bytes = vec![version, if self.is_clean { CLEAN } else { IN_USE }, 0, 0, 0, 0, 0, 0];
        let numbers = [capacity.bytes, capacity.files, usage.bytes, usage.files, *held];
        let bound = bound.map(|bound| [bound.bytes, bound.files]);
        for number in numbers.into_iter().chain(bound.into_iter().flatten()) {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    /// `None` if the bytes are no record.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let [version, state @ (IN_USE | CLEAN), 0, 0, 0, 0, 0, 0, numbers @ ..] = bytes else { return None };
        let len = match *version {
            VERSION_BOUNDED => USAGE_RECORD_BYTES_MAX,
            VERSION => BYTES,
            VERSION_SIZES_ONLY | VERSION_LIVE_ONLY => BYTES_LIVE_ONLY,
            _ => return None,
        };
        if bytes.len() != len {
            return None;
        }
        let mut numbers = numbers.as_chunks::<8>().0.iter().map(|number| u64::from_be_bytes(*number));
        let mut next = || numbers.next();
        let [capacity_bytes, capacity_files, bytes, files] = [next()?, next()?, next()?, next()?];
        Some(Self {
            is_clean: *state == CLEAN && *version != VERSION_SIZES_ONLY,
            capacity: Capacity { bytes: capacity_bytes, files: capacity_files },
            usage: Usage { bytes, files },
            held: next().unwrap_or(0),
            bound: next().zip(next()).map(|(bytes, files)| Usage { bytes, files }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_match_format() {
        let entry = UsageRecord {
            is_clean: true,
            capacity: Capacity { bytes: 0x0102_0304_0506_0708, files: 9 },
            usage: Usage { bytes: 0x1000, files: 2 },
            held: 3,
            bound: None,
        };
        let bytes = entry.encode();
        assert_eq!(bytes[..16], [3, 1, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(
            bytes[16..],
            [
                [0, 0, 0, 0, 0, 0, 0, 9],
                [0, 0, 0, 0, 0, 0, 16, 0],
                [0, 0, 0, 0, 0, 0, 0, 2],
                [0, 0, 0, 0, 0, 0, 0, 3]
            ]
            .concat()
        );
        assert_eq!(UsageRecord::decode(&bytes), Some(entry));
        let in_use = UsageRecord { is_clean: false, ..entry };
        assert_eq!(UsageRecord::decode(&in_use.encode()), Some(in_use));
        let mut earlier = entry.encode()[..BYTES_LIVE_ONLY].to_vec();
        earlier[0] = VERSION_LIVE_ONLY;
        assert_eq!(UsageRecord::decode(&earlier), Some(UsageRecord { held: 0, ..entry }));
        earlier[0] = VERSION_SIZES_ONLY;
        let recounted = UsageRecord { held: 0, ..in_use };
        assert_eq!(
            UsageRecord::decode(&earlier),
            Some(recounted),
            "what an earlier version counted is counted again"
        );
        let bounded = UsageRecord { bound: Some(Usage { bytes: 0x2000, files: 5 }), ..in_use };
        let bytes = bounded.encode();
        assert_eq!(bytes[..8], [4, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[48..], [0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
        assert_eq!(UsageRecord::decode(&bytes), Some(bounded));
        assert_eq!(UsageRecord::decode(&entry.encode()[..BYTES_LIVE_ONLY]), None);
        assert_eq!(UsageRecord::decode(&bytes[..BYTES]), None);
        assert_eq!(
            UsageRecord::decode(&[0; USAGE_RECORD_BYTES_MAX]),
            None,
            "a later version, or an empty file, is not guessed at"
        );
    }
}

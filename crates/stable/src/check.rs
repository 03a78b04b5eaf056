//! Checksums, which detect records that were written only in part.

use siphasher::sip::SipHasher24;
use std::hash::Hasher;

pub(crate) const CHECK_BYTES: usize = 4;

/// Writes the checksum to the end of a record.
pub fn seal<const RECORD: usize>(mut record: [u8; RECORD]) -> [u8; RECORD] {
    let (content, sum) = record.split_at_mut(RECORD - CHECK_BYTES);
    sum.copy_from_slice(&checksum(content));
    record
}

/// The low half of SipHash-2-4 with a key of zeros.
pub fn checksum(bytes: &[u8]) -> [u8; CHECK_BYTES] {
    let mut hasher = SipHasher24::new();
    hasher.write(bytes);
    let [.., a, b, c, d] = hasher.finish().to_be_bytes();
    [a, b, c, d]
}

//! Checksums, which tell what was written whole.

use siphasher::sip::SipHasher24;
use std::hash::Hasher;

/// Bytes of the checksum that ends a record.
pub(crate) const CHECK_BYTES: usize = 4;

/// Puts the checksum at the end of a record.
pub fn seal<const RECORD: usize>(mut record: [u8; RECORD]) -> [u8; RECORD] {
    let (content, sum) = record.split_at_mut(RECORD - CHECK_BYTES);
    sum.copy_from_slice(&check(content));
    record
}

/// The low half of SipHash-2-4 with a key of zeros.
pub fn check(bytes: &[u8]) -> [u8; CHECK_BYTES] {
    let mut hasher = SipHasher24::new();
    hasher.write(bytes);
    let [.., a, b, c, d] = hasher.finish().to_be_bytes();
    [a, b, c, d]
}

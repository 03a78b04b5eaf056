//! What names a file for ever: its key.

use crate::error::{FsError, FsResult};
use std::fmt;
use std::hash::{Hash, Hasher};

/// The longest [`FileKey`], in bytes: what is left of a 64-byte NFSv3 handle after the volume and the MAC.
pub const KEY_BYTES_MAX: usize = 40;

/// A file's identity inside its volume: opaque bytes chosen by the backend, stable over renames and restarts, never
/// given to another file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey {
    len: u8,
    bytes: [u8; KEY_BYTES_MAX],
}

impl FileKey {
    /// A key of these bytes; [`FsError::BadHandle`] if there are none or more than [`KEY_BYTES_MAX`].
    pub fn new(bytes: &[u8]) -> FsResult<Self> {
        let len = u8::try_from(bytes.len()).map_err(|_| FsError::BadHandle)?;
        if bytes.is_empty() || bytes.len() > KEY_BYTES_MAX {
            return Err(FsError::BadHandle);
        }
        let mut key = Self { len, bytes: [0; KEY_BYTES_MAX] };
        key.bytes[..bytes.len()].copy_from_slice(bytes);
        Ok(key)
    }

    /// The bytes of the key.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Which of `SHARDS` shards, a power of two up to 2^16, it belongs to.
    #[inline]
    pub fn shard<const SHARDS: usize>(&self) -> usize {
        const { assert!(SHARDS.is_power_of_two() && SHARDS <= 1 << 16) };
        let mut hasher = KeyHasher::default();
        self.hash(&mut hasher);
        usize::try_from(hasher.finish() >> 40 & (SHARDS as u64 - 1)).unwrap_or(0)
    }
}

/// A quick hash of [`FileKey`]s: they are made by the backend and sealed by the protocol, so nobody can choose them to collide.
/// A map takes the low bits and the top seven; a shard may come from between ([`FileKey::shard`]).
#[derive(Default)]
pub struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_u8(&mut self, byte: u8) {
        self.write_u64(u64::from(byte));
    }

    fn write_usize(&mut self, _: usize) {
        // The length of a fixed array says nothing.
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }
}

impl fmt::Debug for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.bytes() {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_one_to_forty_bytes() {
        assert_eq!(FileKey::new(&[]), Err(FsError::BadHandle));
        assert_eq!(FileKey::new(&[7; 41]), Err(FsError::BadHandle));
        assert_eq!(FileKey::new(&[7; 40]).map(|k| k.bytes().len()), Ok(40));
        assert_eq!(format!("{:?}", FileKey::new(&[1, 0xab]).unwrap()), "01ab");
    }
}

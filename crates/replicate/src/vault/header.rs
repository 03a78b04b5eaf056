//! The header of a vault, which is never encrypted.

use super::damaged;
use crate::error::{Error, Result};
use crate::format::VERSION;
use crate::format::bytes::{Reader, Writer};
use crate::format::names;
use vfs::Time;

const MAGIC: &[u8; 8] = b"PLIMVLT\n";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(super) is_encrypted: bool,
    pub(super) id: [u8; 16],
    /// Mixed into the key, so that two vaults with one key have nothing in common.
    pub(super) salt: [u8; 32],
    /// The key's check value; zeros without encryption.
    pub(super) check: [u8; 32],
    pub(super) created: Time,
}

impl Header {
    pub(super) const BYTES: usize = 12 + 16 + 32 + 32 + 12 + 32;

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.raw(MAGIC);
        writer.raw(&[VERSION, self.is_encrypted.into(), 0, 0]);
        writer.raw(&self.id);
        writer.raw(&self.salt);
        writer.raw(&self.check);
        writer.time(self.created);
        let hash = blake3::hash(&writer.0);
        writer.raw(hash.as_bytes());
        writer.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let bad = |why| damaged(names::VAULT, why);
        let (content, hash) = bytes.split_last_chunk::<32>().ok_or_else(|| bad("it is too short"))?;
        if !content.starts_with(MAGIC) {
            return Err(bad("it is no header of a vault"));
        }
        let mut reader = Reader(&content[MAGIC.len()..]);
        let version = reader.u8().ok_or_else(|| bad("it is too short"))?;
        if version != VERSION {
            return Err(Error::Version(version));
        }
        if bytes.len() != Self::BYTES || blake3::hash(content).as_bytes() != hash {
            return Err(bad("its hash is another one"));
        }
        let mut read = || {
            let is_encrypted = match reader.array()? {
                [0, 0, 0] => false,
                [1, 0, 0] => true,
                _ => return None,
            };
            let (id, salt, check) = (reader.array()?, reader.array()?, reader.array()?);
            let created = reader.time()?;
            reader.end(Self { is_encrypted, id, salt, check, created })
        };
        read().ok_or_else(|| bad("it has unknown flags"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_comes_back_and_any_flipped_bit_is_refused() {
        let header = Header {
            is_encrypted: true,
            id: [1; 16],
            salt: [2; 32],
            check: [3; 32],
            created: Time { seconds: 4, nanos: 5 },
        };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes).unwrap(), header);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&flipped).is_err());
        }
    }
}

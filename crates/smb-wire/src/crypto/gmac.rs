//! AES-128-GMAC, SP800-38D §3: GCM of no text at all.

use aes::Aes128;
use aes::cipher::{Block, BlockCipherEncrypt, KeyInit};
use ghash::GHash;
use ghash::universal_hash::UniversalHash;

use super::Key128;

/// A key and what is derived from it.
pub(super) struct Gmac {
    cipher: Aes128,
    hash: GHash,
}

impl Gmac {
    pub(super) fn new(key: &Key128) -> Self {
        let cipher = Aes128::new(key.into());
        let mut zero = Block::<Aes128>::default();
        cipher.encrypt_block(&mut zero);
        Self { cipher, hash: GHash::new(&zero) }
    }

    /// The MAC of `parts`, one after the other. All but the last are whole blocks.
    pub(super) fn mac<const N: usize>(&self, nonce: [u8; 12], parts: [&[u8]; N]) -> [u8; 16] {
        let mut hash = self.hash.clone();
        parts.iter().for_each(|part| hash.update_padded(part));
        let bits = 8 * parts.iter().map(|part| part.len() as u128).sum::<u128>();
        hash.update(&[(bits << 64).to_be_bytes().into()]);
        let mut counter = Block::<Aes128>::default();
        counter[..12].copy_from_slice(&nonce);
        counter[15] = 1;
        self.cipher.encrypt_block(&mut counter);
        let hash: [u8; 16] = hash.finalize().into();
        (u128::from_be_bytes(hash) ^ u128::from_be_bytes(counter.into())).to_be_bytes()
    }
}

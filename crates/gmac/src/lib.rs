//! AES-128-GMAC: GCM of an empty plaintext (SP800-38D).

#[cfg(target_arch = "x86_64")]
mod wide;

use aes::Aes128;
use aes::cipher::{Block, BlockCipherEncrypt, KeyInit};
use ghash::GHash;
use ghash::universal_hash::UniversalHash;

/// Bytes of a block, and of a MAC.
pub const BLOCK_SIZE: usize = 16;

/// A prepared key.
pub struct Gmac {
    cipher: Aes128,
    hash: Ghash,
}

/// GHASH under the key, by the fastest code for this processor.
enum Ghash {
    #[cfg(target_arch = "x86_64")]
    Wide(Box<wide::Powers>),
    Narrow(GHash),
}

impl Gmac {
    pub fn new(key: &[u8; 16]) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(wide) = Self::wide(key) {
            return wide;
        }
        Self::narrow(key)
    }

    /// `None` if the processor lacks wide carry-less multiplication.
    #[cfg(target_arch = "x86_64")]
    fn wide(key: &[u8; 16]) -> Option<Self> {
        let (cipher, hash_key) = derive_hash_key(key);
        let hash = Ghash::Wide(Box::new(wide::Powers::new(hash_key)?));
        Some(Self { cipher, hash })
    }

    fn narrow(key: &[u8; 16]) -> Self {
        let (cipher, hash_key) = derive_hash_key(key);
        Self { cipher, hash: Ghash::Narrow(GHash::new(&hash_key.into())) }
    }

    /// Computes the MAC of `parts`, concatenated. All but the last must be whole blocks.
    pub fn mac<const N: usize>(&self, nonce: [u8; 12], parts: [&[u8]; N]) -> [u8; BLOCK_SIZE] {
        let bits = 8 * parts.iter().map(|part| part.len() as u128).sum::<u128>();
        let lengths = (bits << 64).to_be_bytes();
        let hash = match &self.hash {
            #[cfg(target_arch = "x86_64")]
            Ghash::Wide(powers) => powers.hash(parts, lengths),
            Ghash::Narrow(hash) => {
                let mut hash = hash.clone();
                parts.iter().for_each(|part| hash.update_padded(part));
                hash.update(&[lengths.into()]);
                hash.finalize().into()
            }
        };
        let mut counter = Block::<Aes128>::default();
        counter[..12].copy_from_slice(&nonce);
        counter[15] = 1;
        self.cipher.encrypt_block(&mut counter);
        (u128::from_be_bytes(hash) ^ u128::from_be_bytes(counter.into())).to_be_bytes()
    }
}

/// The cipher, and the hash key: the encrypted zero block.
fn derive_hash_key(key: &[u8; 16]) -> (Aes128, [u8; BLOCK_SIZE]) {
    let cipher = Aes128::new(key.into());
    let mut zeros = Block::<Aes128>::default();
    cipher.encrypt_block(&mut zeros);
    (cipher, zeros.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test case 1 of the GCM specification by McGrew and Viega: empty plaintext, empty associated data.
    #[test]
    fn published_tag_matches() {
        let tag = 0x58e2_fcce_fa7e_3061_367f_1d57_a4e7_455a_u128.to_be_bytes();
        assert_eq!(Gmac::new(&[0; 16]).mac([0; 12], [&[]]), tag);
        assert_eq!(Gmac::narrow(&[0; 16]).mac([0; 12], [&[]]), tag);
    }

    /// Simulates a processor with wide multiplications, but without AVX-512.
    #[cfg(target_arch = "x86_64")]
    fn without_fours(key: &[u8; 16]) -> Gmac {
        let (cipher, hash_key) = derive_hash_key(key);
        let powers = wide::Powers::new(hash_key).expect("the caller has asked").without_avx512();
        Gmac { cipher, hash: Ghash::Wide(Box::new(powers)) }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn wide_and_narrow_macs_agree() {
        let bytes: Vec<u8> =
            (0_u32..70_000).map(|at| (at.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0]).collect();
        for seed in 0..24 {
            // Keys whose hash keys have their highest bit set, and others.
            let key = std::array::from_fn(|at| bytes[16 * seed + at]);
            let Some(widest) = Gmac::wide(&key) else {
                return eprintln!("not tested: this processor has no wide multiplications");
            };
            let wide = without_fours(&key);
            let narrow = Gmac::narrow(&key);
            let nonce = [key[0]; 12];
            for length in (0..600).chain([1023, 1024, 1040, 2049, 4096, 4160, 65_536, 70_000]) {
                for cut in [0, 16, length / 32 * 16, length / 16 * 16] {
                    let cut = cut.min(length / 16 * 16);
                    let parts = [&bytes[..cut], &bytes[cut..length]];
                    let expected = narrow.mac(nonce, parts);
                    assert_eq!(wide.mac(nonce, parts), expected, "{length} bytes, cut at {cut}");
                    assert_eq!(widest.mac(nonce, parts), expected, "{length} bytes, cut at {cut}, by fours");
                }
            }
        }
    }
}

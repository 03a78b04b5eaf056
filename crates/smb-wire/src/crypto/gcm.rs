//! AES-GCM by the faster library for this processor (`docs/decisions/0058-gcm-by-two-libraries.md`).

use super::InvalidSignature;

/// Both libraries offer the same interface under different names.
pub(super) enum Gcm {
    Ring(Box<ring::aead::LessSafeKey>),
    AwsLc(aws_lc_rs::aead::LessSafeKey),
}

impl Gcm {
    /// Accepts a key of 16 or 32 bytes.
    pub(super) fn new(key: &[u8]) -> Option<Self> {
        if has_avx512() { Self::with_aws_lc(key) } else { Self::with_ring(key) }
    }

    fn with_ring(key: &[u8]) -> Option<Self> {
        use ring::aead::{AES_128_GCM, AES_256_GCM, LessSafeKey, UnboundKey};
        let algorithm = if key.len() == 16 { &AES_128_GCM } else { &AES_256_GCM };
        UnboundKey::new(algorithm, key).ok().map(|key| Self::Ring(Box::new(LessSafeKey::new(key))))
    }

    fn with_aws_lc(key: &[u8]) -> Option<Self> {
        use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, LessSafeKey, UnboundKey};
        let algorithm = if key.len() == 16 { &AES_128_GCM } else { &AES_256_GCM };
        UnboundKey::new(algorithm, key).ok().map(|key| Self::AwsLc(LessSafeKey::new(key)))
    }

    /// Encrypts `text` in place and returns its tag. `None` if the text is too long for GCM.
    pub(super) fn seal(&self, nonce: [u8; 12], header: &[u8], text: &mut [u8]) -> Option<[u8; 16]> {
        match self {
            Self::Ring(key) => {
                use ring::aead::{Aad, Nonce};
                let nonce = Nonce::assume_unique_for_key(nonce);
                let tag = key.seal_in_place_separate_tag(nonce, Aad::from(header), text).ok()?;
                tag.as_ref().try_into().ok()
            }
            Self::AwsLc(key) => {
                use aws_lc_rs::aead::{Aad, Nonce};
                let nonce = Nonce::assume_unique_for_key(nonce);
                let tag = key.seal_in_place_separate_tag(nonce, Aad::from(header), text).ok()?;
                tag.as_ref().try_into().ok()
            }
        }
    }

    /// Decrypts `text` in place. If the tag is wrong, the contents of `text` are unspecified.
    pub(super) fn open(
        &self,
        nonce: [u8; 12],
        header: &[u8],
        text: &mut [u8],
        tag: [u8; 16],
    ) -> Result<(), InvalidSignature> {
        let is_right = match self {
            Self::Ring(key) => {
                use ring::aead::{Aad, Nonce};
                let nonce = Nonce::assume_unique_for_key(nonce);
                key.open_in_place_separate_tag(nonce, Aad::from(header), tag.into(), text, 0..).is_ok()
            }
            Self::AwsLc(key) => {
                use aws_lc_rs::aead::{Aad, Nonce};
                let nonce = Nonce::assume_unique_for_key(nonce);
                key.open_in_place_separate_tag(nonce, Aad::from(header), &tag, text).is_ok()
            }
        };
        if is_right { Ok(()) } else { Err(InvalidSignature) }
    }
}

/// Whether the processor encrypts four blocks at a time; AWS-LC has code for that, ring does not.
fn has_avx512() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("vaes")
        && is_x86_feature_detected!("vpclmulqdq");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_interoperate() {
        let bytes: Vec<u8> =
            (0_u32..70_000).map(|at| (at.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0]).collect();
        for key_size in [16, 32] {
            let [ring, aws_lc] = [Gcm::with_ring, Gcm::with_aws_lc].map(|of| of(&bytes[..key_size]).unwrap());
            for length in (0..600).chain([1023, 1024, 4160, 65_536, 69_999]) {
                let (nonce, header) = ([bytes[length]; 12], &bytes[..length.min(32)]);
                let [mut text, mut other] = [bytes[..length].to_vec(), bytes[..length].to_vec()];
                let tag = ring.seal(nonce, header, &mut text).unwrap();
                assert_eq!(aws_lc.seal(nonce, header, &mut other), Some(tag), "{length} bytes");
                assert_eq!(text, other, "{length} bytes");
                assert_eq!(aws_lc.open(nonce, header, &mut text, tag), Ok(()), "{length} bytes");
                assert_eq!(ring.open(nonce, header, &mut other, tag), Ok(()), "{length} bytes");
                assert!(text == bytes[..length] && other == bytes[..length], "{length} bytes");
                let forged = (u128::from_le_bytes(tag) ^ 1).to_le_bytes();
                assert_eq!(
                    aws_lc.open(nonce, header, &mut text, forged),
                    Err(InvalidSignature),
                    "{length} bytes"
                );
            }
        }
        assert!(Gcm::with_ring(&[0; 17]).is_none() && Gcm::with_aws_lc(&[0; 17]).is_none());
    }
}

//! The key that all gateways of a cluster have, and nobody else: it signs their records and seals their secrets.

use crate::Entropy;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::{hkdf, hmac};

pub const KEY_BYTES: usize = 32;
const TAG_BYTES: usize = 32;
const EPOCH_BYTES: usize = 8;

/// The secret of a cluster.
#[derive(Clone)]
pub struct ClusterKey([u8; KEY_BYTES]);

impl ClusterKey {
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// Returns `text` behind its signature. It is valid at `place`, an object and a key, and nowhere else.
    pub fn sign(&self, place: &str, text: &[u8]) -> Vec<u8> {
        let mut context = hmac::Context::with_key(&self.signing());
        [place.as_bytes(), b"\0", text].iter().for_each(|part| context.update(part));
        [context.sign().as_ref(), text].concat()
    }

    /// Returns the text of [`ClusterKey::sign`]; `None` if another key or another place signed it.
    pub fn verify<'b>(&self, place: &str, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let (tag, text) = bytes.split_at_checked(TAG_BYTES)?;
        let signed = [place.as_bytes(), b"\0", text].concat();
        hmac::verify(&self.signing(), &signed, tag).ok().map(|()| text)
    }

    /// Encrypts a secret for one place. Each epoch has a key of its own, so that random nonces never repeat in practice.
    pub fn seal(&self, place: &str, epoch: u64, secret: &[u8], entropy: Entropy<'_>) -> Vec<u8> {
        let mut nonce = [0; NONCE_LEN];
        entropy(&mut nonce);
        let mut sealed = [&epoch.to_be_bytes()[..], &nonce].concat();
        let mut content = secret.to_vec();
        let key = self.sealing(place, epoch);
        let tag =
            key.seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut content);
        sealed.extend(content);
        // Only a secret of more than 64 GiB fails.
        tag.iter().for_each(|tag| sealed.extend(tag.as_ref()));
        sealed
    }

    /// The inverse of [`ClusterKey::seal`]; `None` if another key sealed it, or for another place.
    pub fn open(&self, place: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (&epoch, sealed) = sealed.split_first_chunk::<EPOCH_BYTES>()?;
        let (&nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut content = sealed.to_vec();
        let key = self.sealing(place, u64::from_be_bytes(epoch));
        let secret =
            key.open_in_place(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut content).ok()?;
        Some(secret.to_vec())
    }

    fn signing(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.0)
    }

    fn sealing(&self, place: &str, epoch: u64) -> LessSafeKey {
        let derived = hkdf::Salt::new(hkdf::HKDF_SHA256, b"plimsoll cluster 1").extract(&self.0);
        let info = [place.as_bytes(), b"\0", &epoch.to_be_bytes()];
        #[expect(clippy::expect_used, reason = "an AES key is never too long for HKDF")]
        let key = derived.expand(&info, &AES_256_GCM).expect("32 bytes");
        LessSafeKey::new(UnboundKey::from(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ones(bytes: &mut [u8]) {
        bytes.fill(1);
    }

    #[test]
    fn signature_is_valid_for_its_key_place_and_text_alone() {
        let key = ClusterKey::new([7; KEY_BYTES]);
        let signed = key.sign("cluster gateway/a", b"text");
        assert_eq!(key.verify("cluster gateway/a", &signed), Some(&b"text"[..]));
        assert_eq!(key.verify("cluster gateway/b", &signed), None);
        assert_eq!(ClusterKey::new([8; KEY_BYTES]).verify("cluster gateway/a", &signed), None);
        for place in 0..signed.len() {
            let mut forged = signed.clone();
            forged[place] ^= 1;
            assert_eq!(key.verify("cluster gateway/a", &forged), None);
        }
        assert_eq!(key.verify("cluster gateway/a", &signed[..31]), None);
    }

    #[test]
    fn secret_opens_with_its_key_and_place_alone() {
        let key = ClusterKey::new([7; KEY_BYTES]);
        let sealed = key.seal("endpoint.a state/x", 3, b"secret", &ones);
        assert!(!sealed.windows(6).any(|part| part == b"secret"));
        assert_eq!(key.open("endpoint.a state/x", &sealed), Some(b"secret".to_vec()));
        assert_eq!(key.open("endpoint.b state/x", &sealed), None);
        assert_eq!(ClusterKey::new([8; KEY_BYTES]).open("endpoint.a state/x", &sealed), None);
        for place in 0..sealed.len() {
            let mut forged = sealed.clone();
            forged[place] ^= 1;
            assert_eq!(key.open("endpoint.a state/x", &forged), None);
            assert_eq!(key.open("endpoint.a state/x", &sealed[..place]), None);
        }
    }
}

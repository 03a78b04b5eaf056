//! Message encryption, MS-SMB2 §3.1.4.3 and §3.2.5.1.1.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use aes::{Aes128, Aes256};
use ccm::Ccm;
use ccm::aead::AeadInOut;
use ccm::consts::{U11, U16};

use super::InvalidSignature;
use super::gcm::Gcm;
use crate::Decode;
use crate::negotiate::Cipher;
use crate::transform::{
    TRANSFORM_AAD_OFFSET, TRANSFORM_SIGNATURE_OFFSET, TRANSFORM_SIZE, TransformFlags, TransformHeader,
};

/// Every nonce of a key was used: the session must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoncesExhausted;

impl fmt::Display for NoncesExhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("every nonce of the encryption key was used")
    }
}

impl std::error::Error for NoncesExhausted {}

/// A prepared key for one direction and one cipher, for one [`Sealer`] or [`Opener`].
pub struct SealingKey(Keyed);

enum Keyed {
    Gcm(Gcm),
    Ccm128(Ccm<Aes128, U16, U11>),
    Ccm256(Ccm<Aes256, U16, U11>),
}

impl SealingKey {
    /// `None` if the cipher is unknown or the key has the wrong length.
    pub(super) fn new(cipher: Cipher, key: &[u8]) -> Option<Self> {
        let keyed = match (cipher, key.len()) {
            (Cipher::AES_128_GCM, 16) | (Cipher::AES_256_GCM, 32) => Gcm::new(key).map(Keyed::Gcm),
            (Cipher::AES_128_CCM, _) => ccm::KeyInit::new_from_slice(key).ok().map(Keyed::Ccm128),
            (Cipher::AES_256_CCM, _) => ccm::KeyInit::new_from_slice(key).ok().map(Keyed::Ccm256),
            _ => None,
        };
        keyed.map(Self)
    }

    fn seal(&self, nonce: &[u8; 16], header: &[u8], text: &mut [u8]) -> [u8; 16] {
        const SHORT: &str = "a message is shorter than 4 GiB";
        match &self.0 {
            Keyed::Gcm(key) => key.seal(nonce_prefix(nonce), header, text).expect(SHORT),
            Keyed::Ccm128(key) => key
                .encrypt_inout_detached(&nonce_prefix(nonce).into(), header, text.into())
                .expect(SHORT)
                .into(),
            Keyed::Ccm256(key) => key
                .encrypt_inout_detached(&nonce_prefix(nonce).into(), header, text.into())
                .expect(SHORT)
                .into(),
        }
    }

    /// Decrypts `text` in place if its tag is correct.
    fn open(
        &self,
        nonce: &[u8; 16],
        header: &[u8],
        text: &mut [u8],
        tag: [u8; 16],
    ) -> Result<(), InvalidSignature> {
        let is_right = match &self.0 {
            Keyed::Gcm(key) => return key.open(nonce_prefix(nonce), header, text, tag),
            Keyed::Ccm128(key) => key
                .decrypt_inout_detached(&nonce_prefix(nonce).into(), header, text.into(), &tag.into())
                .is_ok(),
            Keyed::Ccm256(key) => key
                .decrypt_inout_detached(&nonce_prefix(nonce).into(), header, text.into(), &tag.into())
                .is_ok(),
        };
        if is_right { Ok(()) } else { Err(InvalidSignature) }
    }
}

/// The used bytes of the header's `Nonce`: 12 for GCM, 11 for CCM.
fn nonce_prefix<const N: usize>(nonce: &[u8; 16]) -> [u8; N] {
    *nonce.first_chunk().expect("the nonce of a cipher is part of the header's")
}

/// Encrypts one side's messages of a session, over all channels.
#[derive(Debug)]
pub struct Sealer {
    key: SealingKey,
    /// The first eight bytes of the next nonce. The others are zeros.
    next: AtomicU64,
}

impl Sealer {
    /// Takes a key that has not encrypted anything yet.
    pub fn new(key: SealingKey) -> Self {
        Self { key, next: AtomicU64::new(0) }
    }

    /// Encrypts in place the bytes behind the first [`TRANSFORM_SIZE`] of `message`, which are a message or a compound.
    /// Writes the transform header in front.
    ///
    /// # Panics
    /// If `message` is shorter than a transform header, or its text longer than 4 GiB.
    pub fn seal(&self, session_id: u64, message: &mut [u8]) -> Result<(), NoncesExhausted> {
        let count = |next: u64| next.checked_add(1);
        let counter = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
        let counter = counter.map_err(|_| NoncesExhausted)?;
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&counter.to_le_bytes());
        self.seal_with(nonce, session_id, message);
        Ok(())
    }

    fn seal_with(&self, nonce: [u8; 16], session_id: u64, message: &mut [u8]) {
        let (head, text) =
            message.split_first_chunk_mut::<TRANSFORM_SIZE>().expect("a message has room for its header");
        *head = TransformHeader {
            signature: [0; 16],
            nonce,
            original_message_size: u32::try_from(text.len()).expect("a message is shorter than 4 GiB"),
            flags: TransformFlags::ENCRYPTED,
            session_id,
        }
        .to_array();
        let tag = self.key.seal(&nonce, &head[TRANSFORM_AAD_OFFSET..], text);
        head[TRANSFORM_SIGNATURE_OFFSET..TRANSFORM_AAD_OFFSET].copy_from_slice(&tag);
    }
}

/// Decrypts the other side's messages of a session, over all channels.
#[derive(Debug)]
pub struct Opener(SealingKey);

impl Opener {
    pub fn new(key: SealingKey) -> Self {
        Self(key)
    }

    /// Decrypts a message in place, from its transform header to its end, and returns the plaintext. A malformed
    /// message or a wrong length is an invalid signature as well; the contents of `message` are then unspecified.
    pub fn open<'a>(&self, message: &'a mut [u8]) -> Result<&'a mut [u8], InvalidSignature> {
        let header = TransformHeader::from_bytes(message).map_err(|_| InvalidSignature)?;
        let (head, text) = message.split_first_chunk_mut::<TRANSFORM_SIZE>().ok_or(InvalidSignature)?;
        let is_whole = u32::try_from(text.len()) == Ok(header.original_message_size);
        if !is_whole || header.flags != TransformFlags::ENCRYPTED {
            return Err(InvalidSignature);
        }
        self.0.open(&header.nonce, &head[TRANSFORM_AAD_OFFSET..], text, header.signature)?;
        Ok(text)
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Keyed::Gcm(_) => "SealingKey(GCM)",
            Keyed::Ccm128(_) | Keyed::Ccm256(_) => "SealingKey(CCM)",
        })
    }
}

#[cfg(test)]
mod tests;

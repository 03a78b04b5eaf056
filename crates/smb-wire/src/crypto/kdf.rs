//! Session keys, MS-SMB2 §3.1.4.2 and §3.3.5.5.3.

use ring::hmac::{Context, HMAC_SHA256, Key};

use super::sealing::SealingKey;
use super::{Key128, Preauth};
use crate::negotiate::Cipher;
use crate::types::Dialect;

/// The inputs from which a session's or channel's keys are derived.
#[derive(Clone, Copy)]
pub struct KeySource<'a> {
    pub dialect: Dialect,
    /// `FullSessionKey` of the authentication; its first 16 bytes are `SessionKey`.
    pub session_key: &'a [u8],
    /// The hash after the request that completed the authentication. Only 3.1.1 uses it.
    pub preauth: &'a Preauth,
}

impl KeySource<'_> {
    /// `SigningKey` of a session, or of a channel after a binding.
    pub fn signing(&self) -> Key128 {
        match self.dialect {
            Dialect::SMB202 | Dialect::SMB210 => self.session_key_128(),
            Dialect::SMB311 => self.derive(&self.session_key_128(), b"SMBSigningKey\0", self.preauth.value()),
            _ => self.derive(&self.session_key_128(), b"SMB2AESCMAC\0", b"SmbSign\0"),
        }
    }

    /// `ApplicationKey`, for protocols over the session's pipes.
    pub fn application(&self) -> Key128 {
        match self.dialect {
            Dialect::SMB202 | Dialect::SMB210 => self.session_key_128(),
            Dialect::SMB311 => self.derive(&self.session_key_128(), b"SMBAppKey\0", self.preauth.value()),
            _ => self.derive(&self.session_key_128(), b"SMB2APP\0", b"SmbRpc\0"),
        }
    }

    /// The client's encryption key, `DecryptionKey` of the server. `None` if the dialect or the build lacks the cipher.
    pub fn client_to_server(&self, cipher: Cipher) -> Option<SealingKey> {
        self.sealing(cipher, b"SMBC2SCipherKey\0", b"ServerIn \0")
    }

    /// The server's encryption key, `EncryptionKey` of the server. `None` if the dialect or the build lacks the cipher.
    pub fn server_to_client(&self, cipher: Cipher) -> Option<SealingKey> {
        self.sealing(cipher, b"SMBS2CCipherKey\0", b"ServerOut\0")
    }

    /// Takes the label of 3.1.1, and the context of 3.0 and 3.0.2, which have a single cipher.
    fn sealing(&self, cipher: Cipher, label: &[u8], context: &[u8]) -> Option<SealingKey> {
        let preauth = self.preauth.value();
        match (self.dialect, cipher) {
            (Dialect::SMB300 | Dialect::SMB302, Cipher::AES_128_CCM) => {
                SealingKey::new(cipher, &self.derive::<16>(&self.session_key_128(), b"SMB2AESCCM\0", context))
            }
            (Dialect::SMB311, Cipher::AES_128_CCM | Cipher::AES_128_GCM) => {
                SealingKey::new(cipher, &self.derive::<16>(&self.session_key_128(), label, preauth))
            }
            (Dialect::SMB311, Cipher::AES_256_CCM | Cipher::AES_256_GCM) => {
                SealingKey::new(cipher, &self.derive::<32>(self.session_key, label, preauth))
            }
            _ => None,
        }
    }

    /// `SessionKey`: 16 bytes, padded with zeros.
    fn session_key_128(&self) -> Key128 {
        let mut key = [0; 16];
        let length = self.session_key.len().min(16);
        key[..length].copy_from_slice(&self.session_key[..length]);
        key
    }

    fn derive<const N: usize>(&self, key: &[u8], label: &[u8], context: &[u8]) -> [u8; N] {
        const { assert!(N <= 32, "one block of the function gives 32 bytes") };
        let bits = u32::try_from(N * 8).expect("a key is a few hundred bits");
        let mut hmac = Context::with_key(&Key::new(HMAC_SHA256, key));
        // SP800-108 §5.1: the counter, the label, a zero, the context, the length in bits.
        for part in [&1_u32.to_be_bytes(), label, &[0], context, &bits.to_be_bytes()] {
            hmac.update(part);
        }
        *hmac.sign().as_ref().first_chunk().expect("the function gives 32 bytes")
    }
}

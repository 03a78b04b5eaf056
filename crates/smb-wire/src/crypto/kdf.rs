//! The keys of a session, MS-SMB2 §3.1.4.2 and §3.3.5.5.3.

use ring::hmac::{Context, HMAC_SHA256, Key};

use super::sealing::SealingKey;
use super::{Key128, Preauth};
use crate::negotiate::Cipher;
use crate::types::Dialect;

/// What the keys of a session or channel are derived from.
#[derive(Clone, Copy)]
pub struct KeySource<'a> {
    /// What the connection speaks.
    pub dialect: Dialect,
    /// As the authentication gave it: `FullSessionKey`, whose first 16 bytes are `SessionKey`.
    pub session_key: &'a [u8],
    /// After the request that completed the authentication. Matters to 3.1.1 alone.
    pub preauth: &'a Preauth,
}

impl KeySource<'_> {
    /// `SigningKey`: of a session, or of a channel where the authentication bound one.
    pub fn signing(&self) -> Key128 {
        match self.dialect {
            Dialect::SMB202 | Dialect::SMB210 => self.short(),
            Dialect::SMB311 => self.derive(&self.short(), b"SMBSigningKey\0", self.preauth.value()),
            _ => self.derive(&self.short(), b"SMB2AESCMAC\0", b"SmbSign\0"),
        }
    }

    /// `ApplicationKey`, for what is spoken over the session's pipes.
    pub fn application(&self) -> Key128 {
        match self.dialect {
            Dialect::SMB202 | Dialect::SMB210 => self.short(),
            Dialect::SMB311 => self.derive(&self.short(), b"SMBAppKey\0", self.preauth.value()),
            _ => self.derive(&self.short(), b"SMB2APP\0", b"SmbRpc\0"),
        }
    }

    /// What the client encrypts with: `DecryptionKey` of the server. `None`: the dialect or the build does not know the
    /// cipher.
    pub fn client_to_server(&self, cipher: Cipher) -> Option<SealingKey> {
        self.sealing(cipher, b"SMBC2SCipherKey\0", b"ServerIn \0")
    }

    /// What the server encrypts with: `EncryptionKey` of the server. `None`: as above.
    pub fn server_to_client(&self, cipher: Cipher) -> Option<SealingKey> {
        self.sealing(cipher, b"SMBS2CCipherKey\0", b"ServerOut\0")
    }

    /// With the label of 3.1.1, or the context of 3.0 and 3.0.2, which know one cipher.
    fn sealing(&self, cipher: Cipher, label: &[u8], context: &[u8]) -> Option<SealingKey> {
        let preauth = self.preauth.value();
        match (self.dialect, cipher) {
            (Dialect::SMB300 | Dialect::SMB302, Cipher::AES_128_CCM) => {
                SealingKey::new(cipher, &self.derive::<16>(&self.short(), b"SMB2AESCCM\0", context))
            }
            (Dialect::SMB311, Cipher::AES_128_CCM | Cipher::AES_128_GCM) => {
                SealingKey::new(cipher, &self.derive::<16>(&self.short(), label, preauth))
            }
            (Dialect::SMB311, Cipher::AES_256_CCM | Cipher::AES_256_GCM) => {
                SealingKey::new(cipher, &self.derive::<32>(self.session_key, label, preauth))
            }
            _ => None,
        }
    }

    /// `SessionKey`: 16 bytes, filled up with zeros.
    fn short(&self) -> Key128 {
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

//! Hashes of passwords and session keys; their `Debug` hides the bytes.

use crate::names::utf16;
use md4::{Digest, Md4};
use std::fmt;

/// The NT hash of a password, `NTOWFv1` of MS-NLMP §3.3.1: MD4 of its UTF-16. The hash suffices to log in as the user,
/// so it is never shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NtHash([u8; 16]);

/// The key that client and server share after an authentication.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKey(Box<[u8]>);

impl NtHash {
    pub fn from_password(password: &str) -> Self {
        Self(Md4::digest(utf16(password)).into())
    }

    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, for encrypted storage only.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl SessionKey {
    pub(crate) fn new(bytes: [u8; 16]) -> Self {
        Self(bytes.into())
    }

    /// The bytes; NTLM has 16.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for NtHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NtHash(…)")
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_debug_output_is_hidden() {
        let hash = NtHash::from_password("Password");
        // MS-NLMP §4.2.2.1.2.
        assert_eq!(hash.as_bytes()[..4], [0xa4, 0xf4, 0x9c, 0x40]);
        assert_eq!(format!("{hash:?} {:?}", SessionKey::new([7; 16])), "NtHash(…) SessionKey(…)");
    }
}

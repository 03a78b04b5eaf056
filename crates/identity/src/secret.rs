//! What must not be shown: hashes of passwords and session keys.

use crate::names::utf16;
use md4::{Digest, Md4};
use std::fmt;

/// The NT hash of a password, `NTOWFv1` of MS-NLMP §3.3.1: MD4 of its UTF-16. Whoever has it can be the user as with the
/// password itself, so it is never shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NtHash([u8; 16]);

/// The key that both sides have after an authentication.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKey(Box<[u8]>);

impl NtHash {
    /// The hash of this password.
    pub fn of_password(password: &str) -> Self {
        Self(Md4::digest(utf16(password)).into())
    }

    /// The hash that these bytes are.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes: to be sealed, and for nothing else.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl SessionKey {
    pub(crate) fn new(bytes: [u8; 16]) -> Self {
        Self(bytes.into())
    }

    /// Its bytes: 16 of NTLM.
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
    fn secrets_are_not_shown() {
        let hash = NtHash::of_password("Password");
        // MS-NLMP §4.2.2.1.2.
        assert_eq!(hash.as_bytes()[..4], [0xa4, 0xf4, 0x9c, 0x40]);
        assert_eq!(format!("{hash:?} {:?}", SessionKey::new([7; 16])), "NtHash(…) SessionKey(…)");
    }
}

//! Tokens of the API: each is shown once and stored as a digest.

use crate::name::TokenName;
use crate::words::words;
use sha2::{Digest, Sha256};

/// Tokens, at most.
pub const TOKENS_MAX: usize = 1000;
/// The minimum interval between two writes of a token's last use, so that API calls do not each write to the disk.
pub(crate) const USED_STEP_MS: u64 = 60_000;

/// Permissions of a token. Each role includes the previous ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Read,
    /// Change pools, volumes and their rules.
    Operate,
    /// Also make and revoke tokens, users and groups.
    Admin,
}

words!(Role: Read = "read", Operate = "operate", Admin = "admin");

impl std::str::FromStr for Role {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self, crate::Error> {
        let unknown = || crate::Error::invalid(format!("the role {text:?}"), "read, operate or admin");
        Self::of(text).ok_or_else(unknown)
    }
}

/// A token without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Also the [`crate::Actor`] of changes made with it.
    pub name: TokenName,
    pub role: Role,
    /// In milliseconds since 1970.
    pub created_ms: u64,
    /// In milliseconds since 1970, accurate to one minute.
    pub used_ms: Option<u64>,
}

/// The secret of a token, shown once. It has no `Debug`, so that no log contains it by accident.
pub struct Secret(String);

/// The SHA-256 of a token.
#[derive(Clone, Copy)]
pub(crate) struct Fingerprint(pub(crate) [u8; 32]);

impl Secret {
    pub(crate) fn new(random: [u8; 32]) -> Self {
        use std::fmt::Write;
        let mut text = "plimsoll_".to_owned();
        for byte in random {
            // Writing to a string does not fail.
            _ = write!(text, "{byte:02x}");
        }
        Self(text)
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Fingerprint {
    pub(crate) fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Compares in a time that does not depend on the difference.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let differing = self.0.iter().zip(&other.0).fold(0, |differing, (a, b)| differing | (a ^ b));
        std::hint::black_box(differing) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_tell_tokens_apart() {
        let secret = Secret::new([7; 32]);
        assert_eq!(secret.expose().len(), "plimsoll_".len() + 64);
        let fingerprint = Fingerprint::of(secret.expose());
        assert!(fingerprint.is(&Fingerprint::of(secret.expose())));
        for place in [0, 31] {
            let mut other = fingerprint;
            other.0[place] ^= 0x80;
            assert!(!fingerprint.is(&other), "byte {place}");
        }
        // FIPS 180-4's example, so that a store outlives this code.
        assert_eq!(Fingerprint::of("abc").0[..4], [0xba, 0x78, 0x16, 0xbf]);
    }

    #[test]
    fn roles_include_each_other() {
        assert!(Role::Read < Role::Operate && Role::Operate < Role::Admin);
        assert_eq!("operate".parse::<Role>().unwrap(), Role::Operate);
        assert!("root".parse::<Role>().unwrap_err().to_string().contains("read, operate or admin"));
    }
}

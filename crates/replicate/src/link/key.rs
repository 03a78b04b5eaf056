//! Keys of services: Ed25519 (RFC 8032).

use ring::signature::{Ed25519KeyPair, KeyPair};
use std::fmt;
use std::io;
use std::str::FromStr;

/// A key before it, in PKCS #8 (RFC 8410 §7) and in SubjectPublicKeyInfo (§4).
const PKCS8_HEAD: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
const SPKI_HEAD: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];

/// The key that others know a service by. As text it has 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey(pub [u8; 32]);

/// The private key of a service.
#[derive(Clone)]
pub struct Identity {
    seed: [u8; 32],
    public: PublicKey,
}

impl PublicKey {
    pub(super) fn spki(&self) -> Vec<u8> {
        [&SPKI_HEAD[..], &self.0].concat()
    }

    pub(super) fn of_spki(bytes: &[u8]) -> Option<Self> {
        bytes.strip_prefix(&SPKI_HEAD)?.try_into().ok().map(Self)
    }
}

impl Identity {
    /// The key that follows from these random bytes.
    pub fn from_seed(seed: [u8; 32]) -> io::Result<Self> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(io::Error::other)?;
        let public = pair.public_key().as_ref().try_into().map_err(io::Error::other)?;
        Ok(Self { seed, public: PublicKey(public) })
    }

    pub fn public(&self) -> PublicKey {
        self.public
    }

    pub(super) fn pkcs8(&self) -> Vec<u8> {
        [&PKCS8_HEAD[..], &self.seed].concat()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.public)
    }
}

impl FromStr for PublicKey {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(());
        }
        let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| ());
        let mut key = [0; 32];
        for (at, to) in key.iter_mut().enumerate() {
            *to = byte(at)?;
        }
        Ok(Self(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_specification() {
        // RFC 8032 §7.1, test 1.
        let seed: PublicKey =
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60".parse().unwrap();
        let text = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        let public = Identity::from_seed(seed.0).unwrap().public();
        assert_eq!(public.to_string(), text);
        assert_eq!(text.parse(), Ok(public));
        assert_eq!(PublicKey::of_spki(&public.spki()), Some(public));
        for bad in ["", "d75a", &text[1..], &format!("{text}0"), &text.replace('d', "g"), &"é".repeat(32)] {
            assert_eq!(bad.parse::<PublicKey>(), Err(()), "{bad}");
        }
    }

    #[test]
    fn private_keys_are_never_shown() {
        let identity = Identity::from_seed([0x5a; 32]).unwrap();
        assert!(!format!("{identity:?}").contains("5a5a5a5a"));
    }
}

//! NT hashes as the store has them: sealed with a key in a separate file.
//!
//! NTLM proves knowledge of the NT hash, so the service needs it, and a stolen hash is enough to log in.
//! A copy of the store without the key reveals no hash (`docs/decisions/0039-users.md`).

use crate::error::Result;
use crate::key_file::KeyFile;
use crate::store::StoreError;
use identity::NtHash;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use stable::Replica;
use std::path::Path;
use std::sync::Arc;

pub(crate) const KEY_FILE: &str = "users.key";
const KEY_BYTES: usize = 32;

pub(crate) struct Seal(LessSafeKey);

/// The file may not exist yet.
pub(crate) fn key_file(dir: &Path) -> KeyFile<KEY_BYTES> {
    KeyFile::new(dir.join(KEY_FILE), "the key and the store together allow a login as any user")
}

impl Seal {
    /// Returns `None` if `dir` has no key.
    pub(crate) fn find(dir: &Path) -> Result<Option<Self>> {
        key_file(dir).read()?.map(Self::new).transpose()
    }

    /// Creates a key if `dir` has none.
    pub(crate) fn find_or_make(
        dir: &Path,
        replica: Option<&Arc<dyn Replica>>,
        random: impl FnOnce(&mut [u8]),
    ) -> Result<Self> {
        Self::new(key_file(dir).with_replica(replica).read_or_make(random)?)
    }

    fn new(key: [u8; KEY_BYTES]) -> Result<Self> {
        let key = UnboundKey::new(&AES_256_GCM, &key).map_err(|_| StoreError::Cipher)?;
        Ok(Self(LessSafeKey::new(key)))
    }

    /// The result is a nonce, the sealed hash and the tag. `random` must never return the same nonce twice.
    pub(crate) fn seal(&self, name: &str, hash: &NtHash, random: impl FnOnce(&mut [u8])) -> Result<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        random(&mut nonce);
        let mut sealed = *hash.as_bytes();
        let tag = self.0.seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(bound_to(name)),
            &mut sealed,
        );
        let tag = tag.map_err(|_| StoreError::Cipher)?;
        Ok([&nonce, &sealed[..], tag.as_ref()].concat())
    }

    /// Returns `None` unless [`Seal::seal`] sealed it for this user with this key.
    pub(crate) fn open(&self, name: &str, sealed: &[u8]) -> Option<NtHash> {
        let (&nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut opened = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let hash = self.0.open_in_place(nonce, Aad::from(bound_to(name)), &mut opened).ok()?;
        (*hash).try_into().ok().map(NtHash::from_bytes)
    }
}

/// The additional data of the seal: the hash of one user does not open for another.
fn bound_to(name: &str) -> Vec<u8> {
    [b"plimsoll nt hash 1\0", name.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_key_and_the_user_open_what_was_sealed() {
        let seal = Seal::new([7; 32]).unwrap();
        let hash = NtHash::from_password("Password");
        let sealed = seal.seal("alice", &hash, |nonce| nonce.fill(1)).unwrap();
        assert_eq!(sealed.len(), 12 + 16 + 16);
        assert!(!sealed.windows(4).any(|part| part == &hash.as_bytes()[..4]));
        assert_eq!(seal.open("alice", &sealed), Some(hash));
        assert_eq!(seal.open("bob", &sealed), None);
        assert_eq!(Seal::new([8; 32]).unwrap().open("alice", &sealed), None);
        for place in 0..sealed.len() {
            let mut forged = sealed.clone();
            forged[place] ^= 1;
            assert_eq!(seal.open("alice", &forged), None, "byte {place}");
            assert_eq!(seal.open("alice", &sealed[..place]), None, "{place} bytes");
        }
        let again = seal.seal("alice", &hash, |nonce| nonce.fill(2)).unwrap();
        assert!(again[12..28] != sealed[12..28], "the same password is another text each time");
    }

    /// NIST's AES-256-GCM, checked with another implementation: a store outlives this code.
    #[test]
    fn sealed_hash_opens_with_known_answer() {
        let seal = Seal::new([7; 32]).unwrap();
        let sealed = seal.seal("alice", &NtHash::from_password("Password"), |nonce| nonce.fill(1)).unwrap();
        let hex: String = sealed.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "010101010101010101010101d21515f7f5af51c4675692c6b338a863b22a18e12acd21e9aa12e9b052f100ef"
        );
    }
}

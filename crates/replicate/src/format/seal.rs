//! Hashes, keys and ciphers.
//!
//! Every pack and every other object has random bytes of its own, from which its AES-256-GCM key is derived. Within a
//! pack the nonce is the offset of the chunk, so no nonce is used twice with one key.

use super::names::Hash;
use super::{PART_BYTES_MAX, VERSION};
use crate::format::bytes::{Reader, Writer};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use std::fmt;

pub(crate) const SALT_BYTES: usize = 20;
/// The authentication tag after what is encrypted.
pub(crate) const TAG_BYTES: usize = 16;
const HASH_BYTES: usize = 32;
const MAGIC: &[u8; 8] = b"PLIMBAK\n";
/// Magic, version, kind, flags, zero, salt.
const HEAD_BYTES: usize = 12 + SALT_BYTES;
const ENCRYPTED: u8 = 1;
/// Faster than most networks, and close to the best ratio for its speed.
const ZSTD_LEVEL: i32 = 3;
/// Forms of a stored chunk: as it is, or compressed.
pub(crate) const RAW: u8 = 0;
const ZSTD: u8 = 1;

/// The key of an encrypted vault, which only the operator keeps.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(pub [u8; 32]);

impl Key {
    /// Reads a key as 64 hexadecimal digits; spaces and line ends around them are ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.trim();
        if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut key = [0; 32];
        for (byte, at) in key.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(&digits[at..at + 2], 16).ok()?;
        }
        Some(Self(key))
    }

    /// The form that [`Key::parse`] reads, for the operator's file.
    pub fn to_text(&self) -> String {
        Hash(self.0).to_string()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// Values derived from a vault's key; `None` in a vault without encryption.
pub(crate) struct Secrets(Option<Derived>);

struct Derived {
    objects: [u8; 32],
    /// Ids of chunks are keyed, so that they tell nobody which known files a vault has.
    ids: [u8; 32],
    check: [u8; 32],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Owner = 1,
    Lease = 2,
    Session = 3,
    Leaves = 4,
    Packs = 5,
    Manifest = 6,
    Abandoned = 7,
    Deleted = 8,
}

impl Secrets {
    pub(crate) fn new(key: Option<&Key>, salt: &[u8; 32]) -> Self {
        Self(key.map(|key| {
            let material = [&key.0[..], salt].concat();
            let derive = |context| blake3::derive_key(context, &material);
            Derived {
                objects: derive("plimsoll 2026 vault objects"),
                ids: derive("plimsoll 2026 vault chunk ids"),
                check: derive("plimsoll 2026 vault key check"),
            }
        }))
    }

    /// Bytes that show whether a key is right, and nothing else about it.
    pub(crate) fn check(&self) -> [u8; 32] {
        self.0.as_ref().map_or([0; 32], |derived| derived.check)
    }

    pub(crate) fn chunk_id(&self, chunk: &[u8]) -> Hash {
        let hash = match &self.0 {
            Some(derived) => blake3::keyed_hash(&derived.ids, chunk),
            None => blake3::hash(chunk),
        };
        Hash(*hash.as_bytes())
    }

    pub(crate) fn cipher(&self, salt: &[u8; SALT_BYTES]) -> Cipher {
        Cipher(self.0.as_ref().and_then(|derived| {
            let key = *blake3::keyed_hash(&derived.objects, salt).as_bytes();
            UnboundKey::new(&AES_256_GCM, &key).ok().map(LessSafeKey::new)
        }))
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.0.is_some()
    }

    /// Makes an object. `salt` is random.
    pub(crate) fn seal(
        &self,
        name: &str,
        kind: ObjectKind,
        salt: [u8; SALT_BYTES],
        payload: &[u8],
    ) -> Option<Vec<u8>> {
        let mut head = Writer::default();
        head.raw(MAGIC);
        head.u8(VERSION);
        head.u8(kind as u8);
        head.u8(if self.is_encrypted() { ENCRYPTED } else { 0 });
        head.u8(0);
        head.raw(&salt);
        let mut object = head.0;
        let associated = [name.as_bytes(), &object].concat();
        let mut body = zstd::bulk::compress(payload, ZSTD_LEVEL).ok()?;
        self.cipher(&salt).seal(0, &associated, &mut body)?;
        object.extend(body);
        let hash = object_hash(name, &object);
        object.extend(hash);
        Some(object)
    }

    /// An object with another body, and the hash that it needs: for the fuzzer.
    pub(crate) fn with_body(&self, name: &str, object: &[u8], body: &[u8]) -> Vec<u8> {
        let content = [&object[..HEAD_BYTES], body].concat();
        [&content[..], &object_hash(name, &content)].concat()
    }

    /// Opens an object; otherwise says why not.
    pub(crate) fn open(&self, name: &str, kind: ObjectKind, object: &[u8]) -> Result<Vec<u8>, &'static str> {
        let at =
            object.len().checked_sub(HASH_BYTES).filter(|&at| at >= HEAD_BYTES).ok_or("it is too short")?;
        let (content, hash) = object.split_at(at);
        if object_hash(name, content) != *hash {
            return Err("its hash is another one");
        }
        let (head, body) = content.split_at(HEAD_BYTES);
        let mut reader = Reader(head);
        let flags = if self.is_encrypted() { ENCRYPTED } else { 0 };
        let expected = [&MAGIC[..], &[VERSION, kind as u8, flags, 0]].concat();
        if reader.raw(expected.len()) != Some(&expected) {
            return Err("its head is another one");
        }
        let salt = reader.array().ok_or("it is too short")?;
        let associated = [name.as_bytes(), head].concat();
        let body = self.cipher(&salt).open(0, &associated, body.to_vec()).ok_or("it cannot be decrypted")?;
        zstd::bulk::decompress(&body, PART_BYTES_MAX).map_err(|_| "it cannot be decompressed")
    }
}

fn object_hash(name: &str, content: &[u8]) -> [u8; HASH_BYTES] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(name.as_bytes());
    hasher.update(&[0]);
    hasher.update(content);
    *hasher.finalize().as_bytes()
}

/// The cipher of one pack or object; none in a vault without encryption.
pub(crate) struct Cipher(Option<LessSafeKey>);

impl Cipher {
    /// Encrypts in place. No nonce may come twice.
    pub(crate) fn seal(&self, nonce: u32, associated: &[u8], bytes: &mut Vec<u8>) -> Option<()> {
        match &self.0 {
            Some(key) => key.seal_in_place_append_tag(nonce_of(nonce), Aad::from(associated), bytes).ok(),
            None => Some(()),
        }
    }

    pub(crate) fn open(&self, nonce: u32, associated: &[u8], mut bytes: Vec<u8>) -> Option<Vec<u8>> {
        if let Some(key) = &self.0 {
            let len = key.open_in_place(nonce_of(nonce), Aad::from(associated), &mut bytes).ok()?.len();
            bytes.truncate(len);
        }
        Some(bytes)
    }

    pub(crate) fn seal_chunk(&self, nonce: u32, chunk: &[u8]) -> Option<Vec<u8>> {
        let packed = zstd::bulk::compress(chunk, ZSTD_LEVEL).ok()?;
        let mut stored = match packed.len() < chunk.len() {
            true => [&[ZSTD], &packed[..]].concat(),
            false => [&[RAW], chunk].concat(),
        };
        self.seal(nonce, &[], &mut stored)?;
        Some(stored)
    }

    /// Opens a chunk of `len` bytes.
    pub(crate) fn open_chunk(&self, nonce: u32, stored: &[u8], len: usize) -> Option<Vec<u8>> {
        let opened = self.open(nonce, &[], stored.to_vec())?;
        let chunk = match opened.split_first()? {
            (&RAW, chunk) => chunk.to_vec(),
            (&ZSTD, packed) => zstd::bulk::decompress(packed, len).ok()?,
            _ => return None,
        };
        (chunk.len() == len).then_some(chunk)
    }
}

fn nonce_of(number: u32) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[NONCE_LEN - 4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> [Secrets; 2] {
        [None, Some(Key([7; 32]))].map(|key| Secrets::new(key.as_ref(), &[1; 32]))
    }

    #[test]
    fn object_with_any_flipped_bit_or_another_name_is_refused() {
        for secrets in both() {
            let object = secrets.seal("a", ObjectKind::Owner, [3; 20], b"payload").unwrap();
            assert_eq!(secrets.open("a", ObjectKind::Owner, &object).as_deref(), Ok(&b"payload"[..]));
            assert!(secrets.open("b", ObjectKind::Owner, &object).is_err());
            assert!(secrets.open("a", ObjectKind::Lease, &object).is_err());
            for bit in 0..object.len() * 8 {
                let mut flipped = object.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(secrets.open("a", ObjectKind::Owner, &flipped).is_err());
            }
        }
    }

    #[test]
    fn chunk_comes_back_compressed_or_not() {
        for secrets in both() {
            let cipher = secrets.cipher(&[5; 20]);
            for chunk in [vec![0; 100_000], (0..=255).collect(), Vec::new()] {
                let stored = cipher.seal_chunk(9, &chunk).unwrap();
                assert!(stored.len() <= chunk.len() + 1 + TAG_BYTES);
                assert_eq!(cipher.open_chunk(9, &stored, chunk.len()), Some(chunk));
            }
        }
    }

    #[test]
    fn key_comes_back_from_its_text() {
        let key = Key([0xa5; 32]);
        assert_eq!(Key::parse(&format!("{}\n", key.to_text())), Some(key.clone()));
        assert_eq!(Key::parse(&key.to_text().to_uppercase()), Some(key.clone()));
        for bad in ["", "a5", &key.to_text()[1..], &key.to_text().replace('a', "+")] {
            assert_eq!(Key::parse(bad), None, "{bad}");
        }
        assert_eq!(format!("{key:?}"), "Key");
    }

    #[test]
    fn ids_and_ciphertexts_depend_on_the_key() {
        let [_, sealed] = both();
        let other = Secrets::new(Some(&Key([8; 32])), &[1; 32]);
        assert_ne!(sealed.chunk_id(b"x"), other.chunk_id(b"x"));
        assert_ne!(sealed.check(), other.check());
        let stored = sealed.cipher(&[5; 20]).seal_chunk(9, b"secret").unwrap();
        assert_eq!(other.cipher(&[5; 20]).open_chunk(9, &stored, 6), None);
        assert_eq!(sealed.cipher(&[5; 20]).open_chunk(8, &stored, 6), None);
    }
}

//! Packs: many chunks, and at their end a list of them.

use super::bytes::{Reader, Writer};
use super::names::{Hash, PackId};
use super::records::Place;
use super::seal::{Cipher, Secrets, TAG_BYTES};
use super::{PACK_BYTES, VERSION};

const MAGIC: &[u8; 8] = b"PLIMPCK\n";
const HEAD_BYTES: usize = 8 + 4 + 20;
/// Offset and length of the list, its decompressed length, and the hash of everything before.
pub(crate) const TRAILER_BYTES: usize = 12 + 32;
const HASH_BYTES: usize = 32;

/// The kind of a pack's chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Content {
    Data,
    Leaves,
}

/// Size and hash of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackInfo {
    pub(crate) size: u64,
    pub(crate) hash: Hash,
}

/// A chunk in the list of its pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// The key of the file's extents, or the first key of a leaf.
    pub(crate) owner: Vec<u8>,
    /// The offset in the file.
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) id: Hash,
    pub(crate) place: Place,
}

pub(crate) struct PackBuilder {
    id: PackId,
    cipher: Cipher,
    bytes: Vec<u8>,
    list: Writer,
}

impl PackBuilder {
    pub(crate) fn new(secrets: &Secrets, id: PackId, content: Content) -> Self {
        let mut head = Writer(Vec::new());
        head.raw(MAGIC);
        head.raw(&[VERSION, secrets.is_encrypted().into(), 0, 0]);
        head.raw(&id.0);
        let mut list = Writer::default();
        list.u8(content as u8);
        Self { id, cipher: secrets.cipher(&id.0), bytes: head.0, list }
    }

    /// Whether a chunk of `len` bytes, and the list, still fit.
    pub(crate) fn has_room(&self, len: usize) -> bool {
        let list = self.list.0.len() + 2 * TAG_BYTES + TRAILER_BYTES + 512;
        self.bytes.len() + list + len + 1 + TAG_BYTES <= PACK_BYTES
    }

    pub(crate) fn add(&mut self, owner: &[u8], offset: u64, chunk: &[u8], id: Hash) -> Option<Place> {
        let at = u32::try_from(self.bytes.len()).ok()?;
        let stored = self.cipher.seal_chunk(at, chunk)?;
        let place = Place { pack: self.id, offset: at, len: u32::try_from(stored.len()).ok()? };
        self.bytes.extend(stored);
        self.list.bytes(owner);
        self.list.int(offset);
        self.list.len(chunk.len());
        self.list.raw(&id.0);
        self.list.u32(at);
        self.list.u32(place.len);
        Some(place)
    }

    pub(crate) fn finish(mut self) -> Option<(PackId, Vec<u8>, PackInfo)> {
        let at = u32::try_from(self.bytes.len()).ok()?;
        let list = self.cipher.seal_chunk(at, &self.list.0)?;
        self.bytes.extend(&list);
        let mut trailer = Writer(self.bytes);
        trailer.u32(at);
        trailer.u32(u32::try_from(list.len()).ok()?);
        trailer.u32(u32::try_from(self.list.0.len()).ok()?);
        let hash = Hash(*blake3::hash(&trailer.0).as_bytes());
        trailer.raw(&hash.0);
        let info = PackInfo { size: trailer.0.len() as u64, hash };
        Some((self.id, trailer.0, info))
    }
}

/// The place of a pack's list, from the last bytes of the pack: its offset, its length, and its decompressed length.
pub(crate) struct Trailer {
    pub(crate) at: u32,
    pub(crate) len: u32,
    pub(crate) raw_len: u32,
    pub(crate) info: PackInfo,
}

/// Reads the trailer of a pack of `size` bytes.
pub(crate) fn trailer(bytes: &[u8], size: u64) -> Option<Trailer> {
    let mut reader = Reader(bytes);
    let (at, len, raw_len) = (reader.u32()?, reader.u32()?, reader.u32()?);
    let hash = Hash(reader.array()?);
    let end = u64::from(at) + u64::from(len) + TRAILER_BYTES as u64;
    (end == size && size <= PACK_BYTES as u64).then_some(())?;
    reader.end(Trailer { at, len, raw_len, info: PackInfo { size, hash } })
}

/// Reads a pack's list.
pub(crate) fn list(
    secrets: &Secrets,
    id: PackId,
    trailer: &Trailer,
    stored: &[u8],
) -> Option<(Content, Vec<Listed>)> {
    let raw_len = usize::try_from(trailer.raw_len).ok().filter(|&len| len <= PACK_BYTES)?;
    let bytes = secrets.cipher(&id.0).open_chunk(trailer.at, stored, raw_len)?;
    let mut reader = Reader(&bytes);
    let content = match reader.u8()? {
        0 => Content::Data,
        1 => Content::Leaves,
        _ => return None,
    };
    let mut all = Vec::new();
    while !reader.is_empty() {
        all.push(Listed {
            owner: reader.bytes()?.to_vec(),
            offset: reader.int()?,
            len: reader.int32()?,
            id: Hash(reader.array()?),
            place: Place { pack: id, offset: reader.u32()?, len: reader.u32()? },
        });
    }
    Some((content, all))
}

/// Whether a whole pack is as `info` says and its head is its own.
pub(crate) fn is_intact(secrets: &Secrets, id: PackId, bytes: &[u8], info: &PackInfo) -> bool {
    let Some(at) = bytes.len().checked_sub(HASH_BYTES).filter(|&at| at >= HEAD_BYTES) else { return false };
    let (content, hash) = bytes.split_at(at);
    let head = [&MAGIC[..], &[VERSION, secrets.is_encrypted().into(), 0, 0], &id.0].concat();
    bytes.len() as u64 == info.size
        && *hash == info.hash.0
        && *blake3::hash(content).as_bytes() == info.hash.0
        && content.starts_with(&head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::seal::Key;

    #[test]
    fn pack_lists_its_chunks_and_any_flipped_bit_shows() {
        for key in [None, Some(Key([1; 32]))] {
            let secrets = Secrets::new(key.as_ref(), &[2; 32]);
            let id = PackId([4; 20]);
            let mut builder = PackBuilder::new(&secrets, id, Content::Leaves);
            let chunks = [&b"one"[..], &[9; 5_000]];
            let places =
                chunks.map(|chunk| builder.add(b"owner", 8, chunk, secrets.chunk_id(chunk)).unwrap());
            let (_, bytes, info) = builder.finish().unwrap();
            let trailer = trailer(&bytes[bytes.len() - TRAILER_BYTES..], bytes.len() as u64).unwrap();
            assert_eq!(trailer.info, info);
            let stored = &bytes[trailer.at as usize..][..trailer.len as usize];
            let (content, listed) = list(&secrets, id, &trailer, stored).unwrap();
            assert_eq!(content, Content::Leaves);
            assert!(listed.iter().map(|one| one.place).eq(places));
            assert!(listed.iter().all(|one| one.owner == b"owner" && one.offset == 8));
            assert!(is_intact(&secrets, id, &bytes, &info));
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(!is_intact(&secrets, id, &flipped, &info), "bit {bit}");
            }
        }
    }
}

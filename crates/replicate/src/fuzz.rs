//! Entry points for the fuzzer and the smoke test: every decoder of what a vault or a peer has. Not part of the public
//! interface.

use crate::format::bytes::{Reader, Writer};
use crate::format::leaf::{self, LeafBuilder};
use crate::format::manifest::{Manifest, read_pack, write_pack};
use crate::format::names::{Hash, PackId};
use crate::format::pack::{Content, PackBuilder, PackInfo, TRAILER_BYTES, Trailer, is_intact, list, trailer};
use crate::format::records::{Inode, LeafRef, decode_entry, decode_extents, encode_entry, encode_extents};
use crate::format::seal::{Key, ObjectKind, RAW, Secrets};
use crate::format::sort_key::{self, Kind};
use crate::replication;
use crate::vault::header::Header;
use std::fmt::Debug;

/// A decoder of arbitrary bytes. `false`: malformed.
///
/// # Panics
///
/// If a decoded value does not survive encoding and decoding again.
pub type Decoder = fn(&[u8]) -> bool;

/// The decoders of a vault: its header, and the contents of its objects.
pub const VAULT: &[(&str, Decoder)] = &[
    ("header", header),
    ("manifest", |bytes| survives(bytes, Manifest::decode, Manifest::encode)),
    ("list of leaves", |bytes| survives_each(bytes, LeafRef::read, LeafRef::write)),
    ("list of packs", |bytes| {
        survives_each(bytes, read_pack, |(id, info), writer| write_pack(writer, id, info))
    }),
    ("list of a pack", list_of_pack),
    ("leaf", |bytes| survives(bytes, leaf::records, |records| encode_leaf(records))),
    ("sort key", sort_key),
    ("inode", |bytes| survives(bytes, Inode::decode, Inode::encode)),
    ("extents", |bytes| survives(bytes, |bytes| decode_extents(7, bytes), |all| encode_extents(7, all))),
    ("entry", |bytes| survives(bytes, decode_entry, |(key, file_type)| encode_entry(key, *file_type))),
];

/// The decoders of a replication: the messages of a peer, and the log of a transfer.
pub const REPLICATION: &[(&str, Decoder)] =
    &[("message", replication::fuzz::message), ("log entry", replication::fuzz::log_entry)];

/// Sends and receives frames: see [`Decoder`].
pub fn frames(bytes: &[u8]) -> bool {
    replication::fuzz::frames(bytes)
}

/// Runs the decoder of `table` that the first byte selects on the remaining bytes.
pub fn decode(table: &[(&str, Decoder)], input: &[u8]) -> bool {
    let Some((selector, bytes)) = input.split_first() else { return false };
    let (_, decoder) = table[usize::from(*selector) % table.len()];
    decoder(bytes)
}

fn survives<T: PartialEq + Debug>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Option<T>,
    encode: impl Fn(&T) -> Vec<u8>,
) -> bool {
    let Some(value) = decode(bytes) else { return false };
    assert_eq!(decode(&encode(&value)), Some(value), "an encoded value decodes");
    true
}

/// [`survives`] of values that follow each other to the end of an object.
fn survives_each<T: PartialEq + Debug>(
    bytes: &[u8],
    read: impl Fn(&mut Reader<'_>) -> Option<T>,
    write: impl Fn(&T, &mut Writer),
) -> bool {
    let decode = |bytes: &[u8]| {
        let (mut reader, mut all) = (Reader(bytes), Vec::new());
        while !reader.is_empty() {
            all.push(read(&mut reader)?);
        }
        Some(all)
    };
    let encode = |all: &Vec<T>| {
        let mut writer = Writer::default();
        all.iter().for_each(|one| write(one, &mut writer));
        writer.0
    };
    survives(bytes, decode, encode)
}

fn encode_leaf(records: &[leaf::Record]) -> Vec<u8> {
    let mut builder = LeafBuilder::default();
    records.iter().for_each(|(key, value)| builder.push(key, value));
    builder.take().map(|(_, leaf)| leaf).unwrap_or_default()
}

/// Decodes a header, and the same bytes with the hash that they need.
fn header(bytes: &[u8]) -> bool {
    assert!(Header::decode(bytes).is_err(), "no header has a hash by chance");
    let sealed = [bytes, blake3::hash(bytes).as_bytes()].concat();
    let Ok(header) = Header::decode(&sealed) else { return false };
    assert_eq!(header.encode(), sealed, "a header has one form");
    true
}

fn sort_key(bytes: &[u8]) -> bool {
    let Some((key, kind)) = sort_key::parse(bytes) else { return false };
    match kind {
        Kind::Inode => assert_eq!(sort_key::inode(&key), bytes),
        Kind::Entry(name) => assert_eq!(sort_key::entry(&key, name), bytes),
        Kind::Stream(name) => assert_eq!(sort_key::stream(&key, name), bytes),
        Kind::Extents | Kind::StreamExtents => assert!(bytes.starts_with(&sort_key::of_file(&key))),
    }
    true
}

const PACK: PackId = PackId([3; 20]);

fn secrets() -> [Secrets; 2] {
    [None, Some(Key([7; 32]))].map(|key| Secrets::new(key.as_ref(), &[1; 32]))
}

/// Decodes bytes as the stored list of a pack, without and with a key; then as a list that is neither compressed nor
/// encrypted. Returns whether the last is one.
fn list_of_pack(bytes: &[u8]) -> bool {
    let trailer = |raw_len: usize| Trailer {
        at: 32,
        len: 0,
        raw_len: u32::try_from(raw_len).unwrap_or(u32::MAX),
        info: PackInfo { size: 0, hash: Hash([0; 32]) },
    };
    let [plain, sealed] = secrets();
    if let Some((&[high, low], stored)) = bytes.split_first_chunk() {
        let trailer = trailer(u16::from_be_bytes([high, low]).into());
        assert!(list(&sealed, PACK, &trailer, stored).is_none(), "nothing is encrypted by chance");
        _ = list(&plain, PACK, &trailer, stored);
    }
    list(&plain, PACK, &trailer(bytes.len()), &[&[RAW], bytes].concat()).is_some()
}

/// Makes a pack of pieces of the bytes behind the first three, which select the pieces and a bit to flip. Returns
/// `false` if there are too few.
///
/// # Panics
/// If the pack does not list its pieces, or if a flipped bit leaves it intact.
pub fn pack(bytes: &[u8]) -> bool {
    let Some((&[piece, high, low], content)) = bytes.split_first_chunk() else { return false };
    let pieces: Vec<&[u8]> = content.chunks(usize::from(piece) + 1).collect();
    for secrets in secrets() {
        let mut builder = PackBuilder::new(&secrets, PACK, Content::Data);
        let mut places = Vec::new();
        for (at, chunk) in (0..).zip(&pieces) {
            let id = secrets.chunk_id(chunk);
            places.push(builder.add(&chunk[..1], at, chunk, id).expect("there is room"));
        }
        let (_, packed, info) = builder.finish().expect("a small pack can be finished");
        let whole = trailer(&packed[packed.len() - TRAILER_BYTES..], info.size).expect("it has a trailer");
        let start = whole.at as usize;
        let found = list(&secrets, PACK, &whole, &packed[start..start + whole.len as usize]);
        let (kind, listed) = found.expect("it has a list");
        assert!(kind == Content::Data && listed.iter().map(|one| one.place).eq(places));
        let cipher = secrets.cipher(&PACK.0);
        for (one, piece) in listed.iter().zip(&pieces) {
            let (from, len) = (one.place.offset as usize, one.place.len as usize);
            let opened = cipher.open_chunk(one.place.offset, &packed[from..from + len], one.len as usize);
            assert_eq!(opened.as_deref(), Some(*piece), "a chunk comes back");
        }
        assert!(is_intact(&secrets, PACK, &packed, &info));
        let mut changed = packed;
        let bit = usize::from(u16::from_be_bytes([high, low])) % (changed.len() * 8);
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(!is_intact(&secrets, PACK, &changed, &info), "a flipped bit is found");
    }
    true
}

/// Opens arbitrary bytes as an object, then the same with the head and the hash that they need. Then makes an object of
/// the bytes behind the first two, which select a bit to flip. Returns whether the second could be opened.
///
/// # Panics
/// If a wrong object opens, or a right one does not.
pub fn sealed(bytes: &[u8]) -> bool {
    const KIND: ObjectKind = ObjectKind::Manifest;
    let Some((&[high, low], payload)) = bytes.split_first_chunk() else { return false };
    let mut is_opened = false;
    for secrets in secrets() {
        assert!(secrets.open("name", KIND, bytes).is_err(), "no object has a hash by chance");
        let object = secrets.seal("name", KIND, [5; 20], payload).expect("it can be sealed");
        assert_eq!(secrets.open("name", KIND, &object).as_deref(), Ok(payload));
        assert!(secrets.open("other", KIND, &object).is_err(), "the name is part of it");
        is_opened |= secrets.open("name", KIND, &secrets.with_body("name", &object, payload)).is_ok();
        let mut changed = object;
        let bit = usize::from(u16::from_be_bytes([high, low])) % (changed.len() * 8);
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(secrets.open("name", KIND, &changed).is_err(), "a flipped bit is found");
    }
    is_opened
}

//! Layouts of everything in a vault (docs/formats/backup.md).

pub(crate) mod bytes;
pub(crate) mod leaf;
pub(crate) mod manifest;
pub(crate) mod names;
pub(crate) mod pack;
pub(crate) mod records;
pub(crate) mod seal;
pub(crate) mod sort_key;

/// The version of the whole format.
pub(crate) const VERSION: u8 = 1;
/// The largest piece of a file that is one chunk. Chunks end at multiples of it.
pub(crate) const CHUNK_BYTES: u64 = 1 << 20;
/// The largest pack.
pub(crate) const PACK_BYTES: usize = 64 << 20;
/// The largest uncompressed leaf of an index, unless one record is larger.
pub(crate) const LEAF_BYTES: usize = 256 << 10;
/// The largest record of an index: all extended attributes of a file, with a margin.
pub(crate) const RECORD_BYTES_MAX: usize = 1 << 20;
/// The uncompressed size at which a part of a backup's lists ends.
pub(crate) const PART_BYTES: usize = 4 << 20;
/// The largest object that is no pack, uncompressed.
pub(crate) const PART_BYTES_MAX: usize = 64 << 20;
const _: () = assert!(LEAF_BYTES + RECORD_BYTES_MAX < PACK_BYTES / 8);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_make_a_decoder_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
            cut in any::<proptest::sample::Index>(),
            flip in any::<proptest::sample::Index>(),
        ) {
            let decode_all = |bytes: &[u8]| {
                let _ = leaf::records(bytes);
                let _ = manifest::Manifest::decode(bytes);
                let _ = records::Inode::decode(bytes);
                let _ = records::decode_extents(u64::MAX, bytes);
                let _ = records::decode_entry(bytes);
                let _ = sort_key::parse(bytes);
                let secrets = seal::Secrets::new(None, &[0; 32]);
                let _ = secrets.open("name", seal::ObjectKind::Owner, bytes);
                let id = names::PackId([0; 20]);
                if let Some(trailer) = pack::trailer(bytes, bytes.len() as u64) {
                    let _ = pack::list(&secrets, id, &trailer, bytes);
                }
            };
            decode_all(&bytes);
            // Nearly right.
            let mut leaf = leaf::LeafBuilder::default();
            leaf.push(b"key", &bytes);
            leaf.push(b"key2", b"value");
            let (_, mut leaf) = leaf.take().unwrap();
            leaf.truncate(cut.index(leaf.len()) + 1);
            let at = flip.index(leaf.len());
            leaf[at] ^= 0xff;
            decode_all(&leaf);
        }
    }
}

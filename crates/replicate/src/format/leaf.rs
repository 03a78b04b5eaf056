//! Leaves of an index: some records in order, each with what its key adds to the key before.
//!
//! A leaf ends where the hash of a key says so, not after a number of records. So leaves without a change are the same
//! in the next backup, and are stored once.

use super::LEAF_BYTES;
use super::bytes::{Reader, Writer};

/// One key in so many ends a leaf.
const KEYS_PER_LEAF: u64 = 32;

#[derive(Default)]
pub(crate) struct LeafBuilder {
    writer: Writer,
    first: Vec<u8>,
    last: Vec<u8>,
}

impl LeafBuilder {
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        if self.writer.0.is_empty() {
            self.first = key.to_vec();
            self.last.clear();
        }
        let shared = self.last.iter().zip(key).take_while(|(one, other)| one == other).count();
        self.writer.len(shared);
        self.writer.bytes(&key[shared..]);
        self.writer.bytes(value);
        self.last = key.to_vec();
    }

    /// Whether the leaf ends with the record pushed last.
    pub(crate) fn is_full(&self) -> bool {
        let [a, b, c, d, e, f, g, h, ..] = *blake3::hash(&self.last).as_bytes();
        let hash = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        hash.is_multiple_of(KEYS_PER_LEAF) || self.writer.0.len() >= LEAF_BYTES
    }

    /// Returns the first key and the bytes of the leaf, and begins the next; `None` if it has no record.
    pub(crate) fn take(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        let leaf = std::mem::take(self);
        (!leaf.writer.0.is_empty()).then_some((leaf.first, leaf.writer.0))
    }
}

pub(crate) type Record = (Vec<u8>, Vec<u8>);

/// The records of a leaf; `None` if it is malformed.
pub(crate) fn records(leaf: &[u8]) -> Option<Vec<Record>> {
    let mut reader = Reader(leaf);
    let mut records: Vec<Record> = Vec::new();
    while !reader.is_empty() {
        let shared = reader.len()?;
        let last = records.last().map_or(&[][..], |(key, _)| key);
        let key = [last.get(..shared)?, reader.bytes()?].concat();
        if !records.is_empty() && *key <= *last {
            return None;
        }
        let value = reader.bytes()?.to_vec();
        records.push((key, value));
    }
    Some(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(keys: impl Iterator<Item = u32>) -> Vec<Vec<u8>> {
        let (mut builder, mut leaves) = (LeafBuilder::default(), Vec::new());
        for key in keys {
            builder.push(&key.to_be_bytes(), b"value");
            if builder.is_full() {
                leaves.extend(builder.take().map(|(_, leaf)| leaf));
            }
        }
        leaves.extend(builder.take().map(|(_, leaf)| leaf));
        leaves
    }

    #[test]
    fn records_come_back_in_order() {
        let all = leaves(0..5_000);
        let keys = all.iter().flat_map(|leaf| records(leaf).unwrap()).map(|(key, _)| key);
        assert!(keys.eq((0..5_000_u32).map(|key| key.to_be_bytes().to_vec())));
        assert!(all.len() > 80 && all.len() < 320, "{}", all.len());
    }

    #[test]
    fn missing_record_changes_two_leaves_at_most() {
        let (all, fewer) = (leaves(0..5_000), leaves((0..5_000).filter(|&key| key != 2_500)));
        let new = fewer.iter().filter(|leaf| !all.contains(leaf)).count();
        assert!(new <= 1, "{new}");
    }

    #[test]
    fn keys_out_of_order_are_refused() {
        let mut builder = LeafBuilder::default();
        builder.push(b"b", b"");
        builder.push(b"a", b"");
        let (_, leaf) = builder.take().unwrap();
        assert_eq!(records(&leaf), None);
    }
}

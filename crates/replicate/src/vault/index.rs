//! The index of a backup: all its records, found by key or read in order.

use super::chunks::Chunks;
use super::{Vault, damaged};
use crate::error::Result;
use crate::format::bytes::Reader;
use crate::format::leaf::{self, Record};
use crate::format::manifest::{Manifest, read_pack};
use crate::format::names::{self, PackId};
use crate::format::pack::PackInfo;
use crate::format::records::{Extent, LeafRef, decode_extents};
use crate::format::seal::ObjectKind;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// Leaves that are kept after a search.
const LEAVES_MAX: usize = 1024;

/// The list of a backup's leaves. It takes some bytes of memory for each file of the backup.
pub(crate) struct Index {
    /// The object that a malformed leaf is reported as.
    name: String,
    leaves: Vec<LeafRef>,
}

impl Index {
    pub(crate) fn load(vault: &Vault, manifest: &Manifest) -> Result<Self> {
        let mut leaves = Vec::new();
        for part in &manifest.leaves {
            let payload = vault.get_hashed(&part.object, ObjectKind::Leaves, part.hash)?;
            let mut reader = Reader(&payload);
            while !reader.is_empty() {
                let leaf = LeafRef::read(&mut reader);
                leaves.push(leaf.ok_or_else(|| damaged(&part.object, "it is no list of leaves"))?);
            }
        }
        Ok(Self { name: names::manifest(manifest.id), leaves })
    }

    pub(crate) fn read_leaf(&self, chunks: &mut Chunks<'_>, at: usize) -> Result<Vec<Record>> {
        let leaf = &self.leaves[at];
        let bytes = chunks.read(&leaf.place, leaf.len, &leaf.id)?;
        leaf::records(&bytes).ok_or_else(|| damaged(&self.name, "a leaf of its index is malformed"))
    }
}

/// The packs of a backup, with what they must be.
pub(crate) fn load_packs(vault: &Vault, manifest: &Manifest) -> Result<HashMap<PackId, PackInfo>> {
    let mut packs = HashMap::new();
    for part in &manifest.packs {
        let payload = vault.get_hashed(&part.object, ObjectKind::Packs, part.hash)?;
        let mut reader = Reader(&payload);
        while !reader.is_empty() {
            let pack = read_pack(&mut reader);
            packs.extend([pack.ok_or_else(|| damaged(&part.object, "it is no list of packs"))?]);
        }
    }
    Ok(packs)
}

/// Reads all records in order.
pub(crate) struct Cursor<'v> {
    index: Index,
    chunks: Chunks<'v>,
    next_leaf: usize,
    records: VecDeque<Record>,
}

impl<'v> Cursor<'v> {
    pub(crate) fn new(vault: &'v Vault, index: Index) -> Self {
        Self { index, chunks: Chunks::new(vault), next_leaf: 0, records: VecDeque::new() }
    }

    /// The leaf with this first key.
    pub(crate) fn leaf_at(&self, first: &[u8]) -> Option<&LeafRef> {
        let found = self.index.leaves.binary_search_by(|leaf| (*leaf.first).cmp(first));
        found.ok().map(|at| &self.index.leaves[at])
    }

    pub(crate) fn peek(&mut self) -> Result<Option<&Record>> {
        while self.records.is_empty() && self.next_leaf < self.index.leaves.len() {
            self.records = self.index.read_leaf(&mut self.chunks, self.next_leaf)?.into();
            self.next_leaf += 1;
        }
        Ok(self.records.front())
    }

    pub(crate) fn next(&mut self) -> Result<Option<Record>> {
        self.peek()?;
        Ok(self.records.pop_front())
    }

    /// Goes on to the first record that is not before `key`.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<()> {
        // Leaves in between are not read.
        let leaves = &self.index.leaves;
        let target = leaves.partition_point(|leaf| *leaf.first <= *key).saturating_sub(1);
        if target >= self.next_leaf {
            self.records.clear();
            self.next_leaf = target;
        }
        while self.peek()?.is_some_and(|(at, _)| **at < *key) {
            self.records.pop_front();
        }
        Ok(())
    }
}

/// Finds records by key.
pub(crate) struct Search<'v> {
    index: Index,
    pub(crate) chunks: Chunks<'v>,
    /// The last leaves used, by their places in the list.
    known: VecDeque<(usize, Rc<Vec<Record>>)>,
}

impl<'v> Search<'v> {
    pub(crate) fn new(vault: &'v Vault, index: Index) -> Self {
        Self { index, chunks: Chunks::new(vault), known: VecDeque::new() }
    }

    pub(crate) fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.from(key)?.filter(|(found, _)| found == key).map(|(_, value)| value))
    }

    /// The next record with this prefix, after the record `after` if there is one.
    pub(crate) fn next_below(&mut self, prefix: &[u8], after: Option<&[u8]>) -> Result<Option<Record>> {
        let from = after.map_or_else(|| prefix.to_vec(), |after| [after, &[0]].concat());
        Ok(self.from(&from)?.filter(|(found, _)| found.starts_with(prefix)))
    }

    /// The first record that is not before `key`.
    fn from(&mut self, key: &[u8]) -> Result<Option<Record>> {
        let at = self.index.leaves.partition_point(|leaf| *leaf.first <= *key).saturating_sub(1);
        for at in at..self.index.leaves.len() {
            let leaf = self.leaf(at)?;
            let place = leaf.partition_point(|(one, _)| **one < *key);
            if let Some(record) = leaf.get(place) {
                return Ok(Some(record.clone()));
            }
        }
        Ok(None)
    }

    fn leaf(&mut self, at: usize) -> Result<Rc<Vec<Record>>> {
        let known = self.known.iter().position(|(known, _)| *known == at);
        let leaf = match known.and_then(|place| self.known.remove(place)) {
            Some((_, leaf)) => leaf,
            None => Rc::new(self.index.read_leaf(&mut self.chunks, at)?),
        };
        self.known.truncate(LEAVES_MAX - 1);
        self.known.push_front((at, leaf.clone()));
        Ok(leaf)
    }
}

/// The extents in a record.
pub(crate) fn extents_of(key: &[u8], value: &[u8]) -> Result<Vec<Extent>> {
    let start = key.last_chunk().map(|start| u64::from_be_bytes(*start));
    let extents = start.and_then(|start| decode_extents(start, value));
    extents.ok_or_else(|| damaged("index", "a record of extents is malformed"))
}

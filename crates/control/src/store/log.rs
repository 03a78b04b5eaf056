//! [`StoreLog`]: the store in a replica, as an image of its file and the changes since (`docs/formats/store.md`).

use super::image::{self, Patch};
use super::{STORE_FILE, StoreError, wal_path};
use crate::error::Result;
use rusqlite::Connection;
use stable::{Replica, ReplicaBatch, ReplicaPairs, files};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;

const PREFIX: &str = "store/";
/// The key that names the current base.
const HEAD: &str = "store/head";
const BASES: &str = "store/base/";
const CHANGES: &str = "store/change/";

/// Magic number and version.
const KIND: &[u8; 12] = b"PLMSTORE\0\0\0\x01";
const HEAD_BYTES: usize = 44;
/// The size of a part of a base.
const PART_BYTES: usize = 64 << 10;
/// Parts that are written in one step.
const PARTS_PER_STEP: usize = 8;
/// A new base is published after this many changes, or one for each page of a larger file.
const CHANGES_MAX: usize = 256;
const PAGE_BYTES: usize = 4096;
/// A new base is published after this many bytes of changes, or a quarter of a larger file. A larger change is a base.
const CHANGE_BYTES_MAX: usize = 1 << 20;

/// The log of a store in a replica. The file of the store is only a copy.
pub struct StoreLog {
    replica: Arc<dyn Replica>,
    /// The file that the log describes. Empty without a base.
    image: Vec<u8>,
    /// The number of the current base, from 1; 0 without one.
    base: u64,
    /// The number of the next change.
    next: u64,
    changes: usize,
    change_bytes: usize,
    /// All keys of the log except the head. The next base replaces them.
    keys: BTreeSet<String>,
    /// Whether a change may be in the log and not in the file.
    is_uncertain: bool,
}

struct Head {
    base: u64,
    first_change: u64,
    image_bytes: u64,
    image_sum: [u8; 4],
}

impl StoreLog {
    /// Writes the store in `dir` as the log in `pairs` describes it, in place of the file there. Writes nothing if the log
    /// is empty: then the file there, if any, becomes the first base.
    pub fn restore(dir: &Path, pairs: &ReplicaPairs, replica: Arc<dyn Replica>) -> Result<Self> {
        let log = Self::read(pairs, replica)?;
        let path = dir.join(STORE_FILE);
        let placed = if log.base > 0 { place(&path, &log.image) } else { Ok(()) };
        placed.map_err(|error| match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::Full(path),
            _ => StoreError::File(path, error),
        })?;
        Ok(log)
    }

    fn read(pairs: &ReplicaPairs, replica: Arc<dyn Replica>) -> Result<Self> {
        let keys = pairs.keys().filter(|key| key.starts_with(PREFIX) && *key != HEAD).cloned().collect();
        let mut log = Self {
            replica,
            image: Vec::new(),
            base: 0,
            next: 1,
            changes: 0,
            change_bytes: 0,
            keys,
            is_uncertain: false,
        };
        let found_changes = || pairs.keys().filter(|key| key.starts_with(CHANGES));
        let Some(head) = pairs.get(HEAD) else {
            return match found_changes().next() {
                Some(key) => Err(damaged(key)),
                None => Ok(log),
            };
        };
        let head = Head::parse(head).ok_or_else(|| damaged(HEAD))?;
        (log.image, log.base, log.next) = (read_base(&head, pairs)?, head.base, head.first_change);
        for key in found_changes() {
            // A gap would apply changes to another state than theirs.
            if *key != change_key(log.next) {
                return Err(damaged(key));
            }
            let change = &pairs[key];
            let (number, patch) = decode_change(change).ok_or_else(|| damaged(key))?;
            if number != log.next || patch.apply(&mut log.image).is_none() {
                return Err(damaged(key));
            }
            log.note_change(change.len());
        }
        Ok(log)
    }

    /// The file as the log in `pairs` describes it.
    #[cfg(test)]
    pub(crate) fn image(pairs: &ReplicaPairs) -> Vec<u8> {
        Self::read(pairs, Arc::new(stable::MemoryReplica::default())).unwrap().image
    }

    pub(crate) fn replica(&self) -> &Arc<dyn Replica> {
        &self.replica
    }

    /// Publishes a base if the file is not what the log describes: after a step to newer tables, and the first time.
    pub(crate) fn start(&mut self, connection: &mut Connection) -> Result<()> {
        let image = image::of(connection)?;
        if self.base > 0 && Patch::between(&self.image, &image).is_empty() {
            return Ok(());
        }
        self.attempt(|log| log.publish(&image))?;
        self.image = image;
        self.is_uncertain = false;
        Ok(())
    }

    /// Stores the changes of an open transaction. [`StoreLog::committed`] follows.
    pub(super) fn append(&mut self, connection: &mut Connection) -> Result<()> {
        let image = image::of(connection)?;
        let patch = Patch::between(&self.image, &image);
        if patch.is_empty() {
            return Ok(());
        }
        if patch.has_blank_page() {
            image::check(&image)?;
        }
        let change = encode_change(self.next, &patch);
        self.attempt(|log| {
            if log.is_due(change.len()) {
                return log.publish(&image);
            }
            let (key, mut batch) = (change_key(log.next), ReplicaBatch::default());
            batch.set(key.clone(), &change);
            batch.apply(&*log.replica)?;
            log.keys.insert(key);
            log.note_change(change.len());
            Ok(())
        })?;
        self.image = image;
        Ok(())
    }

    /// Whether a new base takes the place of a change of this size.
    fn is_due(&self, bytes: usize) -> bool {
        let bytes_max = CHANGE_BYTES_MAX.max(self.image.len() / 4);
        bytes > CHANGE_BYTES_MAX
            || self.change_bytes + bytes > bytes_max
            || self.changes >= CHANGES_MAX.max(self.image.len() / PAGE_BYTES)
    }

    /// Notes that the last change is in the file too.
    pub(super) fn committed(&mut self) {
        self.is_uncertain = false;
    }

    /// Refuses everything after a change with an unknown outcome: the file may lack it.
    fn attempt(&mut self, write: impl FnOnce(&mut Self) -> io::Result<()>) -> Result<()> {
        if std::mem::replace(&mut self.is_uncertain, true) {
            return Err(StoreError::Uncertain.into());
        }
        Ok(write(self).map_err(StoreError::Log)?)
    }

    fn note_change(&mut self, bytes: usize) {
        self.next += 1;
        self.changes += 1;
        self.change_bytes += bytes;
    }

    /// Makes `image` the base. It counts from the step that changes the head; all earlier keys go in the same step.
    fn publish(&mut self, image: &[u8]) -> io::Result<()> {
        let base = self.base + 1;
        let mut keys = BTreeSet::new();
        let parts: Vec<_> = (0..).zip(image.chunks(PART_BYTES)).collect();
        for parts in parts.chunks(PARTS_PER_STEP) {
            let mut batch = ReplicaBatch::default();
            for &(number, part) in parts {
                let key = part_key(base, number);
                batch.set(key.clone(), part);
                keys.insert(key);
            }
            batch.apply(&*self.replica)?;
        }
        let head = Head {
            base,
            first_change: self.next,
            image_bytes: image.len() as u64,
            image_sum: stable::checksum(image),
        };
        let (head, mut batch) = (head.encode(), ReplicaBatch::default());
        batch.set(HEAD.to_owned(), &head);
        self.keys.difference(&keys).for_each(|key| batch.remove(key.clone()));
        batch.apply(&*self.replica)?;
        (self.base, self.changes, self.change_bytes, self.keys) = (base, 0, 0, keys);
        Ok(())
    }
}

impl Head {
    fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..12].copy_from_slice(KIND);
        bytes[12..20].copy_from_slice(&self.base.to_be_bytes());
        bytes[20..28].copy_from_slice(&self.first_change.to_be_bytes());
        bytes[28..36].copy_from_slice(&self.image_bytes.to_be_bytes());
        bytes[36..40].copy_from_slice(&self.image_sum);
        stable::seal(bytes)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let whole: [u8; HEAD_BYTES] = bytes.try_into().ok()?;
        let rest = whole.strip_prefix(KIND).filter(|_| stable::seal(whole) == whole)?;
        let (base, rest) = rest.split_first_chunk()?;
        let (first_change, rest) = rest.split_first_chunk()?;
        let (image_bytes, rest) = rest.split_first_chunk()?;
        Some(Self {
            base: u64::from_be_bytes(*base),
            first_change: u64::from_be_bytes(*first_change),
            image_bytes: u64::from_be_bytes(*image_bytes),
            image_sum: *rest.first_chunk()?,
        })
    }
}

fn read_base(head: &Head, pairs: &ReplicaPairs) -> Result<Vec<u8>> {
    let mut image = Vec::new();
    for number in 0..head.image_bytes.div_ceil(PART_BYTES as u64) {
        let key = part_key(head.base, number);
        image.extend(pairs.get(&key).ok_or_else(|| damaged(&key))?);
    }
    let is_whole = image.len() as u64 == head.image_bytes && stable::checksum(&image) == head.image_sum;
    if is_whole { Ok(image) } else { Err(damaged(HEAD)) }
}

fn part_key(base: u64, number: u64) -> String {
    format!("{BASES}{base:016x}/{number:08x}")
}

fn change_key(number: u64) -> String {
    format!("{CHANGES}{number:016x}")
}

fn encode_change(number: u64, patch: &Patch) -> Vec<u8> {
    let mut bytes = number.to_be_bytes().to_vec();
    patch.encode(&mut bytes);
    bytes.extend(stable::checksum(&bytes));
    bytes
}

fn decode_change(bytes: &[u8]) -> Option<(u64, Patch)> {
    let (content, sum) = bytes.split_last_chunk::<4>()?;
    let (number, patch) = content.split_first_chunk().filter(|_| stable::checksum(content) == *sum)?;
    Some((u64::from_be_bytes(*number), Patch::decode(patch)?))
}

/// Replaces the file, and removes the changes that SQLite has beside it.
fn place(path: &Path, image: &[u8]) -> io::Result<()> {
    for old in [path, &wal_path(path)] {
        match fs::remove_file(old) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    files::create_new(path, files::PRIVATE)?.write_all(image)
}

fn damaged(key: &str) -> crate::Error {
    StoreError::LogDamaged(key.to_owned()).into()
}

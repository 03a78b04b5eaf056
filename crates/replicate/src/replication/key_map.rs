//! The map from files of the source to those of the destination, as a sorted file of records of one size.

use crate::error::{Error, Result};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use vfs::{FileKey, KEY_BYTES_MAX};

const KEY_BYTES: usize = 1 + KEY_BYTES_MAX;
const RECORD_BYTES: usize = 2 * KEY_BYTES;
/// Records that travel at a time.
pub(super) const PART_RECORDS: u64 = 512;
const MODE: u32 = 0o600;

/// A map that is complete; empty where there is none.
pub(super) struct KeyMap {
    file: Option<File>,
    records: u64,
}

/// A file of the source, and the same of the destination.
pub(super) type Pair = (FileKey, FileKey);

impl KeyMap {
    pub(super) fn empty() -> Self {
        Self { file: None, records: 0 }
    }

    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::Scratch)?;
        let bytes = file.metadata().map_err(Error::Scratch)?.len();
        if bytes % RECORD_BYTES as u64 != 0 {
            return Err(malformed());
        }
        Ok(Self { file: Some(file), records: bytes / RECORD_BYTES as u64 })
    }

    pub(super) fn len(&self) -> u64 {
        self.records
    }

    /// Some records from a place on, as they are in the file; empty at its end.
    pub(super) fn part(&self, place: u64) -> Result<Vec<u8>> {
        let records = PART_RECORDS.min(self.records.saturating_sub(place));
        let Some(file) = self.file.as_ref().filter(|_| records > 0) else { return Ok(Vec::new()) };
        let mut part = vec![0; usize::try_from(records).unwrap_or(0) * RECORD_BYTES];
        file.read_exact_at(&mut part, place * RECORD_BYTES as u64).map_err(Error::Scratch)?;
        Ok(part)
    }

    pub(super) fn at(&self, place: u64) -> Result<Pair> {
        let file = self.file.as_ref().ok_or_else(malformed)?;
        let mut record = [0; RECORD_BYTES];
        file.read_exact_at(&mut record, place * RECORD_BYTES as u64).map_err(Error::Scratch)?;
        let (source, target) = record.split_at(KEY_BYTES);
        Ok((read_key(source).ok_or_else(malformed)?, read_key(target).ok_or_else(malformed)?))
    }

    /// The file of the destination.
    pub(super) fn find(&self, source: &FileKey) -> Result<Option<FileKey>> {
        let (mut low, mut high) = (0, self.records);
        let wanted = record_key(source);
        while low < high {
            let middle = low + (high - low) / 2;
            let (found, target) = self.at(middle)?;
            match record_key(&found).cmp(&wanted) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(Some(target)),
            }
        }
        Ok(None)
    }
}

/// Writes a map durably, in the order of the source's keys.
pub(super) fn write(path: &Path, pairs: &mut dyn Iterator<Item = Result<Pair>>) -> Result<()> {
    let mut draft = Draft::new(path)?;
    for pair in pairs {
        let (source, target) = pair?;
        draft.push(&[record_key(&source), record_key(&target)].concat())?;
    }
    draft.finish()
}

/// A map that is being written.
pub(super) struct Draft {
    path: PathBuf,
    out: BufWriter<File>,
}

impl Draft {
    pub(super) fn new(path: &Path) -> Result<Self> {
        let draft = stable::files::create_or_truncate(&path.with_extension("new"), MODE);
        Ok(Self { path: path.to_owned(), out: BufWriter::new(draft.map_err(Error::Scratch)?) })
    }

    fn push(&mut self, record: &[u8]) -> Result<()> {
        self.out.write_all(record).map_err(Error::Scratch)
    }

    /// Adds records as another service has them. `None`: they are none.
    pub(super) fn push_checked(&mut self, records: &[u8]) -> Result<Option<()>> {
        let (records, rest) = records.as_chunks::<RECORD_BYTES>();
        let is_valid = |record: &[u8; RECORD_BYTES]| {
            let (source, target) = record.split_at(KEY_BYTES);
            read_key(source).is_some() && read_key(target).is_some()
        };
        if !rest.is_empty() || !records.iter().all(is_valid) {
            return Ok(None);
        }
        records.iter().try_for_each(|record| self.push(record)).map(Some)
    }

    pub(super) fn finish(self) -> Result<()> {
        let Self { path, out } = self;
        let done = || -> io::Result<()> {
            out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
            std::fs::rename(path.with_extension("new"), &path)?;
            path.parent().map_or(Ok(()), stable::files::sync_dir)
        };
        done().map_err(Error::Scratch)
    }
}

/// The order of these bytes is that of the sort keys.
fn record_key(key: &FileKey) -> [u8; KEY_BYTES] {
    let mut record = [0; KEY_BYTES];
    let bytes = key.bytes();
    record[0] = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
    record[1..=bytes.len()].copy_from_slice(bytes);
    record
}

fn read_key(record: &[u8]) -> Option<FileKey> {
    let (&len, bytes) = record.split_first()?;
    FileKey::new(bytes.get(..usize::from(len))?).ok()
}

fn malformed() -> Error {
    Error::WorkDir("a record in a map of files is malformed")
}

/// The order of keys in a map.
pub(super) fn order(one: &FileKey, other: &FileKey) -> std::cmp::Ordering {
    record_key(one).cmp(&record_key(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_found_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let key = |number: u32| FileKey::new(&number.to_be_bytes()).unwrap();
        for count in [0_u32, 1, 2, 77] {
            let path = dir.path().join("map");
            write(&path, &mut (0..count).map(|at| Ok((key(2 * at), key(at + 1000))))).unwrap();
            let map = KeyMap::open(&path).unwrap();
            for at in 0..count {
                assert_eq!(map.find(&key(2 * at)).unwrap(), Some(key(at + 1000)));
                assert_eq!(map.find(&key(2 * at + 1)).unwrap(), None);
            }
            assert_eq!(map.find(&FileKey::new(b"longer key").unwrap()).unwrap(), None);
        }
    }
}

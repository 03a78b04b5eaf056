//! Records of names: the object that a name had before its first change under a label, or that it had none.
//!
//! A record is a symbolic link of the same name beside the record of the directory. Its target names the object:
//! `- ` for none, else key, type and file number.

use super::{Undo, labels_with, make_dir, open_dir, path_of, record_name};
use crate::error::refused;
use rustix::fs::{RawDir, readlinkat, symlinkat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use vfs::{FileKey, FsError, FsResult, ViewId};

const NAMES: &str = ".names";
const ABSENT: &str = "-";
const READ_BYTES: usize = 32 * 1024;

/// The object that a name had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedObject {
    pub(crate) key: FileKey,
    pub(crate) file_id: u64,
}

/// `None`: the name did not exist.
pub(crate) type NameRecord = Option<NamedObject>;

fn encode(record: &NameRecord) -> String {
    match record {
        None => ABSENT.to_owned(),
        Some(object) => {
            let digits: String = object.key.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{digits} {}", object.file_id)
        }
    }
}

fn decode(text: &[u8]) -> Option<NameRecord> {
    let text = std::str::from_utf8(text).ok()?;
    if text == ABSENT {
        return Some(None);
    }
    let (digits, file_id) = text.split_once(' ')?;
    let bytes: Option<Vec<u8>> =
        (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()).collect();
    Some(Some(NamedObject { key: FileKey::new(&bytes?).ok()?, file_id: file_id.parse().ok()? }))
}

pub(super) fn dir_name(label: ViewId) -> String {
    record_name(label) + NAMES
}

impl Undo {
    /// Records the object of a name in a directory, unless it is recorded. Returns whether the record is new. The
    /// directory has a record of the label.
    pub(crate) fn record_name(
        &self,
        dir: &FileKey,
        label: ViewId,
        name: &[u8],
        object: &NameRecord,
    ) -> FsResult<bool> {
        let made = self.in_key_dir(dir, |key_dir| {
            let names = match open_dir(key_dir.as_fd(), &dir_name(label)) {
                Err(Errno::NOENT) => make_dir(key_dir.as_fd(), &dir_name(label))?,
                opened => opened?,
            };
            symlinkat(encode(object), &names, name)
        });
        match made {
            Ok(()) => Ok(true),
            Err(FsError::Exists) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The object that a name of a directory had in a snapshot, if it has changed since.
    pub(crate) fn name_in(&self, dir: &FileKey, view: ViewId, name: &[u8]) -> FsResult<Option<NameRecord>> {
        self.settled(&path_of(dir), || self.name_now(dir, view, name))
    }

    fn name_now(&self, dir: &FileKey, view: ViewId, name: &[u8]) -> FsResult<Option<NameRecord>> {
        for names in self.names_from(dir, view)? {
            match readlinkat(&names, name, Vec::new()) {
                Ok(target) => return decode(target.as_bytes()).map(Some).ok_or_else(super::damaged),
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(refused(errno)),
            }
        }
        Ok(None)
    }

    /// All names of a directory that have changed since a snapshot, with the objects they had then.
    pub(crate) fn names_in(&self, dir: &FileKey, view: ViewId) -> FsResult<HashMap<Box<[u8]>, NameRecord>> {
        self.settled(&path_of(dir), || self.names_now(dir, view))
    }

    fn names_now(&self, dir: &FileKey, view: ViewId) -> FsResult<HashMap<Box<[u8]>, NameRecord>> {
        let mut all = HashMap::new();
        for names in self.names_from(dir, view)? {
            let mut buffer = vec![MaybeUninit::uninit(); READ_BYTES];
            let mut raw = RawDir::new(&names, &mut buffer);
            while let Some(entry) = raw.next() {
                let entry = entry.map_err(refused)?;
                let name = entry.file_name().to_bytes();
                // The earliest label counts.
                if matches!(name, b"." | b"..") || all.contains_key(name) {
                    continue;
                }
                let target = readlinkat(&names, name, Vec::new()).map_err(refused)?;
                all.insert(Box::from(name), decode(target.as_bytes()).ok_or_else(super::damaged)?);
            }
        }
        Ok(all)
    }

    /// The directories of recorded names from a label on, the earliest first.
    fn names_from(&self, dir: &FileKey, view: ViewId) -> FsResult<Vec<OwnedFd>> {
        let Some(key_dir) = self.key_dir(dir)? else { return Ok(Vec::new()) };
        // Not by the records: when both move to an earlier label, the names go first.
        let mut labels = labels_with(&key_dir, NAMES)?;
        labels.retain(|label| *label >= view);
        labels.sort_unstable();
        let open = |label: ViewId| match open_dir(key_dir.as_fd(), &dir_name(label)) {
            Ok(names) => Some(Ok(names)),
            Err(Errno::NOENT) => None,
            Err(errno) => Some(Err(refused(errno))),
        };
        labels.into_iter().filter_map(open).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Method;
    use super::*;

    #[test]
    fn names_that_moved_before_their_record_are_found() {
        let place = tempfile::tempdir().unwrap();
        let dir = OwnedFd::from(std::fs::File::open(place.path()).unwrap());
        let undo = Undo::open(dir, Method::Copy, 4096).unwrap();
        let key = FileKey::new(&[7; 8]).unwrap();
        undo.record_name(&key, ViewId(2), b"gone", &None).unwrap();
        let found = |view| undo.name_in(&key, ViewId(view), b"gone").unwrap();
        assert_eq!([1, 2, 3].map(found), [Some(None), Some(None), None]);
        assert_eq!(undo.names_in(&key, ViewId(1)).unwrap().len(), 1);
    }

    #[test]
    fn name_record_decodes_to_its_object() {
        let object = NamedObject { key: FileKey::new(&[1, 0xfe]).unwrap(), file_id: 77 };
        assert_eq!(encode(&Some(object)), "01fe 77");
        for record in [None, Some(object)] {
            assert_eq!(decode(encode(&record).as_bytes()), Some(record));
        }
        for bad in ["", "01fe", "01f 7", "zz 7", "01 x", " 7"] {
            assert_eq!(decode(bad.as_bytes()), None, "{bad:?}");
        }
    }
}

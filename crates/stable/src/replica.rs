//! [`Replica`]: the state of a service outside its data directory, and the keys that stand for files of the directory.
//!
//! The layout is in `docs/formats/data-directory.md`.

use crate::files;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// The first parts of keys.
const RECORD_FILE: &str = "file";
const ENTRY: &str = "entry";
const WHOLE: &str = "whole";
/// The last part of the key of a record file's header. It sorts after all numbers of records.
const HEADER: &str = "header";

/// A durable key-value store outside the data directory, which the data directory is a copy of.
///
/// Keys are ASCII. Values may be secret.
pub trait Replica: Send + Sync {
    /// Applies all changes in one step, durably, in their order. Calls may be concurrent. Removing an absent key is no
    /// error.
    ///
    /// An error is final: the changes may have been applied or not, and all later calls must fail too.
    fn apply(&self, changes: &[ReplicaChange<'_>]) -> io::Result<()>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaChange<'a> {
    Set { key: &'a str, value: &'a [u8] },
    Remove { key: &'a str },
}

/// All keys of a replica with their values.
pub type ReplicaPairs = BTreeMap<String, Vec<u8>>;

/// Changes with their own keys, for one [`Replica::apply`].
#[derive(Default)]
pub struct ReplicaBatch<'a>(Vec<(String, Option<&'a [u8]>)>);

impl<'a> ReplicaBatch<'a> {
    pub fn set(&mut self, key: String, value: &'a [u8]) {
        self.0.push((key, Some(value)));
    }

    pub fn remove(&mut self, key: String) {
        self.0.push((key, None));
    }

    /// Does nothing if the batch is empty.
    pub fn apply(&self, replica: &dyn Replica) -> io::Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let changes = self.0.iter().map(|change| match change {
            (key, Some(value)) => ReplicaChange::Set { key, value },
            (key, None) => ReplicaChange::Remove { key },
        });
        send(replica, &changes.collect::<Vec<_>>())
    }
}

/// Applies changes. The error is never one of a full disk of this machine, which callers take for temporary.
pub(crate) fn send(replica: &dyn Replica, changes: &[ReplicaChange<'_>]) -> io::Result<()> {
    let failed = |error| io::Error::other(format!("cannot store state outside this machine: {error}"));
    replica.apply(changes).map_err(failed)
}

pub(crate) fn header_key(file: &str) -> String {
    format!("{RECORD_FILE}/{file}/{HEADER}")
}

pub(crate) fn record_key(file: &str, place: usize) -> String {
    format!("{RECORD_FILE}/{file}/{place:08x}")
}

pub(crate) fn entry_key(directory: &str, number: u64) -> String {
    format!("{ENTRY}/{directory}/{number:016x}")
}

/// Stores a small file of the data directory as one value. The caller writes the file itself afterwards.
pub fn store_whole(replica: &dyn Replica, name: &str, content: &[u8]) -> io::Result<()> {
    send(replica, &[ReplicaChange::Set { key: &format!("{WHOLE}/{name}"), value: content }])
}

/// Writes the files that a replica has into the empty directory `dir`, readable by their owner alone. Skips keys whose
/// first part is of others.
pub fn restore(dir: &Path, pairs: &ReplicaPairs) -> io::Result<()> {
    if fs::read_dir(dir)?.next().is_some() {
        return Err(io::Error::new(
            ErrorKind::DirectoryNotEmpty,
            "state is restored into empty directories only",
        ));
    }
    let mut record_files: BTreeMap<&str, RecordFile<'_>> = BTreeMap::new();
    for (key, value) in pairs {
        let parts: Vec<&str> = key.split('/').collect();
        match parts[..] {
            [RECORD_FILE, name, HEADER] => record_files.entry(name).or_default().header = Some(value),
            [RECORD_FILE, name, place] => record_files.entry(name).or_default().add(key, place, value)?,
            [ENTRY, directory, number] => restore_entry(dir, key, directory, number, value)?,
            [WHOLE, name] => write(&dir.join(checked(key, name)?), &[value])?,
            [RECORD_FILE | ENTRY | WHOLE, ..] => return Err(invalid(key)),
            _ => {}
        }
    }
    for (name, file) in record_files {
        let Some(header) = file.header else { return Err(invalid(&header_key(name))) };
        let content: Vec<&[u8]> = [header].into_iter().chain(file.records).collect();
        write(&dir.join(checked(&header_key(name), name)?), &content)?;
    }
    Ok(())
}

#[derive(Default)]
struct RecordFile<'a> {
    header: Option<&'a [u8]>,
    records: Vec<&'a [u8]>,
}

impl<'a> RecordFile<'a> {
    /// Adds the next record. A gap would move later records to other places.
    fn add(&mut self, key: &str, place: &str, record: &'a [u8]) -> io::Result<()> {
        let is_next = number(place, 8) == u64::try_from(self.records.len()).ok();
        let is_alike = self.records.first().is_none_or(|first| first.len() == record.len());
        if !is_next || !is_alike {
            return Err(invalid(key));
        }
        self.records.push(record);
        Ok(())
    }
}

fn restore_entry(dir: &Path, key: &str, directory: &str, entry: &str, content: &[u8]) -> io::Result<()> {
    let path = dir.join(checked(key, directory)?);
    if number(entry, 16).is_none() {
        return Err(invalid(key));
    }
    match files::make_dir(&path, files::PRIVATE_DIR) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    write(&path.join(entry), &[content])
}

/// A number of exactly `digits` hexadecimal digits, as the service writes it.
fn number(text: &str, digits: usize) -> Option<u64> {
    let is_number = text.len() == digits && text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    is_number.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

/// Refuses a name that would lead out of the directory.
fn checked<'a>(key: &str, name: &'a str) -> io::Result<&'a str> {
    let is_plain = |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    if name.is_empty() || name.starts_with('.') || !name.bytes().all(is_plain) {
        return Err(invalid(key));
    }
    Ok(name)
}

fn write(path: &Path, content: &[&[u8]]) -> io::Result<()> {
    let mut file = files::create_new(path, files::PRIVATE)?;
    content.iter().try_for_each(|part| io::Write::write_all(&mut file, part))
}

fn invalid(key: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("the stored state is damaged at the key {key:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestDir;
    use std::os::unix::fs::PermissionsExt;

    fn pairs(pairs: &[(&str, &[u8])]) -> ReplicaPairs {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), value.to_vec())).collect()
    }

    fn restored(of: &[(&str, &[u8])]) -> io::Result<TestDir> {
        let dir = TestDir::new();
        restore(dir.path(), &pairs(of)).map(|()| dir)
    }

    #[test]
    fn restored_files_are_private_and_records_are_in_order() {
        let dir = restored(&[
            ("file/log/header", b"head"),
            ("file/log/00000000", b"one."),
            ("file/log/00000001", b"two."),
            ("file/empty/header", b"none"),
            ("entry/things/000000000000000a", b"ten"),
            ("whole/handle.key", b"secret"),
            ("store/head", b"is of the store"),
            ("lease", b"is of others"),
        ])
        .unwrap();
        let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
        assert_eq!(read("log"), b"headone.two.");
        assert_eq!(read("empty"), b"none");
        assert_eq!(read("things/000000000000000a"), b"ten");
        assert_eq!(read("handle.key"), b"secret");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4);
        let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode("log"), mode("things"), mode("handle.key")], [0o600, 0o700, 0o600]);
    }

    #[test]
    fn damaged_keys_and_names_outside_the_directory_are_refused() {
        for bad in [
            &[("file/log/00000000", &b"one."[..])][..],
            &[("file/log/header", b"head"), ("file/log/00000001", b"two.")],
            &[("file/log/header", b"head"), ("file/log/0", b"one.")],
            &[("file/log/header", b"head"), ("file/log/00000000", b"one."), ("file/log/00000001", b"longer")],
            &[("file/../header", b"head")],
            &[("entry/things/10", b"ten")],
            &[("entry/../000000000000000a", b"ten")],
            &[("whole/.", b"")],
            &[("whole/a/b", b"")],
            &[("whole", b"")],
        ] {
            let error = restored(bad).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{bad:?}");
        }
        let dir = TestDir::new();
        fs::write(dir.path().join("old"), "").unwrap();
        assert_eq!(restore(dir.path(), &pairs(&[])).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    }
}

//! [`Entries`]: a directory with a file for each entry.

use crate::check::{CHECK_BYTES, checksum};
use crate::replica::{entry_key, send};
use crate::{ReplicaChange, StableDir, files, is_temporary};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

/// The length of the magic number and the version at the start of a file.
const KIND_BYTES: usize = 12;
/// The extension of an incomplete file.
const DRAFT: &str = "new";

/// Files of one kind in a directory of their own, each named by a number. A crash leaves the last stored content of a
/// file, or none.
pub struct Entries {
    dir: PathBuf,
    name: &'static str,
    kind: &'static [u8; KIND_BYTES],
    stable: Arc<StableDir>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct StoredEntry {
    pub number: u64,
    /// The content; `None` if the file is incomplete, or of another kind or version.
    pub content: Option<Vec<u8>>,
}

impl Entries {
    /// Opens the directory `name`, or makes it. [`ErrorKind::InvalidData`] if another user owns it or may write to it:
    /// that user's files would be trusted.
    pub fn open(
        stable: &Arc<StableDir>,
        name: &'static str,
        kind: &'static [u8; KIND_BYTES],
    ) -> io::Result<Self> {
        let entries = Self { dir: stable.file(name), name, kind, stable: Arc::clone(stable) };
        match entries.make_dir() {
            // While the disk is full nothing can be stored, but existing entries can be read.
            Err(error) if is_temporary(&error) => {}
            made => made?,
        }
        Ok(entries)
    }

    /// Makes the directory durably, unless it exists.
    fn make_dir(&self) -> io::Result<()> {
        let made = files::make_dir(&self.dir, files::PRIVATE_DIR);
        if let Ok(found) = fs::symlink_metadata(&self.dir) {
            let own = rustix::process::geteuid().as_raw();
            if !found.is_dir() || found.uid() != own || found.mode() & 0o022 != 0 {
                let why = "others may write to it: it has to be a directory of the service's own user, of mode 0700";
                return Err(io::Error::new(ErrorKind::InvalidData, why));
            }
        }
        match made {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
            Ok(()) => self.dir.parent().map_or(Ok(()), files::sync_dir),
        }
    }

    /// Reads all entries, sorted by number. Incomplete files are removed.
    pub fn load_all(&self) -> io::Result<Vec<StoredEntry>> {
        let mut found = Vec::new();
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(found),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == DRAFT) {
                _ = fs::remove_file(&path);
                continue;
            }
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if let (16, Ok(number)) = (name.len(), u64::from_str_radix(name, 16)) {
                found.push(StoredEntry { number, content: self.content(&files::read_trusted(&path)?) });
            }
        }
        found.sort_unstable_by_key(|found| found.number);
        Ok(found)
    }

    /// Stores an entry durably, in place of an earlier one with this number.
    pub fn store(&self, number: u64, content: &[u8]) -> io::Result<()> {
        match self.write(number, content) {
            // The disk was full when the directory was to be made.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.make_dir().and_then(|()| self.write(number, content))
            }
            written => written,
        }
    }

    /// Reads an entry; `None` if there is none, or its file is incomplete.
    pub fn get(&self, number: u64) -> io::Result<Option<Vec<u8>>> {
        match files::read_trusted(&self.path(number)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => Ok(self.content(&read?)),
        }
    }

    /// Removes an entry. A crash soon after may restore it.
    pub fn remove(&self, number: u64) -> io::Result<()> {
        match fs::remove_file(self.path(number)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed?,
        }
        self.stable.replica().map_or(Ok(()), |replica| {
            send(replica, &[ReplicaChange::Remove { key: &entry_key(self.name, number) }])
        })
    }

    pub fn remove_durably(&self, number: u64) -> io::Result<()> {
        self.remove(number)?;
        if self.stable.replica().is_some() {
            return Ok(());
        }
        match File::open(&self.dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            dir => dir?.sync_all(),
        }
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:016x}"))
    }

    fn write(&self, number: u64, content: &[u8]) -> io::Result<()> {
        let (path, mut bytes) = (self.path(number), [self.kind, content].concat());
        bytes.extend(checksum(&bytes));
        self.stable.replace(&path, &path.with_extension(DRAFT), &[&bytes])?;
        self.stable.replica().map_or(Ok(()), |replica| {
            send(replica, &[ReplicaChange::Set { key: &entry_key(self.name, number), value: &bytes }])
        })
    }

    fn content(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (bytes, sum) = bytes.split_last_chunk::<CHECK_BYTES>()?;
        let content = bytes.strip_prefix(self.kind)?;
        (checksum(bytes) == *sum).then(|| content.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Failure, MemoryReplica, TestDir};
    use std::os::unix::fs::PermissionsExt;

    const KIND: &[u8; 12] = b"PLMTESTS\0\0\0\x01";

    fn open(dir: &TestDir) -> Entries {
        Entries::open(&dir.open(), "things", KIND).unwrap()
    }

    #[test]
    fn a_stored_entry_exists_until_it_is_removed() {
        let dir = TestDir::new();
        let entries = open(&dir);
        entries.store(7, b"seven").unwrap();
        entries.store(u64::MAX, b"").unwrap();
        entries.store(3, b"three").unwrap();
        entries.store(7, b"seven again").unwrap();
        entries.remove(3).unwrap();
        entries.remove(3).unwrap();
        entries.store(4, b"four").unwrap();
        assert_eq!(entries.get(4).unwrap(), Some(b"four".to_vec()));
        entries.remove_durably(4).unwrap();
        entries.remove_durably(4).unwrap();
        assert_eq!(entries.get(4).unwrap(), None);
        assert_eq!(entries.get(7).unwrap(), Some(b"seven again".to_vec()));
        drop(entries);
        let whole = |number, content: &[u8]| StoredEntry { number, content: Some(content.to_vec()) };
        assert_eq!(open(&dir).load_all().unwrap(), [whole(7, b"seven again"), whole(u64::MAX, b"")]);
        let mode =
            |name: &str| fs::metadata(dir.path().join("things").join(name)).unwrap().permissions().mode();
        assert_eq!((mode("") & 0o777, mode("0000000000000007") & 0o777), (0o700, 0o600));
    }

    #[test]
    fn a_missing_directory_is_made_by_the_next_store() {
        let dir = TestDir::new();
        let (entries, path) = (open(&dir), dir.path().join("things"));
        // The state after a start with a full disk.
        fs::remove_dir(&path).unwrap();
        assert_eq!(entries.load_all().unwrap(), []);
        entries.remove(1).unwrap();
        entries.store(1, b"one").unwrap();
        assert_eq!(entries.load_all().unwrap(), [StoredEntry { number: 1, content: Some(b"one".to_vec()) }]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        // A dangling link: files stored through it would go to another user's directory.
        fs::remove_dir_all(&path).unwrap();
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        assert!(entries.store(1, b"one").is_err());
        assert!(!dir.path().join("nowhere").exists());
    }

    #[test]
    fn a_directory_that_other_users_may_write_to_is_refused() {
        let dir = TestDir::new();
        let path = dir.path().join("things");
        let refusal = || Entries::open(&dir.open(), "things", KIND).err().map(|error| error.kind());
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(refusal(), Some(ErrorKind::InvalidData));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(refusal(), None);
        fs::rename(&path, dir.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert_eq!(refusal(), Some(ErrorKind::InvalidData), "a link leads where its owner says");
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        assert_eq!(refusal(), Some(ErrorKind::InvalidData));
    }

    #[test]
    fn an_incomplete_file_has_no_content() {
        let dir = TestDir::new();
        let entries = open(&dir);
        entries.store(1, b"one").unwrap();
        let path = entries.path(1);
        let whole = fs::read(&path).unwrap();
        let nothing = [StoredEntry { number: 1, content: None }];
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            assert_eq!(entries.load_all().unwrap(), nothing, "{cut}");
        }
        for byte in 0..whole.len() {
            let mut torn = whole.clone();
            torn[byte] ^= 0x20;
            fs::write(&path, &torn).unwrap();
            assert_eq!(entries.load_all().unwrap(), nothing, "{byte}");
        }
        fs::write(path.with_extension(DRAFT), &whole).unwrap();
        fs::write(entries.dir.join("README"), "mine").unwrap();
        assert_eq!(entries.load_all().unwrap(), nothing);
        assert!(!path.with_extension(DRAFT).exists() && entries.dir.join("README").exists());
    }

    #[test]
    fn a_failed_store_leaves_the_old_entry() {
        let dir = TestDir::new();
        let entries = open(&dir);
        entries.store(1, b"one").unwrap();
        // A directory in place of the draft makes every write fail.
        fs::create_dir(entries.path(1).with_extension(DRAFT)).unwrap();
        assert!(entries.store(1, b"another").is_err());
        assert_eq!(entries.load_all().unwrap(), [StoredEntry { number: 1, content: Some(b"one".to_vec()) }]);
    }

    #[test]
    fn replica_has_entries_as_they_are() {
        let (dir, replica) = (TestDir::new(), Arc::new(MemoryReplica::default()));
        let entries = Entries::open(&dir.open_with(&replica), "things", KIND).unwrap();
        (1..=4).for_each(|number| entries.store(number, &[7; 40]).unwrap());
        entries.store(2, b"two").unwrap();
        entries.remove(3).unwrap();
        entries.remove_durably(4).unwrap();
        entries.remove_durably(4).unwrap();
        let here = entries.load_all().unwrap();
        let there = TestDir::new();
        crate::restore(there.path(), &replica.pairs()).unwrap();
        let moved = open(&there);
        assert_eq!(moved.load_all().unwrap(), here);
        assert_eq!(here.iter().map(|entry| entry.number).collect::<Vec<_>>(), [1, 2]);
        let sent = replica.pairs();
        replica.fail_at(1, Failure::Lost);
        assert!(entries.store(5, b"five").is_err() && entries.remove(1).is_err());
        assert_eq!(replica.pairs(), sent);
    }
}

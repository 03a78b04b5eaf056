//! [`Entries`]: a directory with a file for each thing that is kept.

use crate::check::{CHECK_BYTES, check};
use crate::{StableDir, files, is_for_now};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes that a file begins with: a magic number and a version.
const KIND_BYTES: usize = 12;
/// What a file is called that is not whole yet.
const DRAFT: &str = "new";

/// Files of one kind in a directory of their own, each named by a number. A file is there as it was last put, or not at all.
pub struct Entries {
    dir: PathBuf,
    kind: &'static [u8; KIND_BYTES],
    _stable: Arc<StableDir>,
}

/// A file that was found.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// Its number.
    pub number: u64,
    /// What it says; `None` if it is not whole, or of another kind or version.
    pub content: Option<Vec<u8>>,
}

impl Entries {
    /// Those in the directory `name`, which is made if it is not there. [`ErrorKind::InvalidData`] if it is somebody else's, or others may
    /// write to it: what they put there would be believed.
    pub fn open(stable: &Arc<StableDir>, name: &str, kind: &'static [u8; KIND_BYTES]) -> io::Result<Self> {
        let entries = Self { dir: stable.file(name), kind, _stable: Arc::clone(stable) };
        match entries.make_dir() {
            // Nothing can be kept until there is room; what is there already can be read.
            Err(error) if is_for_now(&error) => {}
            made => made?,
        }
        Ok(entries)
    }

    /// Makes the directory, durably, if it is not there.
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

    /// All that is there, by number. What was never finished is removed.
    pub fn find(&self) -> io::Result<Vec<Found>> {
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
                found.push(Found { number, content: self.content(&files::read_trusted(&path)?) });
            }
        }
        found.sort_unstable_by_key(|found| found.number);
        Ok(found)
    }

    /// Keeps this by a number, in place of what was there. It is durable when this returns.
    pub fn put(&self, number: u64, content: &[u8]) -> io::Result<()> {
        match self.write(number, content) {
            // There was no room for the directory at the start.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.make_dir().and_then(|()| self.write(number, content))
            }
            written => written,
        }
    }

    /// What is kept by a number, if anything is and is whole.
    pub fn get(&self, number: u64) -> io::Result<Option<Vec<u8>>> {
        match files::read_trusted(&self.path(number)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => Ok(self.content(&read?)),
        }
    }

    /// Keeps it no longer. A crash soon after may bring it back.
    pub fn remove(&self, number: u64) -> io::Result<()> {
        match fs::remove_file(self.path(number)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// The same so that no crash brings it back.
    pub fn forget(&self, number: u64) -> io::Result<()> {
        self.remove(number)?;
        match File::open(&self.dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            dir => dir?.sync_all(),
        }
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:016x}"))
    }

    fn write(&self, number: u64, content: &[u8]) -> io::Result<()> {
        let (path, bytes) = (self.path(number), [self.kind, content].concat());
        files::replace(&path, &path.with_extension(DRAFT), files::PRIVATE, &[&bytes, &check(&bytes)])
    }

    fn content(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (bytes, sum) = bytes.split_last_chunk::<CHECK_BYTES>()?;
        let content = bytes.strip_prefix(self.kind)?;
        (check(bytes) == *sum).then(|| content.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestDir;
    use std::os::unix::fs::PermissionsExt;

    const KIND: &[u8; 12] = b"PLMTESTS\0\0\0\x01";

    fn open(dir: &TestDir) -> Entries {
        Entries::open(&dir.open(), "things", KIND).unwrap()
    }

    #[test]
    fn what_was_put_is_there_until_it_is_removed() {
        let dir = TestDir::new();
        let entries = open(&dir);
        entries.put(7, b"seven").unwrap();
        entries.put(u64::MAX, b"").unwrap();
        entries.put(3, b"three").unwrap();
        entries.put(7, b"seven again").unwrap();
        entries.remove(3).unwrap();
        entries.remove(3).unwrap();
        entries.put(4, b"four").unwrap();
        assert_eq!(entries.get(4).unwrap(), Some(b"four".to_vec()));
        entries.forget(4).unwrap();
        entries.forget(4).unwrap();
        assert_eq!(entries.get(4).unwrap(), None);
        assert_eq!(entries.get(7).unwrap(), Some(b"seven again".to_vec()));
        drop(entries);
        let whole = |number, content: &[u8]| Found { number, content: Some(content.to_vec()) };
        assert_eq!(open(&dir).find().unwrap(), [whole(7, b"seven again"), whole(u64::MAX, b"")]);
        let mode =
            |name: &str| fs::metadata(dir.path().join("things").join(name)).unwrap().permissions().mode();
        assert_eq!((mode("") & 0o777, mode("0000000000000007") & 0o777), (0o700, 0o600));
    }

    #[test]
    fn a_directory_that_could_not_be_made_is_made_once_it_can_be() {
        let dir = TestDir::new();
        let (entries, path) = (open(&dir), dir.path().join("things"));
        // As it is where there was no room at the start.
        fs::remove_dir(&path).unwrap();
        assert_eq!(entries.find().unwrap(), []);
        entries.remove(1).unwrap();
        entries.put(1, b"one").unwrap();
        assert_eq!(entries.find().unwrap(), [Found { number: 1, content: Some(b"one".to_vec()) }]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        // Others could have what is written there.
        fs::remove_dir_all(&path).unwrap();
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        assert!(entries.put(1, b"one").is_err());
        assert!(!dir.path().join("nowhere").exists());
    }

    #[test]
    fn what_others_may_have_put_there_is_not_believed() {
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
    fn what_is_not_whole_says_nothing() {
        let dir = TestDir::new();
        let entries = open(&dir);
        entries.put(1, b"one").unwrap();
        let path = entries.path(1);
        let whole = fs::read(&path).unwrap();
        let nothing = [Found { number: 1, content: None }];
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            assert_eq!(entries.find().unwrap(), nothing, "{cut}");
        }
        for byte in 0..whole.len() {
            let mut torn = whole.clone();
            torn[byte] ^= 0x20;
            fs::write(&path, &torn).unwrap();
            assert_eq!(entries.find().unwrap(), nothing, "{byte}");
        }
        fs::write(path.with_extension(DRAFT), &whole).unwrap();
        fs::write(entries.dir.join("README"), "mine").unwrap();
        assert_eq!(entries.find().unwrap(), nothing);
        assert!(!path.with_extension(DRAFT).exists() && entries.dir.join("README").exists());
    }

    #[test]
    fn what_cannot_be_written_leaves_what_was_there() {
        let dir = TestDir::new();
        let entries = open(&dir);
        entries.put(1, b"one").unwrap();
        // A directory where the draft would be.
        fs::create_dir(entries.path(1).with_extension(DRAFT)).unwrap();
        assert!(entries.put(1, b"another").is_err());
        assert_eq!(entries.find().unwrap(), [Found { number: 1, content: Some(b"one".to_vec()) }]);
    }
}

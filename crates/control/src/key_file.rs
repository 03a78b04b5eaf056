//! Files that hold a secret key and nothing else.

use crate::store::StoreError;
use stable::{Replica, files};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file with a key of `N` random bytes, readable by its owner alone.
pub struct KeyFile<const N: usize> {
    path: PathBuf,
    /// The consequences of an exposed key, and the remedy.
    stakes: &'static str,
    replica: Option<Arc<dyn Replica>>,
}

impl<const N: usize> KeyFile<N> {
    /// `stakes` ends the error for a file that others may read: `the key can …`.
    pub fn new(path: impl Into<PathBuf>, stakes: &'static str) -> Self {
        Self { path: path.into(), stakes, replica: None }
    }

    /// Stores a new key in the replica too.
    pub fn with_replica(self, replica: Option<&Arc<dyn Replica>>) -> Self {
        Self { replica: replica.cloned(), ..self }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn read(&self) -> Result<Option<[u8; N]>, StoreError> {
        let mut file = match files::open_secret(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                let (path, why) = (self.path.clone(), error.to_string());
                return Err(StoreError::KeyExposed { path, why, stakes: self.stakes });
            }
            opened => opened.map_err(|error| self.failed(error))?,
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| self.failed(error))?;
        let found = bytes.len();
        let wrong = |_| StoreError::KeyLength { path: self.path.clone(), found, wanted: N };
        bytes.try_into().map(Some).map_err(wrong)
    }

    /// Reads the key; creates it first if there is none.
    pub fn read_or_make(&self, random: impl FnOnce(&mut [u8])) -> Result<[u8; N], StoreError> {
        if let Some(key) = self.read()? {
            return Ok(key);
        }
        let mut key = [0; N];
        random(&mut key);
        match self.place(&key) {
            // Another process was faster.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.read()?.ok_or_else(|| self.failed(error))
            }
            placed => placed.map(|()| key).map_err(|error| self.failed(error)),
        }
    }

    /// Writes the key under another name and links it into place: a crash leaves no key or a whole one.
    fn place(&self, key: &[u8]) -> std::io::Result<()> {
        let draft = self.path.with_extension(format!("new-{}", std::process::id()));
        // Without the replica the key would be in use and lost with this machine.
        if let (Some(replica), Some(name)) = (&self.replica, self.path.file_name()) {
            stable::store_whole(&**replica, &name.to_string_lossy(), key)?;
        }
        // A crashed process with the same id can have left a draft.
        _ = fs::remove_file(&draft);
        let mut file = files::create_new(&draft, files::PRIVATE)?;
        let placed = file
            .write_all(key)
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::hard_link(&draft, &self.path));
        fs::remove_file(&draft)?;
        placed?;
        self.path.parent().map_or(Ok(()), files::sync_dir)
    }

    fn failed(&self, error: std::io::Error) -> StoreError {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::Full(self.path.clone()),
            _ => StoreError::File(self.path.clone(), error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn a_key_is_made_once_and_kept_private() {
        let dir = tempfile::tempdir().unwrap();
        let key = KeyFile::<16>::new(dir.path().join("handle.key"), "the key can forge handles");
        assert_eq!(key.read().unwrap(), None);
        assert_eq!(key.read_or_make(|bytes| bytes.fill(7)).unwrap(), [7; 16]);
        assert_eq!(fs::metadata(key.path()).unwrap().mode() & 0o777, 0o600);
        assert_eq!(key.read_or_make(|bytes| bytes.fill(8)).unwrap(), [7; 16]);
        assert_eq!(key.read().unwrap(), Some([7; 16]));
        for mode in [0o640, 0o604, 0o620] {
            fs::set_permissions(key.path(), fs::Permissions::from_mode(mode)).unwrap();
            let error = key.read_or_make(|_| ()).unwrap_err().to_string();
            assert!(error.contains(&format!("mode {mode:03o}")) && error.contains("forge"), "{error}");
        }
        fs::remove_file(key.path()).unwrap();
        fs::write(key.path(), b"short").unwrap();
        fs::set_permissions(key.path(), fs::Permissions::from_mode(0o600)).unwrap();
        assert!(key.read().unwrap_err().to_string().contains("5 bytes instead of 16"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no drafts are left");
    }

    #[test]
    fn new_key_is_in_the_replica_before_it_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let replica = Arc::new(stable::MemoryReplica::default());
        let used: Arc<dyn Replica> = Arc::clone(&replica) as _;
        let key = || KeyFile::<16>::new(dir.path().join("handle.key"), "").with_replica(Some(&used));
        replica.fail_at(1, stable::Failure::Lost);
        assert!(key().read_or_make(|bytes| bytes.fill(7)).is_err() && key().read().unwrap().is_none());
        replica.set_pairs(Default::default());
        key().read_or_make(|bytes| bytes.fill(7)).unwrap();
        key().read_or_make(|bytes| bytes.fill(8)).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        stable::restore(elsewhere.path(), &replica.pairs()).unwrap();
        let moved = KeyFile::<16>::new(elsewhere.path().join("handle.key"), "");
        assert_eq!((moved.read().unwrap(), replica.steps()), (Some([7; 16]), 1));
    }

    #[test]
    fn a_draft_that_a_crash_left_is_in_nobody_s_way() {
        let dir = tempfile::tempdir().unwrap();
        let key = KeyFile::<16>::new(dir.path().join("a.key"), "");
        fs::write(dir.path().join(format!("a.new-{}", std::process::id())), b"half").unwrap();
        assert_eq!(key.read_or_make(|bytes| bytes.fill(7)).unwrap(), [7; 16]);
    }
}

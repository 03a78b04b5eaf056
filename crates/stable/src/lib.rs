//! State that a service keeps over its restarts.
//!
//! [`StableDir`] is the state directory. [`RecordLog`] is a file of records of one size in it. [`Entries`] is a
//! directory with a file for each entry. [`files`] creates all files of the process except those of volumes.
#![forbid(unsafe_code)]

mod check;
mod entries;
pub mod files;
mod log;
#[cfg(any(test, feature = "testing"))]
mod testing;

pub use check::{checksum, seal};
pub use entries::{Entries, StoredEntry};
pub use log::{Contents, RecordLog, parse, read};
#[cfg(any(test, feature = "testing"))]
pub use testing::TestDir;

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The state directory, locked: each process needs its own.
#[derive(Debug)]
pub struct StableDir {
    path: PathBuf,
    _locked: File,
}

impl StableDir {
    /// Locks a directory. [`ErrorKind::WouldBlock`] if another process has locked it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let locked = File::open(path)?;
        locked.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => ErrorKind::WouldBlock.into(),
            TryLockError::Error(error) => error,
        })?;
        Ok(Self { path: path.to_owned(), _locked: locked })
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// Whether a write fails for a cause that freeing space ends. A service starts in spite of such an error.
pub fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_locked_by_one_process() {
        let dir = TestDir::new();
        let first = dir.open();
        assert_eq!(StableDir::open(dir.path()).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(first);
        assert!(StableDir::open(dir.path()).is_ok());
    }
}

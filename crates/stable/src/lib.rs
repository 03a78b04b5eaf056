//! What a service keeps over its restarts: [`StableDir`], the directory it is in; [`RecordLog`], a file of records of one size there;
//! and [`Entries`], a directory with a file for each thing that is kept. [`files`] makes all files of the process but those of volumes.
#![forbid(unsafe_code)]

mod check;
mod entries;
pub mod files;
mod log;
#[cfg(any(test, feature = "testing"))]
mod testing;

pub use check::{check, seal};
pub use entries::{Entries, Found};
pub use log::{Contents, RecordLog, parse, read};
#[cfg(any(test, feature = "testing"))]
pub use testing::TestDir;

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The directory of the files that are kept, locked: another process keeps its own elsewhere.
#[derive(Debug)]
pub struct StableDir {
    path: PathBuf,
    _locked: File,
}

impl StableDir {
    /// Locks a directory. [`ErrorKind::WouldBlock`] if another process has it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let locked = File::open(path)?;
        locked.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => ErrorKind::WouldBlock.into(),
            TryLockError::Error(error) => error,
        })?;
        Ok(Self { path: path.to_owned(), _locked: locked })
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// Whether something cannot be written now that can be once somebody makes room: a service comes up all the same.
pub fn is_for_now(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_has_a_directory() {
        let dir = TestDir::new();
        let first = dir.open();
        assert_eq!(StableDir::open(dir.path()).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(first);
        assert!(StableDir::open(dir.path()).is_ok());
    }
}

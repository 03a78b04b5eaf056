//! State that a service keeps over its restarts.
//!
//! [`StableDir`] is the state directory. [`RecordLog`] is a file of records of one size in it. [`Entries`] is a
//! directory with a file for each entry. [`files`] creates all files of the process except those of volumes. With a
//! [`Replica`] the directory is only a copy, and its state can move to another machine.
#![forbid(unsafe_code)]

mod check;
mod entries;
pub mod files;
mod log;
mod replica;
#[cfg(any(test, feature = "testing"))]
mod testing;

pub use check::{checksum, seal};
pub use entries::{Entries, StoredEntry};
pub use log::{Contents, RecordLog, parse, read};
pub use replica::{Replica, ReplicaBatch, ReplicaChange, ReplicaPairs, restore, store_whole};
#[cfg(any(test, feature = "testing"))]
pub use testing::{Failure, MemoryReplica, TestDir};

use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The state directory, locked: each process needs its own.
pub struct StableDir {
    path: PathBuf,
    /// The durable state, if the directory is a copy of it.
    replica: Option<Arc<dyn Replica>>,
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
        Ok(Self { path: path.to_owned(), replica: None, _locked: locked })
    }

    /// Makes the directory the copy of a replica, which [`restore`] has filled it from: a change is durable once the
    /// replica has it.
    pub fn with_replica(self, replica: Arc<dyn Replica>) -> Self {
        Self { replica: Some(replica), ..self }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn replica(&self) -> Option<&dyn Replica> {
        self.replica.as_deref()
    }

    /// Replaces a file under the rules of [`files::replace`]: durably, unless it is a copy.
    fn replace(&self, path: &Path, draft: &Path, content: &[&[u8]]) -> io::Result<()> {
        let replace = if self.replica.is_some() { files::replace_copy } else { files::replace };
        replace(path, draft, files::PRIVATE, content)
    }
}

impl fmt::Debug for StableDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StableDir").field("path", &self.path).finish_non_exhaustive()
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

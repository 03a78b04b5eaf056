//! Why the store fails.

use std::fmt;
use std::path::PathBuf;

/// Why the store could not be opened, read or written.
#[derive(Debug)]
pub enum StoreError {
    /// Another process serves from this data directory.
    Held(PathBuf),
    /// The file belongs to another program.
    Foreign(PathBuf),
    /// A later version wrote the file.
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of its tables.
        found: i64,
        /// The latest version known here.
        known: usize,
    },
    /// Others may read it.
    Exposed {
        /// The file.
        path: PathBuf,
        /// The reason, and how to mend it.
        why: String,
    },
    /// The disk is full.
    Full(PathBuf),
    /// Others may read a key.
    KeyExposed {
        /// The file.
        path: PathBuf,
        /// The reason, and how to mend it.
        why: String,
        /// The consequences, and the remedy.
        stakes: &'static str,
    },
    /// A key has another length.
    KeyLength {
        /// The file.
        path: PathBuf,
        found: usize,
        /// Bytes of a key.
        wanted: usize,
    },
    /// The cipher failed, which nothing explains.
    Cipher,
    /// The file cannot be created or examined.
    File(PathBuf, std::io::Error),
    /// SQLite says no.
    Sqlite(rusqlite::Error),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held(path) => {
                write!(f, "{} is in use: another plimsoll serves from this data directory", path.display())
            }
            Self::Foreign(path) => write!(f, "{} is no store of plimsoll's", path.display()),
            Self::Newer { path, found, known } => write!(
                f,
                "{} was written by a later plimsoll (tables of version {found}, this one knows {known}): use that one",
                path.display()
            ),
            Self::Exposed { path, why } => {
                write!(f, "cannot trust {}, which says who may mount what: {why}", path.display())
            }
            Self::Full(path) => write!(
                f,
                "the disk of {} is full: what is served goes on, but nothing can be made or changed. To make room, delete \
                 files on its volumes or elsewhere on the disk, or enlarge the disk; then ask again",
                path.parent().unwrap_or(path).display()
            ),
            Self::KeyExposed { path, why, stakes } => {
                write!(f, "cannot trust {}: {why}; {stakes}", path.display())
            }
            Self::KeyLength { path, found, wanted } => {
                write!(f, "the key {} has {found} bytes instead of {wanted}", path.display())
            }
            Self::Cipher => f.write_str("a password could not be sealed"),
            Self::File(path, error) => write!(f, "the store's file {}: {error}", path.display()),
            Self::Sqlite(error) => write!(f, "the store failed: {error}"),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

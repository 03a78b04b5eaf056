//! Errors of the store.

use std::fmt;
use std::path::PathBuf;

#[derive(Debug)]
pub enum StoreError {
    /// Another process serves from this data directory.
    Held(PathBuf),
    /// The file belongs to another program.
    Foreign(PathBuf),
    /// A later version wrote the file.
    Newer {
        path: PathBuf,
        found: i64,
        /// The latest version that this program knows.
        known: usize,
    },
    /// Other users may read the store.
    Exposed {
        path: PathBuf,
        /// The reason and the remedy.
        why: String,
    },
    Full(PathBuf),
    /// Other users may read the key.
    KeyExposed {
        path: PathBuf,
        /// The reason and the remedy.
        why: String,
        /// The consequences and the remedy.
        stakes: &'static str,
    },
    /// The key has another length.
    KeyLength {
        path: PathBuf,
        found: usize,
        /// The length of a valid key in bytes.
        wanted: usize,
    },
    /// The cipher failed and gives no reason.
    Cipher,
    /// The file cannot be created or examined.
    File(PathBuf, std::io::Error),
    Sqlite(rusqlite::Error),
    /// The replica has failed, or the file cannot be read.
    Log(std::io::Error),
    /// The outcome of an earlier change is unknown.
    Uncertain,
    /// The value of this key in the replica is damaged or missing.
    LogDamaged(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held(path) => {
                write!(f, "{} is in use: another plimsoll serves from this data directory", path.display())
            }
            Self::Foreign(path) => write!(f, "{} is not a plimsoll store", path.display()),
            Self::Newer { path, found, known } => write!(
                f,
                "a later plimsoll wrote {} (tables of version {found}; this plimsoll supports {known}): use \
                 the later one",
                path.display()
            ),
            Self::Exposed { path, why } => {
                write!(f, "cannot trust {}, which contains the export rules: {why}", path.display())
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
            Self::Cipher => f.write_str("cannot seal a password"),
            Self::File(path, error) => write!(f, "the store's file {}: {error}", path.display()),
            Self::Sqlite(error) => write!(f, "the store failed: {error}"),
            Self::Log(error) => write!(f, "cannot log the change: {error}"),
            Self::Uncertain => {
                f.write_str("the outcome of an earlier change is unknown: the service has to start again")
            }
            Self::LogDamaged(key) => {
                write!(f, "the store is damaged outside this machine, at the key {key:?}")
            }
        }
    }
}

impl std::error::Error for StoreError {}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

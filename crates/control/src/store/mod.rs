//! The store: one SQLite file (`docs/formats/store.md`), open in one process, changed in transactions.
//!
//! Each submodule is one table. Its functions take a connection, so that they run inside or outside a transaction.

pub(crate) mod account;
pub(crate) mod backup;
pub(crate) mod endpoint;
mod error;
pub(crate) mod group;
pub(crate) mod image;
pub(crate) mod label;
pub(crate) mod lock_clock;
mod log;
pub(crate) mod operation;
pub(crate) mod peer;
pub(crate) mod policy;
pub(crate) mod pool;
pub(crate) mod replication;
pub(crate) mod restored_file;
pub(crate) mod rule;
pub(crate) mod snapshot;
pub(crate) mod token;
pub(crate) mod user;
pub(crate) mod vault;
pub(crate) mod volume;

pub use error::StoreError;
pub use log::StoreLog;

use crate::error::Result;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use stable::{Replica, files};
use std::fmt;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub const STORE_FILE: &str = "plimsoll.db";

/// The mark of a store (`PRAGMA application_id`): "Plim".
const APPLICATION_ID: i32 = 0x506c_696d;
/// The steps from an empty file to today's tables. A released step never changes.
pub(crate) const MIGRATIONS: &[&str] = &[
    include_str!("0001_served.sql"),
    include_str!("0002_tokens.sql"),
    include_str!("0003_endpoints.sql"),
    include_str!("0004_xprtsec.sql"),
    include_str!("0005_users.sql"),
    include_str!("0006_smb.sql"),
    include_str!("0007_security_style.sql"),
    include_str!("0008_share_modes.sql"),
    include_str!("0009_snapshots.sql"),
    include_str!("0010_policies.sql"),
    include_str!("0011_clones.sql"),
    include_str!("0012_backups.sql"),
    include_str!("0013_replication.sql"),
    include_str!("0014_snap_reserve.sql"),
    include_str!("0015_backup_changes.sql"),
];

/// The version of the tables. An earlier program cannot open a store with a later one.
pub const STORE_VERSION: usize = MIGRATIONS.len();

/// Called just before and after each commit: tests end the process there.
#[cfg(test)]
pub(crate) type Hook = Box<dyn Fn() + Send>;
/// Called with the file after each commit: tests compare it with the log there.
#[cfg(test)]
pub(crate) type Check = Box<dyn Fn(&mut Connection) + Send>;

pub(crate) struct Store {
    path: PathBuf,
    connection: Connection,
    /// The durable state, if the file is a copy of it.
    log: Option<StoreLog>,
    /// Whether the disk was too full to open the file for writing.
    is_read_only: bool,
    #[cfg(test)]
    hook: Hook,
    #[cfg(test)]
    check: Check,
}

/// An open transaction, which is rolled back unless it is committed.
struct Begun<'a>(&'a mut Connection);

impl Store {
    /// Opens the store in `dir`; creates it if absent, and upgrades an older one. With a log, the file is a copy that
    /// [`StoreLog::restore`] has written.
    pub(crate) fn open(dir: &Path, mut log: Option<StoreLog>) -> Result<Self> {
        let path = dir.join(STORE_FILE);
        make(&path).map_err(|error| StoreError::File(path.clone(), error))?;
        if let Err(error) = files::check_secret(&path) {
            return Err(match error.kind() {
                ErrorKind::InvalidData => StoreError::Exposed { path, why: error.to_string() },
                _ => StoreError::File(path, error),
            }
            .into());
        }
        let (connection, is_read_only) = match connect(&path, log.as_mut()) {
            Err(crate::Error::Store(StoreError::Full(_))) if log.is_none() => {
                (connect_read_only(&path)?, true)
            }
            connection => (connection?, false),
        };
        Ok(Self {
            path,
            connection,
            log,
            is_read_only,
            #[cfg(test)]
            hook: Box::new(|| ()),
            #[cfg(test)]
            check: Box::new(|_| ()),
        })
    }

    pub(crate) fn replica(&self) -> Option<&Arc<dyn Replica>> {
        self.log.as_ref().map(StoreLog::replica)
    }

    pub(crate) fn read(&self) -> &Connection {
        &self.connection
    }

    /// Runs one change: it is durable on `Ok`, and has no effect on an error.
    pub(crate) fn change<T>(&mut self, change: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        if self.is_read_only {
            self.connection = connect(&self.path, None)?;
            self.is_read_only = false;
        }
        let done = self.transact(change);
        done.map_err(|error| at(&self.path, error))
    }

    fn transact<T>(&mut self, change: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let begun = Begun(&mut self.connection);
        let value = change(begun.0)?;
        #[cfg(test)]
        (self.hook)();
        if let Some(log) = &mut self.log {
            log.append(begun.0)?;
        }
        begun.0.execute_batch("COMMIT")?;
        drop(begun);
        if let Some(log) = &mut self.log {
            log.committed();
        }
        #[cfg(test)]
        {
            (self.check)(&mut self.connection);
            (self.hook)();
        }
        Ok(value)
    }

    #[cfg(test)]
    pub(crate) fn set_hook(&mut self, hook: Hook) {
        self.hook = hook;
    }

    #[cfg(test)]
    pub(crate) fn set_check(&mut self, check: Check) {
        self.check = check;
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if !self.0.is_autocommit() {
            // SQLite itself rolls back after a grave error.
            _ = self.0.execute_batch("ROLLBACK");
        }
    }
}

/// Creates an empty file for its owner alone. Never open the file here once SQLite has locked it:
/// closing a file releases all locks that the process has on it (`fcntl(2)`).
fn make(path: &Path) -> std::io::Result<()> {
    match files::create_new(path, files::PRIVATE) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
        Ok(file) => {
            file.sync_all()?;
            path.parent().map_or(Ok(()), files::sync_dir)
        }
    }
}

/// Opens the file for writing and upgrades it. Writes nothing if the file is up to date.
fn connect(path: &Path, log: Option<&mut StoreLog>) -> Result<Connection> {
    let connect = || -> Result<Connection> {
        let mut connection = Connection::open(path)?;
        configure(&connection)?;
        if log.is_some() {
            // The file is a copy, which does not outlive the process.
            connection.pragma_update(None, "synchronous", "OFF")?;
        }
        migrate(&mut connection, path)?;
        if let Some(log) = log {
            log.start(&mut connection)?;
        }
        Ok(connection)
    };
    connect().map_err(|error| at(path, error))
}

/// Opens an up-to-date file for reading, without SQLite's extra files.
/// This process is the only one with the data directory.
fn connect_read_only(path: &Path) -> Result<Connection> {
    let full = || StoreError::Full(path.to_owned());
    let mut url = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                url.push(char::from(*byte))
            }
            _ => url += &format!("%{byte:02x}"),
        }
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(url + "?immutable=1", flags)?;
    let version = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let is_ours = version("application_id")? == i64::from(APPLICATION_ID);
    // SQLite's last writes may be in the WAL file, which SQLite must be able to write.
    let has_more = fs::metadata(wal_path(path)).is_ok_and(|wal| wal.len() > 0);
    if is_ours && !has_more && usize::try_from(version("user_version")?) == Ok(MIGRATIONS.len()) {
        Ok(connection)
    } else {
        Err(full().into())
    }
}

fn wal_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Exclusive locking comes first: it lasts from the first access to the end of the process.
fn configure(connection: &Connection) -> Result<()> {
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(())
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    let pragma = |name: &str| transaction.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, found) = (pragma("application_id")?, pragma("user_version")?);
    let is_empty = pragma("schema_version")? == 0;
    if !is_empty && application != i64::from(APPLICATION_ID) {
        return Err(StoreError::Foreign(path.to_owned()).into());
    }
    let known = MIGRATIONS.len();
    let done = usize::try_from(found).ok().filter(|&done| done <= known);
    let done = done.ok_or_else(|| StoreError::Newer { path: path.to_owned(), found, known })?;
    if done == known && application == i64::from(APPLICATION_ID) {
        return Ok(());
    }
    for step in &MIGRATIONS[done..] {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", known)?;
    transaction.commit()?;
    Ok(())
}

/// Whether a full disk prevents a new file beside the store.
fn is_full(path: &Path) -> bool {
    let draft = path.with_extension(format!("new-{}", std::process::id()));
    let made = files::create_new(&draft, files::PRIVATE);
    let written = made.and_then(|mut file| file.write_all(&[0; 4096]));
    _ = fs::remove_file(&draft);
    matches!(written, Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
}

/// While opening, a lock means another process, and "no database" means another program's file.
fn at(path: &Path, error: crate::Error) -> crate::Error {
    match error {
        crate::Error::Store(StoreError::Sqlite(error)) => match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Held(path.to_owned()),
            Some(ErrorCode::NotADatabase) => StoreError::Foreign(path.to_owned()),
            Some(ErrorCode::DiskFull) => StoreError::Full(path.to_owned()),
            // SQLite's error when it cannot create a file beside the store.
            Some(ErrorCode::CannotOpen | ErrorCode::SystemIoFailure) if is_full(path) => {
                StoreError::Full(path.to_owned())
            }
            _ => StoreError::Sqlite(error),
        }
        .into(),
        other => other,
    }
}

/// A value that this version does not know, though it wrote the tables: the file is damaged.
pub(crate) fn unreadable(column: &'static str, text: impl fmt::Display) -> rusqlite::Error {
    let error = format!("unknown value {text} in the column {column}");
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into())
}

/// Encodes settings of a level as JSON for their column.
pub(crate) fn to_text(settings: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(settings).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// The inverse of [`to_text`].
pub(crate) fn from_text<T: serde::de::DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}

/// Parses the word in `column`.
pub(crate) fn word<T>(
    row: &rusqlite::Row<'_>,
    column: &'static str,
    meaning: impl Fn(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    meaning(&text).ok_or_else(|| unreadable(column, text))
}

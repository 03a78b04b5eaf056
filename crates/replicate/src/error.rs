//! Errors of backups and restores.

use crate::format::names::BackupId;
use std::fmt;
use std::io;
use vfs::{FsError, Time};

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug)]
pub enum Error {
    /// The vault's store failed.
    Store(String, io::Error),
    /// A file of the source or the target failed.
    File(String, FsError),
    /// The scratch directory failed.
    Scratch(io::Error),
    /// An object of the vault is damaged.
    Damaged(String, &'static str),
    NoVault,
    VaultExists,
    /// The vault has a format of another version.
    Version(u8),
    KeyMissing,
    KeyWrong,
    KeyUnneeded,
    /// Another service writes the vault: its name.
    OtherOwner(String),
    /// The vault has no such backup.
    NotFound(BackupId),
    /// The backup was given up, so it can no longer be completed.
    Abandoned(BackupId),
    /// An unfinished backup of this number was begun from another snapshot, or on another backup.
    OtherSource(BackupId),
    /// The previous backup is one of another volume: its name.
    OtherVolume(BackupId, String),
    /// The backup cannot be deleted before this time.
    Locked(BackupId, Time),
    /// Another process sweeps the vault, until this time at the latest.
    Leased(Time),
    /// The caller ended the work. A later call goes on.
    Stopped,
    /// The target of a whole restore has files.
    TargetNotEmpty,
    /// The backup has no such path.
    NoPath(String),
    /// The connection of a replication failed.
    Link(io::Error),
    /// The other side of a replication sent something that no service sends.
    Peer(&'static str),
    /// The other side of a replication has nothing for this one: the reason.
    Refused(String),
    /// The two sides of a replication have no point in common, so that everything has to be sent again: the reason.
    NoCommonPoint(String),
    /// The destination has to go back to this point first; `None`: it has to be empty.
    GoBack(Option<u64>),
    /// The directory for the state of a replication is damaged.
    WorkDir(&'static str),
    /// The files of a destination are not what the replication has made of them.
    Diverged(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(object, error) => write!(f, "the vault's store failed at {object}: {error}"),
            Self::File(what, error) => write!(f, "{what}: {error}"),
            Self::Scratch(error) => write!(f, "the directory for temporary files failed: {error}"),
            Self::Damaged(object, why) => write!(f, "the vault's object {object} is damaged: {why}"),
            Self::NoVault => f.write_str("there is no vault here: create one first"),
            Self::VaultExists => f.write_str("there is already a vault here"),
            Self::Version(found) => {
                write!(f, "the vault has format {found}; this version reads format {}", crate::format::VERSION)
            }
            Self::KeyMissing => f.write_str(
                "the vault is encrypted: give the key that it was created with. If that key is lost, so are its backups",
            ),
            Self::KeyWrong => f.write_str(
                "this is not the key that the vault was created with. If that key is lost, so are its backups",
            ),
            Self::KeyUnneeded => f.write_str("the vault is not encrypted: leave the key out"),
            Self::OtherOwner(name) => write!(
                f,
                "the vault belongs to the service {name:?}: only one service may write it. Take it over if that service is gone"
            ),
            Self::NotFound(id) => write!(f, "the vault has no backup {id}"),
            Self::Abandoned(id) => write!(f, "backup {id} was abandoned: begin a new one"),
            Self::OtherSource(id) => {
                write!(f, "backup {id} was begun from another snapshot: go on from that one, or abandon it")
            }
            Self::OtherVolume(id, volume) => write!(
                f,
                "the previous backup {id} is one of volume {volume:?}: give the last one of this volume, or none"
            ),
            Self::Locked(id, until) => {
                write!(f, "backup {id} is locked until {} seconds after 1970", until.seconds)
            }
            Self::Leased(until) => write!(
                f,
                "another process removes unused data from the vault; its lease ends at the latest {} seconds after 1970",
                until.seconds
            ),
            Self::Stopped => f.write_str("stopped"),
            Self::TargetNotEmpty => f.write_str("the target of a restore must be empty"),
            Self::Link(error) => write!(f, "the connection to the other side failed: {error}"),
            Self::Peer(why) => write!(f, "the other side does not follow the protocol: {why}"),
            Self::Refused(reason) => f.write_str(reason),
            Self::NoCommonPoint(reason) => write!(f, "{reason}; only a full copy is possible"),
            Self::GoBack(Some(point)) => write!(f, "the destination has to go back to point {point} first"),
            Self::GoBack(None) => f.write_str("the destination has to be empty first"),
            Self::WorkDir(why) => write!(f, "the state of the replication is damaged: {why}"),
            Self::Diverged(what) => {
                write!(f, "the destination was changed by something else than its replication: {what}")
            }
            Self::NoPath(path) => write!(f, "the backup has no file {path:?}"),
        }
    }
}

impl std::error::Error for Error {}

/// Adds the file to an error of a backend.
pub(crate) fn at<'w>(what: impl Fn() -> String + 'w) -> impl Fn(FsError) -> Error + 'w {
    move |error| Error::File(what(), error)
}

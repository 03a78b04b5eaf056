//! Errors of management: each names the fault and the allowed values.

use crate::backup_error::BackupError;
use crate::difference::Difference;
use crate::kind::{Kind, State};
use crate::replication::ReplicationError;
use crate::store::StoreError;
use envelope::Bytes;
use std::fmt;
use vfs::FsError;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug)]
pub enum Error {
    NotFound {
        kind: Kind,
        name: String,
    },
    /// An object of that name exists with other properties.
    Conflict {
        kind: Kind,
        name: String,
        /// Properties that differ from the request.
        differs: Vec<Difference>,
    },
    /// The request asks for an impossible value.
    Invalid {
        what: String,
        allowed: String,
    },
    /// The level does not permit it.
    Refused(envelope::Refusal),
    ShareInUse {
        /// The last part of the path.
        share: String,
        volume: String,
    },
    /// Another user or group has the number.
    NumberInUse {
        kind: Kind,
        /// `uid` or `gid`.
        word: &'static str,
        number: u32,
        name: String,
    },
    /// The object changed since the version that the request names.
    Version {
        kind: Kind,
        name: String,
        wanted: u64,
        found: u64,
    },
    /// Clients use the volume. May be forced.
    Busy {
        volume: String,
        clients: usize,
    },
    /// There are volumes in the pool.
    InUse {
        pool: String,
        volumes: u64,
    },
    /// There are volumes with the policy.
    PolicyInUse {
        policy: String,
        volumes: usize,
    },
    /// Another change of the object is unfinished.
    Changing {
        volume: String,
        state: State,
    },
    /// The storage of the volume can make no snapshots.
    NoSnapshots {
        volume: String,
    },
    /// The volume has snapshots. May be forced: they are deleted with it.
    HasSnapshots {
        volume: String,
        snapshots: usize,
    },
    /// A snapshot is locked.
    Locked {
        /// The name, after the volume's and a slash.
        snapshot: String,
        /// The end of the lock, in UTC.
        until: String,
    },
    /// A revert would delete a locked snapshot.
    RevertLocked {
        /// The name, after the volume's and a slash.
        snapshot: String,
        /// The end of the lock, in UTC.
        until: String,
    },
    /// A job uses a snapshot or a volume.
    UsedByJob {
        kind: Kind,
        name: String,
        operation: u64,
        /// The job's work.
        doing: &'static str,
    },
    /// Another change of the snapshot is unfinished, or has failed.
    SnapshotState {
        /// The name, after the volume's and a slash.
        snapshot: String,
        state: &'static str,
    },
    /// The operation is no job, or has ended.
    NotRunning {
        operation: u64,
    },
    /// The volume holds more than its new size. May be forced: the volume is then full and loses nothing.
    BelowUse {
        volume: String,
        /// Bytes in use.
        used: u64,
        /// Requested bytes.
        wanted: u64,
    },
    /// The volumes would exceed their pool. May be forced.
    PoolFull {
        pool: String,
        size: u64,
        /// Total bytes of the pool's volumes after the change.
        wanted: u64,
    },
    Storage {
        doing: String,
        error: FsError,
    },
    Store(StoreError),
    Backup(BackupError),
    Replication(ReplicationError),
}

impl Error {
    /// Whether the same request with [`crate::ChangeContext::force`] succeeds.
    pub fn may_be_forced(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::HasSnapshots { .. } | Self::BelowUse { .. } | Self::PoolFull { .. } => {
                true
            }
            Self::Backup(error) => error.may_be_forced(),
            Self::Replication(error) => error.may_be_forced(),
            _ => false,
        }
    }

    pub(crate) fn not_found(kind: Kind, name: impl fmt::Display) -> Self {
        Self::NotFound { kind, name: name.to_string() }
    }

    pub(crate) fn invalid(what: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self::Invalid { what: what.into(), allowed: allowed.into() }
    }

    pub(crate) fn storage(doing: impl Into<String>) -> impl FnOnce(FsError) -> Self {
        move |error| Self::Storage { doing: doing.into(), error }
    }
}

impl Error {
    /// The text of an error about snapshots.
    fn of_snapshots(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSnapshots { volume } => write!(
                f,
                "the file system of the volume {volume} has no snapshots: create the volume in a data directory on \
                 Btrfs, or on XFS with reflinks, or start the service with --snapshots copy"
            ),
            Self::HasSnapshots { volume, snapshots } => write!(
                f,
                "the volume {volume} has {snapshots} snapshot{}: delete them first, or force it (they are deleted with it)",
                if *snapshots == 1 { "" } else { "s" }
            ),
            Self::Locked { snapshot, until } => {
                write!(f, "the snapshot {snapshot} is locked until {until}: nobody can delete it before")
            }
            Self::RevertLocked { snapshot, until } => write!(
                f,
                "the revert would delete the snapshot {snapshot}, which is locked until {until}; allowed: a revert to \
                 that snapshot or to a newer one"
            ),
            Self::UsedByJob { kind, name, operation, doing } => write!(
                f,
                "the {kind} {name} is in use: the operation {operation} {doing}; wait for it (\"plimsoll operation wait \
                 {operation}\"), or cancel it (\"plimsoll operation cancel {operation}\")"
            ),
            Self::SnapshotState { snapshot, state } => write!(
                f,
                "the snapshot {snapshot} is in the state {state}; allowed: ready (\"plimsoll operation list\" shows its \
                 last change)"
            ),
            Self::PolicyInUse { policy, volumes } => write!(
                f,
                "the policy {policy} is that of {volumes} volume{}: give them another one or none first",
                if *volumes == 1 { "" } else { "s" }
            ),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { kind, name } => write!(f, "there is no {kind} {name}"),
            Self::Conflict { kind: Kind::Token, name, .. } => {
                write!(f, "token {name} exists; revoke it first or choose another name")
            }
            Self::Conflict { kind, name, differs } => write!(
                f,
                "the {kind} {name} exists with other properties, {}: change it, or choose another name",
                differs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            ),
            Self::Invalid { what, allowed } => write!(f, "{what}; allowed: {allowed}"),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::ShareInUse { share, volume } => {
                write!(f, "the path /{share} is that of the volume {volume}: choose another share name")
            }
            Self::NumberInUse { kind, word, number, name } => {
                write!(f, "the {word} {number} is that of the {kind} {name}: choose another one")
            }
            Self::Version { kind, name, wanted, found } => write!(
                f,
                "the {kind} {name} is at version {found}, not {wanted}: another request changed it; read it again"
            ),
            Self::Busy { volume, clients } => {
                write!(
                    f,
                    "the volume {volume} is in use by {clients} client{}: unmount it there first, or force it",
                    if *clients == 1 { "" } else { "s" }
                )
            }
            Self::InUse { pool, volumes } => {
                write!(
                    f,
                    "the pool {pool} still has volumes ({volumes}): delete them or move them to another pool first"
                )
            }
            Self::Changing { volume, state } => {
                write!(f, "the volume {volume} is {state}: retry when the operation ends")
            }
            Self::NoSnapshots { .. }
            | Self::HasSnapshots { .. }
            | Self::Locked { .. }
            | Self::RevertLocked { .. }
            | Self::UsedByJob { .. }
            | Self::SnapshotState { .. }
            | Self::PolicyInUse { .. } => self.of_snapshots(f),
            Self::NotRunning { operation } => write!(
                f,
                "the operation {operation} cannot be cancelled; allowed: an unfinished job, as \"plimsoll operation \
                 list\" shows it"
            ),
            Self::BelowUse { volume, used, wanted } => write!(
                f,
                "the volume {volume} contains {}, more than {}: delete files, or force it (the volume is then full)",
                Bytes(*used).for_people(),
                Bytes(*wanted).for_people()
            ),
            Self::PoolFull { pool, size: all, wanted } => write!(
                f,
                "the volumes of the pool {pool} would have {} together, but it has {}: enlarge it first, or force it",
                Bytes(*wanted).for_people(),
                Bytes(*all).for_people()
            ),
            Self::Storage { doing, error } => write!(f, "the storage failed to {doing}: {error}"),
            Self::Store(error) => error.fmt(f),
            Self::Backup(error) => error.fmt(f),
            Self::Replication(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<envelope::Refusal> for Error {
    fn from(refusal: envelope::Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<BackupError> for Error {
    fn from(error: BackupError) -> Self {
        Self::Backup(error)
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

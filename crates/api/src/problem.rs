//! From errors of management to problems.

use axum::http::StatusCode;
use control::{BackupError, Error, ReplicationError, StoreError};
use http_server::Problem;
use vfs::FsError;

/// The result of an operation.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// The problem for which an operation failed. It is of this crate so that errors of `control` turn into it.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) Problem);

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(problem_of(error))
    }
}

/// Returns an error of management as a problem: the one place that chooses its status.
pub(crate) fn problem_of(error: Error) -> Problem {
    let (status, word, title) = match &error {
        Error::NotFound { .. } => (StatusCode::NOT_FOUND, "not-found", "Not found"),
        Error::Conflict { .. } => (StatusCode::CONFLICT, "conflict", "The name is in use"),
        Error::Invalid { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "invalid", "Invalid value"),
        Error::Refused(_) => {
            (StatusCode::UNPROCESSABLE_ENTITY, "refused", "The service level does not allow it")
        }
        Error::ShareInUse { .. } => (StatusCode::CONFLICT, "taken", "Another volume uses the path"),
        Error::NumberInUse { .. } => (StatusCode::CONFLICT, "number-taken", "The number is in use"),
        Error::Version { .. } => return Problem::stale(error.to_string()),
        Error::Busy { .. } => (StatusCode::CONFLICT, "busy", "Clients use the volume"),
        Error::InUse { .. } => (StatusCode::CONFLICT, "in-use", "The pool contains volumes"),
        Error::PolicyInUse { .. } => (StatusCode::CONFLICT, "policy-in-use", "Volumes have the policy"),
        Error::Changing { .. } => (StatusCode::CONFLICT, "changing", "Another change is not finished"),
        Error::NoSnapshots { .. } => {
            (StatusCode::UNPROCESSABLE_ENTITY, "no-snapshots", "The storage has no snapshots")
        }
        Error::HasSnapshots { .. } => (StatusCode::CONFLICT, "has-snapshots", "The volume has snapshots"),
        Error::Locked { .. } => (StatusCode::CONFLICT, "locked", "The snapshot is locked"),
        Error::RevertLocked { .. } => (StatusCode::CONFLICT, "locked", "A newer snapshot is locked"),
        Error::UsedByJob { .. } => (StatusCode::CONFLICT, "used-by-operation", "An operation uses it"),
        Error::SnapshotState { .. } => (StatusCode::CONFLICT, "snapshot-state", "The snapshot is not ready"),
        Error::NotRunning { .. } => {
            (StatusCode::CONFLICT, "not-running", "The operation cannot be cancelled")
        }
        Error::Backup(error) => backup_problem(error),
        Error::Replication(error) => {
            (StatusCode::CONFLICT, replication_word(error), "The replication does not allow it")
        }
        Error::BelowUse { .. } => (StatusCode::CONFLICT, "below-use", "The volume contains more data"),
        Error::PoolFull { .. } => (StatusCode::CONFLICT, "pool-full", "Not enough space in the pool"),
        Error::Store(StoreError::Full(_)) | Error::Storage { error: FsError::NoSpace, .. } => {
            (StatusCode::INSUFFICIENT_STORAGE, "disk-full", "The disk is full")
        }
        Error::Storage { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "storage", "The storage failed"),
        Error::Store(_) => (StatusCode::INTERNAL_SERVER_ERROR, "store", "The store failed"),
    };
    let mut problem = Problem::new(status, word, title, error.to_string());
    problem.forceable = error.may_be_forced();
    if let Error::Conflict { differs, .. } = error {
        problem.differs = differs.iter().map(|differs| name_in_body(differs.property)).collect();
    }
    problem
}

fn backup_problem(error: &BackupError) -> (StatusCode, &'static str, &'static str) {
    match error {
        BackupError::Vault { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "vault", "The vault failed"),
        BackupError::SnapshotPinned { .. } => {
            (StatusCode::CONFLICT, "snapshot-pinned", "A backup uses the snapshot")
        }
        BackupError::VaultInUse { .. } => (StatusCode::CONFLICT, "vault-in-use", "The vault has backups"),
        BackupError::VaultOfPolicy { .. } => {
            (StatusCode::CONFLICT, "vault-of-policy", "A policy has the vault")
        }
        BackupError::OtherVaultOwner { .. } => {
            (StatusCode::CONFLICT, "other-vault-owner", "Another service writes the vault")
        }
        BackupError::Busy { .. } => (StatusCode::CONFLICT, "backup-busy", "An operation uses the backup"),
        BackupError::State { .. } => (StatusCode::CONFLICT, "backup-state", "The backup is not ready"),
        BackupError::Locked { .. } => (StatusCode::CONFLICT, "backup-locked", "The backup is locked"),
        BackupError::Last { .. } => (StatusCode::CONFLICT, "last-backup", "The volume has no newer backup"),
    }
}

fn replication_word(error: &ReplicationError) -> &'static str {
    match error {
        ReplicationError::Pinned { .. } => "pinned",
        ReplicationError::Member { .. } => "replicated",
        ReplicationError::Transferring { .. } => "transferring",
        ReplicationError::State { .. } => "replication-state",
        ReplicationError::WouldLose { .. } => "would-lose",
        ReplicationError::FullCopy { .. } => "full-copy",
        ReplicationError::Failed { .. } => "replication-failed",
        ReplicationError::NotEmpty { .. } => "not-empty",
        ReplicationError::Elsewhere { .. } => "elsewhere",
        ReplicationError::PeerInUse { .. } => "peer-in-use",
        ReplicationError::KeyInUse { .. } => "key-in-use",
        ReplicationError::NotAuthorized { .. } => "not-authorized",
    }
}

/// Returns the name that a property of management has in requests and replies.
fn name_in_body(property: &str) -> String {
    match property {
        "size" => "size_bytes".to_owned(),
        words => words.replace(' ', "_"),
    }
}

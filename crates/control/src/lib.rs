//! Management: pools, volumes, export rules, users and groups.
//!
//! [`Service`] is the one door. A change is checked against its level (`envelope`), written to the store in a transaction
//! together with a record of who asked for it, done to the storage (`vfs::Provisioner`), and shown to the data plane: its
//! meters at once, its `vfs::Namespace` as a whole. Where storage is involved the intent is written first, so that after a
//! crash at any point the next start finishes what was begun (`reconcile`).
//!
//! Layers, top down: `service`, `store`.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod backup;
mod backup_error;
mod difference;
mod endpoint;
mod error;
mod hosts;
mod job;
mod job_backup;
mod key_file;
mod kind;
mod levels;
mod limits;
mod lock_clock;
mod meters;
mod name;
mod namespace;
mod object_locks;
mod operation;
mod peer;
mod policy;
mod pool;
mod pool_totals;
mod property_texts;
mod protocol;
mod quota;
mod reconcile;
mod reconcile_backups;
mod reconcile_snapshots;
mod replication;
mod rule;
mod schedule;
mod seal;
mod service;
mod shape;
mod smb;
mod snapshot;
mod store;
#[cfg(test)]
mod tests;
mod token;
mod user;
mod vault;
mod volume;
mod warning;
mod words;

pub use backup::{Backup, BackupFileRestore, BackupState, BackupTotals, NewBackup};
pub use backup_error::BackupError;
pub use difference::Difference;
pub use endpoint::{ENDPOINTS_MAX, Listeners};
pub use error::{Error, Result};
pub use hosts::Resolver;
pub use identity::{ACCOUNT_NAME_CHARS_MAX, AccountName, ID_MAX as ACCOUNT_ID_MAX, NtHash, WindowsName};
pub use job::JobProgress;
pub use key_file::KeyFile;
pub use kind::{Kind, State};
pub use levels::{RULES_MAX, default_root};
pub use limits::{
    DESCRIPTION_CHARS_MAX, JOB_THREADS, RESTORE_PATH_CHARS_MAX, RESTORE_PATHS_MAX, SNAP_RESERVE_PERCENT_MAX,
    SNAPSHOTS_PER_VOLUME_MAX,
};
pub use name::{
    BackupName, LABEL_KEY_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX, Labels, NAME_BYTES_MAX, PeerName,
    PolicyName, PoolName, ShareName, SnapshotName, TokenName, VaultName, VolumeName, steers_terminal,
};
pub use operation::{
    Actor, ChangeContext, ChangeResult, OPERATIONS_KEPT, Operation, OperationId, Outcome, Verb,
};
pub use peer::{Authorization, Dialer, NewPeer, PEERS_MAX, Peer, PeerChange, PublicKey, TlsDialer};
pub use policy::{NewPolicy, Policy, PolicyChange};
pub use pool::{NewPool, Pool, PoolChange};
pub use protocol::{PROTOCOLS_MAX, Protocols};
pub use quota::target_name as quota_target_name;
pub use replication::{
    LastPoints, MirrorState, NewReplication, Replication, ReplicationError, ReplicationSchedule, Transfer,
};
pub use rule::{Access, Client, Clients, ExportRule};
pub use schedule::{Daily, Hourly, Monthly, Schedules, WeekDay, Weekly, Zone};
pub use service::{
    Clock, Dependencies, Entropy, PAGE_MAX, Page, ReplicationStatus, Service, SnapshotFigures, VolumeClients,
    VolumeSpace,
};
pub use smb::{CREATE_MODE, DIRECTORY_MODE, SMB_SETTINGS, SmbAssignment, SmbSetting, SmbSettings, SmbValue};
pub use snapshot::{NewSnapshot, Snapshot, SnapshotChange, SnapshotKind, SnapshotState};
pub use store::{STORE_FILE, STORE_VERSION, StoreError, StoreLog};
pub use token::{Role, Secret, TOKENS_MAX, Token};
pub use user::{
    GROUPS_OF_USER_MAX, Group, MEMBERSHIPS_MAX, NewGroup, NewUser, PASSWORD_UNITS_MAX, User, UserChange,
    WINDOWS_NAMES_MAX, account_name, password, windows_name,
};
pub use vault::{Bucket, LOCK_DAYS_MAX, NewVault, Vault, VaultChange, VaultPlace};
pub use volume::{NewClone, NewVolume, Volume, VolumeChange};
pub use warning::Warning;

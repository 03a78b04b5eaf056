//! Errors of vaults and backups.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupError {
    /// A backup or a restore uses the snapshot.
    SnapshotPinned {
        /// The name, after the volume's and a slash.
        snapshot: String,
        /// The backup, after the vault's and a slash.
        backup: String,
    },
    /// The vault has backups. May be forced: they stay where they are.
    VaultInUse { vault: String, backups: usize },
    /// There are policies with the vault.
    VaultOfPolicy { vault: String, policy: String },
    /// Another service writes the vault.
    OtherVaultOwner { vault: String, owner: String },
    /// The store of the vault failed, or what is in it is damaged.
    Vault { vault: String, reason: String },
    /// A job uses the backup or makes it.
    Busy { backup: String, operation: u64 },
    /// The backup is not in the state that the request needs.
    State { backup: String, state: &'static str },
    /// A backup is locked.
    Locked {
        backup: String,
        /// The end of the lock, in UTC.
        until: String,
    },
    /// The volume has no other backup in the vault. May be forced.
    Last { backup: String, volume: String },
}

impl BackupError {
    pub(crate) fn may_be_forced(&self) -> bool {
        matches!(self, Self::VaultInUse { .. } | Self::Last { .. })
    }
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SnapshotPinned { snapshot, backup } => write!(
                f,
                "the backup {backup} is made from the snapshot {snapshot}: wait until it ends, or delete the backup first"
            ),
            Self::VaultInUse { vault, backups } => write!(
                f,
                "the vault {vault} has {backups} backup{}: delete them first, or force it (they stay in the vault, and this \
                 service forgets them until you create the vault again)",
                if *backups == 1 { "" } else { "s" }
            ),
            Self::VaultOfPolicy { vault, policy } => {
                write!(f, "the policy {policy} makes backups in the vault {vault}: change or delete it first")
            }
            Self::OtherVaultOwner { vault, owner } => write!(
                f,
                "the vault {vault} belongs to the service {owner:?}: only one service may write it; take it over if that \
                 service is gone"
            ),
            Self::Vault { vault, reason } => write!(f, "the vault {vault} failed: {reason}"),
            Self::Busy { backup, operation } => write!(
                f,
                "the operation {operation} uses the backup {backup}: wait for it, or cancel it (\"plimsoll operation wait \
                 {operation}\")"
            ),
            Self::State { backup, state } => {
                write!(f, "the backup {backup} is in the state {state}; allowed: ready")
            }
            Self::Locked { backup, until } => {
                write!(f, "the backup {backup} is locked until {until}: nobody can delete it before")
            }
            Self::Last { backup, volume } => write!(
                f,
                "{backup} is the latest backup of the volume {volume} in its vault: make a newer one first, or force it (the \
                 next backup then sends all data again)"
            ),
        }
    }
}

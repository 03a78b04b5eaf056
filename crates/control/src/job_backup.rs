//! The work of jobs with vaults.

use replicate::BackupId;
use serde::{Deserialize, Serialize};
use vfs::VolumeId;

/// The row of a vault, the number of a backup in it, and what else the job needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BackupJob {
    Create {
        vault: i64,
        backup: u64,
        volume: u64,
    },
    Delete {
        vault: i64,
        backup: u64,
    },
    Verify {
        vault: i64,
        backup: u64,
        /// Whether all data are read.
        reads_data: bool,
    },
    /// Into a volume that is not served before the end.
    RestoreVolume {
        vault: i64,
        backup: u64,
        volume: u64,
    },
    RestoreFiles {
        vault: i64,
        backup: u64,
        volume: u64,
        /// The row of the request.
        request: i64,
    },
}

impl BackupJob {
    pub(crate) fn vault(self) -> i64 {
        match self {
            Self::Create { vault, .. }
            | Self::Delete { vault, .. }
            | Self::Verify { vault, .. }
            | Self::RestoreVolume { vault, .. }
            | Self::RestoreFiles { vault, .. } => vault,
        }
    }

    pub(crate) fn backup(self) -> BackupId {
        match self {
            Self::Create { backup, .. }
            | Self::Delete { backup, .. }
            | Self::Verify { backup, .. }
            | Self::RestoreVolume { backup, .. }
            | Self::RestoreFiles { backup, .. } => BackupId(backup.to_be_bytes()),
        }
    }

    /// The volume that the job reads or writes.
    pub(crate) fn volume(self) -> Option<VolumeId> {
        match self {
            Self::Create { volume, .. }
            | Self::RestoreVolume { volume, .. }
            | Self::RestoreFiles { volume, .. } => Some(VolumeId(volume)),
            Self::Delete { .. } | Self::Verify { .. } => None,
        }
    }

    /// The work, after "the operation" in a message.
    pub(crate) fn doing(self) -> &'static str {
        match self {
            Self::Create { .. } => "makes a backup",
            Self::Delete { .. } => "deletes a backup",
            Self::Verify { .. } => "verifies a backup",
            Self::RestoreVolume { .. } => "restores the volume from a backup",
            Self::RestoreFiles { .. } => "restores files from a backup",
        }
    }

    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Delete { .. } => "objects",
            Self::Create { .. }
            | Self::Verify { .. }
            | Self::RestoreVolume { .. }
            | Self::RestoreFiles { .. } => "bytes",
        }
    }
}

pub(crate) fn number(id: BackupId) -> u64 {
    u64::from_be_bytes(id.0)
}

//! Backups: states of volumes in a vault.

use super::snapshot::time;
use super::words::words;
use super::{NAME, RESTORE_PATH_CHARS_MAX, RESTORE_PATHS_MAX, SnapshotKind, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The pattern of paths of a restore.
const RESTORED_PATH: &str = r"^[^\x00]+$";

words! {
    /// The state of a backup.
    BackupState {
        /// An operation sends it.
        Creating = "creating",
        /// Complete.
        Ready = "ready",
        /// An operation deletes it. It cannot be restored any more.
        Deleting = "deleting",
        /// Failed; `reason` says more. The same request goes on with it.
        Error = "error",
    }
}

/// A backup: a state of a volume in a vault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Backup {
    /// Name.
    pub name: String,
    /// The vault.
    pub vault: String,
    /// The volume, which may be gone.
    pub volume: String,
    /// The snapshot that it was made from.
    pub snapshot: String,
    /// The origin.
    pub kind: SnapshotKind,
    /// The state.
    pub state: BackupState,
    /// The reason of an error, or of a failed deletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The time of its data.
    pub taken: Timestamp,
    /// The time at which it was complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished: Option<Timestamp>,
    /// Files of all types.
    pub files: u64,
    /// Sizes of all files together. A new volume needs as many.
    pub bytes: u64,
    /// Bytes that this backup added to the vault.
    pub sent_bytes: u64,
    /// Names that it lacks, such as mount points.
    pub skipped: u64,
    /// The time of the last check of all data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<Timestamp>,
    /// The damage that the last check found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
    /// The end of its lock. Nobody can delete it before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked_until: Option<Timestamp>,
    /// The version of this state, as in the `ETag`. Between quotation marks it is a tag for `If-Match`.
    pub version: String,
}

/// A backup to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewBackup {
    /// The volume.
    #[schemars(length(min = 1, max = 255), regex(pattern = NAME), example = &"tools")]
    pub volume: String,
    /// Name, unique in the vault; the volume and the time of its data if left out.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 255), regex(pattern = NAME), example = &"tools-before-upgrade")]
    pub name: Option<String>,
    /// Snapshot of the volume; a new one if left out, which is deleted afterwards.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 255), regex(pattern = NAME))]
    pub snapshot: Option<String>,
    /// The end of its lock, if it is later than that of the vault. Nobody can delete it before.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "time")]
    pub locked_until: Option<Timestamp>,
}

/// Files to restore to an existing volume. Nothing is overwritten: a name that exists there ends the operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackupFileRestore {
    /// The volume that gets the files.
    #[schemars(length(min = 1, max = 255), regex(pattern = NAME), example = &"tools")]
    pub volume: String,
    /// Files, and directories with all that is below them, by their paths in the backup.
    #[schemars(length(min = 1, max = RESTORE_PATHS_MAX), inner(length(min = 1, max = RESTORE_PATH_CHARS_MAX), regex(pattern = RESTORED_PATH)))]
    pub paths: Vec<String>,
    /// Directory of the volume, which must exist; the root if left out. The paths of the files begin there.
    #[serde(default)]
    #[schemars(length(max = RESTORE_PATH_CHARS_MAX))]
    pub directory: String,
}

/// The extent of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackupCheck {
    /// Whether all data are read: true if left out. Otherwise only the objects are looked up.
    #[serde(default = "reads_data")]
    pub data: bool,
}

fn reads_data() -> bool {
    true
}

//! Backups: states of volumes in a vault.

use crate::difference::Difference;
use crate::name::{BackupName, SnapshotName, VaultName, VolumeName};
use crate::snapshot::SnapshotKind;
use crate::words::words;
use replicate::{BackupId, Manifest};
use serde::{Deserialize, Serialize};
use vfs::{Time, ViewId, VolumeId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    pub(crate) vault_row: i64,
    pub(crate) id: BackupId,
    pub vault: VaultName,
    pub name: BackupName,
    /// The volume, which may be gone.
    pub volume: VolumeName,
    pub(crate) volume_id: VolumeId,
    /// The name of the snapshot that it was made from.
    pub snapshot: SnapshotName,
    pub kind: SnapshotKind,
    /// The snapshot, while the backup needs it.
    pub(crate) view: Option<ViewId>,
    /// The snapshot that it was made from, which may be gone; `None` if another service made it.
    pub(crate) made_from: Option<ViewId>,
    /// The backup that it was compared with.
    pub(crate) previous: Option<BackupId>,
    /// The time of its data, in milliseconds since 1970.
    pub taken_ms: u64,
    pub finished_ms: Option<u64>,
    pub totals: BackupTotals,
    pub state: BackupState,
    /// The reason of [`BackupState::Error`], or of a failed deletion. Empty otherwise.
    pub reason: String,
    /// The time of the last complete check, in milliseconds since 1970.
    pub verified_ms: Option<u64>,
    /// The damage that the last check found. Empty otherwise.
    pub damage: String,
    /// Nobody can delete it before this time, in milliseconds since 1970.
    pub locked_until_ms: Option<u64>,
    /// Grows with every change, for `ETag` and `If-Match`.
    pub version: u64,
    /// In milliseconds since 1970.
    pub created_ms: u64,
    /// In milliseconds since 1970.
    pub changed_ms: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupTotals {
    pub files: u64,
    /// Sizes of all files.
    pub bytes: u64,
    /// Bytes that this backup added to the vault.
    pub sent_bytes: u64,
    /// Names that it lacks, such as mount points.
    pub skipped: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupState {
    /// A job sends it, or waits to.
    Creating,
    Ready,
    /// A job deletes it. Nobody can restore it any more.
    Deleting,
    /// Failed. The same request goes on with it.
    Error,
}

/// A backup to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBackup {
    pub volume: VolumeName,
    /// The time of its data by default.
    pub name: Option<BackupName>,
    /// A new one by default, which is deleted afterwards.
    pub snapshot: Option<SnapshotName>,
    /// The lock of the vault by default; never shorter than that.
    pub locked_until_ms: Option<u64>,
}

/// Files to restore to an existing volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupFileRestore {
    pub volume: String,
    /// Paths in the backup, from its root.
    pub paths: Vec<String>,
    /// The directory of the volume that gets them, from its root. It must exist.
    pub directory: String,
}

words!(BackupState: Creating = "creating", Ready = "ready", Deleting = "deleting", Error = "error");

impl Backup {
    /// The name in the record of changes and in messages. Neither part has a slash.
    pub fn full_name(&self) -> String {
        full_name(&self.vault, &self.name)
    }

    /// The volume as the vault knows it: with its number, so that a later volume of the same name is another one.
    pub(crate) fn volume_in_vault(&self) -> String {
        format!("{}/{:016x}", self.volume, self.volume_id.0)
    }

    /// The snapshot as the vault knows it, with what a service that has lost its store must know.
    pub(crate) fn snapshot_in_vault(&self) -> String {
        format!("{}/{}/{}", self.snapshot, self.kind, self.name)
    }

    pub(crate) fn taken(&self) -> Time {
        time_of(self.taken_ms)
    }

    /// Completes the row with what the vault has.
    pub(crate) fn with_manifest(self, manifest: &Manifest) -> Self {
        let totals = manifest.totals;
        Self {
            finished_ms: Some(ms_of(manifest.finished)),
            previous: manifest.previous,
            taken_ms: ms_of(manifest.taken),
            locked_until_ms: manifest.locked_until.map(ms_of),
            totals: BackupTotals {
                files: totals.files,
                bytes: totals.bytes,
                sent_bytes: totals.sent_bytes,
                skipped: totals.skipped,
            },
            state: BackupState::Ready,
            reason: String::new(),
            ..self
        }
    }
}

/// The names that [`Backup::volume_in_vault`] and [`Backup::snapshot_in_vault`] have joined. A manifest of another program can
/// have other texts.
pub(crate) struct NamesInVault {
    pub(crate) volume: VolumeName,
    pub(crate) volume_id: VolumeId,
    pub(crate) snapshot: SnapshotName,
    pub(crate) kind: SnapshotKind,
    pub(crate) name: BackupName,
}

impl NamesInVault {
    pub(crate) fn of(manifest: &Manifest) -> Option<Self> {
        let (volume, id) = manifest.volume.split_once('/')?;
        let mut parts = manifest.snapshot.splitn(3, '/');
        Some(Self {
            volume: volume.parse().ok()?,
            volume_id: VolumeId(u64::from_str_radix(id, 16).ok()?),
            snapshot: parts.next()?.parse().ok()?,
            kind: SnapshotKind::of(parts.next()?)?,
            name: parts.next()?.parse().ok()?,
        })
    }
}

impl NewBackup {
    /// Properties that differ from `backup`.
    pub(crate) fn differs_from(&self, backup: &Backup) -> Vec<Difference> {
        let differing = [
            Difference::of("volume", &backup.volume, &self.volume, ToString::to_string),
            Difference::if_set("snapshot", &backup.snapshot, self.snapshot.as_ref(), ToString::to_string),
        ];
        differing.into_iter().flatten().collect()
    }
}

pub(crate) fn full_name(vault: &VaultName, backup: impl std::fmt::Display) -> String {
    format!("{vault}/{backup}")
}

pub(crate) fn time_of(ms: u64) -> Time {
    let seconds = i64::try_from(ms / 1_000).unwrap_or(i64::MAX);
    let nanos = u32::try_from(ms % 1_000).unwrap_or(0) * 1_000_000;
    Time { seconds, nanos }
}

pub(crate) fn ms_of(time: Time) -> u64 {
    let seconds = u64::try_from(time.seconds).unwrap_or(0);
    seconds.saturating_mul(1_000).saturating_add(u64::from(time.nanos / 1_000_000))
}

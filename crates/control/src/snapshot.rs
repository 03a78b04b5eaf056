//! Snapshots: read-only states of a volume.

use crate::difference::Difference;
use crate::name::{SnapshotName, VolumeName};
use crate::words::words;
use envelope::Bytes;
use vfs::{SnapshotDirectory, Time, ViewId, VolumeId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub(crate) volume_id: VolumeId,
    pub volume: VolumeName,
    /// The number, which no later snapshot of the volume gets.
    pub view: ViewId,
    pub name: SnapshotName,
    pub kind: SnapshotKind,
    pub description: String,
    pub state: SnapshotState,
    /// The reason of [`SnapshotState::Error`], or of a failed deletion. Empty otherwise.
    pub reason: String,
    /// Nobody can delete it before this time, in milliseconds since 1970.
    pub locked_until_ms: Option<u64>,
    /// The size of the volume at its time; 0 if that is not known.
    pub volume_size: Bytes,
    /// Grows with every change, for `ETag` and `If-Match`.
    pub version: u64,
    /// In milliseconds since 1970: whole seconds, and different from those of the volume's other snapshots.
    pub created_ms: u64,
    /// In milliseconds since 1970.
    pub changed_ms: u64,
}

/// The origin of a snapshot. A policy deletes snapshots of its own kind alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SnapshotKind {
    #[default]
    Manual,
    Hourly,
    Daily,
    Weekly,
    Monthly,
    Replication,
    /// For a backup, and deleted once that is complete.
    Backup,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotState {
    /// The storage makes it.
    Creating,
    /// Clients can read it.
    Ready,
    /// The storage deletes it. Clients cannot read it any more.
    Deleting,
    /// The storage does not have it.
    Error,
}

/// A snapshot to create.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewSnapshot {
    /// The time of its creation by default.
    pub name: Option<SnapshotName>,
    pub description: String,
    pub locked_until_ms: Option<u64>,
}

/// Changes of a snapshot; `None` leaves a property as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotChange {
    pub description: Option<String>,
    /// `Some(None)` removes a lock that has ended.
    pub locked_until_ms: Option<Option<u64>>,
}

words!(SnapshotKind: Manual = "manual", Hourly = "hourly", Daily = "daily", Weekly = "weekly", Monthly = "monthly", Replication = "replication", Backup = "backup");
words!(SnapshotState: Creating = "creating", Ready = "ready", Deleting = "deleting", Error = "error");

impl Snapshot {
    /// The name in the record of changes and in messages. Neither part has a slash.
    pub fn full_name(&self) -> String {
        full_name(&self.volume, &self.name)
    }

    pub fn is_locked(&self, now_ms: u64) -> bool {
        self.locked_until_ms.is_some_and(|until| until > now_ms)
    }

    /// Returns the form that the data plane knows.
    pub(crate) fn served(&self) -> vfs::Snapshot {
        let seconds = i64::try_from(self.created_ms / 1_000).unwrap_or(i64::MAX);
        vfs::Snapshot { view: self.view, name: self.name.to_string(), created: Time { seconds, nanos: 0 } }
    }

    /// The snapshot after `change`, and the changed properties in words.
    pub(crate) fn changed(&self, change: &SnapshotChange) -> (Self, Vec<&'static str>) {
        let snapshot = Self {
            description: change.description.clone().unwrap_or_else(|| self.description.clone()),
            locked_until_ms: change.locked_until_ms.unwrap_or(self.locked_until_ms),
            ..self.clone()
        };
        let others = [
            ("description", snapshot.description != self.description),
            ("lock", snapshot.locked_until_ms != self.locked_until_ms),
        ];
        let changes = others.into_iter().filter(|(_, is_changed)| *is_changed).map(|(property, _)| property);
        (snapshot, changes.collect())
    }
}

impl NewSnapshot {
    /// Properties that differ from `snapshot`.
    pub(crate) fn differs_from(&self, snapshot: &Snapshot) -> Vec<Difference> {
        let differing = [
            Difference::if_set("name", &snapshot.name, self.name.as_ref(), ToString::to_string),
            Difference::of("description", &snapshot.description, &self.description, String::clone),
            Difference::of("locked until", &snapshot.locked_until_ms, &self.locked_until_ms, |_| {
                String::new()
            }),
        ];
        differing.into_iter().flatten().collect()
    }
}

pub(crate) fn full_name(volume: &VolumeName, snapshot: impl std::fmt::Display) -> String {
    format!("{volume}/{snapshot}")
}

pub(crate) fn directory_word(directory: SnapshotDirectory) -> &'static str {
    match directory {
        SnapshotDirectory::Hidden => "hidden",
        SnapshotDirectory::Reachable => "reachable",
        SnapshotDirectory::Listed => "listed",
    }
}

pub(crate) fn directory_of(word: &str) -> Option<SnapshotDirectory> {
    use SnapshotDirectory::{Hidden, Listed, Reachable};
    [Hidden, Reachable, Listed].into_iter().find(|&one| directory_word(one) == word)
}

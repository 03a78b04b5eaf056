//! Replication: a volume follows another one, point after point.

use crate::name::{PeerName, VolumeName};
use crate::words::words;
use std::fmt;
use vfs::VolumeId;

/// A replication, known by the volume that follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replication {
    /// The number in the names of points.
    pub(crate) relation: u64,
    pub(crate) volume_id: VolumeId,
    /// `None`: a volume of another service.
    pub(crate) source_id: Option<VolumeId>,
    /// The destination.
    pub volume: VolumeName,
    pub source: VolumeName,
    /// The service of the source, if it is another one.
    pub peer: Option<PeerName>,
    /// `None`: only on request.
    pub schedule: Option<ReplicationSchedule>,
    pub(crate) phase: Phase,
    /// The number of the next point.
    pub(crate) next_point: u64,
    /// The last due time that a transfer was begun for, or that was missed.
    pub(crate) due_ms: u64,
    /// Whether no scheduled transfer has failed or was missed since the last success.
    pub is_healthy: bool,
    /// The reason of the last failure; empty after a success.
    pub last_error: String,
    pub last_transfer: Option<Transfer>,
    /// Bytes of all transfers.
    pub total_bytes: u64,
    /// Grows with every change, for `ETag` and `If-Match`.
    pub version: u64,
    pub created_ms: u64,
    pub changed_ms: u64,
}

/// A transfer that has ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub ended_ms: u64,
    pub duration_ms: u64,
    pub bytes: u64,
    /// The time of the point at the source.
    pub point_ms: u64,
}

/// The part of the state that is stored. The rest follows from points and jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Active,
    Stopped,
    Aborted,
}

/// The state in the words of Google Cloud NetApp Volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorState {
    /// The source is a volume of a peer, which has not let this service replicate it yet.
    PendingPeering,
    /// The first transfer has not begun.
    Preparing,
    BaselineTransferring,
    /// The destination shows the last point.
    Mirrored,
    /// The destination shows the last point while the next one is on its way.
    Transferring,
    /// The destination is writable.
    Stopped,
    /// The first transfer was stopped.
    Aborted,
}

/// The time between scheduled transfers, which begin at whole multiples of it in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicationSchedule {
    Every10Minutes,
    Hourly,
    Daily,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewReplication {
    /// The destination: it has no files yet.
    pub volume: VolumeName,
    pub source: VolumeName,
    /// The service of the source, if it is another one.
    pub peer: Option<PeerName>,
    pub schedule: Option<ReplicationSchedule>,
}

words!(ReplicationSchedule: Every10Minutes = "10minutely", Hourly = "hourly", Daily = "daily");

impl Phase {
    const WORDS: [(Self, &str); 3] =
        [(Self::Active, "active"), (Self::Stopped, "stopped"), (Self::Aborted, "aborted")];

    pub(crate) fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(phase, _)| *phase == self).map_or("", |(_, word)| word)
    }

    pub(crate) fn of(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, found)| *found == word).map(|(phase, _)| *phase)
    }
}

impl MirrorState {
    pub(crate) fn new(phase: Phase, has_point: bool, is_running: bool) -> Self {
        match (phase, has_point, is_running) {
            (Phase::Stopped, ..) => Self::Stopped,
            (Phase::Aborted, ..) => Self::Aborted,
            (Phase::Active, false, false) => Self::Preparing,
            (Phase::Active, false, true) => Self::BaselineTransferring,
            (Phase::Active, true, false) => Self::Mirrored,
            (Phase::Active, true, true) => Self::Transferring,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::PendingPeering => "PENDING_PEERING",
            Self::Preparing => "PREPARING",
            Self::BaselineTransferring => "BASELINE_TRANSFERRING",
            Self::Mirrored => "MIRRORED",
            Self::Transferring => "TRANSFERRING",
            Self::Stopped => "STOPPED",
            Self::Aborted => "ABORTED",
        }
    }

    /// The mirror state in the words of Azure NetApp Files.
    pub fn anf_mirror_state(self) -> &'static str {
        match self {
            Self::PendingPeering | Self::Preparing | Self::BaselineTransferring => "Uninitialized",
            Self::Mirrored | Self::Transferring => "Mirrored",
            Self::Stopped | Self::Aborted => "Broken",
        }
    }

    /// The status of the relationship in the words of Azure NetApp Files.
    pub fn anf_relationship_status(self) -> &'static str {
        match self {
            Self::BaselineTransferring | Self::Transferring => "Transferring",
            Self::PendingPeering | Self::Preparing | Self::Mirrored | Self::Stopped | Self::Aborted => "Idle",
        }
    }

    pub fn is_transferring(self) -> bool {
        matches!(self, Self::BaselineTransferring | Self::Transferring)
    }
}

impl ReplicationSchedule {
    fn interval_ms(self) -> u64 {
        let minutes = match self {
            Self::Every10Minutes => 10,
            Self::Hourly => 60,
            Self::Daily => 24 * 60,
        };
        minutes * 60_000
    }

    /// The last due time up to `now_ms`.
    pub(crate) fn last_due(self, now_ms: u64) -> u64 {
        now_ms / self.interval_ms() * self.interval_ms()
    }
}

impl Replication {
    /// The source for people.
    pub(crate) fn source_text(&self) -> String {
        match &self.peer {
            Some(peer) => format!("{} of {peer}", self.source),
            None => self.source.to_string(),
        }
    }
}

/// The prefix of the names of a replication's points.
pub(crate) fn prefix(relation: u64) -> String {
    format!("replication.{relation:016x}.")
}

/// Refusals that concern replications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicationError {
    /// The snapshot is a point that both sides need for the next transfer.
    Pinned { snapshot: String, volume: String },
    /// The volume is part of a replication.
    Member { volume: String, destination: String, doing: &'static str },
    /// A transfer runs. May be forced: its data is dropped.
    Transferring { volume: String },
    /// The state does not allow it.
    State { volume: String, state: MirrorState, allowed: &'static str },
    /// The volume has changes since the common point, which would be lost. May be forced.
    WouldLose { volume: String, point: String, files: u64, bytes: u64, last: Box<LastPoints> },
    /// Everything has to be transferred. May be forced: the volume loses all its files first.
    FullCopy { volume: String },
    /// A transfer or its preparation has failed.
    Failed { reason: String },
    /// The destination has files.
    NotEmpty { volume: String },
    /// The source is a volume of another service, where the change has to be made.
    Elsewhere { volume: String, peer: String },
    /// Replications or authorizations use the peer.
    PeerInUse { peer: String, by: String },
    /// Another peer has the key, or this service itself.
    KeyInUse { by: String },
    /// The peer may not replicate the volume.
    NotAuthorized { volume: String, peer: String },
}

/// The last points of both sides, which may have been written since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastPoints {
    /// The last point of the volume that would go back.
    pub own: String,
    /// The volume to follow.
    pub followed: String,
    /// The last point of that one.
    pub other: String,
}

impl ReplicationError {
    pub(crate) fn may_be_forced(&self) -> bool {
        matches!(self, Self::Transferring { .. } | Self::WouldLose { .. } | Self::FullCopy { .. })
    }
}

impl fmt::Display for ReplicationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pinned { snapshot, volume } => write!(
                f,
                "the replication to {volume} needs the snapshot {snapshot} for its next transfer: delete the \
                 replication first"
            ),
            Self::Member { volume, destination, doing } => write!(
                f,
                "the volume {volume} belongs to the replication to {destination}: it cannot {doing} before the \
                 replication is broken or deleted"
            ),
            Self::Transferring { volume } => write!(
                f,
                "a transfer to {volume} runs: wait for its end, or force it (its data is dropped, and the last point \
                 stays)"
            ),
            Self::State { volume, state, allowed } => {
                write!(f, "the replication to {volume} is {}; allowed: {allowed}", state.as_str())
            }
            Self::WouldLose { volume, point, files, bytes, last } => write!(
                f,
                "the volume {volume} would go back to {point} and lose {files} changed file{} with {} (the last point of \
                 {volume} is {}, that of {} is {}): copy what you need, then force it",
                if *files == 1 { "" } else { "s" },
                envelope::Bytes(*bytes).for_people(),
                last.own,
                last.followed,
                last.other
            ),
            Self::FullCopy { volume } => write!(
                f,
                "the two volumes have no point in common: {volume} would lose all its files and get a full copy; \
                 force it if that is what you want"
            ),
            Self::Failed { reason } => write!(f, "the replication failed: {reason}"),
            Self::NotEmpty { volume } => {
                write!(f, "the volume {volume} has files; allowed: a destination without any")
            }
            Self::Elsewhere { volume, peer } => write!(
                f,
                "the source of {volume} is a volume of the service {peer}: authorize {peer} for {volume} here, and create \
                 the replication in the other direction there"
            ),
            Self::PeerInUse { peer, by } => write!(f, "the peer {peer} is used by {by}: delete that first"),
            Self::KeyInUse { by } => {
                write!(f, "the key is that of {by}; allowed: the key of another service")
            }
            Self::NotAuthorized { volume, peer } => {
                write!(f, "the peer {peer} may not replicate the volume {volume}")
            }
        }
    }
}

impl From<ReplicationError> for crate::Error {
    fn from(error: ReplicationError) -> Self {
        Self::Replication(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_the_words_of_both_clouds() {
        use MirrorState::*;
        let table = [
            (Phase::Active, false, false, Preparing, "Uninitialized", "Idle"),
            (Phase::Active, false, true, BaselineTransferring, "Uninitialized", "Transferring"),
            (Phase::Active, true, false, Mirrored, "Mirrored", "Idle"),
            (Phase::Active, true, true, Transferring, "Mirrored", "Transferring"),
            (Phase::Stopped, true, false, Stopped, "Broken", "Idle"),
            (Phase::Aborted, false, false, Aborted, "Broken", "Idle"),
        ];
        for (phase, has_point, is_running, state, mirror, relationship) in table {
            let found = MirrorState::new(phase, has_point, is_running);
            assert_eq!(found, state);
            assert_eq!((found.anf_mirror_state(), found.anf_relationship_status()), (mirror, relationship));
        }
    }

    #[test]
    fn due_times_are_whole_multiples() {
        let minutes = |minutes: u64| minutes * 60_000;
        assert_eq!(ReplicationSchedule::Every10Minutes.last_due(minutes(19)), minutes(10));
        assert_eq!(ReplicationSchedule::Hourly.last_due(minutes(60)), minutes(60));
        assert_eq!(ReplicationSchedule::Daily.last_due(minutes(3000)), minutes(2880));
    }
}

//! Replications.

use super::words::words;
use super::{NAME, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

words! {
    /// The schedule of a replication. Transfers begin at whole multiples of the interval, in UTC.
    ReplicationSchedule {
        /// Every 10 minutes.
        Every10Minutes = "10minutely",
        /// Every hour.
        Hourly = "hourly",
        /// Every day.
        Daily = "daily",
    }

    /// The state of a replication, in the words of Google Cloud NetApp Volumes.
    ReplicationState {
        /// The peer has not authorized the replication yet.
        PendingPeering = "PENDING_PEERING",
        /// The first transfer has not begun.
        Preparing = "PREPARING",
        /// The first transfer runs.
        BaselineTransferring = "BASELINE_TRANSFERRING",
        /// Clients read the last point at the destination.
        Mirrored = "MIRRORED",
        /// A transfer runs. Clients read the previous point at the destination.
        Transferring = "TRANSFERRING",
        /// The destination is writable.
        Stopped = "STOPPED",
        /// The first transfer was stopped.
        Aborted = "ABORTED",
    }
}

/// A replication: a volume follows another one. It has the name of the volume that follows, its destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Replication {
    /// The destination.
    pub volume: String,
    /// The source.
    pub source: String,
    /// The service of the source, if it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// When transfers begin; only on request if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ReplicationSchedule>,
    /// The state, in the words of Google Cloud NetApp Volumes.
    pub state: ReplicationState,
    /// The mirror state, in the words of Azure NetApp Files: `Uninitialized`, `Mirrored` or `Broken`.
    pub mirror_state: String,
    /// The relationship's status, in the words of Azure NetApp Files: `Idle` or `Transferring`.
    pub relationship_status: String,
    /// Whether no scheduled transfer has failed or was missed since the last success.
    pub healthy: bool,
    /// The reason of the last failure; left out after a success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The snapshot of the last point that the destination has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_point: Option<String>,
    /// The age of that point, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_seconds: Option<u64>,
    /// The end of the last transfer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transfer_ended: Option<Timestamp>,
    /// The duration of the last transfer, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transfer_seconds: Option<u64>,
    /// Bytes of the last transfer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transfer_bytes: Option<u64>,
    /// Bytes of all transfers.
    pub total_bytes: u64,
    /// The operation that transfers now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<u64>,
    /// The time of its creation.
    pub created: Timestamp,
    /// The version of this state, as in the `ETag`. Between quotation marks it is a tag for `If-Match`.
    pub version: String,
}

/// A replication to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewReplication {
    /// The destination: a volume without files, snapshots and policy.
    #[schemars(length(min = 1, max = 255), regex(pattern = NAME), example = &"tools-copy")]
    pub volume: String,
    /// The source.
    #[schemars(length(min = 1, max = 255), regex(pattern = NAME), example = &"tools")]
    pub source: String,
    /// The service of the source, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255), regex(pattern = NAME))]
    pub peer: Option<String>,
    /// When transfers begin; only on request if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ReplicationSchedule>,
}

/// Changes of a replication. Omitted properties keep their values; `null` removes the schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplicationPatch {
    /// New schedule.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ReplicationSchedule>")]
    pub schedule: Option<Option<ReplicationSchedule>>,
}

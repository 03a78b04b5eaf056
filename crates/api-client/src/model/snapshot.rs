//! Snapshots.

use super::words::words;
use super::{DESCRIPTION_CHARS_MAX, Timestamp};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

words! {
    /// The origin of a snapshot.
    SnapshotKind {
        /// A request.
        Manual = "manual",
        /// An hourly schedule.
        Hourly = "hourly",
        /// A daily schedule.
        Daily = "daily",
        /// A weekly schedule.
        Weekly = "weekly",
        /// A monthly schedule.
        Monthly = "monthly",
        /// A replication.
        Replication = "replication",
        /// A backup, which deletes it once it is complete.
        Backup = "backup",
    }

    /// The state of a snapshot.
    SnapshotState {
        /// The storage makes it.
        Creating = "creating",
        /// Clients can read it.
        Ready = "ready",
        /// The storage deletes it. Clients cannot read it any more.
        Deleting = "deleting",
        /// The storage does not have it; `reason` says more.
        Error = "error",
    }
}

/// A snapshot: a read-only state of a volume. Clients find it as `.snapshot/NAME` over NFS and as `~snapshot\\NAME` over SMB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// Name.
    pub name: String,
    /// The volume.
    pub volume: String,
    /// The origin.
    pub kind: SnapshotKind,
    /// Your own text.
    pub description: String,
    /// The state.
    pub state: SnapshotState,
    /// The reason of an error, or of a failed deletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The time of its creation, in whole seconds. No other snapshot of the volume has the same.
    pub created: Timestamp,
    /// The end of its lock. Nobody can delete it before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked_until: Option<Timestamp>,
    /// The size of the volume at that time, if it was recorded. A revert restores it, unless the volume is larger now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_size_bytes: Option<u64>,
    /// Bytes that its deletion alone would free, if the storage knows them. Lists do not have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_bytes: Option<u64>,
    /// The version of this state, as in the `ETag`. Between quotation marks it is a tag for `If-Match`.
    pub version: String,
}

/// A snapshot to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSnapshot {
    /// Name, unique in the volume also without regard to case; the time of its creation if left out.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 255), regex(pattern = super::NAME), example = &"before-upgrade")]
    pub name: Option<String>,
    /// Your own text; empty if left out.
    #[serde(default)]
    #[schemars(length(max = DESCRIPTION_CHARS_MAX), regex(pattern = DESCRIPTION))]
    pub description: String,
    /// The end of its lock. Nobody can delete it before, and the volume neither.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "time")]
    pub locked_until: Option<Timestamp>,
}

/// Changes of a snapshot. Omitted properties keep their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotPatch {
    /// New text.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = DESCRIPTION_CHARS_MAX), regex(pattern = DESCRIPTION))]
    pub description: Option<String>,
    /// New end of its lock. `null` removes a lock that has ended. A lock that has not ended can only be made longer.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "time_or_null")]
    pub locked_until: Option<Option<Timestamp>>,
}

/// The pattern of descriptions.
const DESCRIPTION: &str =
    r"^[^\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]*$";

/// The pattern of times in requests.
const TIME: &str = r"^[0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{1,3})?Z$";

pub(super) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": TIME, "examples": ["2027-01-31T00:00:00Z"] })
}

fn time_or_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "null"], "pattern": TIME, "examples": ["2027-01-31T00:00:00Z"] })
}

//! Traffic and contents of a volume.

use super::{Limits, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counters since the volume was last opened; rates are their differences over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stats {
    /// The volume.
    pub volume: String,
    /// The time of these counters.
    pub at: Timestamp,
    /// Capacity.
    pub size_bytes: u64,
    /// Space in use: files and their snapshots, if the storage counts snapshots.
    pub used_bytes: u64,
    /// The part of `used_bytes` that files have; left out if the storage does not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_bytes: Option<u64>,
    /// The part of `used_bytes` that only snapshots need; left out if the storage does not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_bytes: Option<u64>,
    /// Space that files leave to snapshots.
    #[serde(default)]
    pub reserve_bytes: u64,
    /// Space that files can still take.
    #[serde(default)]
    pub available_bytes: u64,
    /// Files, directories and other objects in it.
    pub used_files: u64,
    /// Snapshots that clients can read.
    #[serde(default)]
    pub snapshots: u64,
    /// Reads of data.
    pub read: Counted,
    /// Writes of data.
    pub write: Counted,
    /// Operations on names and attributes.
    pub other: Counted,
    /// Calls that wait for a limit now.
    pub waiting_calls: u64,
    /// Endpoints, and the connections to them.
    pub endpoints: Vec<EndpointStats>,
    /// Limits of its pool.
    pub pool_limits: Limits,
    /// Limits of the volume, with their origins.
    pub limits: Limits,
}

/// An endpoint of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EndpointStats {
    /// The address.
    pub address: String,
    /// Connections at it with a reply from the volume in the last ten seconds.
    pub connections: u64,
    /// The reason if the address does not serve the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Counters of one kind of operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counted {
    /// Operations answered.
    pub operations: u64,
    /// Bytes of data.
    pub bytes: u64,
    /// The sum of the operations' times, from the arrival of the call to the end of its reply.
    pub time_ns: u64,
    /// Operations by their time; the last interval has no end. Intervals without operations are left out.
    pub intervals: Vec<Interval>,
    /// Calls delayed by a limit.
    pub throttled_calls: u64,
    /// The sum of their waiting times.
    pub throttled_ns: u64,
}

/// Operations that took about the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// The longest time; the shortest is half of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_to_us: Option<u64>,
    /// Their number.
    pub operations: u64,
}

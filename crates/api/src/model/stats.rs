//! What a volume does and holds now.

use super::{Limits, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vfs::qos::{Kind, Throttled};
use vfs::volume::traffic::INTERVALS;

/// Counters since the volume was last opened; rates are their differences over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stats {
    /// The volume.
    pub volume: String,
    /// When this was counted.
    pub at: Timestamp,
    /// What it may hold.
    pub size_bytes: u64,
    /// What it holds.
    pub used_bytes: u64,
    /// Files, directories and all other objects in it.
    pub used_files: u64,
    /// Reads of data.
    pub read: Counted,
    /// Writes of data.
    pub write: Counted,
    /// Operations on names and attributes.
    pub other: Counted,
    /// Calls that wait for a limit now.
    pub waiting_calls: u64,
    /// Its endpoints, and who uses them.
    pub endpoints: Vec<EndpointStats>,
    /// What its pool may do.
    pub pool_limits: Limits,
    /// What it may do, and why.
    pub limits: Limits,
}

/// An endpoint of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EndpointStats {
    /// The address.
    pub address: String,
    /// Connections there that had an answer from the volume in the last ten seconds.
    pub connections: u64,
    /// Why the volume is not served there, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// What has been counted of one kind of operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counted {
    /// Operations answered.
    pub operations: u64,
    /// Bytes of data.
    pub bytes: u64,
    /// The sum of the operations' times, from when the call was received to when its reply was sent.
    pub time_ns: u64,
    /// Operations by their time; the last interval has no end. Intervals without operations are left out.
    pub intervals: Vec<Interval>,
    /// Calls that had to wait for a limit.
    pub throttled_calls: u64,
    /// The sum of their waiting times.
    pub throttled_ns: u64,
}

/// Operations that took about the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// They took at most so long, and longer than half of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_to_us: Option<u64>,
    /// How many.
    pub operations: u64,
}

impl Counted {
    /// From what the volume and its gate have counted.
    pub(crate) fn new(
        kind: Kind,
        counted: &vfs::volume::traffic::OperationCounts,
        throttled: &Throttled,
    ) -> Self {
        let ends = (0..INTERVALS).map(|interval| (interval + 1 < INTERVALS).then(|| 1_u64 << interval));
        let intervals = ends.zip(counted.intervals).filter(|(_, operations)| *operations > 0);
        Self {
            operations: counted.ops,
            bytes: counted.bytes,
            time_ns: counted.nanos,
            intervals: intervals.map(|(up_to_us, operations)| Interval { up_to_us, operations }).collect(),
            throttled_calls: throttled.calls[kind.index()],
            throttled_ns: throttled.waited[kind.index()].0,
        }
    }
}

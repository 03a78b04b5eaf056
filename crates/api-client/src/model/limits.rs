//! Limits of pools and volumes, with their origins.

use super::{Owner, Shaping};
use envelope::{BytesPerSecond, Iops};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rate limits; rates that are left out are unlimited. All limits apply at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ceilings {
    /// Data read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bytes_per_second: Option<u64>,
    /// Data written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_bytes_per_second: Option<u64>,
    /// Data read and written together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// Read operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_operations_per_second: Option<u64>,
    /// Write operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_operations_per_second: Option<u64>,
    /// Read and write operations together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations_per_second: Option<u64>,
}

/// Limits of a pool or volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// The owner of the meter that enforces them.
    pub owner: Owner,
    /// For all clients together.
    pub total: Ceilings,
    /// For each client.
    pub per_client: Ceilings,
    /// The maximum number of connected clients; unlimited if left out. Shown, not enforced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients_max: Option<u32>,
    /// The cost of a write in the limit for reads and writes together, in thousandths of a read.
    pub write_cost_thousandths: u32,
    /// A published curve that also applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shaping>,
    /// Origins of the figures.
    pub origin: Vec<Origin>,
}

/// The origin of one figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    /// The figure.
    pub what: String,
    /// The formula, for people.
    pub formula: String,
    /// The source: a page, and its date where it has one.
    pub source: String,
}

impl From<envelope::Ceilings> for Ceilings {
    fn from(of: envelope::Ceilings) -> Self {
        let rate = |rate: Option<BytesPerSecond>| rate.map(|rate| rate.0);
        let ops = |ops: Option<Iops>| ops.map(|ops| ops.0);
        Self {
            read_bytes_per_second: rate(of.read),
            write_bytes_per_second: rate(of.write),
            bytes_per_second: rate(of.combined),
            read_operations_per_second: ops(of.read_iops),
            write_operations_per_second: ops(of.write_iops),
            operations_per_second: ops(of.combined_iops),
        }
    }
}

impl From<Ceilings> for envelope::Ceilings {
    fn from(of: Ceilings) -> Self {
        Self {
            read: of.read_bytes_per_second.map(BytesPerSecond),
            write: of.write_bytes_per_second.map(BytesPerSecond),
            combined: of.bytes_per_second.map(BytesPerSecond),
            read_iops: of.read_operations_per_second.map(Iops),
            write_iops: of.write_operations_per_second.map(Iops),
            combined_iops: of.operations_per_second.map(Iops),
        }
    }
}

impl From<envelope::Limits> for Limits {
    fn from(of: envelope::Limits) -> Self {
        let origin = |origin: envelope::Origin| Origin {
            what: origin.what.to_owned(),
            formula: origin.formula,
            source: format!("{:#}", origin.source),
        };
        Self {
            owner: of.owner.into(),
            total: of.total.into(),
            per_client: of.per_client.into(),
            clients_max: of.clients_max,
            write_cost_thousandths: of.write_cost_thousandths,
            shape: of.shape.map(Shaping::from),
            origin: of.origin.into_iter().map(origin).collect(),
        }
    }
}

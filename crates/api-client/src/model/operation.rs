//! The record of changes.

use super::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The record of one change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Operation {
    /// Number. Later operations have greater numbers.
    pub id: u64,
    /// The name of the token that requested it, or `plimsoll`.
    pub actor: String,
    /// `create`, `update`, `delete`, `restore` or `verify`.
    pub verb: String,
    /// The kind of object: `pool`, `volume`, `snapshot`, `policy`, `quota`, `vault`, `backup`, `replication`, `peer`, `user`,
    /// `group`, `token`.
    pub kind: String,
    /// The object's name; for a snapshot, its volume's, a slash and its own; for a backup, its vault's, a slash and its own.
    pub name: String,
    /// The change in words; empty if the verb says everything.
    pub detail: String,
    /// The time of its start.
    pub started: Timestamp,
    /// The time of its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// `running`, `succeeded`, `failed` or `cancelled`.
    pub outcome: String,
    /// The reason of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The progress of a long operation that has begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Whether it can be cancelled.
    #[serde(default)]
    pub cancellable: bool,
    /// Whether it was asked to end early.
    #[serde(default)]
    pub cancel_requested: bool,
}

/// The progress of a long operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// Amount that is done.
    pub done: u64,
    /// Amount in all, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// The counted things, as in `steps`.
    pub unit: String,
    /// Speed of the running operation, in units each second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<u64>,
    /// Seconds that the rest takes at this speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<u64>,
}

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
    /// `create`, `update` or `delete`.
    pub verb: String,
    /// The kind of object: `pool`, `volume`, `user`, `group`, `token`.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// The change in words; empty if the verb says everything.
    pub detail: String,
    /// The time of its start.
    pub started: Timestamp,
    /// The time of its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// `running`, `succeeded` or `failed`.
    pub outcome: String,
    /// The reason of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

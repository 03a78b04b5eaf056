//! The record of changes.

use super::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The record of one change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Operation {
    /// Number: later operations have greater ones.
    pub id: u64,
    /// The name of the token that asked for it, or `plimsoll`.
    pub actor: String,
    /// `create`, `update` or `delete`.
    pub verb: String,
    /// The kind of object: `pool`, `volume`, `user`, `group`, `token`.
    pub kind: String,
    /// The thing's name.
    pub name: String,
    /// The change in words. Empty where the verb says it all.
    pub detail: String,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// `running`, `succeeded` or `failed`.
    pub outcome: String,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

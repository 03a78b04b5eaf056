//! The record of changes.

use super::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The record of one change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Operation {
    /// Its number: later ones are greater.
    pub id: u64,
    /// Who asked for it: the name of a token, or `plimsoll`.
    pub actor: String,
    /// `create`, `update` or `delete`.
    pub verb: String,
    /// What kind of thing it is about: `pool`, `volume`, `user`, `group`, `token`.
    pub kind: String,
    /// The thing's name.
    pub name: String,
    /// What exactly, in words. Empty where the verb says it all.
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

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

impl From<&control::Operation> for Operation {
    fn from(of: &control::Operation) -> Self {
        let (outcome, reason) = match &of.outcome {
            control::Outcome::Running => ("running", None),
            control::Outcome::Succeeded => ("succeeded", None),
            control::Outcome::Failed(reason) => ("failed", Some(reason.clone())),
        };
        Self {
            id: of.id.0,
            actor: of.actor.to_string(),
            verb: of.verb.to_string(),
            kind: of.kind.to_string(),
            name: of.name.clone(),
            detail: of.detail.clone(),
            started: Timestamp::from_ms(of.started_ms),
            ended: of.ended_ms.map(Timestamp::from_ms),
            outcome: outcome.to_owned(),
            reason,
        }
    }
}

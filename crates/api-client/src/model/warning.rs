//! Warnings for the operator.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A condition that works, but perhaps not as the operator expects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// A word for programs.
    pub kind: String,
    /// A sentence for people.
    pub text: String,
    /// The pool that it concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The volume that it concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
}

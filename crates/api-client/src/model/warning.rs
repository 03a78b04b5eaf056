//! Warnings for the operator.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A condition that may surprise the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// The kind of warning, for programs.
    pub kind: String,
    /// The warning, for people.
    pub text: String,
    /// The pool that it concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The volume that it concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
}

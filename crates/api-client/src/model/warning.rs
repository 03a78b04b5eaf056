//! What an operator should know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that works, but perhaps not as somebody believes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// In a word, for programs.
    pub kind: String,
    /// In a sentence, for people.
    pub text: String,
    /// The pool it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The volume it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
}

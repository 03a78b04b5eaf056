//! Errors, as RFC 9457 writes them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a request was refused, or failed (`application/problem+json`, RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// The kind of problem: `urn:plimsoll:problem:` and a word.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of problem, for people.
    pub title: String,
    /// The reply's status.
    #[schemars(range(min = 400, max = 599))]
    pub status: u16,
    /// The fault of this request, and the allowed values.
    pub detail: String,
    /// Whether the same request succeeds with `force=true`.
    #[serde(default)]
    pub forceable: bool,
    /// The present version, if the change expected another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Box<VersionMismatch>>,
    /// The properties in which an existing object of that name differs from the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differs: Vec<String>,
}

/// The object of a conditional change, and its present version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VersionMismatch {
    /// The kind of object, such as `volume`.
    pub kind: String,
    /// The name of the object.
    pub name: String,
    /// The present version.
    pub current: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Problem {}

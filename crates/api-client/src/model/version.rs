//! What is running.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Version {
    /// The version of Plimsoll.
    pub version: String,
    /// The version of this interface.
    pub api: String,
}

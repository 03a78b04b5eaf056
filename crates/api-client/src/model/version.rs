//! The running version.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The running version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Version {
    /// The version of Plimsoll.
    pub version: String,
    /// The version of this interface.
    pub api: String,
}

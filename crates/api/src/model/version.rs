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

impl Version {
    /// Of this build.
    pub(crate) fn own() -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), api: "v1".to_owned() }
    }
}

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
    /// The endpoint of a cluster of gateways that this service is; missing if it is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The gateway that serves the endpoint now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
}

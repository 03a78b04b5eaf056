//! The state of SMB.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// SMB, as this service serves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Smb {
    /// Address and port. Left out if SMB is not served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Connections now.
    pub connections: u64,
    /// Users who are logged in, each as often as they are.
    pub sessions: u64,
    /// Files and pipes that are open.
    pub open_files: u64,
    /// Logins that were refused since the start.
    pub refused_logins: u64,
}

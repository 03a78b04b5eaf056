//! The state of SMB.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of SMB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Smb {
    /// Address and port. Left out if SMB is not served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Connections now.
    pub connections: u64,
    /// Sessions of users. A user that logs in twice has two.
    pub sessions: u64,
    /// Files and pipes that are open.
    pub open_files: u64,
    /// Refused logins since the start of the service.
    pub refused_logins: u64,
}

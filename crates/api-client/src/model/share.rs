//! Settings of a volume as an SMB share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of a volume as an SMB share. Settings that are left out have their defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SmbSettings {
    /// Whether messages must be encrypted; by default no. Clients that cannot are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption: Option<bool>,
    /// Whether messages must be signed, or encrypted instead; by default yes. Without it, clients that do not ask for
    /// signatures themselves get none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signing: Option<bool>,
    /// Whether messages are compressed, with clients that can; by default no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<bool>,
    /// Whether it is listed among the shares; by default yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub browsable: Option<bool>,
    /// Whether listings leave out what a user may not read; by default no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_based_enumeration: Option<bool>,
    /// Whether what clients have open survives a restart of the service; by default no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continuously_available: Option<bool>,
    /// Whether clients may cache files by oplocks and leases; by default yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oplocks: Option<bool>,
    /// Whether clients can be told what changes in a directory; by default yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_notify: Option<bool>,
    /// Permissions of a new file whose client says none, as Windows: three or four octal digits with all of 0600 and nothing
    /// beyond 0777; by default 0644. With 0660, members of a file's group write it. Lists decide instead on volumes of the
    /// security style ntfs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^0?[0-7]{3}$"))]
    pub create_mode: Option<String>,
    /// Permissions of a new directory whose client says none: three or four octal digits with all of 0700 and nothing beyond
    /// 3777; by default 0755. With 2770, what is made below gets the group of the directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[0-3]?[0-7]{3}$"))]
    pub directory_mode: Option<String>,
}

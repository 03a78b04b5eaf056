//! Settings of a volume as an SMB share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of a volume as an SMB share. Settings that are left out have their defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SmbSettings {
    /// Whether messages must be encrypted; by default no. The service then refuses clients without encryption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption: Option<bool>,
    /// Whether messages must be signed or encrypted; by default yes. If no, only clients that ask for signatures get them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signing: Option<bool>,
    /// Whether the service compresses messages for clients that support it; by default no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<bool>,
    /// Whether it is listed among the shares; by default yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub browsable: Option<bool>,
    /// Whether listings omit files that the user cannot read; by default no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_based_enumeration: Option<bool>,
    /// Whether open files survive a restart of the service; by default no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continuously_available: Option<bool>,
    /// Whether clients may cache files by oplocks and leases; by default yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oplocks: Option<bool>,
    /// Whether clients get notices of changes in a directory; by default yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_notify: Option<bool>,
    /// Permissions of a new file if the client sends none, as Windows does. Three or four octal digits with all of 0600 and
    /// nothing beyond 0777; by default 0644. With 0660, members of the file's group can write it. On volumes of the security
    /// style ntfs, access control lists decide instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^0?[0-7]{3}$"))]
    pub create_mode: Option<String>,
    /// Permissions of a new directory if the client sends none. Three or four octal digits with all of 0700 and nothing
    /// beyond 3777; by default 0755. With 2770, new files in it get its group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[0-3]?[0-7]{3}$"))]
    pub directory_mode: Option<String>,
}

//! Users and groups.

use super::{ACCOUNT_ID_MAX, ACCOUNT_NAME_CHARS_MAX, PASSWORD_UNITS_MAX, Timestamp, WINDOWS_NAMES_MAX};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// A user that logs in with a password (SMB).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct User {
    /// Name. Case does not distinguish users.
    pub name: String,
    /// Uid, the owner of files.
    pub uid: u32,
    /// Gid of its primary group. The service need not know the group.
    pub gid: u32,
    /// Further names of the user on Windows.
    pub windows_names: Vec<String>,
    /// The groups that contain it, by name.
    pub groups: Vec<String>,
    /// Whether it has a password. Without one it cannot log in.
    pub has_password: bool,
    /// The time of its creation.
    pub created: Timestamp,
    /// The time of its last change.
    pub changed: Timestamp,
    /// The version of this state, as in the `ETag`. Between quotation marks it is a tag for `If-Match`.
    pub version: String,
}

/// A password. No reply contains it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("writeOnly" = true))]
pub struct Password(
    #[schemars(length(min = 1, max = PASSWORD_UNITS_MAX), regex(pattern = r"^[^\x00-\x1f\x7f-\x9f]+$"))]
    pub  String,
);

/// A user to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewUser {
    /// Letters, digits, dots, hyphens and underscores; the first a letter or an underscore, the last not a dot.
    #[schemars(length(min = 1, max = ACCOUNT_NAME_CHARS_MAX), example = &"alice")]
    pub name: String,
    /// Uid, the owner of files: the same as on NFS clients.
    #[serde(deserialize_with = "account_id")]
    #[schemars(range(min = 1, max = ACCOUNT_ID_MAX), example = 1000)]
    pub uid: u32,
    /// Gid of its primary group; the uid if left out.
    #[serde(default, deserialize_with = "primary_group", skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = ACCOUNT_ID_MAX))]
    pub gid: Option<u32>,
    /// Further names of the user on Windows: `alice.smith`, or `CORP\alice.smith` for a domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = WINDOWS_NAMES_MAX))]
    pub windows_names: Option<Vec<String>>,
    /// Password. Without one the user cannot log in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Password>,
}

/// Changes of a user. Omitted properties keep their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserPatch {
    /// Gid of the new primary group.
    #[serde(default, deserialize_with = "present_group", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(max = ACCOUNT_ID_MAX))]
    pub gid: Option<u32>,
    /// New list of Windows names.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>", length(max = WINDOWS_NAMES_MAX))]
    pub windows_names: Option<Vec<String>>,
    /// New password. `null` removes it; then the user cannot log in.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Password>")]
    pub password: Option<Option<Password>>,
}

/// A group of users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// Name. Case does not distinguish groups.
    pub name: String,
    /// Gid, the group of files.
    pub gid: u32,
    /// The users in it, by name. The list lacks users whose primary group it is.
    pub members: Vec<String>,
    /// The time of its creation.
    pub created: Timestamp,
    /// The time of its last change.
    pub changed: Timestamp,
    /// The version of this state, as in the `ETag`. Between quotation marks it is a tag for `If-Match`.
    pub version: String,
}

/// A group to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewGroup {
    /// Name, with the characters of a user's name.
    #[schemars(length(min = 1, max = ACCOUNT_NAME_CHARS_MAX), example = &"artists")]
    pub name: String,
    /// Gid, the group of files: the same as on NFS clients.
    #[serde(deserialize_with = "account_id")]
    #[schemars(range(min = 1, max = ACCOUNT_ID_MAX), example = 2000)]
    pub gid: u32,
    /// The users in it, by name. None if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<Vec<String>>,
}

impl NewUser {
    /// A user that cannot log in yet.
    pub fn new(name: impl Into<String>, uid: u32) -> Self {
        Self { name: name.into(), uid, gid: None, windows_names: None, password: None }
    }
}

/// Hides the password, so that no log shows it by accident.
impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// The number of a user or group of the service.
fn account_id<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    super::positive(from).and_then(at_most_all)
}

/// The number of a primary group, which may be left out.
fn primary_group<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    Option::<u32>::deserialize(from)?.map(at_most_all).transpose()
}

/// [`primary_group`], where `null` is none.
fn present_group<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    u32::deserialize(from).and_then(at_most_all).map(Some)
}

fn at_most_all<E: serde::de::Error>(number: u32) -> Result<u32, E> {
    if number > ACCOUNT_ID_MAX {
        return Err(E::custom(format!("is {number}; allowed: at most {ACCOUNT_ID_MAX}")));
    }
    Ok(number)
}

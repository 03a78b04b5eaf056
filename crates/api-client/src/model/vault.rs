//! Vaults: places for backups.

use super::{LOCK_DAYS_MAX, NAME, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The pattern of absolute paths.
const PATH: &str = r"^/[^\x00-\x1f\x7f]*$";

/// A vault: the place of backups, in a directory or in a bucket of an S3-compatible store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Vault {
    /// Name.
    pub name: String,
    /// The number in its header, by which it is known again.
    pub number: String,
    /// Directory on the host of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s3: Option<Bucket>,
    /// The file with its key. Without a key it is not encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<String>,
    /// Days for which nobody can delete a new backup.
    pub lock_days: u32,
    /// The most that the service sends to it and receives from it in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second_max: Option<u64>,
    /// The time of its creation.
    pub created: Timestamp,
    /// The time of its last change.
    pub changed: Timestamp,
    /// The version of this state, as in the `ETag`. Between quotation marks it is a tag for `If-Match`.
    pub version: String,
}

/// A bucket of an S3-compatible store. Requests have paths with its name ("path-style"). Files are on the host of the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    /// URL of the store, without the bucket.
    #[schemars(length(min = 1, max = 1024), example = &"https://s3.example.com:9000")]
    pub endpoint: String,
    /// Name of the bucket, which must exist.
    #[schemars(length(min = 3, max = 63), example = &"backups")]
    pub bucket: String,
    /// Text before the names of all objects; none if left out.
    #[serde(default)]
    #[schemars(length(max = 1024), example = &"site-1/files")]
    pub prefix: String,
    /// Region; `us-east-1` if left out.
    #[serde(default = "region")]
    #[schemars(length(min = 1, max = 64), example = &"us-east-1")]
    pub region: String,
    /// File with the lines `aws_access_key_id = …` and `aws_secret_access_key = …`, for its owner alone (mode 600).
    #[schemars(length(min = 1, max = 1024), regex(pattern = PATH))]
    pub credentials_file: String,
    /// File with the certificates, in PEM, of the issuers to trust; the well-known ones if left out.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 1024), regex(pattern = PATH))]
    pub ca_file: Option<String>,
}

/// A vault to create, or to use if there is one in its place. It needs either a directory or a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewVault {
    /// Name.
    #[schemars(length(min = 1, max = 255), regex(pattern = NAME), example = &"offsite")]
    pub name: String,
    /// Directory on the host of the service: an empty one, a new one, or one that is a vault.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 1024), regex(pattern = PATH), example = &"/mnt/backup/plimsoll")]
    pub directory: Option<String>,
    /// Bucket.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Bucket")]
    pub s3: Option<Bucket>,
    /// File with the key of an encrypted vault: 64 hexadecimal digits, for its owner alone (mode 600). Without the
    /// key, no backup of the vault can be restored.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 1024), regex(pattern = PATH))]
    pub key_file: Option<String>,
    /// Days for which nobody can delete a new backup; 0 if left out.
    #[serde(default)]
    #[schemars(range(max = LOCK_DAYS_MAX))]
    pub lock_days: u32,
    /// The most that the service sends to it and receives from it in a second; no limit if left out.
    #[serde(default, deserialize_with = "super::present_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1))]
    pub bytes_per_second_max: Option<u64>,
    /// Replaces another service as the one that writes the vault. From then on the other one can write it no more.
    #[serde(default)]
    pub take_over: bool,
}

/// Changes of a vault. Omitted properties keep their values. A new place must be that of the same vault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VaultPatch {
    /// The directory in which the vault is now.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 1024), regex(pattern = PATH))]
    pub directory: Option<String>,
    /// The bucket in which the vault is now.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Bucket")]
    pub s3: Option<Bucket>,
    /// New file with the same key.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 1024), regex(pattern = PATH))]
    pub key_file: Option<String>,
    /// New number of days for which nobody can delete a new backup.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(max = LOCK_DAYS_MAX))]
    pub lock_days: Option<u32>,
    /// New limit of bytes in a second; `null` removes it.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<u64>", range(min = 1))]
    pub bytes_per_second_max: Option<Option<u64>>,
}

fn region() -> String {
    "us-east-1".to_owned()
}

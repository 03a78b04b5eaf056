//! Uses of snapshots.

use super::{Labels, NAME, RESTORE_PATH_CHARS_MAX, RESTORE_PATHS_MAX};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A volume to make from a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewClone {
    /// Name of the new volume.
    #[schemars(length(min = 1, max = 255), regex(pattern = NAME), example = &"tools-test")]
    pub name: String,
    /// The pool whose capacity it takes; that of the snapshot's volume if left out.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 255), regex(pattern = NAME))]
    pub pool: Option<String>,
    /// Capacity, at least that of the volume at the time of the snapshot; the greater of its sizes now and then if left out.
    #[serde(default, deserialize_with = "super::present_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1))]
    pub size_bytes: Option<u64>,
    /// The last part of the path that clients mount; its name if left out.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 255), regex(pattern = NAME))]
    pub share: Option<String>,
    /// Your own keys and values.
    #[serde(default)]
    #[schemars(schema_with = "super::labels")]
    pub labels: Labels,
}

/// Files to restore from a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Restore {
    /// Paths of regular files from the root of the volume on. Links are not followed.
    #[schemars(length(min = 1, max = RESTORE_PATHS_MAX), inner(length(min = 1, max = RESTORE_PATH_CHARS_MAX)), example = vec!["reports/2026.ods"])]
    pub paths: Vec<String>,
    /// The directory for the files, which must exist. If left out, each goes to its own path.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = RESTORE_PATH_CHARS_MAX))]
    pub to: Option<String>,
}

//! Quotas of users and groups.

use super::words::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

words! {
    /// The kind of an owner.
    OwnerKind {
        /// A user.
        User = "user",
        /// A group.
        Group = "group",
    }
}

/// Limits of a user or group. A missing limit is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotaLimits {
    /// The sizes of the files, in blocks of 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// The number of files; directories do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_files: Option<u64>,
    /// A limit that may be exceeded for the grace period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_limit_bytes: Option<u64>,
    /// A limit that may be exceeded for the grace period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_limit_files: Option<u64>,
    /// Time above a soft limit after which growth is refused; if missing, it never is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_seconds: Option<u64>,
}

/// A rule for a user, a group, or all without a rule of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotaRule {
    /// `user:ID`, `group:ID`, `user:default` or `group:default`.
    pub target: String,
    #[serde(flatten)]
    pub limits: QuotaLimits,
}

/// The rules of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Quotas {
    /// The rules, users first.
    pub quotas: Vec<QuotaRule>,
}

/// The usage of a user or group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotaUse {
    /// Whether a user or a group.
    pub kind: OwnerKind,
    /// The number of the user or group.
    pub id: u32,
    /// The sizes of the files, in blocks of 4 KiB.
    pub used_bytes: u64,
    /// The number of files, without directories.
    pub used_files: u64,
    #[serde(flatten)]
    pub limits: QuotaLimits,
    /// Whether the limits follow from a default rule.
    pub derived: bool,
    /// When the soft limit of bytes was exceeded, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_bytes_exceeded_at: Option<u64>,
    /// When the soft limit of files was exceeded, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_files_exceeded_at: Option<u64>,
}

/// The usage of all users and groups of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotaReport {
    /// The files are being counted: usage is not known yet, and changes of the volume wait.
    pub counting: bool,
    /// Users and groups with files or a rule of their own, users first.
    pub owners: Vec<QuotaUse>,
}

/// A difference between the running count and a recount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotaDrift {
    /// Whether a user or a group.
    pub kind: OwnerKind,
    /// The number of the user or group.
    pub id: u32,
    /// The sizes of the files, in blocks of 4 KiB.
    pub used_bytes: u64,
    /// The number of files, without directories.
    pub used_files: u64,
    /// The sizes of the files by the recount.
    pub recounted_bytes: u64,
    /// The number of files by the recount.
    pub recounted_files: u64,
}

/// The result of a recount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotaCheck {
    /// The owners whose count differs.
    pub drifts: Vec<QuotaDrift>,
    /// Owners whose files changed all the time, as `user:ID` or `group:ID`: they could not be compared.
    pub unsettled: Vec<String>,
}

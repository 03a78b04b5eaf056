//! Pools.

use super::{Labels, LevelName, Merge, NAME, PoolSettings, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Capacity at a service level, shared by volumes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pool {
    /// Name.
    pub name: String,
    /// Service level.
    pub level: LevelName,
    /// Capacity that its volumes share.
    pub size_bytes: u64,
    /// Settings that its level permits.
    pub settings: PoolSettings,
    /// Your own keys and values.
    pub labels: Labels,
    /// The time of its creation.
    pub created: Timestamp,
    /// The time of its last change.
    pub changed: Timestamp,
    /// The version of this state, as in the `ETag`. Between quotation marks it is a tag for `If-Match`.
    pub version: String,
}

/// A pool to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPool {
    /// Name.
    #[schemars(length(min = 1, max = 255), regex(pattern = NAME), example = &"engineering")]
    pub name: String,
    /// Service level.
    pub level: LevelName,
    /// Capacity that its volumes share.
    #[serde(deserialize_with = "super::positive")]
    #[schemars(range(min = 1), example = 4_398_046_511_104_u64)]
    pub size_bytes: u64,
    /// Settings that its level permits.
    #[serde(default)]
    pub settings: PoolSettings,
    /// Your own keys and values.
    #[serde(default)]
    #[schemars(schema_with = "super::labels")]
    pub labels: Labels,
}

/// Changes of a pool. Omitted properties keep their values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolPatch {
    /// New service level.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LevelName")]
    pub level: Option<LevelName>,
    /// New size.
    #[serde(default, deserialize_with = "super::present_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1))]
    pub size_bytes: Option<u64>,
    /// New settings; `null` unsets one.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PoolSettings")]
    pub settings: Option<Merge<PoolSettings>>,
    /// New labels; `null` removes one.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "std::collections::BTreeMap<String, Option<String>>")]
    pub labels: Option<LabelsPatch>,
}

/// Labels to set, and those to remove.
pub type LabelsPatch = std::collections::BTreeMap<String, Option<String>>;

impl NewPool {
    /// A pool with nothing set but what it must have.
    pub fn new(name: impl Into<String>, level: envelope::Level, size_bytes: u64) -> Self {
        Self {
            name: name.into(),
            level: LevelName(level),
            size_bytes,
            settings: PoolSettings::default(),
            labels: Labels::new(),
        }
    }
}

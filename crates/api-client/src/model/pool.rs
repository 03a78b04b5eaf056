//! Pools.

use super::{Labels, LevelName, Merge, NAME, PoolSettings, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Capacity at a service level, of which volumes are made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Its service level.
    pub level: LevelName,
    /// What its volumes may have together.
    pub size_bytes: u64,
    /// What is set of what its level lets be set.
    pub settings: PoolSettings,
    /// Text attached to it.
    pub labels: Labels,
    /// When it was made.
    pub created: Timestamp,
    /// When it was last changed.
    pub changed: Timestamp,
}

/// What a new pool shall be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPool {
    /// Its name.
    #[schemars(length(min = 1, max = 255), regex(pattern = NAME), example = &"engineering")]
    pub name: String,
    /// Its service level.
    pub level: LevelName,
    /// What its volumes may have together.
    #[serde(deserialize_with = "super::positive")]
    #[schemars(range(min = 1), example = 4_398_046_511_104_u64)]
    pub size_bytes: u64,
    /// What is set of what its level lets be set.
    #[serde(default)]
    pub settings: PoolSettings,
    /// Text attached to it.
    #[serde(default)]
    #[schemars(schema_with = "super::labels")]
    pub labels: Labels,
}

/// What shall be different in a pool. What is left out stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolPatch {
    /// Another service level.
    #[serde(default, deserialize_with = "super::given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LevelName")]
    pub level: Option<LevelName>,
    /// Another size.
    #[serde(default, deserialize_with = "super::given_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1))]
    pub size_bytes: Option<u64>,
    /// Other settings; `null` unsets one.
    #[serde(default, deserialize_with = "super::given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PoolSettings")]
    pub settings: Option<Merge<PoolSettings>>,
    /// Other labels; `null` removes one.
    #[serde(default, deserialize_with = "super::given", skip_serializing_if = "Option::is_none")]
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

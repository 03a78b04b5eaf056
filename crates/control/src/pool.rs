//! Pools: capacity at a service level, of which volumes are made.

use crate::difference::Difference;
use crate::name::{Labels, PoolName};
use crate::property_texts as texts;
use envelope::{Bytes, Level, PoolSettings};

#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    pub(crate) row: i64,
    pub name: PoolName,
    pub level: Level,
    /// Capacity that its volumes share: a promise, independent of the disk.
    pub size: Bytes,
    /// Settings that its level permits: kind of QoS, throughput, operations.
    pub settings: PoolSettings,
    pub labels: Labels,
    /// Grows with every change, for `ETag` and `If-Match`.
    pub version: u64,
    /// In milliseconds since 1970.
    pub created_ms: u64,
    /// In milliseconds since 1970.
    pub changed_ms: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewPool {
    pub name: PoolName,
    pub level: Level,
    pub size: Bytes,
    pub settings: PoolSettings,
    pub labels: Labels,
}

/// Changes of a pool; `None` leaves a property as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolChange {
    pub level: Option<Level>,
    pub size: Option<Bytes>,
    /// Replaces all settings.
    pub settings: Option<PoolSettings>,
    pub labels: Option<Labels>,
}

impl NewPool {
    /// A pool with its level's default settings and no labels.
    pub fn new(name: PoolName, level: Level, size: Bytes) -> Self {
        Self { name, level, size, settings: PoolSettings::default(), labels: Labels::new() }
    }

    pub(crate) fn differs_from(&self, pool: &Pool) -> Vec<Difference> {
        let differing = [
            Difference::of("level", &pool.level, &self.level, ToString::to_string),
            Difference::of("size", &pool.size, &self.size, |size| size.for_people().to_string()),
            Difference::of("settings", &pool.settings, &self.settings, texts::pool_settings),
            Difference::of("labels", &pool.labels, &self.labels, texts::labels),
        ];
        differing.into_iter().flatten().collect()
    }
}

impl Pool {
    /// Returns the form that the catalog of levels knows.
    pub(crate) fn declared(&self) -> envelope::Pool {
        envelope::Pool { level: self.level, size: self.size, settings: self.settings.clone() }
    }

    /// Returns the pool after `change`, and the changed properties in words.
    pub(crate) fn changed(&self, change: &PoolChange) -> (Self, Vec<String>) {
        let pool = Self {
            level: change.level.unwrap_or(self.level),
            size: change.size.unwrap_or(self.size),
            settings: change.settings.clone().unwrap_or_else(|| self.settings.clone()),
            labels: change.labels.clone().unwrap_or_else(|| self.labels.clone()),
            ..self.clone()
        };
        let mut changes = Vec::new();
        if pool.level != self.level {
            changes.push(format!("level {} → {}", self.level, pool.level));
        }
        if pool.size != self.size {
            changes.push(format!("size {} → {}", self.size, pool.size));
        }
        changes.extend((pool.settings != self.settings).then(|| "settings".to_owned()));
        changes.extend((pool.labels != self.labels).then(|| "labels".to_owned()));
        (pool, changes)
    }
}
